//! Read the snapshots aloud: that is the test.

use super::super::samples;
use super::layout::{middle, plain_list, small_bar, wrap};
use super::*;
use crate::bytes::MIB;

fn at(width: usize) -> Style {
    Style { colour: false, width }
}

/// Painted text with the escapes made visible.
fn visible(text: &str) -> String {
    text.replace('\x1b', "^")
}

#[test]
fn fits() {
    insta::assert_snapshot!(samples::fits().to_text(at(80)));
}

#[test]
fn tight() {
    insta::assert_snapshot!(samples::tight().to_text(at(80)));
}

#[test]
fn does_not_fit_at_each_width() {
    for width in [40, 80, 120] {
        insta::assert_snapshot!(format!("does_not_fit_{width}"), samples::too_large().to_text(at(width)));
    }
}

#[test]
fn inference() {
    insta::assert_snapshot!(samples::inference().to_text(at(80)));
}

#[test]
fn no_limit() {
    insta::assert_snapshot!(samples::no_limit().to_text(at(80)));
}

#[test]
fn torch() {
    insta::assert_snapshot!(samples::torch().to_text(at(80)));
}

#[test]
fn batches_that_are_not_known_are_not_mentioned() {
    let mut report = samples::torch();
    report.max_batch = None;
    assert!(report.to_text(at(80)).contains("Not even a batch of one fits."));
    report.notes[0].code = BATCH_UNKNOWN.to_owned();
    assert!(!report.to_text(at(80)).contains("batch of one"));
}

#[test]
fn in_colour() {
    let text = samples::too_large().to_text(Style { colour: true, width: 80 });
    insta::assert_snapshot!(visible(&text));
}

#[test]
fn lines_keep_to_the_width() {
    let all = [
        samples::fits(),
        samples::tight(),
        samples::too_large(),
        samples::inference(),
        samples::no_limit(),
        samples::torch(),
    ];
    for report in &all {
        for width in 40..=200 {
            for line in report.to_text(at(width)).lines().filter(|line| !line.starts_with("    ")) {
                assert!(line.chars().count() <= width, "{width}: {line}");
                assert_eq!(line, line.trim_end(), "{width}");
            }
        }
    }
}

#[test]
fn extreme_reports_are_drawn_too() {
    let mut report = samples::too_large();
    for usable in [0, 1, MIB, u64::MAX] {
        report.device.usable_bytes = Some(usable);
        assert!(report.to_text(at(40)).contains('┃'));
    }
    report.breakdown = crate::report::Breakdown::default();
    report.peak.device_bytes = 0;
    report.layers.clear();
    report.device.usable_bytes = None;
    assert!(report.to_text(at(0)).contains("Needs 0 B"));
}

#[test]
fn a_near_miss_says_by_how_much() {
    let mut report = samples::too_large();
    report.device.usable_bytes = Some(report.peak.device_bytes - 5 * MIB);
    let text = report.to_text(at(120));
    assert!(
        text.starts_with("Does not fit: needs 21.3 GiB of 21.3 GiB usable on Tesla T4, 5.00 MiB too much."),
        "{text}"
    );
}

#[test]
fn names_from_files_cannot_write_to_the_terminal() {
    let mut report = samples::too_large();
    report.model.name = "\x1b[2Jgone".to_owned();
    report.layers[0].layer = "a\nb\x1b]0;title\x07".to_owned();
    report.notes[0].text = "x\x1b[31m".to_owned();
    assert!(!report.to_text(at(80)).contains('\x1b'));
}

#[test]
fn time_is_said_in_words() {
    let said: Vec<String> =
        [1.0, 1.01, 1.06, 1.31, 0.7, 2.0, f64::NAN].map(time).map(|words| words.replace(GLUE, " ")).to_vec();
    let expected = [
        "as fast", "as fast", "about 5 % slower", "about 30 % slower", "about 30 % faster", "about 2.0 times as long",
        "unknown time",
    ];
    assert_eq!(said, expected);
}

#[test]
fn words_wrap_and_paths_lose_their_middle() {
    assert_eq!(wrap("one two three", 7), ["one two", "three"]);
    assert_eq!(wrap("a-very-long-word b", 5), ["a-very-long-word", "b"]);
    assert_eq!(middle("encoder/block/conv", 9), "enco…conv");
    assert_eq!((middle("abc", 3), middle("abc", 0)), ("abc".to_owned(), "…".to_owned()));
    assert_eq!(plain_list(&["a", "b", "c"].map(str::to_owned)), "a, b and c");
    assert_eq!((small_bar(0, 8, 4), small_bar(1, 1000, 4), small_bar(8, 8, 2)), ("".into(), "▏".into(), "██".into()));
}
