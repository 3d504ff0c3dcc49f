//! What the keys of objects hold.
//!
//! In: lines of a sample. Out: columns, in the order in which keys were first seen. A key with whole numbers that is sometimes missing
//! has floats, as only those have "not known".

use std::collections::HashMap;

use jiter::{Jiter, JiterError, Peek};

use crate::DataError;
use crate::layout::{Column, DType, Kind};
use crate::source::csv::Type;
use crate::source::text::number;

/// Arrays within arrays, at most.
pub const MOST_DIMENSIONS: usize = 8;

#[derive(Clone, Default)]
struct Seen {
    name: String,
    records: usize,
    int: bool,
    float: bool,
    bool: bool,
    text: bool,
    null: bool,
    /// Objects, arrays of mixed things, arrays of different shapes.
    other: bool,
    shape: Option<Vec<usize>>,
}

/// What was seen so far.
#[derive(Default)]
pub struct Sample {
    keys: Vec<Seen>,
    places: HashMap<String, usize>,
    records: usize,
    error: Option<String>,
}

impl Sample {
    /// One more line; one that is no object is the reader's affair.
    pub fn add(&mut self, line: &[u8]) {
        match self.object(line) {
            Ok(()) => self.records += 1,
            Err(error) => {
                self.error.get_or_insert(error.to_string());
            }
        }
    }

    /// What the first line that is no object is instead.
    pub fn first_error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    fn object(&mut self, line: &[u8]) -> Result<(), JiterError> {
        let mut json = Jiter::new(line).with_allow_inf_nan();
        let mut key = json.next_object()?.map(str::to_owned);
        while let Some(name) = key {
            let place = *self.places.entry(name.clone()).or_insert_with(|| {
                self.keys.push(Seen { name, ..Seen::default() });
                self.keys.len() - 1
            });
            self.keys[place].value(&mut json)?;
            key = json.next_key()?.map(str::to_owned);
        }
        json.finish()
    }

    /// The columns; types that the caller gave go before.
    pub fn columns(&self, given: &[(String, String)]) -> Result<Vec<Column>, DataError> {
        let known = |name: &String| self.keys.iter().any(|key| key.name == *name);
        if let Some((name, _)) = given.iter().find(|(name, _)| !known(name)) {
            return Err(DataError::Request(format!(
                "types name a key '{name}', which a sample of the lines does not have"
            )));
        }
        let column = |key: &Seen| -> Result<Option<Column>, DataError> {
            if let Some((name, of)) = given.iter().find(|(name, _)| *name == key.name) {
                let of = Type::parse(of).ok_or_else(|| {
                    DataError::Request(format!(
                        "key '{name}': there is no type '{of}'; there are float64, int64, bool, text"
                    ))
                })?;
                let shape = key.shape.clone().filter(|_| !key.other && of != Type::Text).unwrap_or_default();
                return Ok(Some(Column { shape, ..of.column(&key.name) }));
            }
            Ok(key.kind(self.records).map(|kind| Column {
                name: key.name.clone(),
                kind,
                shape: key.shape.clone().unwrap_or_default(),
            }))
        };
        self.keys.iter().filter_map(|key| column(key).transpose()).collect()
    }
}

impl Seen {
    fn value(&mut self, json: &mut Jiter) -> Result<(), JiterError> {
        self.records += 1;
        let peek = json.peek()?;
        if peek == Peek::Array {
            let mut shape = Vec::new();
            let again = json.clone();
            match self.array(json, 0, &mut shape) {
                Ok(true) if self.shape.as_ref().is_none_or(|known| *known == shape) => self.shape = Some(shape),
                _ => {
                    self.other = true;
                    *json = again;
                    json.next_skip()?;
                }
            }
            return Ok(());
        }
        self.scalar(json, peek)
    }

    fn scalar(&mut self, json: &mut Jiter, peek: Peek) -> Result<(), JiterError> {
        match peek {
            Peek::Null => self.null = true,
            Peek::True | Peek::False => self.bool = true,
            Peek::String => self.text = true,
            Peek::Object => self.other = true,
            _ => {
                let text = json.known_number_bytes(peek)?;
                if number::int_of(text).is_some() {
                    self.int = true
                } else {
                    self.float = true
                }
                return Ok(());
            }
        }
        json.known_skip(peek)
    }

    /// Whether this is an array of numbers of one shape.
    fn array(&mut self, json: &mut Jiter, depth: usize, shape: &mut Vec<usize>) -> Result<bool, JiterError> {
        let mut count = 0;
        let mut next = json.next_array()?;
        if depth >= MOST_DIMENSIONS {
            return Ok(false);
        }
        if shape.len() == depth {
            shape.push(usize::MAX);
        }
        while let Some(peek) = next {
            let leaf = shape.len() == depth + 1 && (count > 0 || shape[depth] != usize::MAX);
            match peek {
                Peek::Array if !leaf && !self.array(json, depth + 1, shape)? => return Ok(false),
                Peek::Array if !leaf => {}
                _ if shape.len() == depth + 1 && (peek.is_num() || peek == Peek::Null || peek == Peek::NaN) => {
                    self.scalar(json, peek)?;
                }
                _ => return Ok(false),
            }
            count += 1;
            next = json.array_step()?;
        }
        if shape[depth] == usize::MAX {
            shape[depth] = count;
        }
        Ok(shape[depth] == count && count > 0)
    }

    fn kind(&self, records: usize) -> Option<Kind> {
        let (numbers, array) = (self.int || self.float, self.shape.is_some());
        if self.other || (array && (self.bool || self.text)) || (self.bool && (numbers || self.text)) {
            return None;
        }
        if self.text {
            return (!numbers).then_some(Kind::Text);
        }
        let gaps = self.null || self.records < records;
        Some(Kind::Number(match () {
            () if self.bool => DType::Bool,
            () if self.int && !self.float && !gaps => DType::I64,
            () => DType::F64,
        }))
    }
}
