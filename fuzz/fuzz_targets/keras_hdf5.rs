//! Any bytes as an HDF5 file: an answer or one sentence, never a panic, a hang or much memory.

#![no_main]

use brimful_import::{Options, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Most bytes are no such file: give each a start that is.
    let start = b"\x89HDF\r\n\x1a\n";
    let mut file = start.to_vec();
    file.extend_from_slice(bytes.strip_prefix(start).unwrap_or(bytes));
    if let Ok(document) = read(&file) {
        let _ = document.model(&Options::default());
    }
});
