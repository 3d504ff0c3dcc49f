//! Pictures: what Pillow reads is what comes, in every usual form; folders by class; damaged ones are bad rows.

mod arrays_support;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use arrays_support::*;
use brimful_data::DataError;
use brimful_data::layout::{DType, Request};
use brimful_data::source::{Access, BadRows, FORMATS, OpenOptions, Stop};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/images").join(name)
}

fn sized(height: usize, width: usize) -> OpenOptions {
    OpenOptions { image_size: Some((height, width)), ..OpenOptions::default() }
}

const NAMES: [&str; 11] = [
    "cmyk.jpg", "full-colour.jpg", "grey.jpg", "grey.png", "grey16.png", "one-bit.png", "palette.png",
    "progressive.jpg", "rgb.jpg", "rgb.png", "rgba.png",
];

/// The bytes of an array of Pillow's.
fn pillow(name: &str) -> Vec<u8> {
    let source = open(&[&fixture(name)]).unwrap();
    all_bytes(&*source, &layout(&*source, &Request::default()), 0).unwrap()
}

fn image_request() -> Request {
    Request { columns: Some(vec!["image".to_owned()]), ..Request::default() }
}

#[test]
fn pictures_are_what_pillow_reads() {
    for name in NAMES {
        let source = open(&[&fixture(name)]).unwrap();
        assert_eq!((source.rows(), source.access()), (1, Access::Rows));
        assert_eq!(source.columns()[0].shape, [37, 53, 3]);
        let (got, expected) =
            (all_bytes(&*source, &layout(&*source, &image_request()), 0).unwrap(), pillow(&format!("{name}.rgb.npy")));
        // Decoders of JPEG may round differently, above all where colours have half the size.
        let most = if name.ends_with("png") { 0 } else { 12 };
        let differences = got.iter().zip(&expected).map(|(one, other)| one.abs_diff(*other));
        let (worst, sum) = differences.fold((0, 0u64), |(worst, sum), one| (one.max(worst), sum + u64::from(one)));
        assert!(got.len() == expected.len() && worst <= most, "{name}: {worst}");
        assert!(sum as f64 / got.len() as f64 <= 1.0, "{name}: {sum}");
    }
}

#[test]
fn pictures_become_the_size_that_is_asked_for() {
    let folder = TempDir::new().unwrap();
    for name in NAMES {
        std::fs::copy(fixture(name), folder.path().join(name)).unwrap();
    }
    let source = open_with(&[folder.path()], &sized(16, 20)).unwrap();
    let layout = layout(&*source, &image_request());
    let all = all_bytes(&*source, &layout, 0).unwrap();
    for (name, got) in NAMES.iter().zip(all.chunks_exact(16 * 20 * 3)) {
        let expected = pillow(&format!("{name}.small.npy"));
        let worst = got.iter().zip(&expected).map(|(one, other)| one.abs_diff(*other)).max().unwrap();
        assert!(worst <= 4, "{name}: {worst}");
    }
    check_parts(&*source, &layout, 0, &all, &mut Dice(1));
    let grey = OpenOptions { image_channels: Some(1), ..sized(16, 20) };
    let grey = open_with(&[folder.path()], &grey).unwrap();
    assert_eq!(grey.columns()[0].shape, [16, 20, 1]);
    let request = Request { dtype: Some(DType::F32), ..image_request() };
    let layout = arrays_support::layout(&*grey, &request);
    let all = floats(&all_bytes(&*grey, &layout, 0).unwrap(), DType::F32);
    let expected = pillow("grey.png.small.npy");
    for (name, got) in NAMES.iter().zip(all.chunks_exact(16 * 20)) {
        let differences =
            got.iter().zip(expected.chunks_exact(3)).map(|(one, other)| (one - f64::from(other[0])).abs());
        let mean = differences.sum::<f64>() / 320.0;
        let most = if *name == "one-bit.png" { 255.0 } else { 4.0 };
        assert!(mean <= most, "{name}: {mean}");
    }
}

#[test]
fn folders_are_classes_and_links_in_circles_end() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    for (class, names) in
        [("dog", &["b.png", "a.PNG"][..]), ("cat", &["z.png"]), ("empty", &[]), ("dog/more", &["c.png"])]
    {
        std::fs::create_dir_all(root.join(class)).unwrap();
        for name in names {
            std::fs::copy(fixture("grey.png"), root.join(class).join(name)).unwrap();
        }
    }
    std::fs::write(root.join("dog/notes.txt"), "no picture").unwrap();
    std::fs::write(root.join("README"), "no picture").unwrap();
    symlink(root, root.join("dog/round")).unwrap();
    symlink(root.join("nowhere.png"), root.join("cat/broken.png")).unwrap();
    symlink(root.join("cat/z.png"), root.join("cat/linked.png")).unwrap();
    let source = open(&[root]).unwrap();
    assert_eq!(source.classes(), ["cat", "dog"]);
    let request = Request { labels: vec!["label".to_owned()], ..Request::default() };
    let layout = layout(&*source, &request);
    let labels = all_bytes(&*source, &layout, 1).unwrap();
    assert_eq!(floats(&labels, DType::I64), [0.0, 0.0, 1.0, 1.0, 1.0]);
    check_parts(&*source, &layout, 1, &labels, &mut Dice(2));
    let before = source.fingerprint();
    assert_eq!(open(&[root]).unwrap().fingerprint(), before);
    std::fs::copy(fixture("rgb.png"), root.join("cat/new.png")).unwrap();
    assert_ne!(open(&[root]).unwrap().fingerprint(), before);

    std::fs::copy(fixture("rgb.png"), root.join("top.png")).unwrap();
    let expected = "cat: there are pictures in this folder, and some beside it without a class: give folders one by one, or move \
                    all pictures into folders by class";
    assert!(refusal(&[root]).ends_with(expected), "{}", refusal(&[root]));
    assert!(refusal(&[&root.join("empty")]).ends_with("empty: there is no picture in it (.jpg, .jpeg, .png)"));
}

/// The header of a PNG that claims any size.
fn claims(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = std::fs::read(fixture("rgb.png")).unwrap();
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    bytes
}

#[test]
fn damaged_pictures_are_bad_rows_with_their_names() {
    let folder = TempDir::new().unwrap();
    let put = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let whole = |name: &str| std::fs::read(fixture(name)).unwrap();
    put("a.png", &whole("rgb.png"));
    put("b.png", &whole("rgb.png")[..300]);
    put("c.jpg", &whole("rgb.jpg")[..whole("rgb.jpg").len() / 2]);
    put("d.jpg", b"");
    put("e.png", b"this is no picture at all, whatever it is called");
    put("f.png", &claims(60_000, 60_000));
    put("g.png", &claims(12_000, 12_000));
    put("h.png", &claims(0, 5));
    put("i.jpg", &whole("rgb.jpg"));
    let source = open_with(&[folder.path()], &sized(37, 53)).unwrap();
    assert_eq!(source.rows(), 9);
    let layout = layout(&*source, &Request { dtype: Some(DType::F32), ..image_request() });
    let reasons = [
        ("b.png", "the PNG cannot be decoded: "),
        ("c.jpg", "the JPEG cannot be decoded: "),
        ("d.jpg", "the file ends before the picture begins"),
        ("e.png", "it is neither JPEG nor PNG"),
        ("f.png", "it claims 60000 × 60000 pixels; more than 178956970 are not decoded"),
        ("g.png", "it claims 12000 × 12000 pixels, but the file has only "),
        ("h.png", "it claims 0 × 5 pixels, which is nothing"),
    ];
    for policy in [BadRows::Skip, BadRows::Null] {
        let mut reader = source.reader(&layout, policy).unwrap();
        let mut memory = memory(&layout, 9);
        let (mut rows, mut bad) = (0, Vec::new());
        for unit in 0..source.units() {
            let report = reader.read(unit, 0..source.unit_rows(unit), &mut memory).unwrap();
            rows += memory.len();
            bad.extend(report.first_bad);
        }
        assert_eq!(rows, if policy == BadRows::Skip { 2 } else { 9 });
        assert_eq!(bad.len(), reasons.len());
        for (bad, (name, reason)) in bad.iter().zip(reasons) {
            assert!(bad.file.ends_with(name) && bad.reason.starts_with(reason), "{bad:?}");
        }
    }
    let mut memory = memory(&layout, 2);
    let report = source.reader(&layout, BadRows::Null).unwrap().read_rows(&[(0, 1), (1, 0)], &mut memory).unwrap();
    assert_eq!(report.bad_rows, 1);
    let numbers = floats(&memory.field(0)[..2 * layout.row_bytes()], DType::F32);
    let (first, second) = numbers.split_at(37 * 53 * 3);
    assert!(first.iter().all(|number| number.is_nan()) && second.iter().all(|number| number.is_finite()));
    let error = all_bytes(&*source, &layout, 0).unwrap_err().to_string();
    assert!(error.contains("b.png: the PNG cannot be decoded"), "{error}");
}

#[test]
fn sizes_must_agree_where_none_is_asked_for() {
    let folder = TempDir::new().unwrap();
    std::fs::copy(fixture("rgb.png"), folder.path().join("a.png")).unwrap();
    std::fs::write(folder.path().join("b.png"), claims(53, 36)).unwrap();
    let source = open(&[folder.path()]).unwrap();
    let error = all_bytes(&*source, &layout(&*source, &image_request()), 0).unwrap_err().to_string();
    let expected = "b.png: it has 53 × 36 pixels, but the first picture has 53 × 37: give a size for all (image_size)";
    assert!(error.ends_with(expected), "{error}");
    let wrong = OpenOptions { image_channels: Some(4), ..OpenOptions::default() };
    assert_eq!(refusal_with(&[folder.path()], &wrong), "pictures have 1 or 3 channels, not 4");
    assert_eq!(refusal_with(&[folder.path()], &sized(0, 5)), "the sides of a picture must be from 1 to 16384 pixels");
}

#[test]
fn flipped_bits_never_panic() {
    let folder = TempDir::new().unwrap();
    let mut dice = Dice(4);
    let (mut good, mut bad) = (0, 0);
    for name in NAMES {
        let whole = std::fs::read(fixture(name)).unwrap();
        let path = folder.path().join(name);
        for _ in 0..100 {
            let mut bytes = whole.clone();
            for _ in 0..1 + dice.below(4) {
                let place = dice.below(bytes.len() as u64) as usize;
                bytes[place] = dice.next() as u8;
            }
            if dice.below(8) == 0 {
                bytes.truncate(dice.below(bytes.len() as u64) as usize);
            }
            std::fs::write(&path, &bytes).unwrap();
            let Ok(source) = open_with(&[&path], &sized(8, 8)) else {
                bad += 1;
                continue;
            };
            match all_bytes(&*source, &layout(&*source, &image_request()), 0) {
                Ok(_) => good += 1,
                Err(_) => bad += 1,
            }
        }
    }
    assert!(good > 100 && bad > 100, "{good} good, {bad} bad");
}

#[test]
fn pictures_stand_upright() {
    let folder = TempDir::new().unwrap();
    let jpeg = std::fs::read(fixture("rgb.jpg")).unwrap();
    let plain = pillow("rgb.jpg.rgb.npy");
    let (width, height) = (53, 37);
    // Where the first pixel goes, and the last one of the first row: row and column.
    let corners = [
        ((0, 0), (0, 52)),
        ((0, 52), (0, 0)),
        ((36, 52), (36, 0)),
        ((36, 0), (36, 52)),
        ((0, 0), (52, 0)),
        ((0, 36), (52, 36)),
        ((52, 36), (0, 36)),
        ((52, 0), (0, 0)),
    ];
    for (orientation, corners) in (1..=8).zip(corners) {
        let path = folder.path().join(format!("{orientation}.jpg"));
        std::fs::write(&path, with_exif(&jpeg, orientation)).unwrap();
        let source = open(&[&path]).unwrap();
        let turned = if orientation > 4 { (width, height) } else { (height, width) };
        assert_eq!(source.columns()[0].shape, [turned.0, turned.1, 3]);
        let note = "1 of the 1 pictures are turned upright, as their EXIF says";
        assert_eq!(source.notes(), if orientation == 1 { vec![] } else { vec![note.to_owned()] });
        let got = all_bytes(&*source, &layout(&*source, &image_request()), 0).unwrap();
        for (place, from) in [(corners.0, 0), (corners.1, width - 1)] {
            let at = (place.0 * turned.1 + place.1) * 3;
            let differ =
                got[at..at + 3].iter().zip(&plain[from * 3..from * 3 + 3]).map(|(one, other)| one.abs_diff(*other));
            assert!(differ.max().unwrap() <= 12, "{orientation}: {:?} at {place:?}", &got[at..at + 3]);
        }
    }
    // What makes no sense turns nothing, and refuses nothing.
    for damage in [2, 6, 10, 16, 18, 20, 27] {
        let mut bytes = with_exif(&jpeg, 6);
        bytes[4 + damage..8 + damage].fill(0xff);
        let path = folder.path().join("odd.jpg");
        std::fs::write(&path, bytes).unwrap();
        let source = open(&[&path]).unwrap();
        assert_eq!(source.columns()[0].shape, [37, 53, 3], "{damage}");
        all_bytes(&*source, &layout(&*source, &image_request()), 0).unwrap();
    }
}

#[test]
fn a_png_s_description_turns_it_too() {
    let folder = TempDir::new().unwrap();
    let png = std::fs::read(fixture("rgb.png")).unwrap();
    let plain = pillow("rgb.png.rgb.npy");
    let (width, height) = (53, 37);
    let pixel = |from: &[u8], across: usize, x: usize, y: usize| from[(y * across + x) * 3..][..3].to_vec();
    let path = folder.path().join("one.png");
    for orientation in [1, 3, 6, 8] {
        std::fs::write(&path, with_exif_chunk(&png, orientation)).unwrap();
        let source = open(&[&path]).unwrap();
        let across = if orientation > 4 { height } else { width };
        assert_eq!(source.columns()[0].shape, [width * height / across, across, 3]);
        let got = all_bytes(&*source, &layout(&*source, &image_request()), 0).unwrap();
        for (x, y) in [(0, 0), (52, 0), (0, 36), (17, 5)] {
            let (to_x, to_y) = match orientation {
                3 => (width - 1 - x, height - 1 - y),
                6 => (height - 1 - y, x),
                8 => (y, width - 1 - x),
                _ => (x, y),
            };
            assert_eq!(pixel(&got, across, to_x, to_y), pixel(&plain, width, x, y), "{orientation}: {x}, {y}");
        }
    }
    // What makes no sense turns nothing, and the decoder says whether it matters.
    for damage in [4, 8, 12, 16, 20] {
        let mut bytes = with_exif_chunk(&png, 6);
        bytes[33 + damage..37 + damage].fill(0xff);
        std::fs::write(&path, bytes).unwrap();
        let source = open(&[&path]).unwrap();
        assert_eq!(source.columns()[0].shape, [37, 53, 3], "{damage}");
    }
}

#[test]
fn whoever_wants_an_end_is_heard_while_files_are_looked_at() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.csv"), "a,b\n1,2\n").unwrap();
    std::fs::write(folder.path().join("a.jsonl"), "{\"a\": 1}\n").unwrap();
    let wanted = OpenOptions { stop: Stop::new(|| true), ..OpenOptions::default() };
    let pattern = folder.path().join("*.csv");
    assert!(matches!(open_with(&[&pattern], &wanted).err().unwrap(), DataError::Interrupted), "the pattern");
    for format in FORMATS {
        let path = match format.name {
            "csv" => folder.path().join("a.csv"),
            "jsonl" => folder.path().join("a.jsonl"),
            "parquet" => fixtures.join("fixtures/parquet/snappy.parquet"),
            "arrow" => fixtures.join("fixtures/ipc/none.feather"),
            "npy" => fixtures.join("data/arrays/columns.npy"),
            "npz" => fixtures.join("data/arrays/deflated.npz"),
            "zarr" => fixtures.join("data/zarr/v3-zstd.zarr"),
            _ => fixtures.join("data/images/large"),
        };
        let open = |stop| (format.open)(std::slice::from_ref(&path), &OpenOptions { stop, ..OpenOptions::default() });
        assert!(open(Stop::default()).is_ok(), "{}", format.name);
        let error = open(Stop::new(|| true)).err().unwrap();
        assert!(matches!(error, DataError::Interrupted), "{}: {error}", format.name);
    }
}
