//! FlatBuffers, as far as Arrow uses them.
//!
//! In: the bytes of a message. Out: fields of its tables, each looked up when it is asked for; nothing is allocated. Every place is
//! held against the bytes before it is followed. `None` means that something points outside of them.

/// A table: numbers, text, other tables, lists.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The places of its fields, two bytes each.
    places: &'a [u8],
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.first_chunk().copied()
}

fn length(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(chunk(bytes, at)?) as usize)
}

impl<'a> Table<'a> {
    /// The table that a message begins with.
    pub fn root(bytes: &'a [u8]) -> Option<Table<'a>> {
        Table::new(bytes, length(bytes, 0)?)
    }

    fn new(bytes: &'a [u8], at: usize) -> Option<Table<'a>> {
        let back = i32::from_le_bytes(chunk(bytes, at)?);
        let vtable = usize::try_from(i64::try_from(at).ok()? - i64::from(back)).ok()?;
        let end = vtable.checked_add(u16::from_le_bytes(chunk(bytes, vtable)?).into())?;
        Some(Table { bytes, at, places: bytes.get(vtable.checked_add(4)?..end)? })
    }

    /// Where a field lies; nothing inside where the table does not have it.
    fn place(&self, field: usize) -> Option<usize> {
        match chunk(self.places, field * 2).map(u16::from_le_bytes) {
            None | Some(0) => None,
            Some(offset) => self.at.checked_add(offset.into()),
        }
    }

    fn number<const N: usize, T>(&self, field: usize, default: T, from: impl Fn([u8; N]) -> T) -> Option<T> {
        match self.place(field) {
            None => Some(default),
            Some(at) => chunk(self.bytes, at).map(from),
        }
    }

    pub fn u8(&self, field: usize) -> Option<u8> {
        self.number(field, 0, u8::from_le_bytes)
    }

    pub fn i16(&self, field: usize, default: i16) -> Option<i16> {
        self.number(field, default, i16::from_le_bytes)
    }

    pub fn i32(&self, field: usize, default: i32) -> Option<i32> {
        self.number(field, default, i32::from_le_bytes)
    }

    pub fn i64(&self, field: usize) -> Option<i64> {
        self.number(field, 0, i64::from_le_bytes)
    }

    /// Where what a field points to lies.
    fn target(&self, field: usize) -> Option<Option<usize>> {
        let Some(at) = self.place(field) else { return Some(None) };
        at.checked_add(length(self.bytes, at)?).map(Some)
    }

    /// Another table; `Some(None)` where there is none.
    pub fn table(&self, field: usize) -> Option<Option<Table<'a>>> {
        match self.target(field)? {
            None => Some(None),
            Some(at) => Table::new(self.bytes, at).map(Some),
        }
    }

    /// A list of values of so many bytes each, or text with `width` 1; empty where there is none.
    pub fn list(&self, field: usize, width: usize) -> Option<&'a [u8]> {
        let Some(at) = self.target(field)? else { return Some(&[]) };
        let first = at.checked_add(4)?;
        self.bytes.get(first..first.checked_add(length(self.bytes, at)?.checked_mul(width)?)?)
    }

    /// A list of tables.
    pub fn tables(&self, field: usize) -> Option<impl ExactSizeIterator<Item = Option<Table<'a>>> + use<'a>> {
        let offsets = self.list(field, 4)?;
        let first = self.target(field)?.map_or(0, |at| at + 4);
        let bytes = self.bytes;
        Some(offsets.chunks_exact(4).enumerate().map(move |(number, _)| {
            let at = first + number * 4;
            Table::new(bytes, at.checked_add(length(bytes, at)?)?)
        }))
    }
}
