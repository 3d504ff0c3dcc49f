//! Whether the job fits the budget, before a row is read.
//!
//! In: a source, a layout, the settings. Out: a [`Plan`]: the least that is needed, how the budget is shared out, notes for the user;
//! or a refusal with the number and the fix. Not here: reading. Parts are upper bounds: what is leased later never exceeds them.

mod fitting;

use std::path::PathBuf;
use std::time::Duration;

use brimful_core::bytes::human;
use serde::Serialize;

use crate::DataError;
use crate::layout::Layout;
use crate::order::{Epoch, Shard, Shuffle};
use crate::source::{Access, BadRows, Source};

/// Batches that the caller needs at the same time: the one in use and the one being filled.
const LEAST_BATCHES: u64 = 2;
/// A thread's stack and bookkeeping: what is touched of it.
const THREAD_BYTES: u64 = 128 << 10;
/// Blocks read by places of a global order: rows from all over the file, sorted to be read in one direction.
const PLACES_BLOCK_BYTES: u64 = 4 << 20;

/// A row's place in the order of its group, or in the global one.
const ORDER_BYTES: u64 = 16;
/// How many names a note shows.
const NAMES_SHOWN: usize = 5;
/// Rows on their way to the disk, and back from it.
pub(crate) const SPILL_BYTES: u64 = 256 << 10;

/// What the caller asks of batches.
#[derive(Clone, Debug)]
pub struct BatchOptions {
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Bytes that everything together may hold.
    pub memory_bytes: u64,
    /// How strongly rows are mixed.
    pub shuffle: Shuffle,
    /// The seed of the order.
    pub seed: u64,
    /// Rows that are mixed together; none: as many as the budget holds.
    pub window_rows: Option<u64>,
    /// Which share of the rows.
    pub shard: Shard,
    /// Threads that read; none: as many as there are processors, fewer in a small budget.
    pub threads: Option<usize>,
    /// Leave out a last batch that is not full.
    pub drop_last: bool,
    /// What to do with rows that cannot be read.
    pub bad_rows: BadRows,
    /// How long to wait for a batch that the caller holds, before saying so.
    pub patience: Duration,
    /// Where rows are kept for a global shuffle of files that cannot be read row by row.
    pub scratch: Option<PathBuf>,
}

impl Default for BatchOptions {
    fn default() -> BatchOptions {
        BatchOptions {
            batch_rows: 256,
            memory_bytes: 256 << 20,
            shuffle: Shuffle::None,
            seed: 0,
            window_rows: None,
            shard: Shard::default(),
            threads: None,
            drop_last: false,
            bad_rows: BadRows::Fail,
            patience: Duration::from_secs(5),
            scratch: None,
        }
    }
}

/// How the budget is used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The budget.
    pub memory_bytes: u64,
    /// The least with which this job runs.
    pub floor_bytes: u64,
    /// The most that will be held.
    pub expected_bytes: u64,
    /// Rows of all files, and of this rank in an epoch.
    pub rows: u64,
    /// Rows of this rank in an epoch.
    pub epoch_rows: u64,
    /// Batches of this rank in an epoch.
    pub batches: u64,
    /// Rows that the memory of a batch holds: as many as were asked for, or all there are.
    pub batch_rows: usize,
    /// Bytes of a row in memory.
    pub row_bytes: u64,
    /// Threads that read.
    pub threads: usize,
    /// Rows that a block of memory holds.
    pub block_rows: u64,
    /// Blocks that are mixed together.
    pub group_blocks: usize,
    /// Blocks read ahead of those.
    pub ahead_blocks: usize,
    /// Batches that may exist at once; the caller may hold all but one.
    pub batch_slots: usize,
    /// Bytes of the index and the order.
    pub index_bytes: u64,
    /// Bytes of all readers.
    pub reading_bytes: u64,
    /// Bytes of the rows that are mixed and read ahead.
    pub window_bytes: u64,
    /// Bytes of the batches.
    pub batch_bytes: u64,
    /// Bytes that are written to the disk first, for a global shuffle.
    pub scratch_bytes: u64,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Plan {
    /// Rows that are mixed together at most.
    pub fn window_rows(&self) -> u64 {
        self.block_rows * self.group_blocks as u64
    }

    /// Whether rows go to the disk first.
    pub fn spills(source: &dyn Source, options: &BatchOptions) -> bool {
        options.shuffle == Shuffle::Global && source.access() == Access::Units
    }

    /// How the budget is shared out, or why it is too small.
    pub fn new(source: &dyn Source, layout: &Layout, options: &BatchOptions) -> Result<Plan, DataError> {
        check(options)?;
        let rows = source.rows();
        let most_unit_rows = (0..source.units()).map(|unit| source.unit_rows(unit)).max().unwrap_or(0).max(1);
        let row_bytes = (layout.row_bytes() as u64).max(1);
        // A batch never has more rows than there are.
        let batch_rows = options.batch_rows.min(usize::try_from(rows).unwrap_or(usize::MAX)).max(1);
        let batch_bytes = layout.bytes(batch_rows) as u64;
        let batch_bytes = batch_bytes.checked_next_multiple_of(4096).unwrap_or(u64::MAX);
        let (mut reader_bytes, reader_why) = source.reader_bytes(layout);
        if Plan::spills(source, options) {
            // Rows are written while the files are read, and read from the disk afterwards.
            reader_bytes = reader_bytes.max(row_bytes).saturating_add(SPILL_BYTES);
        }
        let per_thread = reader_bytes.saturating_add(THREAD_BYTES);
        let fixed = source.index_bytes() + Epoch::bytes(source.units(), 0);
        let least_block = block_bytes(layout, 1).saturating_add(ORDER_BYTES);
        let floor_bytes = fixed
            .saturating_add(per_thread)
            .saturating_add(least_block)
            .saturating_add(batch_bytes.saturating_mul(LEAST_BATCHES));
        if floor_bytes > options.memory_bytes {
            let reader = (per_thread, &*reader_why, source.reader_fix());
            return Err(too_small(options, floor_bytes, fixed, reader, (batch_rows, batch_bytes)));
        }
        let mut left = options.memory_bytes - floor_bytes;

        // More threads only where their buffers take no more than a quarter of what is left. That quarter is set aside whether they
        // do or not: the window, and so the order, must not depend on the number of threads.
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
        let wanted = options.threads.unwrap_or(cores.min(8));
        let set_aside = left / 4;
        let threads = wanted.min(1 + (set_aside / per_thread) as usize).max(1);
        let not_needed = set_aside - per_thread * (threads as u64 - 1);
        left -= set_aside;

        // An eighth for batches that wait with the caller, the rest for rows; with no mixing, a few blocks are enough.
        let batch_slots = LEAST_BATCHES + (left / 8 / batch_bytes).min(1 << 16);
        left -= (batch_slots - LEAST_BATCHES) * batch_bytes;
        let rows_share = left + least_block;
        let global = options.shuffle == Shuffle::Global;
        let mixes = matches!(options.shuffle, Shuffle::Window | Shuffle::Block);
        // While a group is handed out, the next one is read: blocks are small enough for both. Not smaller, because a part of a unit
        // may cost as much to read as all of it.
        let least_blocks = 4;
        let fits = |blocks: u64| {
            let share = rows_share / blocks.max(1);
            let share = if global { share.min(PLACES_BLOCK_BYTES) } else { share };
            // Besides the row itself: its place in the order of the group.
            (share.saturating_sub(4096 + 64 * layout.fields.len() as u64) / (row_bytes + ORDER_BYTES)).max(1)
        };
        let whole = if global { u64::MAX } else { most_unit_rows };
        let block_rows = whole.min(fits(least_blocks)).min(rows.max(1));
        let one = block_bytes(layout, block_rows) + ORDER_BYTES * block_rows;
        let blocks = (rows_share / one).max(1) as usize;
        let more_ahead = (not_needed / one) as usize;
        let pieces = rows.div_ceil(block_rows).max(source.units() as u64).max(1);
        let (group_blocks, ahead_blocks) = if mixes {
            let asked = options.window_rows.map(|rows| rows.div_ceil(block_rows).max(1));
            let group = asked.unwrap_or(blocks.div_ceil(2) as u64).min(pieces).min(blocks as u64) as usize;
            if asked.is_some_and(|asked| asked.min(pieces) > group as u64) {
                return Err(window_too_large(options, block_rows * blocks as u64));
            }
            (group, (blocks - group + more_ahead).min(group + threads).min(pieces as usize))
        } else {
            (1, (blocks - 1 + more_ahead).min(2 * threads).min(pieces as usize))
        };
        let window_bytes = one * (group_blocks + ahead_blocks) as u64;
        let epoch_rows = options.shard.range(rows);
        let epoch_rows = epoch_rows.end - epoch_rows.start;
        let asked_rows = options.batch_rows as u64;
        let batches = if options.drop_last { epoch_rows / asked_rows } else { epoch_rows.div_ceil(asked_rows) };
        let batch_slots = batch_slots.min(batches.max(LEAST_BATCHES)) as usize;
        let reading_bytes = per_thread * threads as u64;
        let mut plan = Plan {
            memory_bytes: options.memory_bytes,
            floor_bytes,
            expected_bytes: 0,
            rows,
            epoch_rows,
            batches,
            batch_rows,
            row_bytes,
            threads,
            block_rows,
            group_blocks,
            ahead_blocks,
            batch_slots,
            index_bytes: fixed,
            reading_bytes,
            window_bytes,
            batch_bytes: batch_bytes * batch_slots as u64,
            scratch_bytes: if Plan::spills(source, options) { rows.saturating_mul(row_bytes) } else { 0 },
            notes: Vec::new(),
        };
        plan.expected_bytes = plan.index_bytes + plan.reading_bytes + plan.window_bytes + plan.batch_bytes;
        debug_assert!(plan.expected_bytes <= plan.memory_bytes, "{plan:?}");
        plan.notes = notes(&plan, source, layout, options);
        Ok(plan)
    }
}

fn block_bytes(layout: &Layout, rows: u64) -> u64 {
    let bytes = layout.bytes(usize::try_from(rows).unwrap_or(usize::MAX)) as u64;
    bytes.checked_next_multiple_of(4096).unwrap_or(u64::MAX)
}

fn check(options: &BatchOptions) -> Result<(), DataError> {
    let wrong = |text: &str| Err(DataError::Request(text.to_owned()));
    if options.batch_rows == 0 {
        return wrong("a batch of 0 rows: give at least 1");
    }
    if options.threads == Some(0) {
        return wrong("0 threads: give at least 1");
    }
    if options.shard.world == 0 || options.shard.rank >= options.shard.world {
        return wrong("the rank must be below the number of ranks");
    }
    Ok(())
}

fn too_small(
    options: &BatchOptions,
    floor_bytes: u64,
    fixed: u64,
    (per_thread, reader_why, reader_fix): (u64, &str, &str),
    (batch_rows, batch_bytes): (usize, u64),
) -> DataError {
    let smaller_batches = if batch_rows > 1 { "take smaller batches or fewer columns" } else { reader_fix };
    let parts = [
        (fixed, "the index of the files".to_owned(), "read fewer files at once".to_owned()),
        (per_thread, format!("reading ({reader_why})"), reader_fix.to_owned()),
        (
            batch_bytes.saturating_mul(LEAST_BATCHES),
            format!("two batches of {batch_rows} {}", if batch_rows == 1 { "row" } else { "rows" }),
            smaller_batches.to_owned(),
        ),
    ];
    let (bytes, what, fix) = parts.into_iter().max_by_key(|part| part.0).expect("three parts");
    DataError::BelowFloor {
        memory_bytes: options.memory_bytes,
        floor_bytes,
        why: format!("{} for {what}", human(bytes)),
        fix: format!("give at least that much memory, or {fix}"),
    }
}

fn window_too_large(options: &BatchOptions, most_rows: u64) -> DataError {
    DataError::Request(format!(
        "a window of {} rows does not fit into {}: at most {most_rows} rows do; give more memory or a smaller window",
        options.window_rows.unwrap_or(0),
        human(options.memory_bytes)
    ))
}

/// What of the files is not in the rows, each a sentence; with so many names of text columns at most.
pub fn left_out(source: &dyn Source, layout: &Layout, most_names: usize) -> Vec<String> {
    let mut notes = source.notes();
    if !layout.left_out.is_empty() {
        let names = layout.left_out.iter().take(most_names).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if layout.left_out.len() > most_names { ", …" } else { "" };
        let count = layout.left_out.len();
        let columns = if count == 1 { "1 column of text is" } else { &format!("{count} columns of text are") };
        notes.push(format!("{columns} left out: {names}{more}"));
    }
    notes
}

fn notes(plan: &Plan, source: &dyn Source, layout: &Layout, options: &BatchOptions) -> Vec<String> {
    let mut notes = left_out(source, layout, NAMES_SHOWN);
    let most_unit_rows = (0..source.units()).map(|unit| source.unit_rows(unit)).max().unwrap_or(0);
    if options.shuffle == Shuffle::Block && plan.block_rows < most_unit_rows {
        notes.push(format!(
            "units of up to {most_unit_rows} rows are read in pieces of {}: rows of one piece come close to each other",
            plan.block_rows
        ));
    }
    if plan.scratch_bytes > 0 {
        notes
            .push(format!("rows are written to the disk once, {}, to be read in any order", human(plan.scratch_bytes)));
    }
    if options.shard.world > 1 && !options.shard.keep_remainder && !plan.rows.is_multiple_of(options.shard.world) {
        notes.push(format!(
            "{} rows of each epoch are left out, so that all ranks have as many",
            plan.rows % options.shard.world
        ));
    }
    notes
}
