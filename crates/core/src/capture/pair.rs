//! Two recordings of the same step with two batches, made one whose sizes depend on the batch.
//!
//! In: the rows of both. Out: a [`Size`] for each allocation, exact at the first recording's batch, and up to which batch
//! the sizes hold. Not here: recordings whose rows differ in more than sizes; they cannot be paired.

use super::rows::{Kind, Row};
use crate::bytes::Size;

/// What pairing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The size of each row's request; zero for rows that ask for nothing.
    pub rows: Vec<Size>,
    /// No size is known above this batch, because one grows faster than the batch; none if all grow in proportion.
    pub known_up_to: Option<u64>,
}

/// Sizes that hold for the recorded batch alone.
pub fn alone(rows: &[Row]) -> Vec<Size> {
    rows.iter().map(|row| Size::fixed(row.bytes)).collect()
}

/// Sizes as a function of the batch; none if the recordings are not of the same step.
pub fn pair(batch_a: u64, rows_a: &[Row], batch_b: u64, rows_b: &[Row]) -> Option<Sizes> {
    let same = |(a, b): (&Row, &Row)| (a.kind, a.buffer, a.op, a.module) == (b.kind, b.buffer, b.op, b.module);
    if rows_a.len() != rows_b.len() || !rows_a.iter().zip(rows_b).all(same) {
        return None;
    }
    let mut known_up_to = None;
    let rows = rows_a.iter().zip(rows_b).map(|(a, b)| {
        if !matches!(a.kind, Kind::Alloc(_)) {
            return Size::ZERO;
        }
        let (size, proportional) = line(batch_a, a.bytes, batch_b, b.bytes);
        if !proportional {
            known_up_to = Some(batch_a);
        }
        size
    });
    Some(Sizes { rows: rows.collect(), known_up_to })
}

/// The line through two sizes, in whole bytes, and whether it holds above the first batch. It always goes through the first
/// size. Where no line with a positive start does so, the size is taken as proportional, which errs on the large side for
/// smaller batches; where the size shrinks with the batch, it is taken as fixed.
fn line(batch_a: u64, bytes_a: u64, batch_b: u64, bytes_b: u64) -> (Size, bool) {
    if bytes_a == bytes_b {
        return (Size::fixed(bytes_a), true);
    }
    let (more_samples, more_bytes) = if batch_a > batch_b {
        (batch_a - batch_b, bytes_a.checked_sub(bytes_b))
    } else {
        (batch_b - batch_a, bytes_b.checked_sub(bytes_a))
    };
    let Some(more_bytes) = more_bytes else { return (Size::fixed(bytes_a), true) };
    // Rounded up: a kernel that pads its scratch must not seem to grow more slowly than it does.
    let per_sample = more_bytes.div_ceil(more_samples);
    if let Some(fixed) = per_sample.checked_mul(batch_a).and_then(|grown| bytes_a.checked_sub(grown)) {
        return (Size { fixed, per_sample }, true);
    }
    let per_sample = bytes_a / batch_a;
    let size = Size { fixed: bytes_a - per_sample * batch_a, per_sample };
    // A sixty-fourth more than in proportion is padding; beyond that, something grows with the square of the batch.
    let in_proportion = size.at(batch_b);
    let (small, large) = if batch_a > batch_b { (bytes_b, in_proportion) } else { (in_proportion, bytes_b) };
    (size, large <= small.saturating_add(small / 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_batch() {
        assert_eq!(line(8, 800, 4, 400), (Size::per_sample(100), true));
        assert_eq!(line(8, 1000, 4, 600), (Size { fixed: 200, per_sample: 100 }, true));
        assert_eq!(line(4, 600, 8, 1000), (Size { fixed: 200, per_sample: 100 }, true));
        assert_eq!(line(4, 600, 8, 600), (Size::fixed(600), true));
        // Scratch that shrinks: what the recorded batch needs.
        assert_eq!(line(8, 300, 4, 600), (Size::fixed(300), true));
    }

    #[test]
    fn every_line_goes_through_the_first_size() {
        for (a, bytes_a, b, bytes_b) in
            [(7, 1001, 3, 555), (3, 555, 7, 1001), (5, 26, 2, 5), (1, 3, 2, 1 << 40), (9, 0, 2, 7)]
        {
            assert_eq!(line(a, bytes_a, b, bytes_b).0.at(a), bytes_a, "{a} {bytes_a} {b} {bytes_b}");
        }
    }

    #[test]
    fn a_square_of_the_batch_is_not_trusted_above_it() {
        // 4 bytes for each pair of samples: too much for smaller batches, unknown for larger ones.
        let (size, holds) = line(16, 1024, 8, 256);
        assert!(!holds && size.at(16) == 1024 && size.at(8) >= 256);
        let (size, holds) = line(8, 256, 16, 1024);
        assert!(!holds && size.at(8) == 256);
        // Padding is not a square.
        assert!(line(16, 16_160, 8, 8_064).1);
    }
}
