//! What a pickle describes, kept small: one word for each value, containers by number.
//!
//! In: values as the opcodes make them. Out: [`Values`], in which a container that is referred to a thousand times is
//! there once. Texts are not copied: they stay in the file's bytes. Memory is counted, so that a small file cannot
//! describe a large structure. Not kept: sets and objects, which no snapshot has.

use std::borrow::Cow;

/// One value of a pickle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Text),
    /// A list, tuple or dictionary.
    Container(ContainerId),
    /// Something that is not looked at: bytes, or a whole number beyond 64 bits.
    Opaque,
}

/// Where a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Text {
    /// In the file.
    At { start: u32, length: u32 },
    /// It was written with escapes; the index of the decoded one.
    Decoded(u32),
}

/// A container, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ContainerId(pub(super) u32);

/// What a container is. The items of a dictionary are keys and values in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    List,
    Tuple,
    Dict,
}

/// A value in one word: three bits say which kind, the others hold it or its index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word(u64);

const TAG_BITS: u32 = 3;
const PAYLOAD_BITS: u32 = 64 - TAG_BITS;
/// Texts up to this length are referred to; a file has none that is longer.
const MAX_TEXT_BYTES: usize = 1 << (PAYLOAD_BITS - 32);

const SINGLE: u64 = 0;
const INT: u64 = 1;
const WIDE_INT: u64 = 2;
const FLOAT: u64 = 3;
const TEXT: u64 = 4;
const DECODED: u64 = 5;
const CONTAINER: u64 = 6;

/// Items that were added to a container together; several make a list.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    start: u32,
    length: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Container {
    kind: Kind,
    first: u32,
    last: u32,
}

const NO_CHUNK: u32 = u32::MAX;

/// All values of a pickle.
#[derive(Debug)]
pub(super) struct Values<'a> {
    bytes: &'a [u8],
    items: Vec<Word>,
    containers: Vec<Container>,
    chunks: Vec<Chunk>,
    /// Whole numbers and floats that a word cannot hold.
    wide: Vec<u64>,
    decoded: Vec<String>,
    decoded_bytes: usize,
}

impl<'a> Values<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Values<'a> {
        let (items, containers, chunks) = (Vec::new(), Vec::new(), Vec::new());
        Values { bytes, items, containers, chunks, wide: Vec::new(), decoded: Vec::new(), decoded_bytes: 0 }
    }

    /// The memory that is in use, without the file.
    pub(super) fn used_bytes(&self) -> usize {
        (self.items.len() + self.wide.len()) * size_of::<Word>()
            + self.containers.len() * size_of::<Container>()
            + self.chunks.len() * size_of::<Chunk>()
            + self.decoded.len() * size_of::<String>()
            + self.decoded_bytes
    }

    pub(super) fn container_count(&self) -> usize {
        self.containers.len()
    }

    pub(super) fn new_container(&mut self, kind: Kind) -> Value {
        self.containers.push(Container { kind, first: NO_CHUNK, last: NO_CHUNK });
        Value::Container(ContainerId((self.containers.len() - 1) as u32))
    }

    /// A value for a text in the file; none if it is too long to be referred to.
    pub(super) fn text_at(&self, start: usize, length: usize) -> Option<Value> {
        let start = u32::try_from(start).ok()?;
        (length < MAX_TEXT_BYTES).then_some(Value::Text(Text::At { start, length: length as u32 }))
    }

    pub(super) fn decoded_text(&mut self, text: String) -> Value {
        self.decoded_bytes += text.len();
        self.decoded.push(text);
        Value::Text(Text::Decoded((self.decoded.len() - 1) as u32))
    }

    /// Adds items to the end of a container.
    pub(super) fn extend(&mut self, id: ContainerId, words: &[Word]) {
        if words.is_empty() {
            return;
        }
        let start = self.items.len() as u32;
        self.items.extend_from_slice(words);
        let last = self.containers[id.0 as usize].last;
        // What was added last may lie right before: then it just grows.
        if let Some(chunk) = self.chunks.get_mut(last as usize)
            && chunk.start + chunk.length == start
        {
            chunk.length += words.len() as u32;
            return;
        }
        let new = self.chunks.len() as u32;
        self.chunks.push(Chunk { start, length: words.len() as u32, next: NO_CHUNK });
        let container = &mut self.containers[id.0 as usize];
        container.last = new;
        match self.chunks.get_mut(last as usize) {
            Some(chunk) => chunk.next = new,
            None => container.first = new,
        }
    }

    pub(super) fn kind(&self, id: ContainerId) -> Kind {
        self.containers[id.0 as usize].kind
    }

    /// The items of a container, in order.
    pub(super) fn items(&self, id: ContainerId) -> impl Iterator<Item = Value> + '_ {
        let chunk_at = |index: u32| self.chunks.get(index as usize);
        let first = chunk_at(self.containers[id.0 as usize].first);
        std::iter::successors(first, move |chunk| chunk_at(chunk.next))
            .flat_map(|chunk| &self.items[chunk.start as usize..][..chunk.length as usize])
            .map(|word| self.unpack(*word))
    }

    /// The keys and values of a dictionary.
    pub(super) fn pairs(&self, id: ContainerId) -> impl Iterator<Item = (Value, Value)> + '_ {
        let mut items = self.items(id);
        std::iter::from_fn(move || Some((items.next()?, items.next()?)))
    }

    /// The bytes of a text.
    pub(super) fn text_bytes(&self, text: Text) -> &[u8] {
        match text {
            Text::At { start, length } => &self.bytes[start as usize..][..length as usize],
            Text::Decoded(index) => self.decoded[index as usize].as_bytes(),
        }
    }

    /// A text, with a replacement for what is not UTF-8.
    pub(super) fn text(&self, text: Text) -> Cow<'_, str> {
        String::from_utf8_lossy(self.text_bytes(text))
    }

    pub(super) fn pack(&mut self, value: Value) -> Word {
        let word = |tag: u64, payload: u64| Word(tag << PAYLOAD_BITS | payload);
        match value {
            Value::None => word(SINGLE, 0),
            Value::Bool(false) => word(SINGLE, 1),
            Value::Bool(true) => word(SINGLE, 2),
            Value::Opaque => word(SINGLE, 3),
            Value::Int(number) if (number << TAG_BITS) >> TAG_BITS == number => {
                word(INT, (number as u64) << TAG_BITS >> TAG_BITS)
            }
            Value::Int(number) => word(WIDE_INT, self.widen(number as u64)),
            Value::Float(number) => word(FLOAT, self.widen(number.to_bits())),
            Value::Text(Text::At { start, length }) => word(TEXT, u64::from(length) << 32 | u64::from(start)),
            Value::Text(Text::Decoded(index)) => word(DECODED, u64::from(index)),
            Value::Container(id) => word(CONTAINER, u64::from(id.0)),
        }
    }

    fn widen(&mut self, bits: u64) -> u64 {
        self.wide.push(bits);
        (self.wide.len() - 1) as u64
    }

    pub(super) fn unpack(&self, word: Word) -> Value {
        let payload = word.0 << TAG_BITS >> TAG_BITS;
        match word.0 >> PAYLOAD_BITS {
            SINGLE => match payload {
                0 => Value::None,
                1 => Value::Bool(false),
                2 => Value::Bool(true),
                _ => Value::Opaque,
            },
            INT => Value::Int((word.0 << TAG_BITS) as i64 >> TAG_BITS),
            WIDE_INT => Value::Int(self.wide[payload as usize] as i64),
            FLOAT => Value::Float(f64::from_bits(self.wide[payload as usize])),
            TEXT => Value::Text(Text::At { start: payload as u32, length: (payload >> 32) as u32 }),
            DECODED => Value::Text(Text::Decoded(payload as u32)),
            _ => Value::Container(ContainerId(payload as u32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_give_back_what_they_were_made_of() {
        let mut values = Values::new(b"some text");
        let text = values.text_at(5, 4).unwrap();
        let decoded = values.decoded_text("é".to_owned());
        let list = values.new_container(Kind::List);
        for value in [
            Value::None,
            Value::Bool(true),
            Value::Bool(false),
            Value::Opaque,
            Value::Int(0),
            Value::Int(-1),
            Value::Int((1 << 60) - 1),
            Value::Int(-(1 << 60)),
            Value::Int(1 << 60),
            Value::Int(i64::MIN),
            Value::Int(i64::MAX),
            Value::Float(0.8),
            text,
            decoded,
            list,
        ] {
            let word = values.pack(value);
            assert_eq!(values.unpack(word), value);
        }
        let Value::Text(text) = text else { panic!("a text") };
        assert_eq!((values.text(text).as_ref(), values.text_at(0, MAX_TEXT_BYTES)), ("text", None));
    }

    #[test]
    fn containers_grow_in_pieces() {
        let mut values = Values::new(b"");
        let (Value::Container(one), Value::Container(other)) =
            (values.new_container(Kind::List), values.new_container(Kind::Dict))
        else {
            panic!("containers")
        };
        let words: Vec<Word> = (0..6).map(|number| values.pack(Value::Int(number))).collect();
        values.extend(one, &words[..2]);
        values.extend(one, &words[2..3]);
        values.extend(other, &words[..2]);
        values.extend(one, &words[3..]);
        values.extend(one, &[]);
        assert_eq!(values.items(one).collect::<Vec<_>>(), (0..6).map(Value::Int).collect::<Vec<_>>());
        assert_eq!(values.pairs(other).collect::<Vec<_>>(), [(Value::Int(0), Value::Int(1))]);
        assert_eq!((values.kind(one), values.kind(other), values.chunks.len()), (Kind::List, Kind::Dict, 3));
    }
}
