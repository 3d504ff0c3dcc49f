//! The job's output, passed on as it comes and read by `explain` on the way.
//!
//! In: the ends of pipes, or of a terminal, that the job writes to. Out: the same bytes where they belong, at once, and at the end what they say about
//! a failure. A process that the job left behind may hold a pipe open for ever: it is not waited for. What it writes later is passed on by a `cat` that
//! outlives us, as it would have been written without us; not from a terminal, which goes with the job.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use brimful_core::explain::{Explainer, Explanation};

use crate::output;

/// Bytes passed on at a time.
const PIECE_BYTES: usize = 64 << 10;
/// How long output is waited for when the job has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Output on its way.
pub struct Passing {
    explainer: Arc<Mutex<Explainer>>,
    done: Sender<()>,
    ended: Receiver<()>,
    streams: usize,
    pace: Arc<Pace>,
    left: Vec<Left>,
}

/// What is needed to go on without us: the end that is read, none when there is nothing more to read, and where it goes.
struct Left {
    from: Arc<Mutex<Option<OwnedFd>>>,
    to: OwnedFd,
}

/// How far all streams have come.
#[derive(Default)]
struct Pace {
    pieces: AtomicU64,
    /// Streams whose reader has not yet taken what was written to it.
    writing: AtomicU64,
}

impl Passing {
    /// Nothing yet.
    pub fn new() -> Passing {
        let (done, ended) = channel();
        let explainer = Arc::new(Mutex::new(Explainer::new()));
        Passing { explainer, done, ended, streams: 0, pace: Arc::default(), left: Vec::new() }
    }

    /// Passes on a pipe, from now to its end, whenever that is.
    pub fn begin_pipe(&mut self, from: impl Read + AsFd + Send + 'static, to: impl Write + AsFd + Send + 'static) {
        let ends = from.as_fd().try_clone_to_owned().and_then(|end| Ok((end, to.as_fd().try_clone_to_owned()?)));
        let Ok((end, onwards)) = ends else { return self.begin(from, to) };
        let end = Arc::new(Mutex::new(Some(end)));
        self.left.push(Left { from: Arc::clone(&end), to: onwards });
        // With a copy of it open, a job whose reader has gone would not notice.
        self.begin_until(from, to, move || drop(end.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }

    /// Passes on a stream, from now to its end or ours.
    pub fn begin(&mut self, from: impl Read + Send + 'static, to: impl Write + Send + 'static) {
        self.begin_until(from, to, || ());
    }

    fn begin_until(
        &mut self,
        from: impl Read + Send + 'static,
        to: impl Write + Send + 'static,
        at_its_end: impl FnOnce() + Send + 'static,
    ) {
        self.streams += 1;
        let (explainer, pace, done) = (Arc::clone(&self.explainer), Arc::clone(&self.pace), self.done.clone());
        thread::spawn(move || {
            pass(from, to, &explainer, &pace);
            at_its_end();
            let _ = done.send(());
        });
    }

    /// What was said, when the job has ended, and what is known beside it.
    pub fn end(self, more: &[String]) -> Explanation {
        let (mut left, mut seen) = (self.streams, u64::MAX);
        while left > 0 {
            if self.ended.recv_timeout(LAST_WORDS).is_ok() {
                left -= 1;
                continue;
            }
            // A reader that is slow is waited for, however long; one that the job left behind, and that says nothing, is not.
            let pieces = self.pace.pieces.load(Ordering::Relaxed);
            if self.pace.writing.load(Ordering::Relaxed) == 0 && pieces == seen {
                break;
            }
            seen = pieces;
        }
        self.left.into_iter().for_each(Left::go_on);
        let mut explainer = std::mem::take(&mut *self.explainer.lock().unwrap_or_else(PoisonError::into_inner));
        for line in more {
            explainer.push(format!("\nbrimful: {line}\n").as_bytes());
        }
        explainer.finish()
    }
}

impl Left {
    /// Leaves the pipe to another, if somebody still has it open. Where there is none, whoever writes to it meets a closed pipe.
    fn go_on(self) {
        if let Some(from) = self.from.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = Command::new("cat").stdin(from).stdout(self.to).stderr(Stdio::null()).spawn();
        }
    }
}

fn pass(mut from: impl Read, mut to: impl Write, explainer: &Mutex<Explainer>, pace: &Pace) {
    let mut piece = vec![0; PIECE_BYTES];
    let mut line: Vec<u8> = Vec::new();
    let mut is_open = true;
    loop {
        let count = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // A terminal whose last user has closed it answers with an error.
            Err(_) => break,
        };
        pace.pieces.fetch_add(1, Ordering::Relaxed);
        pace.writing.fetch_add(1, Ordering::Relaxed);
        let written = to.write_all(&piece[..count]).and_then(|()| to.flush());
        pace.writing.fetch_sub(1, Ordering::Relaxed);
        if let Err(error) = written {
            is_open = false;
            if error.kind() != io::ErrorKind::BrokenPipe {
                output::say(&format!("the job's output cannot be written: {error}; it is not read any further"));
            }
        }
        line.extend_from_slice(&piece[..count]);
        // Whole lines only: two streams are read by one explainer.
        let whole = line.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let ready = if whole == 0 && line.len() > PIECE_BYTES { line.len() } else { whole };
        read(explainer, &line[..ready]);
        line.drain(..ready);
        if !is_open {
            // Whoever reads us has gone; the job is to meet a closed pipe at its next write, as it would without us.
            break;
        }
    }
    read(explainer, &line);
}

fn read(explainer: &Mutex<Explainer>, bytes: &[u8]) {
    if !bytes.is_empty() {
        explainer.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}
