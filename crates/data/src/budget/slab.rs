//! Memory of one size that is used again and again.
//!
//! In: a size, how many at most, a ledger. Out: slabs, which come back by themselves when they are dropped. A slab begins at a page,
//! so arrays in it are aligned for every framework. Memory comes from the system by the page: nothing of it stays in the process's
//! allocator. Slabs of the window lie side by side and ask for large pages, in which the processor finds rows more quickly. Not counted:
//! what such a page holds of slabs that were not taken yet; it is never more than the pool may have.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use super::{Lease, Ledger, Purpose};
use crate::DataError;

/// How long a wait goes on before the one who waits is asked whether to go on.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Slabs that are mapped at once, so that the system sees one stretch of memory that large pages fit into. Mapping touches nothing.
const MAPPED_TOGETHER: usize = 256;

struct Inner {
    slab_bytes: usize,
    most: usize,
    purpose: Purpose,
    ledger: Ledger,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    free: Vec<(MmapMut, Lease)>,
    /// Mapped, and never taken.
    untouched: Vec<MmapMut>,
    made: usize,
    /// How many wait for a slab to come back.
    waiting: usize,
}

/// At most so many slabs of one size. Clones share them.
#[derive(Clone)]
pub struct SlabPool(Arc<Inner>);

impl SlabPool {
    /// Nothing is allocated yet.
    pub fn new(ledger: &Ledger, purpose: Purpose, slab_bytes: usize, most: usize) -> SlabPool {
        let state = Mutex::new(State::default());
        let ledger = ledger.clone();
        SlabPool(Arc::new(Inner {
            slab_bytes: slab_bytes.max(1),
            most,
            purpose,
            ledger,
            state,
            returned: Condvar::new(),
        }))
    }

    /// How many there may be.
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// A slab, if one is free or may be made.
    pub fn try_take(&self) -> Result<Option<Slab>, DataError> {
        let mut state = self.0.state.lock().expect("no holder of the lock panics");
        if let Some((memory, lease)) = state.free.pop() {
            return Ok(Some(Slab { held: Some((memory, lease)), pool: self.0.clone() }));
        }
        if state.made >= self.0.most {
            return Ok(None);
        }
        let Some(lease) = self.0.ledger.lease(self.0.purpose, self.0.slab_bytes as u64) else {
            return Ok(None);
        };
        if state.untouched.is_empty() {
            // Rows are gathered from all over the window; of the batches a few are used again and again.
            let large_pages = self.0.purpose == Purpose::Window;
            let count = if large_pages { MAPPED_TOGETHER.min(self.0.most - state.made) } else { 1 };
            for _ in 0..count {
                state.untouched.push(map(self.0.slab_bytes, large_pages)?);
            }
        }
        let memory = state.untouched.pop().expect("just mapped");
        state.made += 1;
        Ok(Some(Slab { held: Some((memory, lease)), pool: self.0.clone() }))
    }

    /// A slab, waiting for one that comes back. Nothing if none came in time; an error if the one who waits is told to stop.
    pub fn take(&self, patience: Duration, stop: &dyn Fn() -> bool) -> Result<Option<Slab>, DataError> {
        let until = Instant::now() + patience;
        loop {
            if let Some(slab) = self.try_take()? {
                return Ok(Some(slab));
            }
            if stop() {
                return Err(DataError::Interrupted);
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            let mut state = self.0.state.lock().expect("no holder of the lock panics");
            if state.free.is_empty() {
                state.waiting += 1;
                let (mut state, _) =
                    self.0.returned.wait_timeout(state, ASK_AGAIN).expect("no holder of the lock panics");
                state.waiting -= 1;
            }
        }
    }
}

/// Memory of the pool's size, until it is dropped. Its bytes are those that the last holder left.
pub struct Slab {
    held: Option<(MmapMut, Lease)>,
    pool: Arc<Inner>,
}

impl Deref for Slab {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.held.as_ref().expect("held until it is dropped").0
    }
}

impl DerefMut for Slab {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.held.as_mut().expect("held until it is dropped").0
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            let mut state = self.pool.state.lock().expect("no holder of the lock panics");
            state.free.push(held);
            // Waking costs a call to the system even where nobody waits.
            if state.waiting > 0 {
                self.pool.returned.notify_one();
            }
        }
    }
}

fn map(bytes: usize, large_pages: bool) -> Result<MmapMut, DataError> {
    let memory = MmapMut::map_anon(bytes)
        .map_err(|error| DataError::Request(format!("the system gave no memory for {bytes} bytes: {error}")))?;
    #[cfg(target_os = "linux")]
    if large_pages {
        // A system without large pages says no, and then pages are small.
        let _ = memory.advise(memmap2::Advice::HugePage);
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_used_again_and_never_too_many() {
        let ledger = Ledger::new(8192);
        let pool = SlabPool::new(&ledger, Purpose::Batches, 4096, 5);
        let first = pool.try_take().unwrap().unwrap();
        let second = pool.try_take().unwrap().unwrap();
        assert!(pool.take(Duration::from_millis(1), &|| false).unwrap().is_none(), "the ledger has no more");
        assert!(matches!(pool.take(Duration::from_secs(60), &|| true), Err(DataError::Interrupted)));
        let address = first.as_ptr();
        drop(first);
        assert_eq!(pool.try_take().unwrap().unwrap().as_ptr(), address);
        drop(second);
        assert_eq!(ledger.figures().peak_bytes, 8192);
        drop(pool);
        assert_eq!(ledger.figures().used_bytes, 0);
    }

    #[test]
    fn slabs_that_are_mapped_together_are_leased_one_by_one() {
        let ledger = Ledger::new(1 << 20);
        let pool = SlabPool::new(&ledger, Purpose::Window, 4096, MAPPED_TOGETHER + 2);
        let mut slabs = Vec::new();
        for number in 0..MAPPED_TOGETHER {
            let mut slab = pool.try_take().unwrap().unwrap();
            slab.fill(number as u8);
            slabs.push(slab);
            assert_eq!(ledger.figures().used_bytes, 4096 * slabs.len() as u64);
        }
        let whole = |(number, slab): (usize, &Slab)| slab.iter().all(|byte| *byte == number as u8);
        assert!(slabs.iter().enumerate().all(whole), "no two share memory");
        assert!(pool.try_take().unwrap().is_none(), "the ledger has no more");
    }
}
