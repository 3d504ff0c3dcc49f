//! A number of bytes that is never exceeded.
//!
//! In: the budget, or what the machine leaves ([`available`]). Out: leases by purpose ([`Ledger`]) and memory that is used again
//! and again ([`SlabPool`]). Not counted: what libraries allocate by themselves; a source says how much that is at most
//! (`Source::reader_bytes`), and that much is leased for it.

mod available;
mod ledger;
mod slab;

pub use available::{Available, available, left_bytes};
pub use ledger::{Lease, Ledger, LedgerFigures, Purpose};
pub use slab::{Slab, SlabPool};
