//! Tables as text: what was written comes back, and what is wrong is said.

mod text;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use brimful_data::layout::{Conversion, DType, Kind, Request};
use brimful_data::source::{BadRows, CsvOptions, OpenOptions};
use proptest::prelude::*;
use text::{file, read, rows, sentence, source};

fn csv(options: CsvOptions) -> OpenOptions {
    OpenOptions { csv: options, ..OpenOptions::default() }
}

#[test]
fn plain_tables() {
    let expected = vec![vec![1.0, 2.5], vec![3.0, -4e-3]];
    for text in [
        "a,b\n1,2.5\n3,-4e-3\n", "a,b\r\n1,2.5\r\n3,-4e-3\r\n", "a,b\n1,2.5\n3,-4e-3",
        "\u{feff}a,b\n\n1,2.5\n\r\n\n3,-4e-3\n\n", "a;b\n1;2.5\n3;-4e-3\n", "a\tb\n1\t2.5\n3\t-4e-3\r",
        "a|b\n 1 |\"2.5\"\n\"3\"| -4e-3\n", "1,2.5\n3,-4e-3\n",
    ] {
        assert_eq!(read("t.csv", text.as_bytes()).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn quotes_hold_delimiters_line_ends_and_quotes() {
    let text = "id,\"the \"\"name\"\"\",y\n1,\"a,\nb\",10\n2,5\" disk,20\n\n3,\"\",30\n4,\"x\"y\"z,40\n";
    let (_folder, path) = file("t.csv", text.as_bytes());
    let source = source(&path, &OpenOptions::default()).unwrap();
    assert_eq!(source.columns()[1].name, "the \"name\"");
    assert_eq!(source.columns()[1].kind, Kind::Text);
    assert_eq!(source.rows(), 4);
    let places = ["a,\nb", "5\" disk", "", "xy\"z"];
    let places: BTreeMap<Vec<u8>, i64> =
        places.iter().enumerate().map(|(place, text)| (text.as_bytes().to_vec(), place as i64)).collect();
    let conversions = [("the \"name\"".to_owned(), Conversion::Categories(Arc::new(places)))].into();
    let request = Request { conversions, ..Request::default() };
    for piece in [1, 3, 9] {
        let (all, _) = rows(&*source, &request, BadRows::Fail, piece).unwrap();
        assert_eq!(
            all,
            [[1.0, 0.0, 10.0], [2.0, 1.0, 20.0], [3.0, 2.0, 30.0], [4.0, 3.0, 40.0]].map(|row| row.to_vec())
        );
    }
}

#[test]
fn types_and_unknown_values() {
    let text = "i,f,b,t,gaps,none\n1,1.5,true,x,7,\n-2,NA,False,3,,NaN\n";
    let (_folder, path) = file("t.csv", text.as_bytes());
    let source = source(&path, &OpenOptions::default()).unwrap();
    let kinds: Vec<Kind> = source.columns().iter().map(|column| column.kind).collect();
    let number = Kind::Number;
    assert_eq!(
        kinds,
        [
            number(DType::I64),
            number(DType::F64),
            number(DType::Bool),
            Kind::Text,
            number(DType::F64),
            number(DType::F64)
        ]
    );
    let (all, _) = rows(&*source, &Request::default(), BadRows::Fail, 10).unwrap();
    assert_eq!(all[0][..4], [1.0, 1.5, 1.0, 7.0]);
    assert!(all[1][1].is_nan() && all[1][3].is_nan() && all[0][4].is_nan());
    assert_eq!(all[1][2], 0.0);
}

#[test]
fn names_are_found_or_made() {
    let names = |text: &str| {
        let (_folder, path) = file("t.csv", text.as_bytes());
        let source = source(&path, &OpenOptions::default()).unwrap();
        (source.columns().iter().map(|column| column.name.clone()).collect::<Vec<_>>().join(" "), source.rows())
    };
    assert_eq!(names("a,a,,b\n1,2,3,4\n"), ("a a.1 unnamed_2 b".to_owned(), 1));
    assert_eq!(names("a,a.1,a,a\n1,2,3,4\n"), ("a a.1 a.2 a.3".to_owned(), 1));
    assert_eq!(names("1,2\n3,4\n"), ("c0 c1".to_owned(), 2));
    assert_eq!(names(",0,1,2\n0,1.5,2,3\n"), ("unnamed_0 0 1 2".to_owned(), 1));
    assert_eq!(names("0,1,2\n5,6,7\n"), ("0 1 2".to_owned(), 1));
    assert_eq!(names("x\n"), ("x".to_owned(), 0));
    let long = "x\n".repeat(100_000);
    assert_eq!(names(&format!("\"{long}\",y\n1,2\n")), (format!("{} y", long.trim_end()), 1));
}

#[test]
fn many_columns_of_one_name_are_no_trap() {
    // One number after the other for each of them would be 20 billion tries.
    let text = format!("{}\n{}\n", vec!["a"; 200_000].join(","), vec!["1"; 200_000].join(","));
    let (_folder, path) = file("t.csv", text.as_bytes());
    let source = source(&path, &OpenOptions::default()).unwrap();
    assert_eq!(source.columns().last().unwrap().name, "a.199999");
}

#[test]
fn bad_rows_as_told() {
    let text = "a,b\n1,2\n3\n4,5,6\n\n7,x\n\"8\n\",9\n10,\n";
    let (_folder, path) = file("t.csv", text.as_bytes());
    let types = vec![("a".to_owned(), "float64".to_owned()), ("b".to_owned(), "float64".to_owned())];
    let source = source(&path, &csv(CsvOptions { types, ..CsvOptions::default() })).unwrap();
    assert_eq!(source.rows(), 6);
    let all = |bad_rows| rows(&*source, &Request::default(), bad_rows, 4);
    assert_eq!(sentence(all(BadRows::Fail)), "t.csv, line 3: 1 field instead of 2");
    let (kept, report) = all(BadRows::Skip).unwrap();
    assert_eq!(kept[..2], [vec![1.0, 2.0], vec![8.0, 9.0]]);
    assert_eq!((kept.len(), report.bad_rows), (3, 3));
    let told: Vec<String> = report.first_bad.iter().map(|bad| format!("{}: {}", bad.place, bad.reason)).collect();
    assert_eq!(
        told,
        [
            "line 3: 1 field instead of 2",
            "line 4: 3 fields instead of 2",
            "line 6: 'x' in column 'b' is not float64; correct it, give another type, or say what to do with bad rows",
        ]
    );
    let (kept, report) = all(BadRows::Null).unwrap();
    assert_eq!((kept.len(), report.bad_rows), (6, 3));
    assert!(kept[1][0] == 3.0 && kept[1][1].is_nan() && kept[2] == [4.0, 5.0] && kept[3][0] == 7.0);
    assert!(kept[3][1].is_nan());
}

#[test]
fn a_late_surprise_is_said_with_its_fix() {
    let mut text = String::from("a,b\n");
    for row in 0..300_000 {
        text += if row == 40_000 {
            "x7,1\n"
        } else if row == 41_000 {
            "8.5,1\n"
        } else {
            "7,1\n"
        };
    }
    let (_folder, path) = file("t.csv", text.as_bytes());
    let source = source(&path, &OpenOptions::default()).unwrap();
    assert_eq!(source.columns()[0].kind, Kind::Number(DType::I64));
    assert_eq!(source.rows(), 300_000);
    let failed = rows(&*source, &Request::default(), BadRows::Fail, 100_000);
    let fix = "the sample showed none such: correct it, give types={\"a\": \"text\"}, or say what to do with bad rows";
    assert_eq!(sentence(failed), format!("t.csv, line 40002: 'x7' in column 'a' is not int64; {fix}"));
    let (all, report) = rows(&*source, &Request::default(), BadRows::Skip, 100_000).unwrap();
    assert_eq!((all.len(), report.bad_rows), (299_999, 1));
    assert_eq!(all.iter().filter(|row| row[0] == 8.5).count(), 1, "floats are welcome where floats are asked for");
}

#[test]
fn hostile_files() {
    let told = |bytes: &[u8]| sentence(read("t.csv", bytes));
    assert_eq!(told(b""), "t.csv: it is empty: there is not even a line with names");
    assert_eq!(told(b"\n\r\n\n"), "t.csv: it is empty: there is not even a line with names");
    let utf16: Vec<u8> = "a,b\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(told(&utf16), "t.csv: this is UTF-16 text: convert it first, with iconv -f UTF-16 -t UTF-8");
    let long = [&vec![b'x'; 5 << 20][..], b",y\n1,2\n"].concat();
    assert_eq!(told(&long), "t.csv: its first line is longer than 4 MiB: this is no table with a record per line");
    assert!(told(b"a,b\r1,2\r3,4\r").starts_with("t.csv: its lines end in carriage returns alone"));
    let unclosed = "the quote that opens here is never closed: close it, or remove it";
    assert_eq!(told(b"a,b\n1,2\n\n3,\"4\n5,6\n"), format!("t.csv, line 4: {unclosed}"));
    assert_eq!(told(b"\"a,b\n1,2\n"), format!("t.csv, line 1: {unclosed}"));
    assert!(
        sentence(read("t.csv.gz", &b"a,b\n1,2\n".repeat(9)))
            .starts_with("t.csv.gz: it cannot be unpacked: invalid gzip header")
    );
}

#[test]
fn many_files_with_the_same_columns() {
    let (folder, path) = file("t.1.csv", b"a,b\n1,2\n");
    std::fs::write(folder.path().join("t.2.csv"), b"").unwrap();
    std::fs::write(folder.path().join("t.3.csv"), b"a,b\n3,4\n5,6").unwrap();
    let pattern = folder.path().join("*.csv").display().to_string();
    let source = brimful_data::source::open(std::slice::from_ref(&pattern), &OpenOptions::default()).unwrap();
    assert_eq!((source.units(), source.rows()), (2, 3));
    let (all, _) = rows(&*source, &Request::default(), BadRows::Fail, 10).unwrap();
    assert_eq!(all, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]].map(|row| row.to_vec()));
    std::fs::write(&path, b"a,b\n1,2\n9,9\n").unwrap();
    let failed = rows(&*source, &Request::default(), BadRows::Fail, 10);
    assert_eq!(sentence(failed), "t.1.csv: it was changed after it was opened: open it again");
    std::fs::write(folder.path().join("t.4.csv"), b"a,c\n3,4\n").unwrap();
    let opened = brimful_data::source::open(&[pattern], &OpenOptions::default());
    assert_eq!(
        sentence(opened.map(|_| ())),
        "t.4.csv, line 1: its columns are not those of the first file: 'c' instead of 'b'"
    );
}

#[test]
fn compressed_tables() {
    let text: String = (0..50_000).map(|row| format!("{row},{}\n", row * 2)).collect();
    let text = format!("a,b\n{text}");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    let zst = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for (name, bytes) in [("t.csv.gz", &gz), ("t.csv.zst", &zst)] {
        let all = read(name, bytes).unwrap();
        assert_eq!((all.len(), &all[49_999]), (50_000, &vec![49_999.0, 99_998.0]));
        let cut = sentence(read(name, &bytes[..bytes.len() / 2]));
        assert!(cut.starts_with(&format!("{name}: it cannot be unpacked: ")), "{cut}");
    }
    let (_folder, path) = file("t.csv.gz", &gz);
    let scratch = Some(path.with_file_name("nowhere"));
    let failed = source(&path, &OpenOptions { scratch, ..OpenOptions::default() });
    let told = failed.err().expect("no such folder").to_string();
    assert!(told.contains("/nowhere: compressed files cannot be unpacked here: No such file"), "{told}");
}

#[test]
fn a_few_bytes_that_unpack_to_terabytes_are_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let block = vec![b'1'; 1 << 20];
    for _ in 0..1100 {
        encoder.write_all(&block).unwrap();
    }
    let packed = encoder.finish().unwrap();
    let told = sentence(read("t.csv.zst", &packed));
    assert!(told.contains("unpack to more than 1.00 GiB: no table is that dense"), "{told}");
}

/// One record far longer than a unit: it is found without being held, and its bytes are promised.
#[test]
fn a_long_line_is_promised_not_held() {
    let mut text = b"a,b\n1,2\n".to_vec();
    text.extend(std::iter::repeat_n(b'7', 6 << 20));
    text.extend_from_slice(b",2\n3,4\n");
    let (_folder, path) = file("t.csv", &text);
    let types = vec![("a".to_owned(), "float64".to_owned())];
    let source = source(&path, &csv(CsvOptions { types, ..CsvOptions::default() })).unwrap();
    assert_eq!(source.rows(), 3);
    let layout = brimful_data::layout::Layout::new(source.columns(), &Request::default()).unwrap();
    let (bytes, what) = source.reader_bytes(&layout);
    assert!(bytes > 6 << 20, "{bytes}");
    assert!(what.contains("6.00 MiB"), "{what}");
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i32>().prop_map(|value| value.to_string()),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|value| value.to_string()),
        "[a-z\", \n\r]{0,12}",
    ]
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Numbers and text of every kind, in any range of any unit, with any number of repetitions: what was written comes back.
    #[test]
    fn what_was_written_comes_back(
        table in prop::collection::vec((any::<f64>(), field(), any::<i64>()), 1..40),
        copies in prop::sample::select(vec![1usize, 700]),
        crlf in any::<bool>(),
        piece in 1u64..5000,
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = format!("x,text,y{end}");
        for _ in 0..copies {
            for (x, field, y) in &table {
                let x = if x.is_finite() { x.to_string() } else { String::new() };
                text += &format!("{x},{},{y}{end}", quoted(field));
            }
        }
        let (_folder, path) = file("t.csv", text.as_bytes());
        let types = [("x", "float64"), ("text", "text"), ("y", "int64")];
        let types = types.map(|(name, of)| (name.to_owned(), of.to_owned())).to_vec();
        let source = source(&path, &csv(CsvOptions { types, header: Some(true), ..CsvOptions::default() })).unwrap();
        prop_assert_eq!(source.rows(), (table.len() * copies) as u64);
        let conversions = [("text".to_owned(), Conversion::Hash(1000))].into();
        let request = Request { conversions, ..Request::default() };
        let (all, _) = rows(&*source, &request, BadRows::Fail, piece).unwrap();
        for (row, (x, field, y)) in all.iter().zip(table.iter().cycle()) {
            prop_assert!(row[0] == *x || (row[0].is_nan() && !x.is_finite()));
            prop_assert_eq!(row[1], Conversion::Hash(1000).number(field.as_bytes()).unwrap() as f64);
            prop_assert_eq!(row[2], *y as f64);
        }
        prop_assert_eq!(all.len(), table.len() * copies);
    }
}

/// Bytes of a good file changed at random: an error or rows, never a panic; and the rows are as many as were counted.
#[test]
fn changed_bytes_never_panic() {
    let good = b"a,b,\"c\"\n1,2.5,\"x\"\"y\"\n-3,,\"multi\nline\"\n4,1e5,z\r\n\n5,nan,\"\"\n".repeat(3);
    let odd = b"\",\n\r\0 ;\t|e.-9\xff";
    let mut random = brimful_data::order::Random::new(7, &[]);
    for _ in 0..2000 {
        let mut bytes = good.clone();
        for _ in 0..=random.below(6) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = odd[random.below(odd.len() as u64) as usize];
        }
        bytes.truncate(bytes.len() - random.below(20) as usize);
        let (_folder, path) = file("t.csv", &bytes);
        let Ok(source) = source(&path, &OpenOptions::default()) else { continue };
        let conversions = source.columns().iter().filter(|column| column.kind == Kind::Text);
        let conversions = conversions.map(|column| (column.name.clone(), Conversion::Hash(9))).collect();
        let request = Request { conversions, ..Request::default() };
        for policy in [BadRows::Fail, BadRows::Skip, BadRows::Null] {
            let result = rows(&*source, &request, policy, 2);
            match (policy, result) {
                (BadRows::Fail, _) => {}
                (BadRows::Skip, result) => {
                    let (kept, report) = result.unwrap();
                    assert_eq!(kept.len() as u64 + report.bad_rows, source.rows());
                }
                (BadRows::Null, result) => assert_eq!(result.unwrap().0.len() as u64, source.rows()),
            }
        }
    }
}
