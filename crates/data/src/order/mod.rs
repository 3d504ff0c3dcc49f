//! Which rows come when.
//!
//! In: the rows of each unit, how strongly to mix, a seed, an epoch, a rank. Out: an [`Epoch`]: the pieces to read, one after the
//! other, and how the rows of each group of pieces are mixed. Everything follows from those numbers alone: not from threads, not from
//! time. The generator is our own, so that an order stays the same from one version to the next.

mod epoch;
mod permutation;
mod random;

use serde::{Deserialize, Serialize};

pub use epoch::{Epoch, Part, Piece, Settings};
pub use permutation::Permutation;
pub use random::Random;

/// How strongly rows are mixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shuffle {
    /// In the order of the files.
    #[default]
    None,
    /// In the order of the files, mixed within windows.
    Window,
    /// Units in random order, mixed within windows of many units.
    Block,
    /// Every order of all rows is as likely as every other.
    Global,
}

impl Shuffle {
    /// All of them, from weak to strong.
    pub const ALL: [Shuffle; 4] = [Shuffle::None, Shuffle::Window, Shuffle::Block, Shuffle::Global];

    /// As options name it.
    pub fn name(self) -> &'static str {
        match self {
            Shuffle::None => "none",
            Shuffle::Window => "window",
            Shuffle::Block => "block",
            Shuffle::Global => "global",
        }
    }
}

/// Which part of the rows this process takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// This process, from 0.
    pub rank: u64,
    /// How many processes there are.
    pub world: u64,
    /// Whether ranks may differ by one row, so that no row is left out. Otherwise up to `world - 1` rows of an epoch are, and all
    /// ranks have as many batches: what gradients that wait for each other need.
    pub keep_remainder: bool,
}

impl Default for Shard {
    fn default() -> Shard {
        Shard { rank: 0, world: 1, keep_remainder: true }
    }
}

impl Shard {
    /// The first row and the end of this rank's share, in the order of the epoch.
    pub fn range(&self, rows: u64) -> std::ops::Range<u64> {
        let (share, rest) = (rows / self.world, rows % self.world);
        if self.keep_remainder {
            let first = self.rank * share + self.rank.min(rest);
            first..first + share + u64::from(self.rank < rest)
        } else {
            self.rank * share..(self.rank + 1) * share
        }
    }
}
