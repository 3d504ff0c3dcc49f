//! From a plan to batches.
//!
//! In: a source, a layout, the settings. Out: [`Loader`], which gives [`Batches`] epoch by epoch; their rows are the same, in the same
//! order, on any number of threads and after going on from a [`Position`]. Threads read pieces into blocks; the caller's own thread
//! gathers rows from the blocks of a group into a batch. Not counted: what the caller copies.

mod batch;
mod batches;
mod position;
mod readers;
mod spill;

use std::sync::{Arc, Mutex};

use serde::Serialize;

pub use batch::Batch;
pub use batches::Batches;
pub use position::Position;

use crate::DataError;
use crate::budget::{Lease, Ledger, LedgerFigures, Purpose, SlabPool};
use crate::layout::Layout;
use crate::order::{Epoch, Settings};
use crate::plan::{BatchOptions, Plan};
use crate::source::{BAD_ROWS_KEPT, BadRow, ReadReport, Source};

/// What was counted so far.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// The ledger's account.
    pub ledger: LedgerFigures,
    /// Rows handed out.
    pub rows: u64,
    /// Batches handed out.
    pub batches: u64,
    /// Rows that could not be read.
    pub bad_rows: u64,
    /// The first of them.
    pub first_bad: Vec<BadRow>,
    /// Time that the caller waited for rows.
    pub waited_us: u64,
}

/// Batches of a source, inside a budget.
pub struct Loader {
    source: Arc<dyn Source>,
    layout: Arc<Layout>,
    options: BatchOptions,
    plan: Plan,
    ledger: Ledger,
    blocks: SlabPool,
    batches: SlabPool,
    figures: Arc<Mutex<Figures>>,
    unit_rows: Vec<u64>,
    _held: Vec<Lease>,
}

impl Loader {
    /// Plans, and refuses if the budget is too small. For a global shuffle of files that cannot be read row by row, this writes all
    /// rows to the disk once.
    pub fn new(source: Arc<dyn Source>, layout: Layout, options: BatchOptions) -> Result<Loader, DataError> {
        Loader::stoppable(source, layout, options, &|| false)
    }

    /// The same; `stop` is asked from time to time while rows are written to the disk.
    pub fn stoppable(
        source: Arc<dyn Source>,
        layout: Layout,
        options: BatchOptions,
        stop: &dyn Fn() -> bool,
    ) -> Result<Loader, DataError> {
        let layout = Arc::new(layout);
        let mut plan = Plan::new(&*source, &layout, &options)?;
        if Plan::spills(&*source, &options) {
            let (rows_file, bad) = spill::rows_file(&source, &layout, &options, stop)?;
            let scratch_bytes = plan.scratch_bytes;
            let notes = plan.notes;
            let loader = Loader::new(Arc::new(rows_file), spill::layout(&layout), options)?;
            let mut loader = loader;
            plan = loader.plan;
            plan.scratch_bytes = scratch_bytes;
            plan.notes = notes;
            loader.plan = plan;
            loader.count(&bad);
            return Ok(loader);
        }
        let ledger = Ledger::new(options.memory_bytes);
        let lease = |purpose, bytes| ledger.lease(purpose, bytes).expect("the plan's parts fit the budget");
        // The order of a group's rows takes 16 bytes a row, which the plan counts with the window.
        let block_bytes = layout.bytes(plan.block_rows as usize).next_multiple_of(4096);
        let count = plan.group_blocks + plan.ahead_blocks;
        let order_bytes = plan.window_bytes - (block_bytes * count) as u64;
        let held = vec![
            lease(Purpose::Index, plan.index_bytes),
            lease(Purpose::Reading, plan.reading_bytes),
            lease(Purpose::Window, order_bytes),
        ];
        let blocks = SlabPool::new(&ledger, Purpose::Window, block_bytes, count);
        let batch_bytes = layout.bytes(plan.batch_rows).next_multiple_of(4096);
        let batches = SlabPool::new(&ledger, Purpose::Batches, batch_bytes, plan.batch_slots);
        let unit_rows = (0..source.units()).map(|unit| source.unit_rows(unit)).collect();
        let figures = Arc::new(Mutex::new(Figures::default()));
        Ok(Loader { source, layout, options, plan, ledger, blocks, batches, figures, unit_rows, _held: held })
    }

    /// How the budget is used.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What a row looks like.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// What was counted so far.
    pub fn figures(&self) -> Figures {
        let mut figures = self.figures.lock().expect("no holder of the lock panics").clone();
        figures.ledger = self.ledger.figures();
        figures
    }

    /// The batches of one epoch, from its beginning.
    pub fn epoch(&self, epoch: u64) -> Result<Batches, DataError> {
        self.resume(&self.position(epoch))
    }

    /// The beginning of an epoch.
    pub fn position(&self, epoch: u64) -> Position {
        Position {
            version: position::VERSION,
            fingerprint: self.source.fingerprint(),
            seed: self.options.seed,
            epoch,
            shuffle: self.options.shuffle,
            shard: self.options.shard,
            block_rows: self.plan.block_rows,
            group_blocks: self.plan.group_blocks,
            batch_rows: self.options.batch_rows,
            group: 0,
            row: 0,
        }
    }

    /// The batches that follow a position. It takes the same time wherever that is.
    pub fn resume(&self, from: &Position) -> Result<Batches, DataError> {
        from.check(&self.position(from.epoch))?;
        let settings = Settings {
            shuffle: self.options.shuffle,
            seed: self.options.seed,
            epoch: from.epoch,
            shard: self.options.shard,
            block_rows: self.plan.block_rows,
            group_blocks: self.plan.group_blocks,
        };
        let epoch = Arc::new(Epoch::new(&self.unit_rows, settings));
        Batches::start(self, epoch, from)
    }

    fn count(&self, report: &ReadReport) {
        count(&self.figures, report);
    }
}

/// Adds what reading a piece told.
fn count(figures: &Mutex<Figures>, report: &ReadReport) {
    if report.bad_rows == 0 {
        return;
    }
    let mut figures = figures.lock().expect("no holder of the lock panics");
    figures.bad_rows += report.bad_rows;
    let room = BAD_ROWS_KEPT.saturating_sub(figures.first_bad.len());
    figures.first_bad.extend(report.first_bad.iter().take(room).cloned());
}
