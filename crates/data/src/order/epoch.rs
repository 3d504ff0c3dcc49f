//! One pass over the rows: the pieces in the order in which they are read, in groups that are mixed.
//!
//! In: units with their rows, the settings. Out: [`Piece`]s by number, in constant time; for each group the order of its rows. A piece
//! is what one reader reads at once into one block of memory. Not here: which thread reads it, and when.

use super::{Permutation, Random, Shard, Shuffle};

/// Rows of a unit that one reader reads at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The unit.
    pub unit: u32,
    /// The first row within the unit.
    pub first: u64,
    /// How many rows.
    pub rows: u64,
}

/// What one reader reads at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A part of a unit.
    Part(Part),
    /// Places of the global order.
    Places {
        /// The first place.
        first: u64,
        /// How many.
        count: u64,
    },
}

/// What decides an order, besides the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How strongly.
    pub shuffle: Shuffle,
    /// The seed.
    pub seed: u64,
    /// Which pass.
    pub epoch: u64,
    /// Whose rows.
    pub shard: Shard,
    /// Rows that a block of memory holds.
    pub block_rows: u64,
    /// Blocks that are mixed together.
    pub group_blocks: usize,
}

const UNITS: u64 = 1;
const GROUPS: u64 = 2;
const PLACES: u64 = 3;

/// The order of one epoch.
pub struct Epoch {
    settings: Settings,
    /// Empty for a global order.
    parts: Vec<Part>,
    /// For a global order: the order of all rows, and this rank's places in it.
    global: Option<(Permutation, std::ops::Range<u64>)>,
    rows: u64,
}

impl Epoch {
    /// The order that follows from the settings. `unit_rows` in the order of the files.
    pub fn new(unit_rows: &[u64], settings: Settings) -> Epoch {
        let total: u64 = unit_rows.iter().sum();
        let mine = settings.shard.range(total);
        let rows = mine.end - mine.start;
        if settings.shuffle == Shuffle::Global {
            let permutation = Permutation::new(total, &mut Random::new(settings.seed, &[settings.epoch, PLACES]));
            return Epoch { settings, parts: Vec::new(), global: Some((permutation, mine)), rows };
        }
        let mut order: Vec<u32> = (0..unit_rows.len() as u32).collect();
        if settings.shuffle == Shuffle::Block {
            Random::new(settings.seed, &[settings.epoch, UNITS]).shuffle(&mut order);
        }
        let mut parts = Vec::new();
        let mut before = 0;
        for unit in order {
            let count = unit_rows[unit as usize];
            // What of this unit lies in this rank's share.
            let (mut first, last) = (mine.start.max(before), mine.end.min(before + count));
            while first < last {
                let rows = (last - first).min(settings.block_rows);
                parts.push(Part { unit, first: first - before, rows });
                first += rows;
            }
            before += count;
        }
        Epoch { settings, parts, global: None, rows }
    }

    /// Rows of this rank.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many pieces there are.
    pub fn pieces(&self) -> u64 {
        match &self.global {
            Some(_) => self.rows.div_ceil(self.settings.block_rows),
            None => self.parts.len() as u64,
        }
    }

    /// A piece by its number.
    pub fn piece(&self, number: u64) -> Piece {
        match &self.global {
            Some((_, mine)) => {
                let first = mine.start + number * self.settings.block_rows;
                Piece::Places { first, count: (mine.end - first).min(self.settings.block_rows) }
            }
            None => Piece::Part(self.parts[number as usize]),
        }
    }

    /// The rows at places of the global order, ascending, each with its place in the block.
    pub fn rows_at(&self, first: u64, count: u64, into: &mut Vec<(u64, u32)>) {
        let (permutation, _) = self.global.as_ref().expect("asked for a global order only");
        into.clear();
        into.extend((0..count).map(|place| (permutation.at(first + place), place as u32)));
        into.sort_unstable();
    }

    /// Blocks of a group.
    pub fn group_blocks(&self) -> u64 {
        if self.global.is_some() { 1 } else { self.settings.group_blocks as u64 }
    }

    /// The order of the rows of a group: for each row the block within the group, and the row within the block.
    pub fn mixed(&self, group: u64, block_rows: &[usize], into: &mut Vec<(u32, u32)>) {
        into.clear();
        // Block by block: of a range it is known how long it is, and nothing is asked for each row.
        for (block, &rows) in block_rows.iter().enumerate() {
            into.extend((0..rows as u32).map(|row| (block as u32, row)));
        }
        if matches!(self.settings.shuffle, Shuffle::Window | Shuffle::Block) {
            Random::new(self.settings.seed, &[self.settings.epoch, GROUPS, group]).shuffle(into);
        }
    }

    /// Bytes that the order itself holds for so many units.
    pub fn bytes(units: usize, most_rows_of_group: u64) -> u64 {
        units as u64 * (size_of::<Part>() + size_of::<u32>()) as u64
            + most_rows_of_group * size_of::<(u32, u32)>() as u64
    }
}
