//! What opening and reading text really holds. A test program of its own: the figure is that of the whole process.

#![cfg(target_os = "linux")]

mod text;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use brimful_data::layout::{Layout, Request};
use brimful_data::source::{BadRows, CsvOptions, OpenOptions};
use text::{memory, source};

/// The most that this process ever held.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

const MIB: u64 = 1 << 20;

/// Reads a file from its beginning to its end: its rows, and the bytes that were promised for it.
fn read_all(path: &Path) -> (u64, u64) {
    let table = source(path, &OpenOptions::default()).unwrap();
    let layout = Arc::new(Layout::new(table.columns(), &Request::default()).unwrap());
    let (promised, _) = table.reader_bytes(&layout);
    let most = (0..table.units()).map(|unit| table.unit_rows(unit)).max().unwrap() as usize;
    let mut rows = memory(&layout, most);
    let mut reader = table.reader(&layout, BadRows::Fail).unwrap();
    let mut sum = 0.0;
    for unit in 0..table.units() {
        reader.read(unit, 0..table.unit_rows(unit), &mut rows).unwrap();
        sum += f64::from(rows.numbers_mut::<f32>(0)[0]);
    }
    assert!(sum > 0.0);
    (table.rows(), promised + table.index_bytes() + layout.bytes(most) as u64)
}

/// 100 MB of usual lines, read in their promise; then a line of 200 MB, found and promised without being held.
#[test]
fn no_more_than_was_promised() {
    let folder = tempfile::tempdir().unwrap();
    let usual = folder.path().join("usual.csv");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&usual).unwrap());
    writeln!(file, "a,b,c,name").unwrap();
    for row in 0..2_500_000 {
        writeln!(file, "{row},{},{},\"name, of {row}\"", row * 7 % 1000, row as f64 / 7.0).unwrap();
    }
    drop(file);
    assert!(std::fs::metadata(&usual).unwrap().len() > 100 * MIB);
    // The program's own code is part of the figure, as it is needed for the first time: a few lines need it first.
    let few = folder.path().join("few.csv");
    std::fs::write(&few, "a,b,c,name\n1,2,3.5,\"name, of 1\"\n").unwrap();
    read_all(&few);
    let before = peak_bytes();
    let (rows, counted) = read_all(&usual);
    assert_eq!(rows, 2_500_000);
    let held = peak_bytes() - before;
    assert!(held < counted + 2 * MIB, "{held} bytes held, {counted} counted");

    let long = folder.path().join("long.csv");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&long).unwrap());
    writeln!(file, "a,b\n1,2").unwrap();
    for _ in 0..200 {
        file.write_all(&[b'x'; 1 << 20]).unwrap();
    }
    writeln!(file, ",4\n5,6").unwrap();
    drop(file);
    let before = peak_bytes();
    let types = vec![("a".to_owned(), "float64".to_owned())];
    let options = OpenOptions { csv: CsvOptions { types, ..CsvOptions::default() }, ..OpenOptions::default() };
    let table = source(&long, &options).unwrap();
    assert_eq!(table.rows(), 3);
    let layout = Arc::new(Layout::new(table.columns(), &Request::default()).unwrap());
    let (promised, why) = table.reader_bytes(&layout);
    assert!(promised > 200 * MIB, "{why}");
    assert_eq!(why, format!("the record of 200 MiB at byte 8 of {}, line 3, is read as a whole", long.display()));
    assert!(peak_bytes() - before < 2 * MIB);
}
