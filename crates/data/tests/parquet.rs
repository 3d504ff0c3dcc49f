//! Parquet files as pyarrow writes them, and files that are damaged.

mod common;
mod counting;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use brimful_data::layout::{Layout, Request};
use brimful_data::source::BadRows;
use brimful_data::write::parquet::ParquetWriter;

const FILES: [&str; 6] = ["snappy", "zstd_v2", "none_plain", "gzip_delta", "lz4_v2", "brotli"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parquet").join(format!("{name}.parquet"))
}

#[test]
fn every_type_and_encoding_comes_back_in_any_range() {
    for name in FILES {
        let source = common::open_one(&fixture(name));
        assert!(source.notes()[0].contains("list"), "{:?}", source.notes());
        common::check_numbers(&*source, name, &["decimal", "decimal_big", "struct.inner"]);
        common::check_list(&*source, name);
    }
}

#[test]
fn what_is_missing_makes_a_row_bad_where_numbers_are_whole() {
    for name in FILES {
        common::check_missing(&*common::open_one(&fixture(name)), name);
    }
}

#[test]
fn a_table_becomes_one_matrix_of_float32() {
    for name in FILES {
        common::check_matrix(&*common::open_one(&fixture(name)), name);
    }
}

#[test]
fn several_files_are_one_source_and_others_are_refused() {
    let error = common::check_several([&fixture("snappy"), &fixture("gzip_delta"), &fixture("brotli")]);
    assert!(error.contains("brotli.parquet: column 'time' has another type than in"), "{error}");
}

#[test]
fn damaged_files_are_told_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let whole = std::fs::read(fixture("snappy")).unwrap();
    let told = |bytes: &[u8]| common::told(&path, bytes);
    assert_eq!(told(b""), ": 0 bytes are too few for a Parquet file: it is cut or was never finished");
    let cut = told(&whole[..whole.len() / 2]);
    assert_eq!(cut, ": does not end as a Parquet file does: it is cut, was never finished, or is another format");
    let mut long = whole.clone();
    let end = long.len();
    long[end - 8..end - 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(told(&long), format!(": its footer would have 4294967295 bytes, the file has {end}"));
    let mut garbage = whole.clone();
    garbage[end - 108..end - 8].fill(0xff);
    assert_eq!(told(&garbage), ": its footer makes no sense: the file is damaged");
    // The first page's header, right after the four bytes at the beginning.
    let mut header = whole;
    header[4..40].fill(0xee);
    let header = told(&header);
    assert!(
        header.starts_with(", row group 0, column 'f64': has a page header at byte 4 that makes no sense"),
        "{header}"
    );
}

#[test]
fn random_damage_never_panics_and_never_takes_more_than_promised() {
    for name in FILES {
        common::fuzz(&fixture(name), name);
    }
}

#[test]
fn a_file_that_changed_is_not_read_on() {
    common::check_changed(&fixture("snappy"));
}

#[test]
fn what_is_written_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.parquet");
    let source = common::open_one(&fixture("snappy"));
    let request = Request { separate: true, ..Request::default() };
    let layout = Arc::new(Layout::new(source.columns(), &request).unwrap());
    let mut writer = ParquetWriter::create(&path, &layout, source.columns()).unwrap();
    let mut reader = source.reader(&layout, BadRows::Null).unwrap();
    let mut memory = common::rows(&layout, common::ROWS as usize);
    for unit in 0..source.units() {
        reader.read(unit, 0..source.unit_rows(unit), &mut memory).unwrap();
        writer.write(&memory).unwrap();
    }
    assert!(!path.exists());
    writer.finish().unwrap();
    let again = common::open_one(&path);
    let text = |column: &&brimful_data::layout::Column| column.kind != brimful_data::layout::Kind::Text;
    assert!(again.columns().iter().eq(source.columns().iter().filter(text)));
    let (before, _) = common::read_all(&*source, &request, BadRows::Null).unwrap();
    let (after, report) = common::read_all(&*again, &request, BadRows::Fail).unwrap();
    let bits = |all: Vec<Vec<f64>>| all.into_iter().flatten().map(f64::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(before), bits(after));
    assert_eq!(report.bad_rows, 0);
    // One that is given up leaves nothing.
    drop(ParquetWriter::create(&folder.path().join("b.parquet"), &layout, source.columns()).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    if let Some(kept) = std::env::var_os("BRIMFUL_KEEP_PARQUET") {
        std::fs::copy(&path, kept).unwrap();
    }
}
