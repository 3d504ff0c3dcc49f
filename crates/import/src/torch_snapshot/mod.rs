//! PyTorch's memory snapshots, as `torch.cuda.memory._dump_snapshot` writes them.
//!
//! In: the bytes of a pickle, which may come from anybody. Out: a [`Snapshot`], or an [`ImportError`]. The pickle is read as
//! data and never run. Memory stays within a few times the file's length; stacks that are shared in the file are looked at
//! once. Not read: annotations, compile contexts and metadata of users.
//!
//! A reader of its own, since crates that read pickles copy a shared value at each use, which makes a short file unfold
//! without end, or accept instructions that build objects.

mod frames;
mod layout;
mod opcodes;
mod pickle;
mod values;

use brimful_core::snapshot::Snapshot;

use crate::error::{ImportError, Result};
use values::Value;

/// The longest file that is read: positions in it are kept in 32 bits.
pub const MAX_SNAPSHOT_BYTES: u64 = u32::MAX as u64;

/// Whether a file that starts so is a pickle of protocol 2 or later. Python writes no other, unless asked.
pub fn is_pickle(start: &[u8]) -> bool {
    matches!(start, [opcodes::PROTO, 2..=opcodes::MAX_PROTOCOL, ..])
}

/// Reads a snapshot.
pub fn read_snapshot(bytes: &[u8]) -> Result<Snapshot> {
    if let Some(found) = foreign(bytes) {
        return Err(ImportError::NotASnapshot { found: found.to_owned() });
    }
    if bytes.len() as u64 > MAX_SNAPSHOT_BYTES {
        let limit = "4 GiB, the most that is read: record fewer events, with max_entries";
        return Err(ImportError::NotASnapshot { found: format!("a file of more than {limit}") });
    }
    let (values, top) = pickle::read(bytes)?;
    match top {
        Value::Container(id) => layout::snapshot(&values, id),
        _ => Err(ImportError::NotASnapshot { found: "a pickle of a single value".to_owned() }),
    }
}

/// What a file seems to be that is certainly not a pickle.
fn foreign(bytes: &[u8]) -> Option<&'static str> {
    let text_start = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    match bytes {
        [] => Some("an empty file"),
        [b'P', b'K', 3, 4, ..] => Some("a zip archive, such as torch.save writes"),
        [0x1f, 0x8b, ..] => Some("a gzip file: unpack it first"),
        [0x89, b'H', b'D', b'F', ..] => Some("an HDF5 file"),
        [b'v', b'e', b'r', b's', b'i', b'o', b'n', b' ', b'h', b't', b't', b'p', ..] => Some("a Git LFS pointer"),
        // The first line of a pickle of protocol 0 is never one of these.
        _ if matches!(text_start, Some(b'{' | b'<' | b'#')) => Some("a text file"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pickles_are_told_by_their_first_bytes() {
        assert!(is_pickle(b"\x80\x04\x95") && is_pickle(b"\x80\x02}q\x00.") && is_pickle(b"\x80\x05."));
        assert!(!is_pickle(b"\x80\x01") && !is_pickle(b"\x80") && !is_pickle(b"") && !is_pickle(b"PK\x03\x04"));
    }

    #[test]
    fn foreign_files_are_named() {
        for (bytes, found) in [
            (&b""[..], "an empty file"),
            (b"PK\x03\x04", "torch.save"),
            (b"\x1f\x8b\x08", "unpack it first"),
            (b" {\"class_name\": 1}", "a text file"),
            (b"version https://git-lfs", "Git LFS"),
            (b"\x80\x04K\x01.", "a single value"),
            (b"\x80\x04].", "a list that is not of segments"),
            (b"\x80\x04}.", "a dictionary without segments"),
        ] {
            let error = read_snapshot(bytes).unwrap_err().to_string();
            assert!(error.contains(found), "{error}");
        }
    }
}
