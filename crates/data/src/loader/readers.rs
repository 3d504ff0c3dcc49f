//! Threads that read pieces, in order, as far ahead as there are blocks.
//!
//! In: the pieces of an epoch, a source. Out: blocks by their number. A thread takes the next piece only when a block is free for it,
//! and pieces are taken in order: so the blocks that the caller waits for are always being read, and nobody waits for ever. When it is
//! dropped, the threads have ended.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::DataError;
use crate::budget::SlabPool;
use crate::layout::{Layout, Rows};
use crate::order::{Epoch, Piece};
use crate::source::{BadRows, ReadReport, Reader, Source};

const ASK_AGAIN: Duration = Duration::from_millis(50);

struct State {
    /// The piece that is taken next.
    next: u64,
    /// Pieces below this one are over; so many blocks more may be in use.
    released: u64,
    done: BTreeMap<u64, Result<(Rows, ReadReport), DataError>>,
    stop: bool,
}

struct Shared {
    epoch: Arc<Epoch>,
    blocks: SlabPool,
    layout: Arc<Layout>,
    block_rows: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    /// The next piece, when there is a block for it.
    fn take(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.stop || state.next >= self.epoch.pieces() {
                return None;
            }
            if state.next < state.released + self.blocks.most() as u64 {
                state.next += 1;
                return Some(state.next - 1);
            }
            state = self.changed.wait(state).expect("no holder of the lock panics");
        }
    }

    fn read(
        &self,
        reader: &mut dyn Reader,
        rows: &mut Vec<(u64, u32)>,
        piece: u64,
    ) -> Result<(Rows, ReadReport), DataError> {
        let slab = self
            .blocks
            .try_take()?
            .ok_or_else(|| DataError::WorkerDied("no block was free for a piece that may be read".to_owned()))?;
        let mut into = Rows::new(slab, self.layout.clone(), self.block_rows);
        let report = match self.epoch.piece(piece) {
            Piece::Part(part) => reader.read(part.unit as usize, part.first..part.first + part.rows, &mut into)?,
            Piece::Places { first, count } => {
                self.epoch.rows_at(first, count, rows);
                reader.read_rows(rows, &mut into)?
            }
        };
        Ok((into, report))
    }

    fn work(&self, source: &dyn Source, bad_rows: BadRows) {
        let mut reader: Option<Box<dyn Reader>> = None;
        let mut rows = Vec::new();
        while let Some(piece) = self.take() {
            let read = catch_unwind(AssertUnwindSafe(|| {
                if reader.is_none() {
                    reader = Some(source.reader(&self.layout, bad_rows)?);
                }
                self.read(&mut **reader.as_mut().expect("just made"), &mut rows, piece)
            }));
            let read = read.unwrap_or_else(|panic| Err(DataError::WorkerDied(said(&*panic))));
            let failed = read.is_err();
            let mut state = self.lock();
            state.done.insert(piece, read);
            drop(state);
            self.changed.notify_all();
            if failed {
                return;
            }
        }
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "a panic".to_owned())
}

/// Threads that read ahead.
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads need to know.
pub(super) struct Start {
    pub source: Arc<dyn Source>,
    pub layout: Arc<Layout>,
    pub epoch: Arc<Epoch>,
    pub blocks: SlabPool,
    pub block_rows: usize,
    pub bad_rows: BadRows,
    pub threads: usize,
    pub first_piece: u64,
}

impl Readers {
    pub(super) fn start(start: Start) -> Result<Readers, DataError> {
        let first = start.first_piece;
        let state = State { next: first, released: first, done: BTreeMap::new(), stop: false };
        let shared = Arc::new(Shared {
            epoch: start.epoch,
            blocks: start.blocks,
            layout: start.layout,
            block_rows: start.block_rows,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let mut readers = Readers { shared, threads: Vec::new() };
        let left = readers.shared.epoch.pieces().saturating_sub(first);
        for number in 0..(start.threads as u64).min(left) {
            let (shared, source) = (readers.shared.clone(), start.source.clone());
            let bad_rows = start.bad_rows;
            let thread = std::thread::Builder::new()
                .name(format!("brimful-data-{number}"))
                .spawn(move || shared.work(&*source, bad_rows))
                .map_err(|error| DataError::Request(format!("a thread that reads cannot be started: {error}")))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// The block of a piece, when it is read.
    pub(super) fn wait(&self, piece: u64, stop: &dyn Fn() -> bool) -> Result<(Rows, ReadReport), DataError> {
        let mut state = self.shared.lock();
        loop {
            if let Some(read) = state.done.remove(&piece) {
                return read;
            }
            if let Some(failed) = state.done.iter().find(|(_, read)| read.is_err()).map(|(piece, _)| *piece) {
                // An earlier piece may still be read by another thread; what failed is all that matters now.
                return state.done.remove(&failed).expect("just found");
            }
            if self.threads.iter().all(JoinHandle::is_finished) && !state.done.contains_key(&piece) {
                return Err(DataError::WorkerDied(format!("nobody reads piece {piece}")));
            }
            state = self.shared.changed.wait_timeout(state, ASK_AGAIN).expect("no holder of the lock panics").0;
            if stop() {
                return Err(DataError::Interrupted);
            }
        }
    }

    /// Pieces below this one are over: their blocks have been dropped.
    pub(super) fn release(&self, piece: u64) {
        let mut state = self.shared.lock();
        state.released = piece;
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was caught inside.
            let _ = thread.join();
        }
    }
}
