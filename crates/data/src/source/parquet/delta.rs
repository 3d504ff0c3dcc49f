//! Whole numbers as differences to the one before, in blocks of packed bits.
//!
//! In: bytes. Out: numbers one by one, and where the bytes of the next thing begin. Nothing is allocated.

/// The numbers of one encoded sequence.
pub struct Delta<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Values that are still to come.
    left: u64,
    value: i64,
    first: bool,
    block: Block,
}

#[derive(Default)]
struct Block {
    /// Values of a part of a block, and parts of a block.
    part_values: usize,
    parts: usize,
    least: i64,
    /// Where the widths of this block's parts lie, the part, and what is left of it.
    widths_at: usize,
    part: usize,
    part_left: usize,
    width: usize,
    bit: usize,
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

impl<'a> Delta<'a> {
    pub fn new(bytes: &'a [u8]) -> Option<Delta<'a>> {
        let mut at = 0;
        let block_values = usize::try_from(varint(bytes, &mut at)?).ok()?;
        let parts = usize::try_from(varint(bytes, &mut at)?).ok()?;
        let left = varint(bytes, &mut at)?;
        let value = zigzag(varint(bytes, &mut at)?);
        let part_values = block_values.checked_div(parts)?;
        let sound = parts > 0 && block_values % 128 == 0 && part_values % 32 == 0 && part_values > 0;
        let block = Block { part_values, parts, part: parts, ..Block::default() };
        (sound && block_values <= 1 << 24).then_some(Delta { bytes, at, left, value, first: true, block })
    }

    /// The next number.
    pub fn next(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        if std::mem::take(&mut self.first) {
            return Some(self.value);
        }
        if self.block.part_left == 0 {
            self.next_part()?;
        }
        let block = &mut self.block;
        let delta = if block.width == 0 { 0 } else { bits(self.bytes, block.bit, block.width)? };
        block.bit += block.width;
        block.part_left -= 1;
        self.value = self.value.wrapping_add(block.least).wrapping_add(delta as i64);
        Some(self.value)
    }

    fn next_part(&mut self) -> Option<()> {
        let block = &mut self.block;
        if block.part == block.parts {
            block.least = zigzag(varint(self.bytes, &mut self.at)?);
            block.widths_at = self.at;
            self.at = self.at.checked_add(block.parts)?;
            block.part = 0;
        }
        block.width = usize::from(*self.bytes.get(block.widths_at + block.part)?);
        if block.width > 64 {
            return None;
        }
        block.part += 1;
        block.part_left = block.part_values;
        block.bit = self.at.checked_mul(8)?;
        self.at = self.at.checked_add(block.part_values * block.width / 8)?;
        Some(())
    }

    /// Goes to the end: the bytes after it.
    pub fn rest(mut self) -> Option<&'a [u8]> {
        while self.left > 0 {
            // Whole parts need not be unpacked.
            if !self.first && self.block.part_left == 0 && self.left as usize >= self.block.part_values {
                self.next_part()?;
                self.block.part_left = 0;
                self.left -= self.block.part_values as u64;
                if self.at > self.bytes.len() {
                    return None;
                }
            } else {
                self.next()?;
            }
        }
        // Writers may leave out what a last part would have beyond its values.
        self.bytes.get(self.at.min(self.bytes.len())..)
    }
}

/// A number of `width` bits, 1 to 64, from bit `bit` on.
fn bits(bytes: &[u8], bit: usize, width: usize) -> Option<u64> {
    let first = bit >> 3;
    if bit.checked_add(width)? > bytes.len().checked_mul(8)? {
        return None;
    }
    let mut word = [0; 16];
    let have = (bytes.len() - first).min(9);
    word[..have].copy_from_slice(&bytes[first..first + have]);
    let value = (u128::from_le_bytes(word) >> (bit & 7)) as u64;
    Some(if width == 64 { value } else { value & ((1 << width) - 1) })
}
