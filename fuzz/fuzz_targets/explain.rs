//! Any bytes as a job's log, whole and in pieces: an answer that can be shown, never a panic, a hang or much memory.

#![no_main]

use brimful_core::explain::{Explainer, explain};
use brimful_core::report::Style;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = explain(bytes);
    assert!(!whole.to_text(Style { colour: true, width: 40 }).is_empty());
    let mut explainer = Explainer::new();
    // Lengths that no line has.
    bytes.chunks(97).for_each(|piece| explainer.push(piece));
    let pieces = explainer.finish();
    let style = Style { colour: false, width: 80 };
    assert_eq!(whole.to_text(style), pieces.to_text(style));
});
