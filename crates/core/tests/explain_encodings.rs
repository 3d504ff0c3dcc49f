//! Logs that are not written in UTF-8, and files that are no logs.
//!
//! In: recorded logs as PowerShell's `>` writes them, and bytes of other kinds. Checked: that the answer is that of the same text, however it is cut;
//! and that what is no text is not explained.

use std::fs;
use std::path::Path;

use brimful_core::explain::{Explainer, Explanation, explain};

/// Explained in pieces of so many bytes.
fn in_pieces(log: &[u8], piece: usize) -> Explanation {
    let mut explainer = Explainer::new();
    log.chunks(piece).for_each(|piece| explainer.push(piece));
    explainer.finish()
}

fn wide(text: &str, big_endian: bool) -> Vec<u8> {
    let unit = |unit: u16| if big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() };
    text.encode_utf16().flat_map(unit).collect()
}

fn json(said: &Explanation) -> String {
    serde_json::to_string(said).expect("JSON")
}

#[test]
fn a_log_in_utf_16_says_what_it_says_in_utf_8() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/logs");
    for name in ["gpu_torch_optimizer", "tf_cnn_batch", "killed_bash", "not_memory_keyerror", "keras_jax_batch"] {
        let text = fs::read_to_string(folder.join(name).with_extension("log")).expect("a recorded log");
        let expected = json(&explain(text.as_bytes()));
        for big_endian in [false, true] {
            for mark in ["", "\u{feff}"] {
                let log = wide(&format!("{mark}{text}"), big_endian);
                assert_eq!(json(&explain(&log)), expected, "{name} {big_endian} {mark:?}");
                assert_eq!(json(&in_pieces(&log, 1021)), expected, "{name} {big_endian} {mark:?}");
            }
        }
    }
}

#[test]
fn a_long_log_in_utf_16_is_read_to_its_end() {
    let text = "step 17 loss 0.25 🚀\r\n".repeat(200_000) + "exit code 137\r\n";
    let said = in_pieces(&wide(&format!("\u{feff}{text}"), false), 8191);
    assert_eq!(said.evidence.first().map(|quote| quote.line), Some(200_001));
    assert!(said.found());
}

#[test]
fn what_is_no_text_is_not_explained() {
    let program = [&b"\x7fELF\x02\x01\x01\0\0\0"[..], b"malloc: out of memory\0Cannot allocate memory\0\n"].concat();
    let said = explain(&program);
    assert_eq!((said.resource, said.found(), said.evidence.len()), (None, false, 0));
    assert_eq!(said.no_text.map(|found| found.what), Some("a program"));
    assert!(said.missing[0].fact.contains("text"), "{:?}", said.missing);
    let gzip = explain(b"\x1f\x8b\x08\x08\x3a\xe3\xfc\x6a\0\x03pt1.log\0");
    assert!(gzip.no_text.is_some_and(|found| found.how.contains("zcat")), "{gzip:?}");
}

#[test]
fn stray_bytes_do_not_make_a_log_no_text() {
    let failure = b"\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\nexit code 137\n";
    // A file that was emptied while it was written to begins with zeros.
    for start in
        [&[0u8; 9000][..], b"step \0\x01\x02 1\n", b"\xe9t\xe9 1\n", &[0x80; 6000], b"\x1b[32mok\x1b[0m \x08\x08\r"]
    {
        let said = explain(&[start, failure].concat());
        assert!(said.resource.is_some() && said.no_text.is_none(), "{start:?}");
    }
    // Where a job writes both, what it said counts.
    let noise: Vec<u8> = (0..5000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let killed = b"\nsrun: error: c12: task 0: Killed\n";
    assert!(explain(&[&noise, &killed[..]].concat()).found());
    assert!(!explain(&noise).found() && explain(&noise).no_text.is_some());
}
