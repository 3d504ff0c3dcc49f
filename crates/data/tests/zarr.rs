//! Zarr: what zarr-python wrote comes back, whatever packed it; damaged chunks and wild claims are sentences.

mod arrays_support;

use std::path::{Path, PathBuf};

use arrays_support::*;
use brimful_data::layout::{DType, Request};
use brimful_data::source::{BadRows, OpenOptions};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/zarr").join(name)
}

fn value(index: usize) -> f64 {
    ((index * index) % 251) as f64 - 7.0
}

fn keys(keys: &[&str]) -> OpenOptions {
    OpenOptions { keys: keys.iter().map(|key| (*key).to_owned()).collect(), ..OpenOptions::default() }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &to)
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn every_packing_of_zarr_python_is_read() {
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(fixture("")).unwrap() {
        names.push(entry.unwrap().file_name().into_string().unwrap());
    }
    names.retain(|name| {
        name.ends_with(".zarr") && !["group", "holes", "sharded", "bz2"].iter().any(|no| name.contains(no))
    });
    assert_eq!(names.len(), 23, "{names:?}");
    for name in names {
        let source = open(&[&fixture(&name)]).unwrap();
        assert_eq!(source.rows(), 200, "{name}");
        for dtype in [DType::I32, DType::F32] {
            let layout = layout(&*source, &Request { dtype: Some(dtype), ..Request::default() });
            let all = all_bytes(&*source, &layout, 0).unwrap();
            let right = floats(&all, dtype).iter().enumerate().all(|(index, got)| *got == value(index));
            assert!(right, "{name}");
            check_parts(&*source, &layout, 0, &all, &mut Dice(1));
        }
    }
}

#[test]
fn what_is_not_there_is_the_fill_value() {
    let source = open(&[&fixture("v3-sharded.zarr")]).unwrap();
    let layout = layout(&*source, &Request::default());
    let all = all_bytes(&*source, &layout, 0).unwrap();
    let expected = |index: usize| if index < 400 { value(index) } else { 9.0 };
    assert!(floats(&all, DType::I32).iter().enumerate().all(|(index, got)| *got == expected(index)));
    check_parts(&*source, &layout, 0, &all, &mut Dice(2));
    let source = open(&[&fixture("v3-holes.zarr")]).unwrap();
    let layout = arrays_support::layout(&*source, &Request::default());
    let all = floats(&all_bytes(&*source, &layout, 0).unwrap(), DType::F32);
    let right = |(index, got): (usize, &f64)| {
        if (200..400).contains(&index) { *got == value(index) } else { got.is_nan() }
    };
    assert!(all.iter().enumerate().all(right));
}

#[test]
fn the_arrays_of_a_group_are_columns() {
    for name in ["v2-group.zarr", "v3-group.zarr"] {
        let source = open_with(&[&fixture(name), &fixture(name)], &keys(&["x", "y"])).unwrap();
        assert_eq!(source.rows(), 400);
        let layout = layout(&*source, &Request { labels: vec!["y".to_owned()], ..Request::default() });
        let (x, y) = (all_bytes(&*source, &layout, 0).unwrap(), all_bytes(&*source, &layout, 1).unwrap());
        check_parts(&*source, &layout, 1, &y, &mut Dice(3));
        let (x, y) = (floats(&x, DType::I32), floats(&y, DType::I64));
        assert!((0..400).all(|row| y[row] == x[row * 4] && y[row] == value(row % 200 * 4)));
        // All in one matrix: each column is a part of a row.
        let together = arrays_support::layout(&*source, &Request { dtype: Some(DType::F64), ..Request::default() });
        let all = floats(&all_bytes(&*source, &together, 0).unwrap(), DType::F64);
        assert!((0..400).all(|row| all[row * 5..row * 5 + 4] == x[row * 4..row * 4 + 4] && all[row * 5 + 4] == y[row]));
    }
    assert_eq!(
        refusal(&[&fixture("v3-group.zarr")]),
        "v3-group.zarr/x: it has 200 rows, but 'mean' has 4: choose arrays of one length (keys=)"
    );
    assert_eq!(
        refusal_with(&[&fixture("v3-group.zarr")], &keys(&["../v2-raw.zarr"])),
        "v3-group.zarr: there is no array '../v2-raw.zarr'; there are mean, x, y"
    );
}

#[test]
fn what_is_not_read_says_why() {
    let folder = TempDir::new().unwrap();
    assert_eq!(
        refusal(&[&fixture("v2-bz2.zarr")]),
        "v2-bz2.zarr/.zarray: the codec 'bz2' is not read: write the array again with zstd (in Python: \
         `zarr.create_array(new, data=old[:], compressors=zarr.codecs.ZstdCodec())`)"
    );
    let plain = std::fs::read_to_string(fixture("v2-raw.zarr/.zarray")).unwrap();
    let plain: serde_json::Value = serde_json::from_str(&plain).unwrap();
    let path = folder.path().join("a.zarr");
    std::fs::create_dir(&path).unwrap();
    assert_eq!(refusal(&[&path]), "a.zarr: there is no Zarr array in this folder (.zarray or zarr.json)");
    let say = |change: &[(&str, serde_json::Value)]| {
        let mut json = plain.clone();
        for (key, value) in change {
            json[*key] = value.clone();
        }
        std::fs::write(path.join(".zarray"), json.to_string()).unwrap();
        refusal(&[&path])
    };
    let start = "a.zarr/.zarray: ";
    for (key, value, expected) in [
        (
            "order",
            serde_json::json!("F"),
            "it is stored by columns (order F), which is not read: write it again with order='C'",
        ),
        ("shape", serde_json::json!([200]), "chunks of [128, 3] do not fit the shape [200]"),
        ("shape", serde_json::json!([-1, 4]), "its shape is no list of whole numbers"),
        ("chunks", serde_json::json!([0, 3]), "chunks of [0, 3] do not fit the shape [200, 4]"),
        (
            "shape",
            serde_json::json!([u64::MAX, u64::MAX]),
            "the shape [18446744073709551615, 18446744073709551615] in chunks of [128, 3] is too large",
        ),
        ("fill_value", serde_json::json!("many"), "the fill_value \"many\" is not a number of type int32"),
    ] {
        assert_eq!(say(&[(key, value)]), format!("{start}{expected}"));
    }
    assert!(say(&[("dtype", serde_json::json!("|O"))]).contains("pickled objects are never loaded"));
    std::fs::write(path.join(".zarray"), "{\"a\": ").unwrap();
    assert!(refusal(&[&path]).starts_with("a.zarr/.zarray: it is not the JSON that it should be: EOF"));
}

/// What a chunk claims does not make memory grow: the plan knows what a reader takes from the description alone.
#[test]
fn huge_chunks_are_told_before_they_are_read() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.zarr");
    copy_folder(&fixture("v2-zstd.zarr"), &path);
    let mut json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path.join(".zarray")).unwrap()).unwrap();
    json["shape"] = serde_json::json!([1u64 << 40, 4]);
    json["chunks"] = serde_json::json!([1u64 << 40, 4]);
    std::fs::write(path.join(".zarray"), json.to_string()).unwrap();
    let source = open(&[&path]).unwrap();
    let (bytes, why) = source.reader_bytes(&layout(&*source, &Request::default()));
    assert!(bytes > 32 << 40, "{bytes}");
    assert!(why.starts_with("chunks of [1099511627776, 4] (16.0 TiB) of "), "{why}");
}

#[test]
fn damaged_chunks_never_panic_and_name_the_file() {
    let folder = TempDir::new().unwrap();
    let mut dice = Dice(5);
    let (mut failed, mut read) = (0, 0);
    let names =
        ["v2-blosc-blosclz-1", "v2-blosc-lz4-2", "v2-blosc-zstd-0", "v2-blosc-zlib-1", "v2-lz4", "v2-gzip", "v3-zstd"];
    for name in names.into_iter().chain(["v3-sharded", "v3-crc32c", "v3-crc32c-zstd"]) {
        let path = folder.path().join(format!("{name}.zarr"));
        copy_folder(&fixture(&format!("{name}.zarr")), &path);
        let chunk = ["0.0", "c/0/0"].map(|file| path.join(file)).into_iter().find(|file| file.exists()).unwrap();
        let good = std::fs::read(&chunk).unwrap();
        for _ in 0..150 {
            let mut bytes = good.clone();
            for _ in 0..1 + dice.below(3) {
                let end = if dice.below(2) == 0 { 40.min(bytes.len()) } else { bytes.len() };
                let place = dice.below(end as u64) as usize;
                bytes[place] = dice.next() as u8;
            }
            if dice.below(6) == 0 {
                bytes.truncate(dice.below(bytes.len() as u64) as usize);
            }
            std::fs::write(&chunk, &bytes).unwrap();
            let source = open(&[&path]).unwrap();
            let layout = layout(&*source, &Request::default());
            match all_bytes(&*source, &layout, 0) {
                Ok(_) => read += 1,
                Err(error) => {
                    failed += 1;
                    assert!(error.to_string().starts_with(&format!("{}: ", chunk.display())), "{error}");
                }
            }
        }
    }
    assert!(failed > 500 && read > 50, "{failed} failed, {read} were read");
    // One of them in full.
    let path = folder.path().join("v3-crc32c.zarr");
    let source = open(&[&path]).unwrap();
    let mut memory = memory(&layout(&*source, &Request::default()), 200);
    std::fs::write(path.join("c/0/0"), vec![0; 96 * 16 + 4]).unwrap();
    let error = source.reader(memory.layout(), BadRows::Fail).unwrap().read(0, 0..10, &mut memory).unwrap_err();
    let expected = "c/0/0: this chunk cannot be read: its checksum (crc32c) does not fit its bytes";
    assert!(error.to_string().ends_with(expected), "{error}");
}

/// Descriptions with values exchanged at random.
#[test]
fn wild_descriptions_never_panic() {
    let folder = TempDir::new().unwrap();
    let mut dice = Dice(6);
    for name in ["v2-raw", "v3-sharded"] {
        let path = folder.path().join(format!("{name}.zarr"));
        copy_folder(&fixture(&format!("{name}.zarr")), &path);
        let file = ["zarr.json", ".zarray"].map(|file| path.join(file)).into_iter().find(|file| file.exists()).unwrap();
        let good = std::fs::read(&file).unwrap();
        for _ in 0..600 {
            let mut bytes = good.clone();
            for _ in 0..1 + dice.below(3) {
                let place = dice.below(bytes.len() as u64) as usize;
                let with: &[u8] =
                    [&b"0"[..], b"9", b"99999999", b"-", b"null", b"[", b"]", b"\"", b"1e9"][dice.below(9) as usize];
                bytes.splice(place..place + 1, with.iter().copied());
            }
            std::fs::write(&file, &bytes).unwrap();
            let Ok(source) = open(&[&path]) else { continue };
            let layout = layout(&*source, &Request::default());
            if source.reader_bytes(&layout).0 < 16 << 20 && source.rows() < 10_000 && layout.row_bytes() < 1 << 12 {
                drop(all_bytes(&*source, &layout, 0));
            }
        }
    }
}
