//! What tests of formats share: the rows of the fixtures (`fixtures/parquet/make.py`), and damage.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use brimful_data::DataError;
use brimful_data::budget::{Ledger, Purpose, SlabPool};
use brimful_data::layout::{Conversion, DType, Kind, Layout, Request, Rows};
use brimful_data::source::{BadRows, OpenOptions, ReadReport, Source, open};

/// Rows of every fixture.
pub const ROWS: u64 = 600;

pub fn open_one(path: &Path) -> Arc<dyn Source> {
    open(&[path.display().to_string()], &OpenOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// What opening a file with these bytes says, after the file's name.
pub fn told(path: &Path, bytes: &[u8]) -> String {
    std::fs::write(path, bytes).unwrap();
    let error = open(&[path.display().to_string()], &OpenOptions::default()).err().unwrap().to_string();
    error.strip_prefix(&path.display().to_string()).unwrap().to_owned()
}

/// Two files are one source; with a third, which has other columns, they are refused with this sentence.
pub fn check_several([one, two, other]: [&Path; 3]) -> String {
    let text = |path: &Path| path.display().to_string();
    let source = open(&[text(one), text(two)], &OpenOptions::default()).unwrap();
    assert_eq!(source.rows(), 2 * ROWS);
    open(&[text(one), text(other)], &OpenOptions::default()).err().unwrap().to_string()
}

/// A file that was written again after it was opened is not read on.
pub fn check_changed(fixture: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(fixture.file_name().unwrap());
    let bytes = std::fs::read(fixture).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let source = open_one(&path);
    for changed in [&bytes[..bytes.len() - 1], &[&bytes[..], b"more"].concat()] {
        std::fs::write(&path, changed).unwrap();
        let error = read_all(&*source, &Request::default(), BadRows::Null).err().unwrap().to_string();
        assert!(error.ends_with("has changed since it was opened: open it again"), "{error}");
    }
}

/// Memory for so many rows.
pub fn rows(layout: &Arc<Layout>, capacity: usize) -> Rows {
    let bytes = layout.bytes(capacity);
    let pool = SlabPool::new(&Ledger::new(bytes as u64 * 2 + 64), Purpose::Window, bytes, 1);
    Rows::new(pool.try_take().unwrap().unwrap(), layout.clone(), capacity)
}

/// Numbers of a field, as `f64`, and as `i64` where they are whole.
pub fn number(rows: &Rows, field: usize, index: usize) -> (f64, i64) {
    let dtype = rows.layout().fields[field].dtype;
    let bytes = &rows.field(field)[index * dtype.bytes()..(index + 1) * dtype.bytes()];
    macro_rules! whole {
        ($type:ty) => {{
            let value = <$type>::from_le_bytes(bytes.try_into().unwrap());
            (value as f64, value as i64)
        }};
    }
    match dtype {
        DType::Bool | DType::U8 => whole!(u8),
        DType::I8 => whole!(i8),
        DType::U16 => whole!(u16),
        DType::I16 => whole!(i16),
        DType::U32 => whole!(u32),
        DType::I32 => whole!(i32),
        DType::U64 => whole!(u64),
        DType::I64 => whole!(i64),
        DType::F16 => (half::f16::from_le_bytes(bytes.try_into().unwrap()).to_f64(), 0),
        DType::F32 => (f32::from_le_bytes(bytes.try_into().unwrap()).into(), 0),
        DType::F64 => (f64::from_le_bytes(bytes.try_into().unwrap()), 0),
    }
}

/// What a column of the fixtures has in a row; nothing where it has none.
pub fn expected(column: &str, row: i64) -> Option<(f64, i64)> {
    let whole = |value: i64| Some((value as f64, value));
    let float = |value: f64| Some((value, 0));
    match column {
        "f64" => float(row as f64 * 0.5),
        "f32" => float(row as f64 * 0.25),
        "f16" => float((row % 50) as f64 * 0.5),
        "i8" => whole(row % 100 - 50),
        "u8" => whole(row % 256),
        "i16" => whole(row - 700),
        "u16" => whole(row + 64000),
        "i32" => whole(row * 3 - 1000),
        "u32" => whole(row + 4_000_000_000),
        "i64" => whole(row * 1_000_000_007 - 5),
        "u64" => Some((((1u64 << 63) + row as u64) as f64, i64::MIN + row)),
        "bool" => whole(i64::from(row % 3 == 0)),
        "null_f64" => (row % 7 != 0).then_some((row as f64, 0)),
        "null_i64" => (row % 11 != 5).then_some((row as f64, row)),
        "none" => None,
        "date" => whole(row),
        "time" => whole(row * 1000 - 77),
        "decimal" => float((row - 300) as f64 / 100.0),
        "decimal_big" => float((row - 300) as f64 / 1000.0),
        "struct.inner" => (row % 5 != 0).then_some((row as f64, row)),
        "text" | "dictionary" => whole(row % 5),
        "null_text" => (row % 4 != 1).then_some(((row % 3) as f64, row % 3)),
        other => panic!("no column '{other}'"),
    }
}

/// Text columns become their categories.
pub fn categories() -> Conversion {
    let known = (0..5).map(|number| (format!("category {number}").into_bytes(), number)).collect();
    Conversion::Categories(Arc::new(known))
}

fn text_request(source: &dyn Source) -> Request {
    let text = source.columns().iter().filter(|column| column.kind == Kind::Text);
    let conversions: BTreeMap<_, _> = text.map(|column| (column.name.clone(), categories())).collect();
    Request { separate: true, conversions, ..Request::default() }
}

/// All columns, each with its own type, in ranges of many lengths.
pub fn check_numbers(source: &dyn Source, name: &str, must_have: &[&str]) {
    let names: Vec<&str> = source.columns().iter().map(|column| column.name.as_str()).collect();
    assert!(must_have.iter().all(|name| names.contains(name)), "{names:?}");
    let layout = Arc::new(Layout::new(source.columns(), &text_request(source)).unwrap());
    assert_eq!(source.rows(), ROWS, "{name}");
    let mut reader = source.reader(&layout, BadRows::Null).unwrap();
    let mut memory = rows(&layout, ROWS as usize);
    let mut before = 0;
    for unit in 0..source.units() {
        let count = source.unit_rows(unit);
        let pieces = [0..count, 0..1, count / 3..count, count / 2..count / 2 + 1, count - 1..count, 5..5, 1..count - 1];
        for range in pieces {
            reader.read(unit, range.clone(), &mut memory).unwrap_or_else(|error| panic!("{name} {range:?}: {error}"));
            assert_eq!(memory.len() as u64, range.end - range.start);
            for (at, row) in range.enumerate() {
                let row = (before + row) as i64;
                for (field, told) in layout.fields.iter().enumerate() {
                    let found = number(&memory, field, at);
                    let mut wanted = expected(&told.name, row).unwrap_or(if told.dtype.is_float() {
                        (f64::NAN, 0)
                    } else {
                        (0.0, 0)
                    });
                    // Brotli's file has the old type of times, in nanoseconds.
                    if name == "brotli" && told.name == "time" {
                        wanted = ((wanted.1 * 1000) as f64, wanted.1 * 1000);
                    }
                    let same = found.0 == wanted.0 || found.0.is_nan() && wanted.0.is_nan();
                    assert!(same && found.1 == wanted.1, "{name}, {}, row {row}: {found:?}, not {wanted:?}", told.name);
                }
            }
        }
        before += count;
    }
}

/// A column of whole numbers with gaps, with every way to handle them.
pub fn check_missing(source: &dyn Source, name: &str) {
    let request =
        Request { columns: Some(vec!["i32".into(), "null_i64".into()]), separate: true, ..Request::default() };
    let (kept, report) = read_all(source, &request, BadRows::Skip).unwrap();
    let wanted: Vec<i64> = (0..ROWS as i64).filter(|row| row % 11 != 5).map(|row| row * 3 - 1000).collect();
    assert_eq!(kept[0].iter().map(|value| *value as i64).collect::<Vec<_>>(), wanted, "{name}");
    assert_eq!(report.bad_rows, ROWS - wanted.len() as u64);
    assert_eq!((report.first_bad[0].place.as_str(), report.first_bad[1].place.as_str()), ("row 5", "row 16"));
    assert_eq!(report.first_bad[0].reason, "column 'null_i64' has no value");
    let (all, report) = read_all(source, &request, BadRows::Null).unwrap();
    assert_eq!((all[1].len() as u64, all[1][5], report.bad_rows), (ROWS, 0.0, ROWS - wanted.len() as u64));
    let error = read_all(source, &request, BadRows::Fail).err().unwrap().to_string();
    assert!(error.ends_with(", row 5: column 'null_i64' has no value"), "{error}");
    let mut known = BTreeMap::new();
    known.insert(b"category 0".to_vec(), 7);
    let conversions = BTreeMap::from([("text".to_owned(), Conversion::Categories(Arc::new(known)))]);
    let request = Request { columns: Some(vec!["text".into()]), conversions, ..Request::default() };
    let error = read_all(source, &request, BadRows::Fail).err().unwrap().to_string();
    assert!(error.ends_with(", row 1: column 'text' has text that is none of its categories"), "{error}");
    let (found, report) = read_all(source, &request, BadRows::Null).unwrap();
    assert!(found[0][0] == 7.0 && found[0][1].is_nan() && report.bad_rows == ROWS / 5 * 4, "{name}");
}

/// Numbers of all columns as `float32` in one matrix, and columns in another order than the file's.
pub fn check_matrix(source: &dyn Source, name: &str) {
    let names =
        ["u32", "null_f64", "bool", "i8", "f64", "f32", "f16", "u8", "i16", "u16", "i32", "date", "i64", "u64", "none"];
    let columns: Vec<String> = names.iter().chain(&names[..3]).map(|name| (*name).to_owned()).collect();
    let request = Request { columns: Some(columns.clone()), labels: vec!["i32".into()], ..Request::default() };
    let (found, _) = read_all(source, &request, BadRows::Fail).unwrap();
    for row in 0..ROWS as usize {
        for (at, column) in columns.iter().enumerate() {
            let value = found[0][row * columns.len() + at];
            let wanted = expected(column, row as i64).map_or(f64::NAN, |value| (value.0 as f32).into());
            assert!(
                value == wanted || value.is_nan() && wanted.is_nan(),
                "{name} {column} {row}: {value}, not {wanted}"
            );
        }
        assert_eq!(found[1][row], row as f64 * 3.0 - 1000.0);
    }
}

/// Every unit as a whole: each field's numbers.
pub fn read_all(
    source: &dyn Source,
    request: &Request,
    bad: BadRows,
) -> Result<(Vec<Vec<f64>>, ReadReport), DataError> {
    let layout = Arc::new(Layout::new(source.columns(), request)?);
    let mut reader = source.reader(&layout, bad)?;
    let most = (0..source.units()).map(|unit| source.unit_rows(unit)).max().unwrap_or(1);
    let mut memory = rows(&layout, most as usize);
    let mut all = vec![Vec::new(); layout.fields.len()];
    let mut report = ReadReport::default();
    for unit in 0..source.units() {
        let found = reader.read(unit, 0..source.unit_rows(unit), &mut memory)?;
        report.bad_rows += found.bad_rows;
        report.first_bad.extend(found.first_bad);
        for (field, all) in all.iter_mut().enumerate() {
            let count = memory.len() * layout.fields[field].elements();
            all.extend((0..count).map(|index| number(&memory, field, index).0));
        }
    }
    Ok((all, report))
}

/// Bytes of a file changed at random, many times: an answer or an error, and no more memory than was promised.
pub fn fuzz(path: &Path, name: &str) {
    let whole = std::fs::read(path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join(path.file_name().unwrap());
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut opened, mut read) = (0, 0);
    for round in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random(4) {
            // Half of the damage in the last third, where the footer lies.
            let at = if random(2) == 0 { random(bytes.len()) } else { bytes.len() - 1 - random(bytes.len() / 3) };
            bytes[at] = if random(3) == 0 { bytes[at] ^ (1 << random(8)) } else { random(256) as u8 };
        }
        if round % 16 == 0 {
            bytes.truncate(random(whole.len()));
        }
        std::fs::write(&damaged, &bytes).unwrap();
        let before = crate::counting::start();
        let Ok(source) = open(&[damaged.display().to_string()], &OpenOptions::default()) else { continue };
        let most = crate::counting::peak() - before;
        assert!(most <= 2 * whole.len() + (4 << 20), "{name}, round {round}: opening took {most} bytes");
        opened += 1;
        if source.rows() > 1 << 20 {
            continue;
        }
        let Ok(layout) = Layout::new(source.columns(), &text_request(&*source)) else { continue };
        let layout = Arc::new(layout);
        let (promised, _) = source.reader_bytes(&layout);
        if promised > 64 << 20 {
            continue;
        }
        let rows_most = (0..source.units()).map(|unit| source.unit_rows(unit)).max().unwrap_or(1);
        let mut memory = rows(&layout, rows_most as usize);
        let before = crate::counting::start();
        let mut reader = source.reader(&layout, BadRows::Null).unwrap();
        for unit in 0..source.units() {
            if reader.read(unit, 0..source.unit_rows(unit), &mut memory).is_ok() {
                read += 1;
            }
        }
        let most = (crate::counting::peak() - before) as u64;
        assert!(most <= promised, "{name}, round {round}: {most} bytes, {promised} were promised");
    }
    assert!(
        opened > 20 && read > 20,
        "{name}: {opened} opened, {read} units read: the damage is too much to test anything"
    );
}

/// A list that is asked for is refused in other words than a column that is not there.
pub fn check_list(source: &dyn Source, name: &str) {
    let asked = |column: &str| {
        let request = Request { columns: Some(vec![column.to_owned()]), ..Request::default() };
        brimful_data::source::layout(source, &request).unwrap_err().to_string()
    };
    assert!(asked("list").starts_with("column 'list' is in the files, but its values have no fixed place"), "{name}");
    assert!(asked("lis").starts_with("there is no column 'lis'; there are "), "{name}");
}
