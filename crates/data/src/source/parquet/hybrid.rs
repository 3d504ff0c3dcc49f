//! Small whole numbers in runs and packed bits: levels, places in a dictionary, booleans.
//!
//! In: bytes, the width of a number. Out: numbers in their order; `None` where the bytes end too early. What is passed over is not
//! unpacked.

/// Numbers of at most 32 bits.
pub struct Hybrid<'a> {
    bytes: &'a [u8],
    width: usize,
    /// How many of the current run are left; the run's value, or the first bit of the next packed number.
    left: usize,
    run: Run<'a>,
}

enum Run<'a> {
    Same(u32),
    Packed(&'a [u8], usize),
}

impl<'a> Hybrid<'a> {
    /// Nothing where numbers would be wider than 32 bits.
    pub fn new(bytes: &'a [u8], width: u8) -> Option<Hybrid<'a>> {
        (width <= 32).then_some(Hybrid { bytes, width: width.into(), left: 0, run: Run::Same(0) })
    }

    fn next_run(&mut self) -> Option<()> {
        while self.left == 0 {
            let (mut header, mut shift) = (0u64, 0);
            loop {
                let (byte, rest) = self.bytes.split_first()?;
                self.bytes = rest;
                header |= u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    break;
                }
                shift += 7;
                if shift > 35 {
                    return None;
                }
            }
            let count = usize::try_from(header >> 1).ok()?;
            if header & 1 == 1 {
                let wanted = count.checked_mul(self.width)?;
                // The last group may be cut where its end is not needed.
                let length = wanted.min(self.bytes.len());
                let (packed, rest) = self.bytes.split_at(length);
                self.bytes = rest;
                self.left = (length * 8).checked_div(self.width).unwrap_or(count * 8);
                self.run = Run::Packed(packed, 0);
                if self.left == 0 && wanted > 0 {
                    return None;
                }
            } else {
                let (value, rest) = self.bytes.split_at_checked(self.width.div_ceil(8))?;
                self.bytes = rest;
                let value = value.iter().rev().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte));
                self.left = count;
                self.run = Run::Same(value);
            }
        }
        Some(())
    }

    /// If the next numbers are all the same, that number, and how many.
    pub fn same(&mut self) -> Option<(u32, usize)> {
        self.next_run()?;
        match self.run {
            Run::Same(value) => Some((value, self.left)),
            Run::Packed(..) => None,
        }
    }

    /// Passes over so many.
    pub fn skip(&mut self, mut count: usize) -> Option<()> {
        while count > 0 {
            self.next_run()?;
            let now = count.min(self.left);
            self.take(now);
            count -= now;
        }
        Some(())
    }

    fn take(&mut self, count: usize) {
        self.left -= count;
        if let Run::Packed(_, bit) = &mut self.run {
            *bit += count * self.width;
        }
    }

    /// Fills `into`.
    pub fn fill(&mut self, mut into: &mut [u32]) -> Option<()> {
        while !into.is_empty() {
            self.next_run()?;
            let now = into.len().min(self.left);
            let (part, rest) = into.split_at_mut(now);
            match self.run {
                Run::Same(value) => part.fill(value),
                Run::Packed(bytes, bit) => unpack(bytes, bit, self.width, part),
            }
            self.take(now);
            into = rest;
        }
        Some(())
    }
}

/// Numbers of `width` bits from bit `bit` on; there must be as many.
fn unpack(bytes: &[u8], mut bit: usize, width: usize, into: &mut [u32]) {
    let mask = ((1u64 << width) - 1) as u32;
    // Where eight bytes can be loaded at once.
    let fast = match (bytes.len() * 8).checked_sub(64 + bit) {
        Some(room) if width > 0 => (room / width + 1).min(into.len()),
        _ => 0,
    };
    let (quick, slow) = into.split_at_mut(fast);
    for value in quick {
        let word = u64::from_le_bytes(bytes[bit >> 3..(bit >> 3) + 8].try_into().expect("eight bytes"));
        *value = (word >> (bit & 7)) as u32 & mask;
        bit += width;
    }
    for value in slow {
        let mut word = [0; 8];
        let rest = &bytes[(bit >> 3).min(bytes.len())..];
        let have = rest.len().min(8);
        word[..have].copy_from_slice(&rest[..have]);
        *value = (u64::from_le_bytes(word) >> (bit & 7)) as u32 & mask;
        bit += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_packed_bits() {
        // A run of 5 sevens, then eight packed numbers of three bits: 0 to 7 (the format's own example).
        let bytes = [10, 7, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        let mut all = [0; 13];
        Hybrid::new(&bytes, 3).unwrap().fill(&mut all).unwrap();
        assert_eq!(all, [7, 7, 7, 7, 7, 0, 1, 2, 3, 4, 5, 6, 7]);
        let mut hybrid = Hybrid::new(&bytes, 3).unwrap();
        hybrid.skip(7).unwrap();
        let mut rest = [0; 6];
        hybrid.fill(&mut rest).unwrap();
        assert_eq!(rest, [2, 3, 4, 5, 6, 7]);
        assert_eq!(hybrid.fill(&mut [0]), None);
    }
}
