//! Rows in memory, whole sources read, files written by hand: what the tests of arrays and pictures share.
#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;

use brimful_data::DataError;
use brimful_data::budget::{Ledger, Purpose, SlabPool};
use brimful_data::layout::{DType, Layout, Request, Rows};
use brimful_data::source::{self, BadRows, OpenOptions, Source};

/// A random number generator that gives the same on every machine.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// Memory for rows.
pub fn memory(layout: &Arc<Layout>, capacity: usize) -> Rows {
    let bytes = layout.bytes(capacity).max(1);
    let pool = SlabPool::new(&Ledger::new(bytes as u64), Purpose::Window, bytes, 1);
    Rows::new(pool.try_take().unwrap().unwrap(), layout.clone(), capacity)
}

pub fn open(paths: &[&Path]) -> Result<Arc<dyn Source>, DataError> {
    open_with(paths, &OpenOptions::default())
}

pub fn open_with(paths: &[&Path], options: &OpenOptions) -> Result<Arc<dyn Source>, DataError> {
    let given: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    source::open(&given, options)
}

/// The error's sentence, with the folder's name left out.
pub fn refusal(paths: &[&Path]) -> String {
    refusal_with(paths, &OpenOptions::default())
}

pub fn refusal_with(paths: &[&Path], options: &OpenOptions) -> String {
    let error = open_with(paths, options).err().expect("must be refused").to_string();
    error.replace(&format!("{}/", paths[0].parent().unwrap().display()), "")
}

pub fn layout(source: &dyn Source, request: &Request) -> Arc<Layout> {
    Arc::new(Layout::new(source.columns(), request).unwrap())
}

/// A field of all rows, unit by unit, as bytes.
pub fn all_bytes(source: &dyn Source, layout: &Arc<Layout>, field: usize) -> Result<Vec<u8>, DataError> {
    let mut reader = source.reader(layout, BadRows::Fail)?;
    let mut all = Vec::new();
    let mut rows = 0;
    for unit in 0..source.units() {
        let count = source.unit_rows(unit);
        let mut memory = memory(layout, count as usize);
        reader.read(unit, 0..count, &mut memory)?;
        assert_eq!(memory.len() as u64, count);
        all.extend_from_slice(&memory.field(field)[..count as usize * layout.fields[field].row_bytes()]);
        rows += count;
    }
    assert_eq!(rows, source.rows());
    Ok(all)
}

/// Numbers as bytes of a type as float64.
pub fn floats(bytes: &[u8], dtype: DType) -> Vec<f64> {
    let mut to = vec![0; bytes.len() / dtype.bytes() * 8];
    brimful_data::layout::convert(bytes, dtype, false, &mut to, DType::F64);
    to.chunks_exact(8).map(|bytes| f64::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

/// Random parts of units, and random single rows, must be what the whole was.
pub fn check_parts(source: &dyn Source, layout: &Arc<Layout>, field: usize, whole: &[u8], dice: &mut Dice) {
    let row_bytes = layout.fields[field].row_bytes();
    let row = |row: u64| &whole[row as usize * row_bytes..(row as usize + 1) * row_bytes];
    let mut reader = source.reader(layout, BadRows::Fail).unwrap();
    let mut first_rows = vec![0];
    for unit in 0..source.units() {
        first_rows.push(first_rows[unit] + source.unit_rows(unit));
    }
    for _ in 0..20 {
        let unit = dice.below(source.units() as u64) as usize;
        let first = dice.below(source.unit_rows(unit));
        let last = first + 1 + dice.below(source.unit_rows(unit) - first);
        let mut memory = memory(layout, (last - first) as usize + 3);
        reader.read(unit, first..last, &mut memory).unwrap();
        for (place, number) in (first..last).enumerate() {
            let got = &memory.field(field)[place * row_bytes..(place + 1) * row_bytes];
            assert_eq!(got, row(first_rows[unit] + number), "unit {unit}, row {number}");
        }
    }
    if source.access() == source::Access::Rows {
        let count = 1 + dice.below(300.min(source.rows()));
        let mut chosen: Vec<(u64, u32)> = (0..count).map(|place| (dice.below(source.rows()), place as u32)).collect();
        chosen.sort_unstable();
        let mut memory = memory(layout, count as usize);
        reader.read_rows(&chosen, &mut memory).unwrap();
        assert_eq!(memory.len(), chosen.len());
        for (number, place) in chosen {
            let place = place as usize;
            assert_eq!(&memory.field(field)[place * row_bytes..(place + 1) * row_bytes], row(number), "row {number}");
        }
    }
}

/// A `.npy` file of version 1, as NumPy writes it.
pub fn npy(descr: &str, by_columns: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if by_columns { "True" } else { "False" };
    let mut header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// A JPEG that says how it must be turned.
pub fn with_exif(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let exif = [&b"Exif\0\0"[..], &tiff(orientation)].concat();
    let length = (exif.len() as u16 + 2).to_be_bytes();
    [&jpeg[..2], &[0xff, 0xe1], &length, &exif, &jpeg[2..]].concat()
}

/// The same of a PNG: a chunk behind the first one, which says how large it is.
pub fn with_exif_chunk(png: &[u8], orientation: u8) -> Vec<u8> {
    let (tiff, first) = (tiff(orientation), 8 + 12 + 13);
    let named = [&b"eXIf"[..], &tiff].concat();
    let mut checksum = flate2::Crc::new();
    checksum.update(&named);
    let (length, checksum) = ((tiff.len() as u32).to_be_bytes(), checksum.sum().to_be_bytes());
    [&png[..first], &length, &named, &checksum, &png[first..]].concat()
}

/// Of one tag: orientation, a number of two bytes, one of them.
fn tiff(orientation: u8) -> Vec<u8> {
    [&b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"[..], &[orientation], &[0; 6]].concat()
}
