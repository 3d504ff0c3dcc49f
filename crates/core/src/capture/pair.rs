//! Two recordings of the same step with two batches, made one whose sizes depend on the batch.
//!
//! In: the rows of both. Out: rows with the size of each request, exact at the first recording's batch, and up to which
//! batch the sizes hold. Scratch follows no rule: a kernel may take it with one batch and not with another, so rows of
//! scratch need not agree, and for other batches than the first it is bounded. Not here: recordings that differ in anything
//! else; they cannot be paired.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::rows::{Kind, Row};
use crate::bytes::Size;
use crate::trace::Role;

/// A row and the size of its request; zero for rows that ask for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizedRow {
    /// The row.
    pub row: Row,
    /// How much it asks for, as a function of the batch.
    pub size: Size,
    /// How much it asks for with the recorded batch, where that is not what `size` says.
    pub recorded_bytes: Option<u64>,
}

/// What pairing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paired {
    /// The rows of the first recording, and scratch that only the second has.
    pub rows: Vec<SizedRow>,
    /// No size is known above this batch, because one grows faster than the batch; none if all grow in proportion.
    pub known_up_to: Option<u64>,
}

/// Rows with sizes that hold for the recorded batch alone.
pub fn alone(rows: &[Row]) -> Vec<SizedRow> {
    rows.iter().map(|row| SizedRow { row: *row, size: Size::fixed(row.bytes), recorded_bytes: None }).collect()
}

/// Rows with sizes as a function of the batch; none if the recordings are not of the same step.
pub fn pair(batch_a: u64, rows_a: &[Row], batch_b: u64, rows_b: &[Row]) -> Option<Paired> {
    let (parts_a, parts_b) = (Parts::of(rows_a), Parts::of(rows_b));
    let twins = parts_a.same_as(rows_a, &parts_b, rows_b)?;
    let mut scratch_b = parts_b.scratch_by_place(rows_b);
    let mut known_up_to = None;
    let mut sized = Vec::with_capacity(rows_a.len());
    for (index, row) in rows_a.iter().enumerate() {
        let (size, recorded_bytes) = match (row.kind, twins[index]) {
            (Kind::Alloc(Role::Workspace), _) => {
                let other = scratch_b.get_mut(&(parts_a.place[index], row.op)).filter(|found| !found.is_empty());
                let other_bytes = other.map_or(0, |found| rows_b[found.remove(0)].bytes);
                scratch(batch_a, row.bytes, batch_b, other_bytes)
            }
            (Kind::Alloc(_), Some(twin)) => {
                let (size, proportional) = line(batch_a, row.bytes, batch_b, rows_b[twin].bytes);
                if !proportional {
                    known_up_to = Some(batch_a);
                }
                (size, None)
            }
            _ => (Size::ZERO, None),
        };
        sized.push(SizedRow { row: *row, size, recorded_bytes });
    }
    let only_b: Vec<usize> = scratch_b.into_values().flatten().collect();
    let rows = with_scratch_of(batch_a, sized, &parts_a, batch_b, rows_b, &parts_b, only_b);
    Some(Paired { rows, known_up_to })
}

/// The rows of a recording, told apart: those of scratch, and the others, which are numbered.
struct Parts {
    /// Rows that are not of scratch.
    main: Vec<usize>,
    /// How many rows that are not of scratch come before each row.
    place: Vec<usize>,
}

impl Parts {
    fn of(rows: &[Row]) -> Parts {
        let mut scratch = vec![false; rows.len()];
        let (mut main, mut place) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for (index, row) in rows.iter().enumerate() {
            place.push(main.len());
            let is_scratch = match row.kind {
                Kind::Alloc(role) => {
                    scratch[row.buffer as usize] = role == Role::Workspace;
                    role == Role::Workspace
                }
                Kind::Free | Kind::Relabel(_) => scratch[row.buffer as usize],
                Kind::Mark(_) | Kind::Step => false,
            };
            if !is_scratch {
                main.push(index);
            }
        }
        Parts { main, place }
    }

    /// For each request of the first its twin in the second; none if rows that are not of scratch differ in more than sizes.
    /// Buffers that go at once may go in any order: a cache that is cleared has none.
    fn same_as(&self, rows_a: &[Row], other: &Parts, rows_b: &[Row]) -> Option<Vec<Option<usize>>> {
        if self.main.len() != other.main.len() {
            return None;
        }
        let mut twins = vec![None; rows_a.len()];
        // Scratch takes numbers too, so those of the other buffers may be shifted.
        let mut names: FxHashMap<u32, u32> = FxHashMap::default();
        let (mut gone_a, mut gone_b): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        let all_gone = |gone_a: &mut Vec<u32>, gone_b: &mut Vec<u32>| {
            gone_a.sort_unstable();
            gone_b.sort_unstable();
            let same = gone_a == gone_b;
            gone_a.clear();
            gone_b.clear();
            same
        };
        for (&a, &b) in self.main.iter().zip(&other.main) {
            let (row_a, row_b) = (&rows_a[a], &rows_b[b]);
            if (row_a.kind, row_a.op, row_a.module) != (row_b.kind, row_b.op, row_b.module) {
                return None;
            }
            if row_a.kind == Kind::Free {
                gone_a.push(row_a.buffer);
                gone_b.push(*names.get(&row_b.buffer)?);
                continue;
            }
            let agrees = all_gone(&mut gone_a, &mut gone_b)
                && match row_a.kind {
                    Kind::Alloc(_) => names.insert(row_b.buffer, row_a.buffer).is_none(),
                    Kind::Free | Kind::Relabel(_) => names.get(&row_b.buffer) == Some(&row_a.buffer),
                    Kind::Step => row_a.buffer == row_b.buffer,
                    Kind::Mark(_) => true,
                };
            if !agrees {
                return None;
            }
            twins[a] = Some(b);
        }
        all_gone(&mut gone_a, &mut gone_b).then_some(twins)
    }

    /// The requests for scratch by place and op, in order.
    fn scratch_by_place(&self, rows: &[Row]) -> BTreeMap<(usize, u32), Vec<usize>> {
        let mut found: BTreeMap<(usize, u32), Vec<usize>> = BTreeMap::new();
        for (index, row) in rows.iter().enumerate() {
            if row.kind == Kind::Alloc(Role::Workspace) {
                found.entry((self.place[index], row.op)).or_default().push(index);
            }
        }
        found
    }
}

/// The rows of the first recording and, at the same places, the scratch that only the second took: nothing with the recorded
/// batch, and as a bound with others.
fn with_scratch_of(
    batch_a: u64,
    sized: Vec<SizedRow>,
    parts_a: &Parts,
    batch_b: u64,
    rows_b: &[Row],
    parts_b: &Parts,
    only_b: Vec<usize>,
) -> Vec<SizedRow> {
    if only_b.is_empty() {
        return sized;
    }
    let taken = sized.iter().filter(|sized| matches!(sized.row.kind, Kind::Alloc(_))).count() as u32;
    let mut names: FxHashMap<u32, u32> = FxHashMap::default();
    for (buffer, index) in (taken..).zip(only_b) {
        names.insert(rows_b[index].buffer, buffer);
    }
    let mut added: BTreeMap<usize, Vec<SizedRow>> = BTreeMap::new();
    for (index, row) in rows_b.iter().enumerate() {
        let owns = matches!(row.kind, Kind::Alloc(_) | Kind::Free | Kind::Relabel(_));
        let Some(&buffer) = names.get(&row.buffer).filter(|_| owns) else { continue };
        let (size, recorded_bytes) = match row.kind {
            Kind::Alloc(_) => scratch(batch_a, 0, batch_b, row.bytes),
            _ => (Size::ZERO, None),
        };
        let row = Row { buffer, bytes: 0, ..*row };
        added.entry(parts_b.place[index]).or_default().push(SizedRow { row, size, recorded_bytes });
    }
    let mut rows = Vec::with_capacity(sized.len() + added.len() * 2);
    let mut main = parts_a.main.iter().enumerate().peekable();
    for (index, row) in sized.into_iter().enumerate() {
        if let Some((place, _)) = main.next_if(|(_, at)| **at == index) {
            rows.extend(added.remove(&place).into_iter().flatten());
        }
        rows.push(row);
    }
    rows.extend(added.into_values().flatten());
    rows
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
    // Rounded up: what is padded must not seem to grow more slowly than it does.
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

/// A size for scratch, and what it is with the first batch if that differs: the larger of two where it shrinks with the
/// batch, proportional to the batch by the larger share where it grows faster than that.
fn scratch(batch_a: u64, bytes_a: u64, batch_b: u64, bytes_b: u64) -> (Size, Option<u64>) {
    let (size, holds) = line(batch_a, bytes_a, batch_b, bytes_b);
    let grows = bytes_a == bytes_b || (bytes_a > bytes_b) == (batch_a > batch_b);
    let bound = match (holds, grows) {
        (true, true) => return (size, None),
        (_, false) => Size::fixed(bytes_a.max(bytes_b)),
        (false, true) => Size::per_sample(bytes_a.div_ceil(batch_a).max(bytes_b.div_ceil(batch_b))),
    };
    (bound, (bound.at(batch_a) != bytes_a).then_some(bytes_a))
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

    #[test]
    fn scratch_is_exact_where_recorded_and_bounded_elsewhere() {
        assert_eq!(scratch(8, 800, 4, 400), (Size::per_sample(100), None));
        // It shrinks, it comes, it goes, it grows with the square.
        assert_eq!(scratch(8, 300, 4, 600), (Size::fixed(600), Some(300)));
        assert_eq!(scratch(4, 0, 8, 800), (Size::per_sample(100), Some(0)));
        assert_eq!(scratch(4, 400, 8, 0), (Size::fixed(400), None));
        assert_eq!(scratch(16, 1024, 8, 256), (Size::per_sample(64), None));
        assert_eq!(scratch(8, 256, 16, 1024), (Size::per_sample(64), Some(256)));
    }
}
