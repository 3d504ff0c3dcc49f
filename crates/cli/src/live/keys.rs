//! Key presses: nearly all are the job's.
//!
//! In: bytes as the terminal sends them, in pieces of any size. Out: those for the job, in their order, and the commands that were among them.
//! The beginning of what may become a command waits for the next call and no longer, because Escape alone is a key, too: whoever reads
//! keys calls again soon, with nothing if there is nothing.

/// What F9 sends: vt220 and all that came after it.
const F9: &[u8] = b"\x1b[20~";

/// What a person asks of brimful itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// From the screen to the job's plain output, or back.
    Toggle,
}

/// What came in so far.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    waiting: Vec<u8>,
}

impl Keys {
    /// Takes the next bytes, which may be none.
    pub fn split(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<Command>) {
        let mut to_job = std::mem::take(&mut self.waiting);
        let is_quiet = bytes.is_empty();
        to_job.extend_from_slice(bytes);
        let mut commands = Vec::new();
        while let Some(at) = to_job.windows(F9.len()).position(|window| window == F9) {
            to_job.drain(at..at + F9.len());
            commands.push(Command::Toggle);
        }
        if !is_quiet {
            let begun = (1..F9.len()).rev().find(|length| to_job.ends_with(&F9[..*length])).unwrap_or(0);
            self.waiting = to_job.split_off(to_job.len() - begun);
        }
        (to_job, commands)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_alone_waits_for_one_call() {
        let mut keys = Keys::default();
        assert_eq!(keys.split(b"a\x1b"), (b"a".to_vec(), vec![]));
        assert_eq!(keys.split(b""), (b"\x1b".to_vec(), vec![]));
        assert_eq!(keys.split(b"\x1b"), (vec![], vec![]));
        assert_eq!(keys.split(b"x"), (b"\x1bx".to_vec(), vec![]));
        assert_eq!(keys.split(b"\x1b[20"), (vec![], vec![]));
        assert_eq!(keys.split(b"\x1b[A"), (b"\x1b[20\x1b[A".to_vec(), vec![]));
    }

    proptest! {
        #[test]
        fn f9_is_found_in_any_pieces(pieces in prop::collection::vec((0_usize..4, 1_usize..6), 0..40)) {
            let texts: [&[u8]; 4] = [F9, b"\x1b", b"[2", b"0~x"];
            let all: Vec<u8> = pieces.iter().flat_map(|(text, _)| texts[*text].to_vec()).collect();
            let whole = Keys::default().split(&all);
            let (mut keys, mut to_job, mut toggles, mut rest) = (Keys::default(), Vec::new(), 0, &all[..]);
            for (_, length) in &pieces {
                let (piece, after) = rest.split_at((*length).min(rest.len()));
                if piece.is_empty() {
                    break;
                }
                let (bytes, commands) = keys.split(piece);
                to_job.extend(bytes);
                toggles += commands.len();
                rest = after;
            }
            for bytes in [rest, b""] {
                let (bytes, commands) = keys.split(bytes);
                to_job.extend(bytes);
                toggles += commands.len();
            }
            prop_assert_eq!(to_job.len() + toggles * F9.len(), all.len());
            prop_assert!(toggles >= pieces.iter().filter(|(text, _)| *text == 0).count());
            prop_assert!(whole.1.len() >= toggles);
        }
    }
}
