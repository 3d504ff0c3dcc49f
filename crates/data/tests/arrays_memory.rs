//! What readers of arrays and pictures allocate stays below what they promise. What Zstandard allocates in C is not counted.

mod arrays_support;
mod counting;

use std::io::Write;
use std::path::Path;

use arrays_support::*;
use brimful_data::layout::{DType, Request};
use brimful_data::source::{Access, BadRows, OpenOptions};
use tempfile::TempDir;

/// Reads all in two ways; what the reader allocated at most.
fn check(path: &Path, options: &OpenOptions, dtype: DType) {
    let before_open = counting::start();
    let source = open_with(&[path], options).unwrap();
    let held = (counting::start() - before_open) as u64;
    assert!(held <= source.index_bytes() + 4096, "{}: holds {held}, says {}", path.display(), source.index_bytes());
    let layout = layout(&*source, &Request { dtype: Some(dtype), ..Request::default() });
    let most = (0..source.units()).map(|unit| source.unit_rows(unit)).max().unwrap();
    let mut memory = memory(&layout, most as usize);
    let chosen: Vec<(u64, u32)> = (0..most.min(source.rows() / 3)).map(|place| (place * 3, place as u32)).collect();
    let before = counting::start();
    let mut reader = source.reader(&layout, BadRows::Null).unwrap();
    for unit in 0..source.units() {
        let report = reader.read(unit, 0..source.unit_rows(unit), &mut memory).unwrap();
        assert_eq!(report.bad_rows, 0, "{:?}", report.first_bad);
    }
    if source.access() == Access::Rows {
        reader.read_rows(&chosen, &mut memory).unwrap();
    }
    let took = (counting::peak() - before) as u64;
    let (promised, why) = source.reader_bytes(&layout);
    assert!(took <= promised, "{}: took {took} of {promised} ({why})", path.display());
}

#[test]
fn readers_keep_their_promise() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let plain = OpenOptions::default();
    let array = npy("'<f8'", false, "(20000, 50)", &vec![1; 8_000_000]);
    let path = file("a.npy", &array);
    check(&path, &plain, DType::F32);
    check(&path, &plain, DType::F64);
    check(&file("large.npy", &npy("'<f8'", false, "(2, 500000)", &vec![1; 8_000_000])), &plain, DType::F32);
    check(&file("columns.npy", &npy("'<f8'", true, "(20000, 50)", &vec![1; 8_000_000])), &plain, DType::F32);

    let path = folder.path().join("a.npz");
    let mut writer = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    writer.start_file("x.npy", zip::write::SimpleFileOptions::default()).unwrap();
    writer.write_all(&array).unwrap();
    writer.finish().unwrap();
    check(&path, &plain, DType::F32);

    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let zarr = ["v2-blosc-lz4-1", "v2-blosc-zlib-2", "v2-gzip", "v2-raw", "v3-zstd", "v3-sharded", "v3-crc32c-zstd"];
    for name in zarr {
        check(&fixtures.join(format!("zarr/{name}.zarr")), &plain, DType::F32);
    }

    // Chunks of 4 MiB that hardly compress, and that compress to almost nothing.
    let mut dice = Dice(1);
    let noise: Vec<u8> = (0..4 << 20).map(|_| dice.next() as u8).collect();
    for (number, data) in [noise, vec![7; 4 << 20]].into_iter().enumerate() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&data).unwrap();
        // A frame of Blosc that stores its bytes as they are, and one of a single block, shuffled, by Zstandard.
        let header = |flags: u8, packed: usize| {
            let sizes = [data.len(), data.len(), packed].map(|size| (size as u32).to_le_bytes()).concat();
            [&[2, 1, flags, 4][..], &sizes].concat()
        };
        let stored = [header(2, 16 + data.len()), data.clone()].concat();
        let zstd = zstd::bulk::compress(&data, 1).unwrap();
        let length = (zstd.len() as u32).to_le_bytes();
        let shuffled =
            [header(0x91, 24 + zstd.len()), 20u32.to_le_bytes().to_vec(), length.to_vec(), zstd.clone()].concat();
        let packed = [("gzip", gzip.finish().unwrap()), ("zstd", zstd), ("blosc", stored), ("blosc", shuffled)];
        for (way, (codec, chunk)) in packed.into_iter().enumerate() {
            let path = folder.path().join(format!("{number}-{way}.zarr"));
            std::fs::create_dir(&path).unwrap();
            let meta = format!(
                "{{\"zarr_format\": 2, \"shape\": [8192, 128], \"chunks\": [8192, 128], \"dtype\": \"<i4\", \"order\": \"C\", \
                 \"filters\": null, \"fill_value\": 0, \"compressor\": {{\"id\": \"{codec}\"}}}}"
            );
            std::fs::write(path.join(".zarray"), meta).unwrap();
            std::fs::write(path.join("0.0"), chunk).unwrap();
            check(&path, &plain, DType::F32);
        }
    }

    let pictures = folder.path().join("pictures");
    std::fs::create_dir(&pictures).unwrap();
    for name in ["large.jpg", "large-progressive.jpg", "large.png", "large-interlaced.png"] {
        std::fs::copy(fixtures.join("images/large").join(name), pictures.join(name)).unwrap();
        let one = pictures.join(name);
        for channels in [1, 3] {
            let own = OpenOptions { image_channels: Some(channels), ..OpenOptions::default() };
            check(&one, &own, DType::U8);
            check(&one, &OpenOptions { image_size: Some((64, 64)), ..own.clone() }, DType::F32);
            check(&one, &OpenOptions { image_size: Some((1500, 1500)), ..own }, DType::U8);
        }
    }
    // The same, lying on their sides.
    for name in ["large.jpg", "large-progressive.jpg"] {
        let lying = pictures.join(format!("lying-{name}"));
        std::fs::write(&lying, with_exif(&std::fs::read(pictures.join(name)).unwrap(), 6)).unwrap();
        for channels in [1, 3] {
            let own = OpenOptions { image_channels: Some(channels), ..OpenOptions::default() };
            check(&lying, &own, DType::U8);
            check(&lying, &OpenOptions { image_size: Some((64, 64)), ..own }, DType::F32);
        }
    }
    check(&pictures, &OpenOptions { image_size: Some((224, 224)), ..OpenOptions::default() }, DType::U8);
}
