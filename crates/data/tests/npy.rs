//! `.npy`: what NumPy wrote comes back in any type and any part; everything else is a sentence.

mod arrays_support;

use std::path::{Path, PathBuf};

use arrays_support::*;
use brimful_data::layout::{DType, Request};
use brimful_data::source::{Access, BadRows};
use brimful_data::write::npy::NpyWriter;
use tempfile::TempDir;

fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn f32s(count: usize) -> Vec<u8> {
    (0..count).flat_map(|number| (number as f32 * 0.5).to_le_bytes()).collect()
}

#[test]
fn a_matrix_comes_back_in_any_part_and_type() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "a.npy", &npy("'<f4'", false, "(5000, 89)", &f32s(5000 * 89)));
    let source = open(&[&path]).unwrap();
    assert_eq!((source.rows(), source.access()), (5000, Access::Rows));
    assert_eq!((source.columns()[0].name.as_str(), source.columns()[0].shape.as_slice()), ("x", &[89][..]));
    let mut dice = Dice(1);
    for dtype in DType::ALL {
        let layout = layout(&*source, &Request { dtype: Some(dtype), ..Request::default() });
        let whole = all_bytes(&*source, &layout, 0).unwrap();
        let expected = |index: usize| match dtype {
            DType::Bool => f64::from(u8::from(index > 0)),
            DType::U8 => (index as f64 * 0.5).floor().min(255.0),
            DType::I8 => (index as f64 * 0.5).floor().min(127.0),
            DType::U16 => (index as f64 * 0.5).floor().min(65535.0),
            DType::I16 => (index as f64 * 0.5).floor().min(32767.0),
            DType::F16 => half::f16::from_f64(index as f64 * 0.5).to_f64(),
            dtype if dtype.is_float() => index as f64 * 0.5,
            _ => (index as f64 * 0.5).floor(),
        };
        for (index, value) in floats(&whole, dtype).into_iter().enumerate() {
            assert_eq!(value, expected(index), "{dtype:?} {index}");
        }
        check_parts(&*source, &layout, 0, &whole, &mut dice);
    }
}

#[test]
fn several_files_lie_one_after_the_other_and_must_agree() {
    let folder = TempDir::new().unwrap();
    let all = f32s(70_000 * 3);
    let cut = [0, 1000 * 12, 1000 * 12, 60_000 * 12, all.len()];
    let mut paths = Vec::new();
    for (number, ends) in cut.windows(2).enumerate() {
        let data = &all[ends[0]..ends[1]];
        let shape = format!("({}, 3)", data.len() / 12);
        paths.push(file(&folder, &format!("{number}.npy"), &npy("'<f4'", false, &shape, data)));
    }
    let given: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let source = open(&given).unwrap();
    let layout = layout(&*source, &Request::default());
    assert!(all_bytes(&*source, &layout, 0).unwrap() == all);
    check_parts(&*source, &layout, 0, &all, &mut Dice(2));
    let other = file(&folder, "other.npy", &npy("'>f8'", false, "(1, 4)", &[0; 32]));
    assert_eq!(
        refusal(&[given[0], &other]),
        "other.npy: a row is big-endian float64 of shape [4] here, but float32 of shape [3] in the first file: files given \
         together must agree"
    );
}

#[test]
fn more_files_than_stay_open_are_read_too() {
    let folder = TempDir::new().unwrap();
    let one = |number: usize| file(&folder, &format!("{number:03}.npy"), &npy("'<f4'", false, "(2, 3)", &f32s(6)));
    let paths: Vec<PathBuf> = (0..100).map(one).collect();
    let given: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let source = open(&given).unwrap();
    let layout = layout(&*source, &Request::default());
    let whole = all_bytes(&*source, &layout, 0).unwrap();
    assert_eq!(whole, f32s(6).repeat(100));
    check_parts(&*source, &layout, 0, &whole, &mut Dice(3));
    std::fs::write(&paths[99], npy("'<f4'", false, "(3, 3)", &f32s(9))).unwrap();
    let error = all_bytes(&*source, &layout, 0).unwrap_err().to_string();
    assert!(error.ends_with("099.npy: the file has changed since it was opened: open it again"), "{error}");
}

#[test]
fn arrays_of_other_orders_and_records() {
    let folder = TempDir::new().unwrap();
    // By columns: element (row, j, k) of shape (4000, 2, 3).
    let value = |row: usize, j: usize, k: usize| (row * 6 + j * 3 + k) as f64;
    let mut data = Vec::new();
    for k in 0..3 {
        for j in 0..2 {
            data.extend((0..4000).flat_map(|row| value(row, j, k).to_be_bytes()));
        }
    }
    let path = file(&folder, "columns.npy", &npy("'>f8'", true, "(4000, 2, 3)", &data));
    let source = open(&[&path]).unwrap();
    assert_eq!(source.access(), Access::Units);
    let request = Request { dtype: Some(DType::F32), ..Request::default() };
    let whole = all_bytes(&*source, &layout(&*source, &request), 0).unwrap();
    assert!(floats(&whole, DType::F32).into_iter().enumerate().all(|(index, value)| value == index as f64));
    check_parts(&*source, &layout(&*source, &request), 0, &whole, &mut Dice(4));

    let mut records = Vec::new();
    for row in 0..3000u32 {
        records.extend((row as f32).to_le_bytes());
        records.extend([9, 9, 9]);
        records.extend(i64::from(row).to_be_bytes());
        records.extend((-i64::from(row)).to_be_bytes());
    }
    let descr = "[('a', '<f4'), ('', '|V3'), ('b', '>i8', (2,))]";
    let path = file(&folder, "records.npy", &npy(descr, false, "(3000,)", &records));
    let source = open(&[&path]).unwrap();
    let names: Vec<&str> = source.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let layout =
        layout(&*source, &Request { labels: vec!["a".to_owned()], dtype: Some(DType::F64), ..Request::default() });
    let (b, a) = (all_bytes(&*source, &layout, 0).unwrap(), all_bytes(&*source, &layout, 1).unwrap());
    let b = floats(&b, DType::F64);
    assert!((0..3000).all(|row| (b[row * 2], b[row * 2 + 1]) == (row as f64, -(row as f64))));
    check_parts(&*source, &layout, 1, &a, &mut Dice(5));
}

#[test]
fn rows_larger_than_the_buffer() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "large.npy", &npy("'<f4'", false, "(3, 200, 1000)", &f32s(3 * 200 * 1000)));
    let source = open(&[&path]).unwrap();
    let layout = layout(&*source, &Request { dtype: Some(DType::F64), ..Request::default() });
    let whole = all_bytes(&*source, &layout, 0).unwrap();
    assert!(floats(&whole, DType::F64).into_iter().enumerate().all(|(index, value)| value == index as f64 * 0.5));
    check_parts(&*source, &layout, 0, &whole, &mut Dice(6));
}

#[test]
fn what_is_not_read_says_why() {
    let folder = TempDir::new().unwrap();
    let say = |bytes: &[u8]| refusal(&[&file(&folder, "a.npy", bytes)]);
    let cases: [(Vec<u8>, &str); 14] = [
        (
            npy("'|O'", false, "(3,)", b"\x80\x04cos\nsystem\n"),
            "a.npy: the array holds Python objects, and pickled objects are never loaded: save it as numbers \
             (`np.save(path, array.astype(np.float32))`)",
        ),
        (
            npy("'<f4'", false, "()", &[0; 4]),
            "a.npy: the array is a single value without rows: save it with at least one axis",
        ),
        (
            npy("'<f4'", false, "(100, 3)", &[0; 40]),
            "a.npy: 100 rows of 12 bytes would be 1.17 KiB, but after the header there are only 40 B: the file is cut off, write \
             it again",
        ),
        (
            npy("'<f4'", false, "(9223372036854775807, 9223372036854775807)", &[]),
            "a.npy: the shape (9223372036854775807, 9223372036854775807) is too large",
        ),
        (
            npy("'<f4'", false, "(99999999999999999999,)", &[]),
            "a.npy: the header cannot be read: the number 99999999999999999999 is too large",
        ),
        (
            npy("'<f4'", false, "(1000000000000, 0)", &[]),
            "a.npy: a row of the shape (1000000000000, 0) holds no number",
        ),
        (
            npy("'<c8'", false, "(1,)", &[0; 8]),
            "a.npy: complex numbers (type '<c8') are not read: save `array.view(np.float32)` or float64",
        ),
        (
            npy("'<U3'", false, "(1,)", &[0; 12]),
            "a.npy: the array holds text (type '<U3'): save numbers, such as the places in a list of categories",
        ),
        (
            npy("__import__('os')", false, "(1,)", &[]),
            "a.npy: the header cannot be read: expected a value but found '_' at character 10",
        ),
        (npy(&"(".repeat(60000), false, "(1,)", &[]), "a.npy: the header cannot be read: values are nested too deeply"),
        (
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff{".to_vec(),
            "a.npy: the header claims 4294967295 bytes; more than 262144 are not read",
        ),
        (b"\x93NUMPY\x01\x00\x76\x00{".to_vec(), "a.npy: the file ends within its header: it is not a whole .npy file"),
        (b"PK\x03\x04 something".to_vec(), "a.npy: this is not a .npy file: it does not begin as NumPy's files do"),
        (
            npy("'<f4'", true, "(2, 5000)", &[0; 40000]),
            "a.npy: the array is stored by columns (fortran_order) with 5000 numbers in a row, which would need as many reads: \
             save it by rows (`np.save(path, np.ascontiguousarray(array))`)",
        ),
    ];
    for (bytes, expected) in cases {
        assert_eq!(say(&bytes), expected);
    }
    let inside = folder.path().join("folder.npy");
    std::fs::create_dir(&inside).unwrap();
    assert_eq!(refusal(&[&inside]), "folder.npy: this is a folder: give the files in it (such as folder/*.npy)");
}

#[test]
fn a_file_that_is_cut_while_it_is_read_says_where() {
    let folder = TempDir::new().unwrap();
    let path = file(&folder, "a.npy", &npy("'<f4'", false, "(50000, 3)", &f32s(150_000)));
    let source = open(&[&path]).unwrap();
    let layout = layout(&*source, &Request::default());
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(300_000).unwrap();
    let error = all_bytes(&*source, &layout, 0).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "a.npy, row 21845: the file ends here, but it had 600128 bytes when it was opened: it was cut meanwhile"
        ),
        "{error}"
    );
}

#[test]
fn flipped_bits_never_panic() {
    let folder = TempDir::new().unwrap();
    let good = npy("[('a', '<f4'), ('b', '>i8', (2,))]", false, "(30,)", &[7; 600]);
    let mut dice = Dice(7);
    let mut read = 0;
    for _ in 0..1000 {
        let mut bytes = good.clone();
        for _ in 0..1 + dice.below(4) {
            let end = if dice.below(2) == 0 { 128 } else { bytes.len() as u64 };
            let place = dice.below(end) as usize;
            bytes[place] =
                if dice.below(2) == 0 { dice.next() as u8 } else { b"(){}[]',0123456789<>|"[dice.below(21) as usize] };
        }
        if dice.below(8) == 0 {
            bytes.truncate(dice.below(bytes.len() as u64) as usize);
        }
        let path = file(&folder, "a.npy", &bytes);
        if let Ok(source) = open(&[&path]) {
            let layout = layout(&*source, &Request::default());
            if layout.row_bytes() < 1 << 20 && source.rows() < 10_000 {
                all_bytes(&*source, &layout, 0).unwrap();
                read += 1;
            }
        }
    }
    assert!(read > 100, "only {read} files were read: the flips hit too much");
}

#[test]
fn what_is_written_comes_back_and_nothing_half_written_stays() {
    let folder = TempDir::new().unwrap();
    let path = file(
        &folder,
        "a.npy",
        &npy("'<f8'", false, "(1000, 2, 3)", &(0..6000).flat_map(|n| f64::from(n).to_le_bytes()).collect::<Vec<u8>>()),
    );
    let source = open(&[&path]).unwrap();
    let layout = layout(&*source, &Request { dtype: Some(DType::F32), ..Request::default() });
    let mut reader = source.reader(&layout, BadRows::Fail).unwrap();
    let out = folder.path().join("out.npy");
    let mut writer = NpyWriter::create(&out, &layout.fields[0]).unwrap();
    for unit in 0..source.units() {
        let mut memory = memory(&layout, source.unit_rows(unit) as usize);
        reader.read(unit, 0..source.unit_rows(unit), &mut memory).unwrap();
        writer.append(&memory, 0).unwrap();
        assert!(!out.exists());
    }
    assert_eq!(writer.finish().unwrap(), 1000);
    let again = open(&[&out]).unwrap();
    assert_eq!(all_bytes(&*again, &layout, 0).unwrap(), all_bytes(&*source, &layout, 0).unwrap());
    assert_eq!(again.columns()[0].shape, [2, 3]);

    drop(NpyWriter::create(&folder.path().join("never.npy"), &layout.fields[0]).unwrap());
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["a.npy", "out.npy"]);
}
