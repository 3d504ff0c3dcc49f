//! Who holds how many bytes of the budget.
//!
//! In: requests with a purpose. Out: leases, which give back what they hold when they are dropped; figures. A request that does not
//! fit is refused: nobody waits here.

use std::sync::{Arc, Mutex};

use serde::Serialize;

/// What bytes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Where rows and units lie in the files.
    Index,
    /// What readers hold: file buffers, pages, decoders.
    Reading,
    /// Decoded rows: those that are being mixed, and those read ahead.
    Window,
    /// Batches: filled, waiting or held by the caller.
    Batches,
}

impl Purpose {
    /// All of them, in the order in which reports name them.
    pub const ALL: [Purpose; 4] = [Purpose::Index, Purpose::Reading, Purpose::Window, Purpose::Batches];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Index => "index of the files",
            Purpose::Reading => "reading and decoding",
            Purpose::Window => "rows mixed and read ahead",
            Purpose::Batches => "batches",
        }
    }
}

/// What the ledger counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LedgerFigures {
    /// The budget.
    pub budget_bytes: u64,
    /// Held now.
    pub used_bytes: u64,
    /// The most that was held at once.
    pub peak_bytes: u64,
    /// Held now by purpose, in the order of [`Purpose::ALL`].
    pub by_purpose_bytes: [u64; 4],
    /// What each purpose held at most.
    pub peak_by_purpose_bytes: [u64; 4],
}

/// The account of one budget. Clones share it.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Mutex<LedgerFigures>>);

impl Ledger {
    /// An account of so many bytes.
    pub fn new(budget_bytes: u64) -> Ledger {
        Ledger(Arc::new(Mutex::new(LedgerFigures { budget_bytes, ..LedgerFigures::default() })))
    }

    /// So many bytes for a purpose, or nothing if they would exceed the budget.
    pub fn lease(&self, purpose: Purpose, bytes: u64) -> Option<Lease> {
        let mut figures = self.0.lock().expect("no holder of the lock panics");
        let used_bytes = figures.used_bytes.checked_add(bytes).filter(|used| *used <= figures.budget_bytes)?;
        figures.used_bytes = used_bytes;
        figures.peak_bytes = figures.peak_bytes.max(used_bytes);
        let mine = &mut figures.by_purpose_bytes[purpose as usize];
        *mine += bytes;
        let mine = *mine;
        let peak = &mut figures.peak_by_purpose_bytes[purpose as usize];
        *peak = mine.max(*peak);
        drop(figures);
        Some(Lease { ledger: self.clone(), purpose, bytes })
    }

    /// What is held now, and was at most.
    pub fn figures(&self) -> LedgerFigures {
        *self.0.lock().expect("no holder of the lock panics")
    }
}

/// Bytes of the budget, until it is dropped.
#[derive(Debug)]
pub struct Lease {
    ledger: Ledger,
    purpose: Purpose,
    bytes: u64,
}

impl Lease {
    /// How many.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut figures = self.ledger.0.lock().expect("no holder of the lock panics");
        figures.used_bytes -= self.bytes;
        figures.by_purpose_bytes[self.purpose as usize] -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_what_is_dropped_is_free() {
        let ledger = Ledger::new(100);
        let first = ledger.lease(Purpose::Window, 60).unwrap();
        assert!(ledger.lease(Purpose::Batches, 41).is_none());
        assert!(ledger.lease(Purpose::Batches, u64::MAX).is_none());
        let second = ledger.lease(Purpose::Batches, 40).unwrap();
        drop(first);
        drop(second);
        let figures = ledger.figures();
        assert_eq!((figures.used_bytes, figures.peak_bytes), (0, 100));
        assert_eq!(figures.peak_by_purpose_bytes, [0, 0, 60, 40]);
    }
}
