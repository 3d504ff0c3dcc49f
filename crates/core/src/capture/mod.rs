//! A recording of what a real framework asks of its allocator, made a trace whose sizes depend on the batch.
//!
//! In: rows as `python/brimful/torch` writes them, recorded once or with two batches. Out: [`Capture`]: a [`Recording`],
//! and what is known about other batches. Rows that contradict themselves are errors, never panics. Nothing here knows where
//! bytes are placed, or what a remedy does.

mod error;
mod pair;
mod recording;
mod rows;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;

pub use error::{CaptureError, MAX_RECORDED_BATCH};
pub use recording::{Buffer, Dtype, Event, Recording};
pub use rows::COLUMNS;

/// What a framework asks for in the steps that were recorded.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The steps.
    pub recording: Recording,
    /// The batch that was recorded; sizes are exact for it.
    pub batch: u64,
    /// Whether sizes depend on the batch. If not, they hold for [`batch`](Capture::batch) alone.
    pub paired: bool,
    /// Sizes are known up to this batch only, because one grows faster than the batch; none if there is no such end.
    pub known_up_to: Option<u64>,
}

impl Capture {
    /// Reads a recording, and pairs it with a second one of another batch where there is one. Recordings that are not of the
    /// same step are no error: the first is then used alone.
    pub fn new(
        strings: Vec<String>,
        batch_a: u64,
        rows_a: &[u8],
        batch_b: u64,
        rows_b: Option<&[u8]>,
    ) -> Result<Capture, CaptureError> {
        if strings.first().is_none_or(|first| !first.is_empty()) {
            return Err(CaptureError::NoEmptyString);
        }
        check_batch(batch_a)?;
        let first = rows::read('a', rows_a, strings.len())?;
        let paired = match rows_b {
            Some(rows_b) => {
                check_batch(batch_b)?;
                if batch_a == batch_b {
                    return Err(CaptureError::SameBatch(batch_a));
                }
                let second = rows::read('b', rows_b, strings.len())?;
                pair::pair(batch_a, &first, batch_b, &second)
            }
            None => None,
        };
        let is_paired = paired.is_some();
        let paired = paired.unwrap_or_else(|| pair::Paired { rows: pair::alone(&first), known_up_to: Some(batch_a) });
        let recording = Recording::new(strings, batch_a, &paired.rows);
        Ok(Capture { recording, batch: batch_a, paired: is_paired, known_up_to: paired.known_up_to })
    }

    /// Whether the sizes say anything about a batch.
    pub fn knows(&self, batch: u64) -> bool {
        if self.paired { self.known_up_to.is_none_or(|most| batch <= most) } else { batch == self.batch }
    }
}

fn check_batch(batch: u64) -> Result<(), CaptureError> {
    if (1..=MAX_RECORDED_BATCH).contains(&batch) { Ok(()) } else { Err(CaptureError::BadBatch(batch)) }
}
