//! What `explain` says of a text, in short.
//!
//! A part of several tests, not a test of its own.

use brimful_core::explain::{Code, Explanation, explain};

pub fn said(log: &str) -> Explanation {
    explain(log.as_bytes())
}

pub fn cause(log: &str) -> Option<Code> {
    said(log).cause.map(|cause| cause.code)
}

/// Nothing ran out, and no cause of memory is named.
pub fn nothing(log: &str) -> bool {
    let said = said(log);
    said.resource.is_none() && said.cause.is_none_or(|cause| cause.code == Code::NotMemory)
}
