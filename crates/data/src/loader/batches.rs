//! The batches of one epoch, one after the other.
//!
//! In: blocks, in order. Out: batches whose rows are gathered from the blocks of a group, in the order of the group. Rows that were
//! left out as bad make later batches begin earlier; no batch is short for it but the last.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::readers::{Readers, Start};
use super::{Batch, Figures, Loader, Position, count};
use crate::DataError;
use crate::budget::SlabPool;
use crate::layout::{Layout, Rows};
use crate::order::Epoch;

/// An epoch on its way.
pub struct Batches {
    readers: Readers,
    epoch: Arc<Epoch>,
    layout: Arc<Layout>,
    slabs: SlabPool,
    figures: Arc<Mutex<Figures>>,
    position: Position,
    /// Rows of the first group that were handed out before.
    skip: u64,
    /// Rows that the memory of a batch holds, which may be fewer than were asked for.
    capacity: usize,
    drop_last: bool,
    patience: Duration,
    memory_bytes: u64,
    /// The blocks of the group, and its rows in their order.
    blocks: Vec<Rows>,
    order: Vec<(u32, u32)>,
    failed: Option<DataError>,
    /// Blocks of the next group that have arrived, and rows gathered into a batch that was interrupted: nothing is lost.
    arrived: Vec<Rows>,
    half: Option<(Rows, usize)>,
    /// Where the next batch begins: group and row.
    begins: (u64, u64),
}

impl Batches {
    pub(super) fn start(loader: &Loader, epoch: Arc<Epoch>, from: &Position) -> Result<Batches, DataError> {
        let readers = Readers::start(Start {
            source: loader.source.clone(),
            layout: loader.layout.clone(),
            epoch: epoch.clone(),
            blocks: loader.blocks.clone(),
            block_rows: loader.plan.block_rows as usize,
            bad_rows: loader.options.bad_rows,
            threads: loader.plan.threads,
            first_piece: from.group.saturating_mul(epoch.group_blocks()),
        })?;
        Ok(Batches {
            readers,
            epoch,
            layout: loader.layout.clone(),
            slabs: loader.batches.clone(),
            figures: loader.figures.clone(),
            position: Position { row: 0, ..from.clone() },
            skip: from.row,
            capacity: from.batch_rows.min(loader.plan.batch_rows),
            drop_last: loader.options.drop_last,
            patience: loader.options.patience,
            memory_bytes: loader.options.memory_bytes,
            blocks: Vec::new(),
            order: Vec::new(),
            failed: None,
            arrived: Vec::new(),
            half: None,
            begins: (from.group, from.row),
        })
    }

    /// Where the next batch begins.
    pub fn position(&self) -> Position {
        Position { group: self.begins.0, row: self.begins.1, ..self.position.clone() }
    }

    /// The next batch; none when the epoch is over. `stop` is asked from time to time while there is nothing to do but wait.
    pub fn next(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<Batch>, DataError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let next = self.gather(stop);
        match &next {
            Err(DataError::Interrupted | DataError::HeldByCaller { .. }) | Ok(_) => {}
            Err(error) => self.failed = Some(error.clone()),
        }
        next
    }

    fn gather(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<Batch>, DataError> {
        if self.half.is_none() && !self.open_group(stop)? {
            return Ok(None);
        }
        let capacity = self.capacity;
        let (mut rows, mut filled) = match self.half.take() {
            Some(half) => half,
            None => (Rows::new(self.slab(stop)?, self.layout.clone(), capacity), 0),
        };
        while filled < capacity {
            match self.open_group(stop) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.half = Some((rows, filled));
                    return Err(error);
                }
            }
            let first = self.position.row as usize;
            let count = (self.order.len() - first).min(capacity - filled);
            copy(&mut rows, filled, &self.blocks, &self.order[first..first + count]);
            filled += count;
            self.position.row += count as u64;
        }
        if filled == 0 || (filled < self.position.batch_rows && self.drop_last) {
            return Ok(None);
        }
        rows.set_len(filled);
        self.begins = (self.position.group, self.position.row);
        let mut figures = self.figures.lock().expect("no holder of the lock panics");
        figures.rows += filled as u64;
        figures.batches += 1;
        drop(figures);
        Ok(Some(Batch { rows }))
    }

    fn slab(&self, stop: &dyn Fn() -> bool) -> Result<crate::budget::Slab, DataError> {
        self.slabs
            .take(self.patience, stop)?
            .ok_or(DataError::HeldByCaller { batches: self.slabs.most(), memory_bytes: self.memory_bytes })
    }

    /// Makes sure that the open group has rows left. False when the epoch is over.
    fn open_group(&mut self, stop: &dyn Fn() -> bool) -> Result<bool, DataError> {
        loop {
            if !self.blocks.is_empty() && self.position.row < self.order.len() as u64 {
                return Ok(true);
            }
            let group_blocks = self.epoch.group_blocks();
            if !self.blocks.is_empty() {
                self.blocks.clear();
                self.position.group += 1;
                self.position.row = 0;
                self.readers.release(self.position.group * group_blocks);
            }
            let first = self.position.group.saturating_mul(group_blocks);
            let last = first.saturating_add(group_blocks).min(self.epoch.pieces());
            if first >= last {
                return Ok(false);
            }
            let began = Instant::now();
            for piece in first + self.arrived.len() as u64..last {
                let (rows, report) = self.readers.wait(piece, stop)?;
                count(&self.figures, &report);
                self.arrived.push(rows);
            }
            self.blocks = std::mem::take(&mut self.arrived);
            let waited_us = began.elapsed().as_micros() as u64;
            self.figures.lock().expect("no holder of the lock panics").waited_us += waited_us;
            let lengths: Vec<usize> = self.blocks.iter().map(Rows::len).collect();
            self.epoch.mixed(self.position.group, &lengths, &mut self.order);
            self.position.row = std::mem::take(&mut self.skip).min(self.order.len() as u64);
        }
    }
}

fn copy(into: &mut Rows, filled: usize, blocks: &[Rows], order: &[(u32, u32)]) {
    for field in 0..into.layout().fields.len() {
        let bytes = into.layout().fields[field].row_bytes();
        // Blocks are all of one size: the field begins at the same place in each.
        let first = blocks.first().map_or(0, |block| block.field_offset(field));
        let target = &mut into.field_mut(field)[filled * bytes..(filled + order.len()) * bytes];
        for (row, (block, from)) in target.chunks_exact_mut(bytes.max(1)).zip(order) {
            let from = first + *from as usize * bytes;
            row.copy_from_slice(&blocks[*block as usize].bytes()[from..from + bytes]);
        }
    }
}
