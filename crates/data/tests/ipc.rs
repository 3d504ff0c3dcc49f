//! Arrow files and streams as pyarrow and Polars write them, and files that are damaged.

mod common;
mod counting;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brimful_data::layout::{Conversion, Request};
use brimful_data::source::BadRows;

const FILES: [&str; 4] = ["none.feather", "lz4.feather", "zstd.arrow", "stream.arrows"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ipc").join(name)
}

#[test]
fn every_type_comes_back_in_any_range() {
    for name in FILES {
        let source = common::open_one(&fixture(name));
        let left_out = "lists, maps and other values without a fixed place in a row are left out: list";
        assert_eq!(source.notes(), [left_out]);
        common::check_numbers(&*source, name, &["decimal", "decimal_big", "struct.inner", "dictionary"]);
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

fn text(columns: &[&str], long: bool) -> BTreeMap<String, Conversion> {
    let known = (0..5).map(|number| {
        (if long { format!("a long category {number:04}") } else { format!("category {number}") }.into_bytes(), number)
    });
    let conversion = Conversion::Categories(Arc::new(known.collect()));
    columns.iter().map(|name| ((*name).to_owned(), conversion.clone())).collect()
}

#[test]
fn lists_of_a_fixed_length_have_a_shape_and_text_has_every_layout() {
    for name in ["lists.arrow", "lists_lz4.arrow"] {
        let source = common::open_one(&fixture(name));
        assert!(source.notes()[0].ends_with(" are left out: names, map, nothing"), "{:?}", source.notes());
        let shapes: Vec<_> = source.columns().iter().map(|column| column.shape.clone()).collect();
        assert_eq!(shapes[..5], [vec![3], vec![2], vec![2, 2], vec![3], vec![]]);
        let mut conversions = text(&["large", "fixed"], false);
        conversions.extend(text(&["view"], true));
        let separate = Request { separate: true, conversions: conversions.clone(), ..Request::default() };
        let (found, report) = common::read_all(&*source, &separate, BadRows::Null).unwrap();
        // The text of one row in four is missing, and becomes a whole number.
        assert_eq!(report.bad_rows, 150);
        let one = Request { conversions, ..Request::default() };
        let (matrix, report) = common::read_all(&*source, &one, BadRows::Fail).unwrap();
        assert_eq!(report.bad_rows, 0);
        for row in 0..600usize {
            let gap = |missing: bool, value: f64| if missing { f64::NAN } else { value };
            let k = row as f64;
            let mut wanted: Vec<f64> = (0..3).map(|at| (row * 3 + at) as f64 * 0.5).collect();
            wanted.extend([gap(row % 9 == 4, k), gap(row % 9 == 4 || row % 5 == 2, -k)]);
            wanted.extend((0..4).map(|at| ((row * 4 + at) % 251) as f64));
            wanted.extend((0..3).map(|at| f64::from(u8::from((row * 3 + at) % 2 == 0))));
            wanted.extend([k, (row % 5) as f64, (row % 5) as f64, gap(row % 4 == 1, (row % 3) as f64)]);
            wanted.push(gap(row % 7 == 3, (row % 4) as f64 * 2.5));
            let mut of_fields = Vec::new();
            for (field, width) in found.iter().zip([3, 2, 4, 3, 1, 1, 1, 1, 1]) {
                of_fields.extend_from_slice(&field[row * width..(row + 1) * width]);
            }
            let mine = &matrix[0][row * 17..(row + 1) * 17];
            for (at, wanted) in wanted.iter().enumerate() {
                let same = |found: f64| found == *wanted || found.is_nan() && wanted.is_nan();
                assert!(same(mine[at]), "{name}, row {row}, number {at}: {}, not {wanted}", mine[at]);
                // The view is a whole number there: 0 where it is missing.
                assert!(same(of_fields[at]) || at == 15 && of_fields[at] == 0.0, "{name}, row {row}, number {at}");
            }
        }
    }
}

#[test]
fn dictionaries_that_grow_or_are_replaced_belong_to_their_batches() {
    for name in ["grows.arrows", "replaced.arrows"] {
        let source = common::open_one(&fixture(name));
        let request = Request { conversions: text(&["k"], false), separate: true, ..Request::default() };
        let (found, _) = common::read_all(&*source, &request, BadRows::Fail).unwrap();
        assert_eq!(found[0].len(), 600);
        assert_eq!(found[0], found[1], "{name}");
        assert_eq!(found[0].iter().copied().fold(0.0, f64::max), 4.0);
    }
}

#[test]
fn files_of_polars_are_read() {
    for name in ["polars.arrow", "polars_zstd.arrow", "polars.arrows"] {
        let source = common::open_one(&fixture(name));
        let mut conversions = text(&["text", "category"], false);
        conversions.extend(text(&["long"], true));
        let request = Request { conversions, ..Request::default() };
        let (found, _) = common::read_all(&*source, &request, BadRows::Fail).unwrap();
        assert_eq!(found[0].len(), 600 * 7, "{name}");
        for (row, found) in found[0].chunks(7).enumerate() {
            let long = if row % 4 == 1 { f64::NAN } else { (row % 3) as f64 };
            let (k, text) = (row as f64, (row % 5) as f64);
            let wanted = [k, text, long, k * 0.5, text, k, k * 2.0];
            let same = |(found, wanted): (&f64, &f64)| found == wanted || found.is_nan() && wanted.is_nan();
            assert!(found.iter().zip(&wanted).all(same), "{name}, row {row}: {found:?}, not {wanted:?}");
        }
    }
}

#[test]
fn several_files_are_one_source_and_others_are_refused() {
    let error = common::check_several([&fixture("none.feather"), &fixture("stream.arrows"), &fixture("lists.arrow")]);
    assert!(
        error.contains("lists.arrow: has column 'point' where ") && error.contains("none.feather has 'f64'"),
        "{error}"
    );
}

#[test]
fn what_is_not_compressed_takes_little_memory() {
    let source = common::open_one(&fixture("none.feather"));
    let layout = brimful_data::layout::Layout::new(source.columns(), &Request::default()).unwrap();
    let (bytes, reason) = source.reader_bytes(&layout);
    assert!(bytes < 1 << 20, "{bytes}");
    assert_eq!(reason, "pieces of columns, 256 KiB each");
    let source = common::open_one(&fixture("lz4.feather"));
    let (_, reason) = source.reader_bytes(&layout);
    assert!(reason.starts_with("record batch 0 of ") && reason.ends_with(" that is unpacked as a whole"), "{reason}");
}

#[test]
fn damaged_files_are_told_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let told = |bytes: &[u8]| common::told(&path, bytes);
    let whole = std::fs::read(fixture("none.feather")).unwrap();
    let end = whole.len();
    assert_eq!(told(b""), ": 0 bytes are too few for an Arrow file: it is cut or was never finished");
    assert_eq!(told(b"FEA1    "), ": is of the first version of Feather: write it again with the second");
    let strange = ": does not begin as an Arrow file or stream does: it is damaged or another format";
    assert_eq!(told(b"a,b,c\n1,2,3\n4,5,6\n"), strange);
    assert_eq!(told(&[0; 64]), strange);
    let cut = ": does not end as an Arrow file does: it is cut or was never finished";
    assert_eq!(told(&whole[..end / 2]), cut);
    assert_eq!(told(b"ARROW1\0\0ARROW1"), cut);
    let mut long = whole.clone();
    long[end - 10..end - 6].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(told(&long), format!(": its footer would have 4294967295 bytes, the file has {end}"));
    let mut garbage = whole.clone();
    let footer = u32::from_le_bytes(garbage[end - 10..end - 6].try_into().unwrap()) as usize;
    garbage[end - 10 - footer..end - 10].fill(0xff);
    assert_eq!(told(&garbage), ": its footer makes no sense: the file is damaged");
    let stream = std::fs::read(fixture("stream.arrows")).unwrap();
    let cut = told(&stream[..stream.len() - 20_000]);
    assert!(cut.starts_with(", message at byte "), "{cut}");
    assert!(cut.ends_with(": the file ends within it: it is cut or was never finished"), "{cut}");
    // The unpacked length of the first buffer that is packed with LZ4.
    let mut packed = std::fs::read(fixture("lz4.feather")).unwrap();
    let frame = packed.windows(4).position(|bytes| bytes == [0x04, 0x22, 0x4d, 0x18]).unwrap();
    packed[frame - 8..frame].copy_from_slice(&(1u64 << 50).to_le_bytes());
    let error = told(&packed);
    assert!(error.ends_with(" bytes that cannot unpack to 1125899906842624"), "{error}");
    packed[frame - 8..frame].copy_from_slice(&1u64.to_le_bytes());
    let error = told(&packed);
    assert!(error.contains(" has 1 bytes of values, too few for "), "{error}");
}

#[test]
fn random_damage_never_panics_and_never_takes_more_than_promised() {
    for name in
        ["lists.arrow", "lists_lz4.arrow", "polars_zstd.arrow", "polars.arrows", "grows.arrows"].iter().chain(&FILES)
    {
        common::fuzz(&fixture(name), name);
    }
}

#[test]
fn a_file_that_changed_is_not_read_on() {
    common::check_changed(&fixture("none.feather"));
}
