//! The socket that the agents of a job send to.
//!
//! In: datagrams. Out: messages, as many at a time as are read in a moment. The socket lies in a folder that only its user may enter, so it
//! needs no other proof of who sends; both are removed at the end. Linux lets as few as ten datagrams wait, and agents drop what cannot be
//! sent at once: so a thread takes them off, a hundred times a second at most, until they are asked for. When too many wait, the
//! newest are dropped.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::message::{MOST_BYTES, Message};
use crate::error::MonitorError;

/// As many are given out at a time: the rest waits for the next call.
const MOST_AT_ONCE: usize = 1024;
/// As many bytes wait to be asked for: those of thousands of messages.
const MOST_WAITING_BYTES: usize = 1 << 20;
/// Between two looks of the thread while messages come.
const NAP: Duration = Duration::from_millis(10);
/// After this the thread looks whether it is still wanted.
const LOOK_UP: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// A socket's address has 108 bytes, the last of which is zero.
const MOST_PATH_BYTES: usize = 107;
/// Names of folders that are tried.
const TRIES: u64 = 64;

/// Hears the agents of one job.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
    /// Made for the socket, and removed with it.
    folder: Option<PathBuf>,
}

#[derive(Debug)]
struct Shared {
    socket: UnixDatagram,
    waiting: Mutex<Waiting>,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    datagrams: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Listener {
    /// Binds a socket in a new folder of the system's temporary folder, or of `/tmp` where that has too long a name.
    pub fn open() -> Result<Listener, MonitorError> {
        let fits = |path: &PathBuf| path.as_os_str().len() + "/brimful-0123456789abcdef/agent".len() <= MOST_PATH_BYTES;
        let base = Some(std::env::temp_dir()).filter(fits).unwrap_or_else(|| PathBuf::from("/tmp"));
        remove_left_over(&base);
        let folder = new_folder(&base).map_err(|error| failure(&base, &error))?;
        let mut opened = Listener::at(&folder.join("agent"));
        match &mut opened {
            Ok(listener) => listener.folder = Some(folder),
            // Empty, and of no use to anyone; what the system says about it is less than what it said first.
            Err(_) => drop(fs::remove_dir(&folder)),
        }
        opened
    }

    /// Binds a socket at a path that is not taken. Whoever may write to it may speak.
    pub fn at(path: &Path) -> Result<Listener, MonitorError> {
        let bound = UnixDatagram::bind(path).and_then(|socket| {
            socket.set_nonblocking(true)?;
            let shared = Arc::new(Shared { socket, waiting: Mutex::default(), is_over: AtomicBool::new(false) });
            let heard = Arc::clone(&shared);
            let thread = thread::Builder::new().name("brimful-agent".to_owned()).spawn(move || heard.hear())?;
            Ok((shared, thread))
        });
        let (shared, thread) = bound.map_err(|error| failure(path, &error))?;
        Ok(Listener { shared, thread: Some(thread), path: path.to_path_buf(), folder: None })
    }

    /// Where agents send to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the messages that were sent before the call, a thousand at most, in their order. `began_ns` is what [`monotonic_ns`] was when the
    /// run began.
    pub fn drain(&self, began_ns: u64, mut take: impl FnMut(Message)) {
        self.shared.receive();
        let now_ns = monotonic_ns();
        for _ in 0..MOST_AT_ONCE {
            let Some(datagram) = self.shared.next() else { return };
            Message::parse(&datagram, began_ns, now_ns).into_iter().for_each(&mut take);
        }
    }
}

impl Shared {
    fn next(&self) -> Option<Vec<u8>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let datagram = waiting.datagrams.pop_front()?;
        waiting.bytes -= datagram.len();
        Some(datagram)
    }

    /// Takes off the socket what is there. The lock is held throughout, so that two who do so keep the order.
    fn receive(&self) {
        // One byte more than a message may have: what fills it was cut.
        let mut bytes = [0; MOST_BYTES + 1];
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..MOST_AT_ONCE {
            match self.socket.recv(&mut bytes) {
                Ok(count @ 1..=MOST_BYTES) if waiting.bytes + count <= MOST_WAITING_BYTES => {
                    waiting.bytes += count;
                    waiting.datagrams.push_back(bytes[..count].to_vec());
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    fn hear(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let mut sockets = [PollFd::new(&self.socket, PollFlags::IN)];
            if poll(&mut sockets, Some(&LOOK_UP)).is_ok_and(|count| count > 0) {
                self.receive();
            }
            thread::sleep(NAP);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // An empty datagram wakes the thread; where it cannot be sent, the thread is awake, or looks up by itself.
        if let Ok(socket) = UnixDatagram::unbound().and_then(|socket| socket.set_nonblocking(true).map(|()| socket)) {
            let _ = socket.send_to(&[], &self.path);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Somebody else may have cleaned up already.
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The clock that all processes of a machine share and nobody sets.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000) + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Folders of runs that were killed before they could tidy up: nobody listens at their sockets.
fn remove_left_over(base: &Path) {
    let entries = fs::read_dir(base).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("brimful-"));
        name.is_some_and(|name| name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    for folder in entries.filter(is_ours) {
        let socket = folder.join("agent");
        let answer = UnixDatagram::unbound().and_then(|unbound| unbound.connect(&socket));
        // Refused: the file of a socket that was closed. Another user's cannot be entered, and stays.
        if answer.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            let _ = fs::remove_file(&socket).and_then(|()| fs::remove_dir(&folder));
        }
    }
}

/// A folder that did not exist, for this user alone.
fn new_folder(base: &Path) -> io::Result<PathBuf> {
    let seed = monotonic_ns() ^ u64::from(std::process::id()) << 40;
    let mut outcome = Err(io::ErrorKind::AlreadyExists.into());
    for attempt in 0..TRIES {
        // Spread, so that runs that begin together do not try the same names.
        let name = (seed + attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let folder = base.join(format!("brimful-{name:016x}"));
        outcome = DirBuilder::new().mode(0o700).create(&folder).map(|()| folder);
        if !matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            break;
        }
    }
    outcome
}

fn failure(path: &Path, error: &io::Error) -> MonitorError {
    MonitorError::Socket { path: path.to_path_buf(), reason: error.to_string() }
}
