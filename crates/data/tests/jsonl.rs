//! JSON lines: what was written comes back, and what is wrong is said.

mod text;

use brimful_data::layout::{Conversion, DType, Kind, Layout, Request};
use brimful_data::plan::{BatchOptions, Plan};
use brimful_data::source::{BadRows, OpenOptions};
use proptest::prelude::*;
use text::{file, read, rows, sentence, source};

#[test]
fn objects_become_columns() {
    let text = concat!(
        "{\"i\": 1, \"f\": 1.5, \"b\": true, \"t\": \"x\", \"a\": [1, 2.5], \"m\": [[1, 2], [3, 4]], \"o\": {\"k\": 1}}\n",
        "\n",
        "{\"f\": NaN, \"i\": -2, \"b\": false, \"t\": \"\\u00e9\\n\", \"a\": [3, null], \"m\": [[5, 6], [7, 8]], \"gap\": 3}\r\n",
        "{\"i\": 9, \"f\": null, \"b\": true, \"t\": null, \"a\": null, \"m\": [[1, 1], [1, 1]], \"new\": [[[]]]}",
    );
    let (_folder, path) = file("t.jsonl", text.as_bytes());
    let source = source(&path, &OpenOptions::default()).unwrap();
    let columns: Vec<(String, Kind, Vec<usize>)> =
        source.columns().iter().map(|column| (column.name.clone(), column.kind, column.shape.clone())).collect();
    let number = |name: &str, dtype, shape: &[usize]| (name.to_owned(), Kind::Number(dtype), shape.to_vec());
    assert_eq!(
        columns,
        [
            number("i", DType::I64, &[]),
            number("f", DType::F64, &[]),
            number("b", DType::Bool, &[]),
            ("t".to_owned(), Kind::Text, vec![]),
            number("a", DType::F64, &[2]),
            number("m", DType::I64, &[2, 2]),
            number("gap", DType::F64, &[]),
        ]
    );
    let conversions = [("t".to_owned(), Conversion::Hash(100))].into();
    let (all, _) = rows(&*source, &Request { conversions, ..Request::default() }, BadRows::Fail, 2).unwrap();
    let hash = |text: &str| Conversion::Hash(100).number(text.as_bytes()).unwrap() as f64;
    assert_eq!(all[0][..10], [1.0, 1.5, 1.0, hash("x"), 1.0, 2.5, 1.0, 2.0, 3.0, 4.0]);
    assert!(all[0][10].is_nan());
    assert!(
        all[1][1].is_nan() && all[1][3] == hash("é\n") && all[1][4] == 3.0 && all[1][5].is_nan() && all[1][10] == 3.0
    );
    assert!(all[2][3] == hash("") && all[2][4].is_nan() && all[2][5].is_nan() && all[2][9] == 1.0);
}

#[test]
fn bad_rows_as_told() {
    let good = "{\"a\": 1, \"v\": [1, 2]}\n";
    let bad = [
        "{\"a\": 1, \"v\": [1, 2]", "[1, 2]", "{\"a\": \"x\", \"v\": [1, 2]}", "{\"a\": 2, \"v\": [1, 2, 3]}",
        "{\"a\": 1, \"a\": 2, \"v\": [1, 2]}", "{\"a\": {\"b\": 1}, \"v\": [1, 2]}", "{\"a\": 1, \"v\": [1, 2]} {}",
        "{\"v\": [1, \"2\"], \"a\": 7}", "{\"a\": true, \"v\": [1, 2]}",
    ];
    let text = good.repeat(1100) + &bad.join("\n") + "\n" + &good.repeat(300);
    let (_folder, path) = file("t.jsonl", text.as_bytes());
    let source = source(&path, &OpenOptions::default()).unwrap();
    let all = |bad_rows| rows(&*source, &Request::default(), bad_rows, 500);
    assert_eq!(
        sentence(all(BadRows::Fail)),
        "t.jsonl, line 1101: this is no JSON object: EOF while parsing an object at byte 21 of the line"
    );
    let (kept, report) = all(BadRows::Skip).unwrap();
    assert_eq!((kept.len(), report.bad_rows), (1400, 9));
    let told: Vec<String> = report.first_bad.iter().map(|bad| format!("{}: {}", bad.place, bad.reason)).collect();
    let fix = "correct it, give types={\"a\": …}, or say what to do with bad rows";
    let shape = "key 'v': no array of numbers of the shape that the others have (2)";
    assert_eq!(
        told[1..],
        [
            "line 1102: this is no JSON object: expected object but found array at byte 1 of the line".to_owned(),
            format!("line 1103: key 'a': text where the sample showed int64; {fix}"),
            format!("line 1104: {shape}"),
            "line 1105: the key 'a' comes twice".to_owned(),
            format!("line 1106: key 'a': an object where the sample showed int64; {fix}"),
            "line 1107: this is no JSON object: trailing characters at byte 23 of the line".to_owned(),
            format!("line 1108: {shape}"),
            format!("line 1109: key 'a': a truth value where the sample showed int64; {fix}"),
        ]
    );
    let (kept, report) = all(BadRows::Null).unwrap();
    assert_eq!((kept.len(), report.bad_rows), (1409, 9));
    assert!(kept[1101].iter().all(|value| value.is_nan()));
    assert!(kept[1103][0] == 2.0 && kept[1103][1].is_nan() && kept[1103][2].is_nan());
    assert!(kept[1107][0] == 7.0 && kept[1107][1].is_nan());
}

#[test]
fn hostile_lines() {
    let told = |bytes: &[u8]| sentence(read("t.jsonl", bytes));
    assert!(
        told(b"not json\n").starts_with("t.jsonl: there is no object on its first lines: "),
        "{}",
        told(b"not json\n")
    );
    assert!(told(b"").starts_with("t.jsonl: "), "{}", told(b""));
    // Deeper than the stack would like, and a number longer than any type.
    let deep = format!("{{\"a\": 1, \"x\": {}1{}}}\n", "[".repeat(100_000), "]".repeat(100_000));
    let text = "{\"a\": 1, \"x\": 2}\n".repeat(30_000) + &deep + &"{\"a\": 1, \"x\": 2}\n".repeat(30_000);
    assert!(
        told(text.as_bytes()).contains("line 30001: this is no JSON object: recursion limit exceeded")
            || told(text.as_bytes()).contains("line 30001: key 'x': an array"),
        "{}",
        told(text.as_bytes())
    );
    let huge = format!("{{\"a\": {}}}\n{{\"a\": 1e999}}\n{{\"a\": -1e-999}}\n", "9".repeat(4000));
    let all = read("t.jsonl", huge.as_bytes()).unwrap();
    assert_eq!(all, [[f64::INFINITY], [f64::INFINITY], [-0.0]].map(|row| row.to_vec()));
    let long = format!("{{\"a\": 1}}\n{{\"a\": {}}}\n", "9".repeat(100_000));
    assert!(told(long.as_bytes()).starts_with("t.jsonl, line 2: this is no JSON object: number out of range"));
}

#[test]
fn compressed_lines() {
    let text: String = (0..30_000).map(|row| format!("{{\"row\": {row}}}\n")).collect();
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    let all = read("t.jsonl.zst", &packed).unwrap();
    assert_eq!((all.len(), all[29_999][0]), (30_000, 29_999.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// As serde writes them, keys in any order, in any range of any unit.
    #[test]
    fn what_was_written_comes_back(
        table in prop::collection::vec((any::<i64>(), any::<f64>(), ".{0,9}", any::<bool>(), any::<bool>()), 1..30),
        copies in prop::sample::select(vec![1usize, 400]),
        piece in 1u64..3000,
    ) {
        let mut text = String::new();
        for _ in 0..copies {
            for (int, float, name, flag, swap) in &table {
                let name = serde_json::to_string(name).unwrap();
                let float = if float.is_finite() { format!("{float:?}") } else { "null".to_owned() };
                text += &match swap {
                    false => format!("{{\"i\":{int},\"f\":[{float},1],\"n\":{name},\"b\":{flag}}}\n"),
                    true => format!("{{ \"n\" : {name}, \"b\":{flag}, \"f\" : [ {float}, 1 ], \"i\":{int} }}\n"),
                };
            }
        }
        let (_folder, path) = file("t.jsonl", text.as_bytes());
        let source = source(&path, &OpenOptions::default()).unwrap();
        prop_assert_eq!(source.rows(), (table.len() * copies) as u64);
        let columns = ["i", "f", "n", "b"].map(str::to_owned).to_vec();
        let conversions = [("n".to_owned(), Conversion::Hash(1000))].into();
        let request = Request { columns: Some(columns), conversions, ..Request::default() };
        let (all, _) = rows(&*source, &request, BadRows::Fail, piece).unwrap();
        prop_assert_eq!(all.len(), table.len() * copies);
        for (row, (int, float, name, flag, _)) in all.iter().zip(table.iter().cycle()) {
            let hash = Conversion::Hash(1000).number(name.as_bytes()).unwrap() as f64;
            prop_assert!(row[1] == *float || (row[1].is_nan() && !float.is_finite()));
            prop_assert_eq!((row[0], row[2], row[3], row[4]), (*int as f64, 1.0, hash, f64::from(u8::from(*flag))));
        }
    }
}

/// Where the longest record is, whatever is before it in its unit.
#[test]
fn a_long_line_is_refused_with_its_place_and_what_to_do() {
    let long = format!("{{\"a\": 1, \"t\": \"{}\"}}\n", "x".repeat(3 << 20));
    let short = "{\"a\": 1}\n".repeat(40_000);
    let (_folder, path) = file("t.jsonl", [&short, "\n", &long, &short].concat().as_bytes());
    let lines = source(&path, &OpenOptions::default()).unwrap();
    assert_eq!(lines.rows(), 80_001);
    let layout = Layout::new(lines.columns(), &Request::default()).unwrap();
    let options = BatchOptions { memory_bytes: 4 << 20, ..BatchOptions::default() };
    assert_eq!(
        Plan::new(&*lines, &layout, &options).unwrap_err().to_string().replace(&path.display().to_string(), "t.jsonl"),
        "4.00 MiB is less than the 9.43 MiB that this needs at least: 9.42 MiB for reading (the record of 3.00 MiB at byte 360001 of \
         t.jsonl, line 40002, is read as a whole); give at least that much memory, or split that record or remove it from the file"
    );
}

/// Bytes of a good file changed at random: an error or rows, never a panic; and the rows are as many as were counted.
#[test]
fn changed_bytes_never_panic() {
    let good = b"{\"a\": 1, \"v\": [1.5, 2e3], \"t\": \"x\\u0041\", \"b\": true}\n".repeat(4);
    let odd = b"\"{}[],:\n\\u9e.-ntfN\0\xff";
    let mut random = brimful_data::order::Random::new(8, &[]);
    for _ in 0..2000 {
        let mut bytes = good.clone();
        for _ in 0..=random.below(5) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = odd[random.below(odd.len() as u64) as usize];
        }
        let (_folder, path) = file("t.jsonl", &bytes);
        let Ok(source) = source(&path, &OpenOptions::default()) else { continue };
        let text = source.columns().iter().filter(|column| column.kind == Kind::Text);
        let conversions = text.map(|column| (column.name.clone(), Conversion::Hash(9))).collect();
        let request = Request { conversions, ..Request::default() };
        let _ = rows(&*source, &request, BadRows::Fail, 2);
        let (kept, report) = rows(&*source, &request, BadRows::Skip, 2).unwrap();
        assert_eq!(kept.len() as u64 + report.bad_rows, source.rows());
        assert_eq!(rows(&*source, &request, BadRows::Null, 2).unwrap().0.len() as u64, source.rows());
    }
}
