//! Any bytes as a memory snapshot, read and analysed: an answer or one sentence, never a panic, a hang or much memory.

#![no_main]

use brimful_core::report::Style;
use brimful_core::snapshot::{Question, analyse};
use brimful_import::read_snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(snapshot) = read_snapshot(bytes) else { return };
    for limit_bytes in [None, Some(64 << 20)] {
        let report = analyse(&snapshot, &Question { limit_bytes });
        assert!(!report.to_text(Style { colour: false, width: 40 }).is_empty());
    }
});
