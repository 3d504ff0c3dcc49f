//! Where an epoch was left, to go on from there.
//!
//! In: the settings of a loader, how far it came. Out: a few numbers, which the caller keeps with a checkpoint. Rows are counted within
//! their group, so going on reads one group again and nothing before it.

use serde::{Deserialize, Serialize};

use crate::DataError;
use crate::order::{Shard, Shuffle};

/// Changes when positions of an older brimful would mean other rows.
pub(super) const VERSION: u32 = 1;

/// The next row of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Of the order's rules.
    pub version: u32,
    /// Of the files.
    pub fingerprint: u64,
    /// Of the order.
    pub seed: u64,
    /// Which pass.
    pub epoch: u64,
    /// How strongly rows are mixed.
    pub shuffle: Shuffle,
    /// Whose rows.
    pub shard: Shard,
    /// Rows of a block.
    pub block_rows: u64,
    /// Blocks of a group.
    pub group_blocks: usize,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Groups that are over.
    pub group: u64,
    /// Rows of the next group that were handed out.
    pub row: u64,
}

impl Position {
    /// Whether a loader with these settings gives the same rows in the same order.
    pub(super) fn check(&self, own: &Position) -> Result<(), DataError> {
        let wrong = |what: &str| {
            Err(DataError::Request(format!(
                "this position cannot be continued: {what}; open the data as it was opened then"
            )))
        };
        if self.version != own.version {
            return wrong("it was made by another version of brimful");
        }
        if self.fingerprint != own.fingerprint {
            return wrong("the files have changed since");
        }
        if (self.seed, self.shuffle, self.shard) != (own.seed, own.shuffle, own.shard) {
            return wrong("the seed, the shuffle or the rank is another one");
        }
        if (self.block_rows, self.group_blocks) != (own.block_rows, own.group_blocks) {
            return wrong("the window is another one, because the memory or the columns are");
        }
        Ok(())
    }
}
