//! Objects into rows.
//!
//! In: the text of a unit. Out: the chosen keys as numbers, straight from the bytes. Keys are expected in the order of the columns, so
//! that most are found without being looked up.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use jiter::{Jiter, Peek};
use memchr::memchr;

use crate::DataError;
use crate::layout::{Cells, Column, Conversion, DType, Kind, Layout, Rows};
use crate::source::text::{TextFiles, UnitText, number, skip_blank};
use crate::source::{BadRow, BadRows, ReadReport, Reader};

pub(super) struct JsonReader {
    text: UnitText,
    files: Arc<TextFiles>,
    object: Objects,
    bad_rows: BadRows,
    /// The next record of the unit and its place.
    next: (u64, usize),
    tape: Vec<u8>,
}

/// What objects have, and where it goes.
struct Objects {
    columns: Arc<Vec<Column>>,
    layout: Arc<Layout>,
    places: HashMap<String, usize>,
    /// For each column its slots.
    slots: Vec<Range<usize>>,
    /// For each column the number of the last object that had it.
    had: Vec<u64>,
    objects: u64,
}

/// What a reader holds besides text.
pub(super) fn bytes(layout: &Layout, columns: &[Column]) -> u64 {
    let names: usize = columns.iter().map(|column| 2 * (column.name.len() + size_of::<(String, usize)>())).sum();
    let each = size_of::<Range<usize>>() + size_of::<u64>();
    (names + columns.len() * each + layout.fields.len() * size_of::<Cells>()) as u64 + (16 << 10)
}

/// Why a value or an object is bad.
enum Fault {
    /// The object cannot be read on.
    Json(String),
    /// The value is not what it should be; it is behind us.
    Value(String),
}

impl From<jiter::JiterError> for Fault {
    fn from(error: jiter::JiterError) -> Fault {
        Fault::Json(format!("this is no JSON object: {} at byte {} of the line", error.error_type, error.index + 1))
    }
}

impl JsonReader {
    pub(super) fn new(
        text: UnitText,
        files: &Arc<TextFiles>,
        columns: &Arc<Vec<Column>>,
        layout: &Arc<Layout>,
        bad_rows: BadRows,
    ) -> JsonReader {
        let of = |column: usize| {
            let first = layout.slots.partition_point(|slot| slot.column < column);
            first..layout.slots.partition_point(|slot| slot.column <= column)
        };
        let object = Objects {
            columns: columns.clone(),
            layout: layout.clone(),
            places: columns.iter().enumerate().map(|(place, column)| (column.name.clone(), place)).collect(),
            slots: (0..columns.len()).map(of).collect(),
            had: vec![0; columns.len()],
            objects: 0,
        };
        JsonReader { text, files: files.clone(), object, bad_rows, next: (0, 0), tape: Vec::new() }
    }

    fn file(&self) -> std::path::PathBuf {
        let file = self.text.unit().map_or(0, |unit| self.files.file_of(unit));
        self.files.files()[file].path.clone()
    }

    fn changed(&self) -> DataError {
        let reason = "it was changed while it was being read: open it again once it is complete";
        DataError::corrupt(&self.file(), format!(", line {}", self.text.line(self.next.1)), reason)
    }
}

impl Reader for JsonReader {
    fn read(&mut self, unit: usize, rows: Range<u64>, into: &mut Rows) -> Result<ReadReport, DataError> {
        if self.text.load(unit)? || self.next.0 > rows.start {
            self.next = (0, 0);
        }
        let mut report = ReadReport::default();
        let (mut number, mut at) = self.next;
        let mut row = 0;
        let mut cells = into.cells();
        while number < rows.end {
            let bytes = self.text.padded();
            at = skip_blank(bytes, at);
            let end = memchr(b'\n', &bytes[at..self.text.length()]).map(|end| at + end);
            let end = end.ok_or_else(|| self.changed())?;
            let start = std::mem::replace(&mut at, end + 1);
            number += 1;
            if number <= rows.start {
                continue;
            }
            let tape = std::mem::take(&mut self.tape);
            let mut json = Jiter::with_tape(&bytes[start..end], tape).with_allow_inf_nan();
            let bad = self.object.read(&mut json, &bytes[start..], row, &mut cells, self.bad_rows);
            self.tape = json.into_tape();
            let Some(reason) = bad else {
                row += 1;
                continue;
            };
            let place = format!("line {}", self.text.line(start));
            match self.bad_rows {
                BadRows::Fail => return Err(DataError::corrupt(&self.file(), format!(", {place}"), reason)),
                BadRows::Skip => {}
                BadRows::Null => row += 1,
            }
            report.add(BadRow { file: self.file(), place, reason });
        }
        let last = number == u64::from(self.files.units()[unit].rows);
        if last && skip_blank(self.text.padded(), at) < self.text.length() {
            return Err(self.changed());
        }
        drop(cells);
        self.next = (number, at);
        into.set_len(row);
        Ok(report)
    }
}

impl Objects {
    /// Reads an object into a row; says what is wrong with it. With [`BadRows::Null`] the row is complete all the same.
    fn read(
        &mut self,
        json: &mut Jiter,
        bytes: &[u8],
        row: usize,
        cells: &mut [Cells],
        bad_rows: BadRows,
    ) -> Option<String> {
        self.objects += 1;
        let mut wrong = None;
        if let Err(Fault::Json(reason) | Fault::Value(reason)) =
            self.keys(json, bytes, row, cells, bad_rows, &mut wrong)
        {
            if bad_rows != BadRows::Null {
                return Some(reason);
            }
            wrong.get_or_insert(reason);
        }
        for column in 0..self.columns.len() {
            if self.had[column] == self.objects || self.slots[column].is_empty() {
                continue;
            }
            let known = self.unknown(column, row, cells);
            if wrong.is_none()
                && let Err(reason) = known
            {
                wrong = Some(reason);
            }
        }
        wrong
    }

    fn keys(
        &mut self,
        json: &mut Jiter,
        bytes: &[u8],
        row: usize,
        cells: &mut [Cells],
        bad_rows: BadRows,
        wrong: &mut Option<String>,
    ) -> Result<(), Fault> {
        let mut expected = 0;
        let mut key = json.next_object()?;
        while let Some(name) = key {
            let column = match self.columns.get(expected) {
                Some(column) if column.name == name => Some(expected),
                _ => self.places.get(name).copied(),
            };
            match column {
                None => json.next_skip()?,
                Some(column) => {
                    expected = column + 1;
                    if self.had[column] == self.objects {
                        return Err(Fault::Json(format!("the key '{}' comes twice", self.columns[column].name)));
                    }
                    match self.value(column, json, bytes, row, cells) {
                        Ok(()) => self.had[column] = self.objects,
                        Err(Fault::Value(reason)) if bad_rows == BadRows::Null => {
                            wrong.get_or_insert(reason);
                        }
                        Err(fault) => return Err(fault),
                    }
                }
            }
            key = json.next_key()?;
        }
        Ok(json.finish()?)
    }

    /// The value of a key into all its slots.
    fn value(
        &self,
        column: usize,
        json: &mut Jiter,
        bytes: &[u8],
        row: usize,
        cells: &mut [Cells],
    ) -> Result<(), Fault> {
        let slots = self.slots[column].clone();
        if slots.is_empty() {
            return Ok(json.next_skip()?);
        }
        for slot in slots.start..slots.end - 1 {
            self.slot(slot, &mut json.clone(), bytes, row, cells)?;
        }
        self.slot(slots.end - 1, json, bytes, row, cells)
    }

    fn slot(&self, slot: usize, json: &mut Jiter, bytes: &[u8], row: usize, cells: &mut [Cells]) -> Result<(), Fault> {
        let slot = &self.layout.slots[slot];
        let column = &self.columns[slot.column];
        let cell = &mut cells[slot.field];
        let mut index = row * self.layout.fields[slot.field].elements() + slot.first;
        let peek = json.peek()?;
        if peek == Peek::Null && !(column.kind == Kind::Text && matches!(slot.conversion, Conversion::Hash(_))) {
            json.known_null()?;
            return self.unknown(slot.column, row, cells).map_err(Fault::Value);
        }
        if column.shape.is_empty() {
            return self.scalar(column, &slot.conversion, json, peek, bytes, index, cell);
        }
        let again = json.clone();
        let read = match peek {
            Peek::Array => self.array(column, 0, json, bytes, &mut index, cell),
            _ => Err(Fault::Value(String::new())),
        };
        read.or_else(|fault| match fault {
            Fault::Json(_) => Err(fault),
            Fault::Value(_) => {
                *json = again;
                json.next_skip()?;
                let shape: Vec<String> = column.shape.iter().map(usize::to_string).collect();
                let what = "no array of numbers of the shape that the others have";
                Err(Fault::Value(format!("key '{}': {what} ({})", column.name, shape.join(" × "))))
            }
        })
    }

    fn array(
        &self,
        column: &Column,
        depth: usize,
        json: &mut Jiter,
        bytes: &[u8],
        index: &mut usize,
        cell: &mut Cells,
    ) -> Result<(), Fault> {
        let wrong = || Fault::Value(String::new());
        let mut next = json.next_array()?;
        for _ in 0..column.shape[depth] {
            let peek = next.ok_or_else(wrong)?;
            match (depth + 1 < column.shape.len(), peek) {
                (true, Peek::Array) => self.array(column, depth + 1, json, bytes, index, cell)?,
                (true, _) => return Err(wrong()),
                (false, Peek::Null) if cell.is_float() => {
                    json.known_null()?;
                    cell.put_unknown(*index);
                    *index += 1;
                }
                (false, Peek::String | Peek::Array | Peek::Object | Peek::True | Peek::False | Peek::Null) => {
                    return Err(wrong());
                }
                (false, peek) => {
                    self.scalar(column, &Conversion::Number, json, peek, bytes, *index, cell)?;
                    *index += 1;
                }
            }
            next = json.array_step()?;
        }
        if next.is_some() { Err(wrong()) } else { Ok(()) }
    }

    #[allow(clippy::too_many_arguments)]
    fn scalar(
        &self,
        column: &Column,
        conversion: &Conversion,
        json: &mut Jiter,
        peek: Peek,
        bytes: &[u8],
        index: usize,
        cell: &mut Cells,
    ) -> Result<(), Fault> {
        let wrong = |what: &str| {
            let known = match column.kind {
                Kind::Number(dtype) => dtype.name(),
                Kind::Text => "text",
            };
            Fault::Value(format!(
                "key '{}': {what} where the sample showed {known}; correct it, give types={{\"{}\": …}}, or say what to do \
                 with bad rows",
                column.name, column.name
            ))
        };
        match peek {
            Peek::Null => {
                json.known_null()?;
                conversion.number(b"").map(|value| cell.put_i64(index, value)).ok_or_else(|| wrong("null"))
            }
            Peek::String => {
                let text = json.known_str()?;
                if *conversion == Conversion::Number {
                    return Err(wrong("text"));
                }
                let number = conversion.number(text.as_bytes());
                number.map(|value| cell.put_i64(index, value)).ok_or_else(|| {
                    let shown: String = text.chars().take(40).collect();
                    Fault::Value(format!("key '{}': '{shown}' is none of its categories", column.name))
                })
            }
            Peek::True | Peek::False => {
                let value = json.known_bool(peek)?;
                if column.kind != Kind::Number(DType::Bool) {
                    return Err(wrong("a truth value"));
                }
                cell.put_i64(index, i64::from(value));
                Ok(())
            }
            Peek::Array | Peek::Object => {
                json.known_skip(peek)?;
                Err(wrong(if peek == Peek::Array { "an array" } else { "an object" }))
            }
            _ => {
                let length = json.known_number_bytes(peek)?.len();
                let end = json.current_index();
                let text = &bytes[end - length..end];
                if *conversion != Conversion::Number {
                    let number = conversion.number(text).ok_or_else(|| wrong("a number"))?;
                    cell.put_i64(index, number);
                    return Ok(());
                }
                match column.kind {
                    Kind::Number(DType::Bool) | Kind::Text => Err(wrong("a number")),
                    Kind::Number(dtype) => put(bytes, end - length, end, dtype == DType::I64, index, cell)
                        .ok_or_else(|| wrong(&format!("'{}'", String::from_utf8_lossy(&text[..length.min(40)])))),
                }
            }
        }
    }

    /// "Not known" into all slots of a column; a reason where a slot's type has none.
    fn unknown(&self, column: usize, row: usize, cells: &mut [Cells]) -> Result<(), String> {
        let mut known = Ok(());
        for slot in &self.layout.slots[self.slots[column].clone()] {
            let first = row * self.layout.fields[slot.field].elements() + slot.first;
            for index in first..first + slot.elements {
                cells[slot.field].put_unknown(index);
            }
            if !cells[slot.field].is_float() {
                known = Err(format!(
                    "key '{}' has no value here, and whole numbers have none for \"not known\": ask for float32 or \
                     float64, or say what to do with bad rows",
                    self.columns[column].name
                ));
            }
        }
        known
    }
}

/// The number between two places; a fraction among whole numbers is welcome where floats are asked for.
#[inline]
fn put(bytes: &[u8], at: usize, end: usize, whole: bool, index: usize, cell: &mut Cells) -> Option<()> {
    if whole || !cell.is_float() {
        let short = number::int64(bytes, at).filter(|(_, stop)| *stop == end).map(|(value, _)| value);
        if let Some(value) = short.or_else(|| number::int_of(&bytes[at..end])) {
            cell.put_i64(index, value);
            return Some(());
        }
        if whole && !cell.is_float() {
            return None;
        }
    }
    if let Cells::F32(cells) = cell
        && let Some((value, stop)) = number::float32(bytes, at)
        && stop == end
    {
        cells[index] = value;
        return Some(());
    }
    let short = number::float64(bytes, at).filter(|(_, stop)| *stop == end).map(|(value, _)| value);
    cell.put_f64(index, short.or_else(|| number::float_of(&bytes[at..end]))?);
    Some(())
}
