//! Any text as a model's JSON: an answer or one sentence, never a panic, a hang or much memory.

#![no_main]

use brimful_import::{Options, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(document) = read(bytes) {
        let mixed = Options { policy: Some("mixed_bfloat16".to_owned()), ..Options::default() };
        for options in [Options::default(), mixed] {
            if let Ok(model) = document.model(&options) {
                let _ = model.parameter_count();
            }
        }
    }
});
