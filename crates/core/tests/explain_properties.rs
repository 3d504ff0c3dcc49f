//! What holds for every log, whole or damaged: pieces, cuts, repetitions, other line ends, a prefix in front of each line.
//!
//! In: any bytes, and the recorded logs of `fixtures/logs`. Checked: no panic; the same answer for the same text, however it comes; quotes that
//! are in the log, on the line that they name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use brimful_core::explain::{Explainer, Explanation, causes, explain};
use brimful_core::report::Style;
use proptest::prelude::*;

/// Bytes scanned at a time: pieces and limits matter only in logs that are longer.
const STRETCH_BYTES: usize = 1 << 20;

/// Every recorded log with its name.
static LOGS: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/logs");
    let mut paths: Vec<PathBuf> = folder.read_dir().expect("fixtures").map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    assert!(paths.len() >= 180, "only {} logs", paths.len());
    let name = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
});

/// All their lines.
static LINES: LazyLock<Vec<&[u8]>> =
    LazyLock::new(|| LOGS.iter().flat_map(|(_, log)| log.split_inclusive(|&byte| byte == b'\n')).collect());

fn json(said: &Explanation) -> String {
    serde_json::to_string(said).unwrap()
}

fn cause(said: &Explanation) -> Option<&'static str> {
    said.cause.as_ref().map(|cause| causes::by_code(cause.code).name)
}

/// Explains, shows the answer in every form, and gives it.
fn shown(log: &[u8]) -> Explanation {
    let said = explain(log);
    for style in [Style { colour: false, width: 1 }, Style { colour: true, width: 80 }] {
        assert!(!said.to_text(style).is_empty());
    }
    assert!(json(&said).starts_with("{\"schema\":1,"));
    said
}

/// The same text in pieces of these lengths, again and again.
fn in_pieces(log: &[u8], lengths: &[usize]) -> Explanation {
    let (mut explainer, mut rest) = (Explainer::new(), log);
    for &length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (now, later) = rest.split_at(length.min(rest.len()));
        explainer.push(now);
        rest = later;
    }
    explainer.finish()
}

/// A text without what `explain` takes away before it quotes, and without what it turns into blanks.
fn plain(text: &str) -> String {
    let text = text.replace("\\u001b", "\u{1b}").replace("\\u001B", "\u{1b}").replace("\\x1b", "\u{1b}");
    let mut bare = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        bare.push_str(before);
        // `ESC [` goes on to a letter, `ESC ]` to a bell or the next escape; any other has one character.
        let end = match after.chars().next() {
            Some('[') => after[1..].find(|c: char| ('@'..='~').contains(&c)).map_or(after.len(), |at| at + 2),
            Some(']') => after.find(['\u{7}', '\u{1b}']).unwrap_or(after.len()),
            other => other.map_or(0, char::len_utf8),
        };
        rest = &after[end..];
    }
    bare.push_str(rest);
    let gone = |c: char| c.is_whitespace() || c.is_control() || "\\│┃║\u{fffd}\u{feff}\u{200b}".contains(c);
    bare.replace("\\n", " ").replace("\\t", " ").replace("\\r", " ").chars().filter(|&c| !gone(c)).collect()
}

/// Lines of a log that a terminal or a page made of one.
const BROKEN_INTO: usize = 8;

/// Asserts that what is quoted stands in the log, on that line; of a log that was broken into lines, that it begins there.
fn quotes_are_there(name: &str, log: &[u8]) {
    let said = explain(log);
    let lines: Vec<&[u8]> = log.split(|&byte| byte == b'\n').collect();
    for quote in said.evidence.iter().chain(&said.not_failures) {
        let number = usize::try_from(quote.line).unwrap();
        assert!((1..=lines.len()).contains(&number), "{name}: line {number} of {}", lines.len());
        let line = plain(&String::from_utf8_lossy(lines[number - 1]));
        let goes_on = if name.contains("wrapped") { BROKEN_INTO } else { 1 };
        let end = (number - 1 + goes_on).min(lines.len());
        let from_there = plain(&String::from_utf8_lossy(&lines[number - 1..end].concat()));
        let begins = from_there.find(&plain(&quote.text)).is_some_and(|at| at < line.len().max(1));
        assert!(begins, "{name}:{number}: {:?} is not in {line:?}", quote.text);
    }
}

#[test]
fn quotes_of_recorded_logs_are_there() {
    for (name, log) in LOGS.iter() {
        quotes_are_there(name, log);
    }
}

#[test]
fn line_ends_do_not_matter() {
    for (name, log) in LOGS.iter() {
        let text = String::from_utf8_lossy(log).replace("\r\n", "\n");
        let (lf, crlf) = (explain(text.as_bytes()), explain(text.replace('\n', "\r\n").as_bytes()));
        assert_eq!(json(&lf), json(&crlf), "{name}");
    }
}

/// Logs that say something else when they come again, and why.
const NOT_AGAIN: &[(&str, &str)] = &[("torch_leak", "what grew begins anew, and then it does not grow to the end")];

#[test]
fn a_log_that_comes_again_says_the_same() {
    let mut wrong = Vec::new();
    for (name, log) in LOGS.iter() {
        let once = explain(log);
        let again = explain(&log.repeat(3));
        let differs = cause(&again) != cause(&once) || again.resource != once.resource;
        if differs != NOT_AGAIN.iter().any(|(known, _)| known == name) {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "other than before, or listed without need: {wrong:?}");
}

#[test]
fn a_rank_in_front_of_each_line_changes_nothing() {
    let mut wrong = Vec::new();
    for (name, log) in LOGS.iter() {
        let text = String::from_utf8_lossy(log);
        if !text.contains("Traceback (most recent call last)") {
            continue;
        }
        let prefixed: String = text.split_inclusive('\n').map(|line| format!("[rank0]: {line}")).collect();
        let (plain, ranked) = (explain(log), explain(prefixed.as_bytes()));
        if cause(&plain) != cause(&ranked) {
            wrong.push(format!("{name}: {:?}, with a rank {:?}", cause(&plain), cause(&ranked)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Both ends of every log, cut where it hurts: in a line, in a character, in an escape.
#[test]
fn any_part_of_a_log_is_read() {
    for (index, (_, log)) in LOGS.iter().enumerate() {
        let cut = (log.len() * (7 * index % 100 + 1) / 101).min(log.len());
        shown(&log[..cut]);
        shown(&log[cut..]);
    }
}

/// One physical line that says the same thousands of times: a progress bar, a container's JSON, a text without breaks.
#[test]
fn long_lines_do_not_take_long() {
    for part in
        ["CUDA out of memory. Tried to allocate 1 MiB\r", "{\\n  File \\\"a.py\\\", line 1\\nout of memory", "Killed "]
    {
        // No clock: at this length, anything that takes the square of it does not come to an end.
        shown(part.repeat((2 << 20) / part.len()).as_bytes());
    }
}

/// A line of a recorded log, whole or cut anywhere.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let whole = any::<prop::sample::Index>().prop_map(|index| index.get(&LINES).to_vec());
    let cut = (any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(index, end)| {
        let line = *index.get(&LINES);
        line[..end.index(line.len() + 1)].to_vec()
    });
    prop_oneof![3 => whole, 1 => cut]
}

/// What stands in no log, or in one that is damaged.
fn odd() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::sample::select(vec![
        "\u{1b}[31m", "\u{1b}", "\u{1b}]8;;", "\r", "\n", "\0", "\\n", "{\"log\":\"", "[rank1]: ", "(Worker pid=3) ",
        "│ ", "\u{feff}", "shape[", "shape (", "99999999999999999999 GiB", "1e308 TiB", "-1 bytes", "NaN MiB",
        "Tried to allocate ", "Killed\n",
    ]);
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![2 => text.prop_map(|text| text.as_bytes().to_vec()), 1 => bytes]
}

/// Lines of many logs.
fn mixed() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(line(), 0..120).prop_map(|lines| lines.concat())
}

/// The same with what is damaged in between.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![3 => line(), 1 => odd()], 0..120).prop_map(|lines| lines.concat())
}

/// What fills long logs: nothing, figures, or the same failure with another figure each time; each with its number.
const FILLERS: [fn(usize) -> String; 5] = [
    |n| format!("step {n} loss 0.3312\n"),
    |n| format!("I0000 00:00:1.1 9 cuda.cc:1] memory usage {} MiB\n", 100 + n),
    |n| format!("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.00 MiB.\n"),
    |n| format!("{n:016x}"),
    |n| format!("epoch {n} like all others\r"),
];

/// Longer than what is scanned at once: lines that say something, far apart or close, and what fills the log between them.
fn long() -> impl Strategy<Value = Vec<u8>> {
    let part = (prop::sample::select(FILLERS.to_vec()), 0..STRETCH_BYTES, damaged());
    prop::collection::vec(part, 2..5).prop_map(|parts| {
        let mut log = Vec::new();
        for (filler, length, lines) in parts {
            let end = log.len() + length;
            for number in 0.. {
                if log.len() >= end {
                    break;
                }
                log.extend(filler(number).bytes());
            }
            log.extend(lines);
        }
        log
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read(log in prop::collection::vec(any::<u8>(), 0..4000)) {
        shown(&log);
    }

    #[test]
    fn any_mix_of_lines_is_read(log in damaged()) {
        shown(&log);
    }

    #[test]
    fn quotes_of_any_mix_are_there(log in mixed()) {
        quotes_are_there("mixed", &log);
    }
}

/// Lengths of pieces: bytes, what a pipe gives, and more than is scanned at once.
fn lengths() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1..100_usize, 1000..70_000_usize, STRETCH_BYTES..2 * STRETCH_BYTES], 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pieces_do_not_matter(log in damaged(), lengths in lengths()) {
        prop_assert_eq!(json(&explain(&log)), json(&in_pieces(&log, &lengths)));
    }

    #[test]

    fn pieces_of_long_logs_do_not_matter(log in long(), lengths in lengths()) {
        prop_assert_eq!(json(&explain(&log)), json(&in_pieces(&log, &lengths)));
    }
}
