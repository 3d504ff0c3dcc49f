//! A pickle, read as data and never run.
//!
//! In: bytes of protocols 0 to 5. Out: [`Values`] and the value at the top. Opcodes that import, call or build objects are
//! refused: the error names them. Nothing recurses, whatever the nesting; memory is bounded by the file's length; a value
//! that is stored once and used often is kept once. Not read: sets, and anything behind the end of the pickle.

use super::opcodes as op;
use super::values::{ContainerId, Kind, Value, Values, Word};
use crate::error::{ImportError, Result};

/// Memory for values, in multiples of the file's length. The recorded ones of the tests take less than 2.5.
const MEMORY_FACTOR: usize = 8;
/// Memory that any file may take.
const FREE_MEMORY_BYTES: usize = 1 << 16;
/// Whole numbers of up to this many bytes are read; of longer ones only the length.
const INT_BYTES: usize = 8;

/// Reads a whole pickle.
pub(super) fn read(bytes: &[u8]) -> Result<(Values<'_>, Value)> {
    let mut reader = Reader {
        bytes,
        at: 0,
        opcode_at: 0,
        values: Values::new(bytes),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
    };
    let top = reader.run()?;
    Ok((reader.values, top))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the opcode in work stands: for errors.
    opcode_at: usize,
    values: Values<'a>,
    stack: Vec<Word>,
    /// Lengths of the stack.
    marks: Vec<u32>,
    memo: Vec<Option<Word>>,
}

impl Reader<'_> {
    fn run(&mut self) -> Result<Value> {
        let limit_bytes = self.bytes.len().saturating_mul(MEMORY_FACTOR) + FREE_MEMORY_BYTES;
        loop {
            self.opcode_at = self.at;
            let opcode = self.byte()?;
            if opcode == op::STOP {
                let word = self.pop()?;
                return Ok(self.values.unpack(word));
            }
            self.step(opcode)?;
            let used_bytes = self.values.used_bytes()
                + self.stack.len() * size_of::<Word>()
                + self.marks.len() * size_of::<u32>()
                + self.memo.len() * size_of::<Option<Word>>();
            if used_bytes > limit_bytes {
                return Err(self.broken("it describes far more than a file of this size can hold"));
            }
        }
    }

    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            op::PROTO => match self.byte()? {
                0..=op::MAX_PROTOCOL => Ok(()),
                other => Err(self.broken(&format!("protocol {other} is not known"))),
            },
            op::FRAME => self.take(8).map(drop),
            op::NONE => self.push(Value::None),
            op::NEWTRUE => self.push(Value::Bool(true)),
            op::NEWFALSE => self.push(Value::Bool(false)),
            op::BININT => self.int_of(4, true),
            op::BININT1 => self.int_of(1, false),
            op::BININT2 => self.int_of(2, false),
            op::LONG1 => self.sized(1).and_then(|length| self.int_of(length, true)),
            op::LONG4 => self.sized(4).and_then(|length| self.int_of(length, true)),
            op::INT | op::LONG => self.int_line(),
            op::BINFLOAT => {
                let bits = self.take(8)?.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
                self.push(Value::Float(f64::from_bits(bits)))
            }
            op::FLOAT => self.float_line(),
            op::SHORT_BINUNICODE | op::SHORT_BINSTRING => self.sized(1).and_then(|length| self.text_of(length)),
            op::BINUNICODE | op::BINSTRING => self.sized(4).and_then(|length| self.text_of(length)),
            op::BINUNICODE8 => self.sized(8).and_then(|length| self.text_of(length)),
            op::UNICODE | op::STRING => self.text_line(opcode),
            op::SHORT_BINBYTES => self.sized(1).and_then(|length| self.skip(length)),
            op::BINBYTES => self.sized(4).and_then(|length| self.skip(length)),
            op::BINBYTES8 | op::BYTEARRAY8 => self.sized(8).and_then(|length| self.skip(length)),
            op::EMPTY_LIST => self.push_empty(Kind::List),
            op::EMPTY_DICT => self.push_empty(Kind::Dict),
            op::EMPTY_TUPLE => self.push_empty(Kind::Tuple),
            op::LIST => self.mark().and_then(|mark| self.collect(Kind::List, mark)),
            op::DICT => self.mark().and_then(|mark| self.collect(Kind::Dict, mark)),
            op::TUPLE => self.mark().and_then(|mark| self.collect(Kind::Tuple, mark)),
            op::TUPLE1 => self.below(1).and_then(|start| self.collect(Kind::Tuple, start)),
            op::TUPLE2 => self.below(2).and_then(|start| self.collect(Kind::Tuple, start)),
            op::TUPLE3 => self.below(3).and_then(|start| self.collect(Kind::Tuple, start)),
            op::APPEND => self.below(1).and_then(|start| self.add(Kind::List, start)),
            op::APPENDS => self.mark().and_then(|mark| self.add(Kind::List, mark)),
            op::SETITEM => self.below(2).and_then(|start| self.add(Kind::Dict, start)),
            op::SETITEMS => self.mark().and_then(|mark| self.add(Kind::Dict, mark)),
            op::MARK => {
                self.marks.push(self.stack.len() as u32);
                Ok(())
            }
            op::POP => match self.marks.last() {
                // What is on top may be a mark.
                Some(mark) if *mark as usize == self.stack.len() => self.mark().map(drop),
                _ => self.pop().map(drop),
            },
            op::POP_MARK => self.mark().map(|mark| self.stack.truncate(mark)),
            op::DUP => self.top().map(|word| self.stack.push(word)),
            op::MEMOIZE => self.remember(self.memo.len()),
            op::BINPUT => self.sized(1).and_then(|index| self.remember(index)),
            op::LONG_BINPUT => self.sized(4).and_then(|index| self.remember(index)),
            op::PUT => self.index_line().and_then(|index| self.remember(index)),
            op::BINGET => self.sized(1).and_then(|index| self.recall(index)),
            op::LONG_BINGET => self.sized(4).and_then(|index| self.recall(index)),
            op::GET => self.index_line().and_then(|index| self.recall(index)),
            other => Err(self.refused(other)),
        }
    }

    fn refused(&self, opcode: u8) -> ImportError {
        match op::runs_code(opcode) {
            Some(name) => ImportError::PickleRunsCode { opcode: name, offset: self.opcode_at },
            None if op::is_set(opcode) => self.broken("it holds a set, which no memory snapshot has"),
            None => self.broken(&format!("0x{opcode:02x} is no instruction of a pickle")),
        }
    }

    fn broken(&self, reason: &str) -> ImportError {
        ImportError::Pickle { offset: self.opcode_at, reason: reason.to_owned() }
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).copied().ok_or_else(|| self.broken("the file ends in the middle"))?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, length: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.broken("the file ends in the middle"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// A length or an index of that many bytes.
    fn sized(&mut self, width: usize) -> Result<usize> {
        let number = self.take(width)?.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).map_err(|_| self.broken("the file ends in the middle"))
    }

    /// The bytes up to the end of the line, and where they start.
    fn line(&mut self) -> Result<(usize, &[u8])> {
        let start = self.at;
        let length = self.bytes[start..].iter().position(|byte| *byte == b'\n');
        let length = length.ok_or_else(|| self.broken("the file ends in the middle"))?;
        self.at = start + length + 1;
        Ok((start, &self.bytes[start..start + length]))
    }

    fn index_line(&mut self) -> Result<usize> {
        let number = std::str::from_utf8(self.line()?.1).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| self.broken("an index is not a number"))
    }

    fn int_of(&mut self, length: usize, signed: bool) -> Result<()> {
        let bytes = self.take(length)?;
        if length > INT_BYTES {
            return self.push(Value::Opaque);
        }
        let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let start = if negative { -1i64 } else { 0 };
        let number = bytes.iter().rev().fold(start, |number, byte| number << 8 | i64::from(*byte));
        self.push(Value::Int(number))
    }

    fn int_line(&mut self) -> Result<()> {
        let digits = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
        let (_, line) = self.line()?;
        let line = line.strip_suffix(b"L").unwrap_or(line);
        let value = match line {
            b"00" => Some(Value::Bool(false)),
            b"01" => Some(Value::Bool(true)),
            _ if line.is_empty() || !line.iter().all(digits) => None,
            _ => {
                let number = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok());
                Some(number.map_or(Value::Opaque, Value::Int))
            }
        };
        value.ok_or_else(|| self.broken("a whole number is not one")).and_then(|value| self.push(value))
    }

    fn float_line(&mut self) -> Result<()> {
        let number = std::str::from_utf8(self.line()?.1).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| self.broken("a number is not one")).and_then(|number| self.push(Value::Float(number)))
    }

    fn text_of(&mut self, length: usize) -> Result<()> {
        let start = self.at;
        self.take(length)?;
        let text = self.values.text_at(start, length).ok_or_else(|| self.broken("a text is too long"))?;
        self.push(text)
    }

    fn text_line(&mut self, opcode: u8) -> Result<()> {
        let (start, line) = self.line()?;
        let length = line.len();
        if opcode == op::STRING {
            let quoted = length >= 2 && matches!(line[0], b'\'' | b'"') && line[0] == line[length - 1];
            if !quoted {
                return Err(self.broken("a text is not in quotes"));
            }
            let text = self.values.text_at(start + 1, length - 2).ok_or_else(|| self.broken("a text is too long"))?;
            return self.push(text);
        }
        if line.contains(&b'\\') {
            let text = op::without_escapes(line);
            let text = self.values.decoded_text(text);
            return self.push(text);
        }
        let text = self.values.text_at(start, length).ok_or_else(|| self.broken("a text is too long"))?;
        self.push(text)
    }

    fn skip(&mut self, length: usize) -> Result<()> {
        self.take(length)?;
        self.push(Value::Opaque)
    }

    fn push(&mut self, value: Value) -> Result<()> {
        let word = self.values.pack(value);
        self.stack.push(word);
        Ok(())
    }

    fn push_empty(&mut self, kind: Kind) -> Result<()> {
        let container = self.values.new_container(kind);
        self.push(container)
    }

    /// Where the values above the last mark start; the mark is gone.
    fn mark(&mut self) -> Result<usize> {
        let mark = self.marks.pop().ok_or_else(|| self.broken("a mark is missing"))?;
        Ok(mark as usize)
    }

    /// Where the topmost values start; a mark below them stays out of reach.
    fn below(&self, count: usize) -> Result<usize> {
        let floor = self.marks.last().map_or(0, |mark| *mark as usize);
        let start = self.stack.len().checked_sub(count).filter(|start| *start >= floor);
        start.ok_or_else(|| self.broken("a value is missing"))
    }

    fn top(&self) -> Result<Word> {
        self.below(1).map(|start| self.stack[start])
    }

    fn pop(&mut self) -> Result<Word> {
        let word = self.top()?;
        self.stack.pop();
        Ok(word)
    }

    /// A new container of the values from here on.
    fn collect(&mut self, kind: Kind, start: usize) -> Result<()> {
        let container = self.values.new_container(kind);
        let word = self.values.pack(container);
        self.stack.insert(start, word);
        self.add(kind, start + 1)
    }

    /// Puts the values from here on into the container below them.
    fn add(&mut self, kind: Kind, start: usize) -> Result<()> {
        let below = start.checked_sub(1).map(|index| self.values.unpack(self.stack[index]));
        let is_kind = |id: &ContainerId| self.values.kind(*id) == kind;
        let Some(Value::Container(id)) = below.filter(|value| matches!(value, Value::Container(id) if is_kind(id)))
        else {
            return Err(self.broken("something is added to a value that holds nothing"));
        };
        let words = &self.stack[start..];
        if kind == Kind::Dict && !words.len().is_multiple_of(2) {
            return Err(self.broken("a key has no value"));
        }
        self.values.extend(id, words);
        self.stack.truncate(start);
        Ok(())
    }

    fn remember(&mut self, index: usize) -> Result<()> {
        let word = self.top()?;
        // Every entry takes an instruction: an index beyond the file's length is not in use.
        if index > self.bytes.len() {
            return Err(self.broken("an index is out of range"));
        }
        if index >= self.memo.len() {
            self.memo.resize(index + 1, None);
        }
        self.memo[index] = Some(word);
        Ok(())
    }

    fn recall(&mut self, index: usize) -> Result<()> {
        let word = self.memo.get(index).copied().flatten();
        self.stack.push(word.ok_or_else(|| self.broken("it refers to a value that is not there"))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_snapshot_takes_a_few_times_its_size() {
        let bytes = include_bytes!("../../../../fixtures/snapshots/mlp.pickle");
        let (values, _) = read(bytes).unwrap();
        let times = values.used_bytes() as f64 / bytes.len() as f64;
        assert!(times < 2.5, "{times}: the limit is {MEMORY_FACTOR}");
    }

    #[test]
    fn numbers_of_every_width_are_read() {
        for (bytes, value) in [
            (&b"K\xff."[..], Value::Int(255)),
            (b"M\xff\xff.", Value::Int(65535)),
            (b"J\xff\xff\xff\xff.", Value::Int(-1)),
            (b"\x8a\x00.", Value::Int(0)),
            (b"\x8a\x01\x80.", Value::Int(-128)),
            (b"\x8a\x06\x00\x00\x00\x00\x00\x7f.", Value::Int(0x7f00_0000_0000)),
            (b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", Value::Opaque),
            (b"\x8b\x02\x00\x00\x00\x00\x01.", Value::Int(256)),
            (b"I-7\n.", Value::Int(-7)),
            (b"I01\n.", Value::Bool(true)),
            (b"L12L\n.", Value::Int(12)),
            (b"L99999999999999999999L\n.", Value::Opaque),
            (b"F0.5\n.", Value::Float(0.5)),
            (b"G\x3f\xe0\x00\x00\x00\x00\x00\x00.", Value::Float(0.5)),
            (b"N.", Value::None),
            (b"K\x01K\x020.", Value::Int(1)),
            (b"K\x01(K\x02K\x031.", Value::Int(1)),
            (b"K\x01(0.", Value::Int(1)),
        ] {
            assert_eq!(read(bytes).map(|(_, value)| value), Ok(value), "{bytes:?}");
        }
        for wrong in [
            &b"Iseven\n."[..],
            b"I\n.",
            b"Fx\n.",
            b"Sx\n.",
            b".",
            b"K\x01",
            b"(.",
            b"K\x01(e.",
            b"h\x00.",
            b"\x80\x06N.",
        ] {
            assert!(matches!(read(wrong), Err(ImportError::Pickle { .. })), "{wrong:?}");
        }
    }
}
