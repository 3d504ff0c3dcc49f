//! The job's output, passed on as it comes and read by `explain` on the way.
//!
//! In: the ends of pipes, or of a terminal, that the job writes to. Out: the same bytes where they belong, at once, and at the end what they say about
//! a failure. A process that the job left behind may hold a pipe open for ever: it is not waited for.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use brimful_core::explain::{Explainer, Explanation};

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
}

impl Passing {
    /// Nothing yet.
    pub fn new() -> Passing {
        let (done, ended) = channel();
        Passing { explainer: Arc::new(Mutex::new(Explainer::new())), done, ended, streams: 0 }
    }

    /// Passes on a stream, from now to its end.
    pub fn begin(&mut self, from: impl Read + Send + 'static, to: impl Write + Send + 'static) {
        self.streams += 1;
        let (explainer, done) = (Arc::clone(&self.explainer), self.done.clone());
        thread::spawn(move || {
            pass(from, to, &explainer);
            let _ = done.send(());
        });
    }

    /// What was said, when the job has ended, and what is known beside it.
    pub fn end(self, more: &[String]) -> Explanation {
        for _ in 0..self.streams {
            if self.ended.recv_timeout(LAST_WORDS).is_err() {
                break;
            }
        }
        let mut explainer = std::mem::take(&mut *self.explainer.lock().unwrap_or_else(PoisonError::into_inner));
        for line in more {
            explainer.push(format!("\nbrimful: {line}\n").as_bytes());
        }
        explainer.finish()
    }
}

fn pass(mut from: impl Read, mut to: impl Write, explainer: &Mutex<Explainer>) {
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
        if is_open && to.write_all(&piece[..count]).and_then(|()| to.flush()).is_err() {
            is_open = false;
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
