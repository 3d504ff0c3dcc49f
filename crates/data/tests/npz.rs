//! `.npz`: arrays of an archive as columns, stored or compressed; bombs, lies and objects refused.

mod arrays_support;

use std::io::Write;
use std::path::{Path, PathBuf};

use arrays_support::*;
use brimful_data::layout::{DType, Request};
use brimful_data::source::{Access, OpenOptions, Source};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/arrays").join(name)
}

fn archive(folder: &TempDir, name: &str, members: &[(&str, Vec<u8>)], method: CompressionMethod) -> PathBuf {
    let path = folder.path().join(name);
    let mut writer = ZipWriter::new(std::fs::File::create(&path).unwrap());
    for (name, bytes) in members {
        writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn keys(keys: &[&str]) -> OpenOptions {
    OpenOptions { keys: keys.iter().map(|key| (*key).to_owned()).collect(), ..OpenOptions::default() }
}

fn x_and_y(source: &dyn Source) -> (Vec<f64>, Vec<f64>) {
    let request = Request { labels: vec!["y".to_owned()], ..Request::default() };
    let layout = layout(source, &request);
    assert_eq!((layout.fields[0].dtype, layout.fields[1].dtype), (DType::F32, DType::I64));
    let (x, y) = (all_bytes(source, &layout, 0).unwrap(), all_bytes(source, &layout, 1).unwrap());
    check_parts(source, &layout, 0, &x, &mut Dice(1));
    check_parts(source, &layout, 1, &y, &mut Dice(2));
    (floats(&x, DType::F32), floats(&y, DType::I64))
}

#[test]
fn what_numpy_wrote_comes_back_stored_and_compressed() {
    let expected: Vec<f64> = (0..12).map(f64::from).collect();
    for name in ["stored.npz", "deflated.npz"] {
        let source = open(&[&fixture(name)]).unwrap();
        assert_eq!((source.rows(), source.access()), (4, Access::Rows));
        assert_eq!(x_and_y(&*source), (expected.clone(), vec![1.0, 0.0, 2.0, 1.0]));
    }
    let both = open(&[&fixture("stored.npz"), &fixture("deflated.npz")]).unwrap();
    assert_eq!(both.rows(), 8);
    assert_eq!(x_and_y(&*both).1, [1.0, 0.0, 2.0, 1.0, 1.0, 0.0, 2.0, 1.0]);
    let one = open_with(&[&fixture("mixed.npz")], &keys(&["x"])).unwrap();
    assert_eq!((one.columns().len(), one.rows()), (1, 4));
}

#[test]
fn what_numpy_wrote_as_npy_comes_back() {
    let source = open(&[&fixture("records.npy")]).unwrap();
    let names: Vec<&str> = source.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["größe", "id", "ok"]);
    let layout = layout(&*source, &Request::default());
    let all = all_bytes(&*source, &layout, 0).unwrap();
    assert_eq!(floats(&all, DType::F32), [1.5, 1.0, 2.0, 1.0, 2.5, 3.0, 4.0, 0.0]);
    let source = open(&[&fixture("columns.npy")]).unwrap();
    let layout = arrays_support::layout(&*source, &Request::default());
    let all = all_bytes(&*source, &layout, 0).unwrap();
    assert_eq!(floats(&all, DType::F64), (0..24).map(f64::from).collect::<Vec<_>>());
    assert!(refusal(&[&fixture("objects.npy")]).contains("pickled objects are never loaded"));
}

#[test]
fn large_members_in_any_part() {
    let folder = TempDir::new().unwrap();
    let x: Vec<u8> = (0..40_000 * 5).flat_map(|number| (number as f32).to_le_bytes()).collect();
    let y: Vec<u8> = (0..40_000i64).flat_map(i64::to_le_bytes).collect();
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let members =
            [("x.npy", npy("'<f4'", false, "(40000, 5)", &x)), ("y.npy", npy("'<i8'", false, "(40000,)", &y))];
        let path = archive(&folder, "a.npz", &members, method);
        let (got_x, got_y) = x_and_y(&*open(&[&path]).unwrap());
        assert!(got_x.iter().enumerate().all(|(index, value)| *value == index as f64));
        assert!(got_y.iter().enumerate().all(|(index, value)| *value == index as f64));
    }
}

#[test]
fn what_is_not_read_says_why() {
    let folder = TempDir::new().unwrap();
    let make = |members: &[(&str, Vec<u8>)]| archive(&folder, "a.npz", members, CompressionMethod::Deflated);
    let array = |rows: usize| npy("'<f4'", false, &format!("({rows},)"), &vec![0; rows * 4]);
    assert_eq!(
        refusal(&[&fixture("mixed.npz")]),
        "mixed.npz, array 'mean': the array is a single value without rows: save it with at least one axis"
    );
    assert_eq!(
        refusal_with(&[&fixture("mixed.npz")], &keys(&["names"])),
        "mixed.npz, array 'names': the array holds Python objects, and pickled objects are never loaded: save it as numbers \
         (`np.save(path, array.astype(np.float32))`)"
    );
    assert_eq!(
        refusal_with(&[&fixture("stored.npz")], &keys(&["z"])),
        "stored.npz: there is no array 'z'; there are x, y"
    );
    assert_eq!(
        refusal(&[&make(&[("x.npy", array(3)), ("y.npy", array(4))])]),
        "a.npz, array 'y': it has 4 rows, but 'x' has 3: choose arrays of one length (keys=)"
    );
    assert_eq!(refusal(&[&make(&[("x.txt", array(3))])]), "a.npz: the archive holds no array (no member ends in .npy)");
    assert_eq!(
        refusal(&[&make(&[("x.npy", npy("'<f4'", false, "(1000000000,)", &[0; 400]))])]),
        "a.npz, array 'x': 1000000000 rows of 4 bytes would be 3.73 GiB, but after the header there are only 400 B: the file is \
         cut off, write it again"
    );
    let other = archive(&folder, "b.npz", &[("z.npy", array(3))], CompressionMethod::Stored);
    let first = make(&[("x.npy", array(3))]);
    assert_eq!(refusal(&[&first, &other]), "b.npz, array 'x': the first file has this array, this one does not");
    let whole = std::fs::read(fixture("stored.npz")).unwrap();
    let cut = folder.path().join("cut.npz");
    std::fs::write(&cut, &whole[..whole.len() - 30]).unwrap();
    assert_eq!(
        refusal(&[&cut]),
        "cut.npz: this is not a whole .npz file: an archive ends with a directory, and there is none"
    );
    let nowhere = OpenOptions { scratch: Some(folder.path().join("none")), ..OpenOptions::default() };
    let error = refusal_with(&[&first], &nowhere);
    assert!(error.contains("compressed arrays cannot be unpacked here") && error.contains("scratch="), "{error}");
}

/// A member that claims more than deflate can make of its bytes, and one that unpacks to more than it claims.
#[test]
fn bombs_are_refused_before_or_while_they_unpack() {
    let folder = TempDir::new().unwrap();
    let zeros = npy("'<f4'", false, "(2000000,)", &vec![0; 8_000_000]);
    let path = archive(&folder, "a.npz", &[("x.npy", zeros)], CompressionMethod::Deflated);
    assert_eq!(open(&[&path]).unwrap().rows(), 2_000_000, "dense, but honest");
    let honest = std::fs::read(&path).unwrap();
    let size = 8_000_128u32.to_le_bytes();
    let claim = |bytes: u32| {
        let mut lie = honest.clone();
        let places: Vec<usize> = (0..lie.len() - 4).filter(|at| lie[*at..at + 4] == size).collect();
        assert!(!places.is_empty());
        for at in places {
            lie[at..at + 4].copy_from_slice(&bytes.to_le_bytes());
        }
        std::fs::write(&path, lie).unwrap();
        refusal(&[&path])
    };
    let huge = claim(4_000_000_000);
    assert!(
        huge.starts_with("a.npz, array 'x': its 7.")
            && huge.ends_with("KiB cannot unpack to the 3.73 GiB that it claims"),
        "{huge}"
    );
    let small = claim(4096);
    assert_eq!(
        small,
        "a.npz, array 'x': it cannot be unpacked: File is larger than its declared uncompressed size; the file is damaged"
    );
}

#[test]
fn flipped_bits_never_panic() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.npz");
    let mut dice = Dice(3);
    let mut read = 0;
    for name in ["stored.npz", "deflated.npz"] {
        let good = std::fs::read(fixture(name)).unwrap();
        for _ in 0..500 {
            let mut bytes = good.clone();
            for _ in 0..1 + dice.below(3) {
                let place = dice.below(bytes.len() as u64) as usize;
                bytes[place] = if dice.below(3) == 0 { 0xff } else { dice.next() as u8 };
            }
            if dice.below(8) == 0 {
                bytes.truncate(dice.below(bytes.len() as u64) as usize);
            }
            std::fs::write(&path, &bytes).unwrap();
            if let Ok(source) = open(&[&path]) {
                let layout = layout(&*source, &Request::default());
                if layout.row_bytes() < 1 << 20 && source.rows() < 10_000 {
                    all_bytes(&*source, &layout, 0).unwrap();
                    read += 1;
                }
            }
        }
    }
    assert!(read > 100, "only {read} files were read: the flips hit too much");
}
