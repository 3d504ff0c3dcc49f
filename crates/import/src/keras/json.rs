//! JSON as Keras writes it: with NaN and Infinity, within limits.
//!
//! In: bytes. Out: [`Json`], an owned tree. Objects keep their order; of a repeated key the last one counts, as in Python.
//! Refused: nesting deeper than [`MAX_DEPTH`], more than [`MAX_VALUES`] values (a tree takes some 40 bytes for each).

use compact_str::CompactString;
use jiter::{Jiter, JiterError, Peek};

use crate::error::{ImportError, Result};

/// Nesting that is read. Keras's own files reach about 12 per nested model.
pub(super) const MAX_DEPTH: usize = 128;
/// Values that are read. A model of 700 layers has about 100,000.
pub(super) const MAX_VALUES: usize = 4_000_000;

/// One JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(CompactString),
    Array(Vec<Json>),
    Object(Entries),
}

/// The entries of an object. Of a model's thousands of keys and texts nearly all are short enough to need no memory of their own.
pub(super) type Entries = Vec<(CompactString, Json)>;

impl Json {
    /// The value under a key; `None` if there is none or this is not an object.
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(entries) => entries.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Moves the value under a key out of an object.
    pub(super) fn take(&mut self, key: &str) -> Option<Json> {
        match self {
            Json::Object(entries) => {
                let at = entries.iter().rposition(|(name, _)| name == key)?;
                Some(entries.swap_remove(at).1)
            }
            _ => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Json::Str(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// An integer, also one written as `64.0`.
    pub(super) fn as_int(&self) -> Option<i64> {
        match self {
            Json::Int(number) => Some(*number),
            // Beyond 2^53 a float is not exact, and no dimension is that large.
            Json::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(*number as i64),
            _ => None,
        }
    }

    pub(super) fn as_float(&self) -> Option<f64> {
        match self {
            Json::Int(number) => Some(*number as f64),
            Json::Float(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn as_object(&self) -> Option<&[(CompactString, Json)]> {
        match self {
            Json::Object(entries) => Some(entries),
            _ => None,
        }
    }

    /// What this is, for a sentence.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a Boolean",
            Json::Int(_) | Json::Float(_) => "a number",
            Json::Str(_) => "text",
            Json::Array(_) => "a list",
            Json::Object(_) => "an object",
        }
    }
}

/// Parses a whole text. `entry` names it in errors.
pub(super) fn parse(bytes: &[u8], entry: &str) -> Result<Json> {
    // Python writes plain ASCII or UTF-8; Windows editors put a byte order mark before it.
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let jiter = Jiter::new(bytes).with_allow_inf_nan();
    let mut reader = Reader { jiter, values: 0, items: Vec::new(), entries: Vec::new(), place: Vec::new() };
    let value = reader.jiter.peek().map_err(Fault::Json).and_then(|peek| reader.value(peek, 0));
    let value = value.and_then(|value| reader.jiter.finish().map(|()| value).map_err(Fault::Json));
    value.map_err(|fault| {
        let (line, column, reason) = match fault {
            Fault::Json(error) => {
                let at = error.get_position(&reader.jiter);
                (at.line, at.column, error.error_type.to_string())
            }
            Fault::Limit(reason) => {
                let at = reader.jiter.current_position();
                (at.line, at.column, reason)
            }
        };
        let place = if reader.place.is_empty() { "at the top".to_owned() } else { reader.place_text() };
        ImportError::Json { entry: entry.to_owned(), line, column, place, reason }
    })
}

enum Fault {
    Json(JiterError),
    Limit(String),
}

enum Step {
    Key(CompactString),
    Index(usize),
}

/// Settings that no memory depends on and that make up half of a file: their values are skipped and read as null.
fn is_passed_over(key: &str) -> bool {
    key.ends_with("_initializer")
}

struct Reader<'j> {
    jiter: Jiter<'j>,
    values: usize,
    /// What was read of the arrays that are not at their end, the outermost first: each then gets as much memory as it needs.
    items: Vec<Json>,
    /// The same for objects.
    entries: Entries,
    /// The way to a value with an error, innermost step first.
    place: Vec<Step>,
}

impl Reader<'_> {
    fn value(&mut self, peek: Peek, depth: usize) -> std::result::Result<Json, Fault> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(Fault::Limit(format!("there are more than {MAX_VALUES} values")));
        }
        if depth > MAX_DEPTH {
            return Err(Fault::Limit(format!("values are nested deeper than {MAX_DEPTH}")));
        }
        Ok(match peek {
            Peek::Null => {
                self.jiter.known_null().map_err(Fault::Json)?;
                Json::Null
            }
            Peek::True | Peek::False => Json::Bool(self.jiter.known_bool(peek).map_err(Fault::Json)?),
            Peek::String => Json::Str(self.jiter.known_str().map_err(Fault::Json)?.into()),
            Peek::Array => {
                let first = self.items.len();
                let mut next = self.jiter.known_array().map_err(Fault::Json)?;
                while let Some(peek) = next {
                    match self.value(peek, depth + 1) {
                        Ok(item) => self.items.push(item),
                        Err(fault) => return Err(self.within(Step::Index(self.items.len() - first), fault)),
                    }
                    next = self.jiter.array_step().map_err(Fault::Json)?;
                }
                Json::Array(self.items.drain(first..).collect())
            }
            Peek::Object => {
                let first = self.entries.len();
                let mut next = self.jiter.known_object().map_err(Fault::Json)?.map(CompactString::from);
                while let Some(key) = next {
                    let peek = self.jiter.peek().map_err(Fault::Json)?;
                    let value = if is_passed_over(&key) {
                        self.jiter.known_skip(peek).map(|()| Json::Null).map_err(Fault::Json)
                    } else {
                        self.value(peek, depth + 1)
                    };
                    match value {
                        Ok(value) => self.entries.push((key, value)),
                        Err(fault) => return Err(self.within(Step::Key(key), fault)),
                    }
                    next = self.jiter.next_key().map_err(Fault::Json)?.map(CompactString::from);
                }
                Json::Object(self.entries.drain(first..).collect())
            }
            _ => {
                let text = self.jiter.known_number_bytes(peek).map_err(Fault::Json)?;
                number(text).ok_or_else(|| Fault::Limit("a number cannot be read".to_owned()))?
            }
        })
    }

    /// An error on its way out notes where it was.
    fn within(&mut self, step: Step, fault: Fault) -> Fault {
        self.place.push(step);
        fault
    }

    fn place_text(&self) -> String {
        let mut text = String::new();
        for (depth, step) in self.place.iter().rev().enumerate() {
            if depth == 12 {
                text.push('…');
                break;
            }
            match step {
                Step::Index(index) => text.push_str(&format!("[{index}]")),
                // A key comes from the file: a long one would make a long sentence.
                Step::Key(key) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.extend(key.chars().take(40));
                }
            }
        }
        text
    }
}

/// A number's text. Integers beyond 64 bits become floats: they are too large for any dimension either way.
fn number(text: &[u8]) -> Option<Json> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(int) = text.parse::<i64>() {
        return Some(Json::Int(int));
    }
    match text {
        "NaN" => Some(Json::Float(f64::NAN)),
        "Infinity" => Some(Json::Float(f64::INFINITY)),
        "-Infinity" => Some(Json::Float(f64::NEG_INFINITY)),
        _ => text.parse::<f64>().ok().map(Json::Float),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_numbers_are_read() {
        let json =
            parse(br#"{"a": NaN, "b": [-Infinity, 1e400, 12345678901234567890, 64.0], "a": 3}"#, "text").unwrap();
        assert_eq!(json.get("a"), Some(&Json::Int(3)));
        let numbers = json.get("b").unwrap().as_array().unwrap();
        assert_eq!(numbers[0].as_float(), Some(f64::NEG_INFINITY));
        assert_eq!(numbers[1].as_float(), Some(f64::INFINITY));
        assert_eq!(numbers[2].as_int(), None);
        assert_eq!(numbers[3].as_int(), Some(64));
    }

    #[test]
    fn an_error_names_its_place() {
        let error = parse(b"{\"config\": {\"layers\": [1, {\"name\": tru}]}}", "config.json").unwrap_err();
        assert_eq!(
            error.to_string(),
            "config.json is not valid JSON at line 1, column 39 (config.layers[1].name): expected ident; save the \
             model again"
        );
    }

    #[test]
    fn deep_nesting_is_refused() {
        let text = "[".repeat(100_000);
        let error = parse(text.as_bytes(), "config.json").unwrap_err();
        assert!(error.to_string().contains("nested deeper than 128"), "{error}");
    }
}
