//! Small files of the kernel, read in few calls, and the shapes of text in them.
//!
//! In: a path. Out: its text, or a number out of it. Reading stops at a bound: a fixture or a strange mount cannot fill the
//! memory. Not handled: files of which one read gives only a part that later changes.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::Answer;

/// Most files have less than this: one read, and one that finds the end.
const USUAL_BYTES: usize = 4096;
/// No file that is read here is longer; `mountinfo` of a machine with thousands of containers comes nearest.
const MOST_BYTES: usize = 4 << 20;

/// A whole file, bytes that are not text replaced.
pub fn text(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut bytes, mut filled) = (vec![0; USUAL_BYTES], 0);
    loop {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if filled == bytes.len() {
            if filled >= MOST_BYTES {
                break;
            }
            bytes.resize(filled * 2, 0);
        }
    }
    bytes.truncate(filled);
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// A file that the kernel writes as one piece, such as `/proc/PID/stat`: a read that does not fill the buffer has found its end. Half the calls of
/// [`text`]; not for lists such as `mountinfo`, whose reads may end between two lines.
pub fn piece(path: &Path) -> io::Result<String> {
    let mut bytes = [0; USUAL_BYTES];
    match File::open(path)?.read(&mut bytes) {
        Ok(count) if count < bytes.len() => Ok(String::from_utf8_lossy(&bytes[..count]).into_owned()),
        _ => text(path),
    }
}

/// A whole file, if it can be read.
pub fn text_if_any(path: &Path) -> Option<String> {
    text(path).ok()
}

/// A file that has one number.
pub fn number(path: &Path) -> Option<u64> {
    piece(path).ok()?.trim().parse().ok()
}

/// A file of a process, which may vanish while it is read, or be kept from us.
pub fn of_process(path: &Path) -> Answer<String> {
    match piece(path) {
        Ok(text) if text.is_empty() => Answer::Gone,
        Ok(text) => Answer::Known(text),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Answer::Hidden,
        Err(_) => Answer::Gone,
    }
}

/// The number after a name and a space: `memory.stat`, `memory.events`.
pub fn named(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The size after a name and a colon, in units of 1024 bytes that the kernel calls kB: `/proc/meminfo`, `status`, `smaps_rollup`.
pub fn named_kib_as_bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_whole_name() {
        assert_eq!(named("anon_thp 5\nanon 7\n", "anon"), Some(7));
        assert_eq!(named("anon x\n", "anon"), None);
        assert_eq!(named_kib_as_bytes("PssX: 1 kB\nPss:     3 kB\n", "Pss"), Some(3072));
        assert_eq!(named_kib_as_bytes("Pss: 99999999999999999999 kB", "Pss"), None);
        assert_eq!(named_kib_as_bytes("Pss: 18446744073709551615 kB", "Pss"), None);
    }

    #[test]
    fn long_files_and_strange_bytes_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = vec![b'x'; 3 * USUAL_BYTES];
        bytes[5] = 0xff;
        std::fs::write(file.path(), &bytes).unwrap();
        let text = text(file.path()).unwrap();
        assert!(text.starts_with("xxxxx\u{fffd}x") && text.chars().count() == bytes.len());
        assert_eq!(of_process(Path::new("/nowhere/at/all")), Answer::Gone);
    }
}
