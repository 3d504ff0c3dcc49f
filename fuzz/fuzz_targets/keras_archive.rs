//! Any bytes as a `.keras` archive: an answer or one sentence, never a panic, a hang or much memory.

#![no_main]

use brimful_import::{Options, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Most bytes are no archive: give each a start that is.
    let mut archive = b"PK\x03\x04".to_vec();
    archive.extend_from_slice(bytes.strip_prefix(b"PK\x03\x04").unwrap_or(bytes));
    if let Ok(document) = read(&archive) {
        let _ = document.model(&Options::default());
    }
});
