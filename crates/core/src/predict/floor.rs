//! What a trace asks for at once, at any batch, without running through the trace again.
//!
//! In: a trace. Out: [`FloorLines`]. At each moment the live requests add up to a straight line over the batch, and the floor
//! is the highest of these lines; those that are nowhere the highest are left out.

use crate::bytes::Size;
use crate::trace::{Event, Phase, Trace};

/// The floor's peak at one batch, and how fast that moment's requests grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FloorLine {
    /// Bytes asked for at once.
    pub bytes: u64,
    /// Of which for each further sample.
    pub per_sample: u64,
}

/// The moments at which the most is asked for, for one batch or another.
#[derive(Clone, Debug)]
pub struct FloorLines(Vec<Size>);

impl FloorLines {
    /// Adds up live requests; set-up counts for the state, not for the peak, as in a placement.
    pub fn of(trace: &Trace) -> FloorLines {
        let mut sizes = vec![Size::ZERO; trace.buffer_count as usize];
        let mut live = Size::ZERO;
        let mut moments = Vec::new();
        let (mut stepping, mut rising) = (false, false);
        for event in &trace.events {
            match *event {
                Event::Alloc { buffer, size, .. } => {
                    sizes[buffer.0 as usize] = size;
                    live.fixed = live.fixed.saturating_add(size.fixed);
                    live.per_sample = live.per_sample.saturating_add(size.per_sample);
                    rising = stepping;
                }
                Event::Free { buffer } => {
                    // More is alive before the first of several frees than at any moment since the last one.
                    if std::mem::take(&mut rising) {
                        add(&mut moments, live);
                    }
                    let freed = std::mem::replace(&mut sizes[buffer.0 as usize], Size::ZERO);
                    live.fixed = live.fixed.saturating_sub(freed.fixed);
                    live.per_sample = live.per_sample.saturating_sub(freed.per_sample);
                }
                Event::Relabel { .. } => {}
                Event::Mark { phase } => {
                    if std::mem::take(&mut rising) {
                        add(&mut moments, live);
                    }
                    stepping = phase != Phase::Setup;
                }
            }
        }
        if rising {
            add(&mut moments, live);
        }
        FloorLines(highest(moments))
    }

    /// The floor at one batch.
    pub fn at(&self, batch: u64) -> FloorLine {
        let lines = self.0.iter().map(|line| FloorLine { bytes: line.at(batch), per_sample: line.per_sample });
        lines.max_by_key(|line| line.bytes).unwrap_or_default()
    }
}

/// Adds a moment, unless the one before covers it at every batch; those that it covers itself go. Memory rises through the
/// forward pass and falls through the backward pass, so that few of thousands are left to sort.
fn add(moments: &mut Vec<Size>, moment: Size) {
    let covers = |a: Size, b: Size| a.fixed >= b.fixed && a.per_sample >= b.per_sample;
    if moments.last().is_some_and(|&last| covers(last, moment)) {
        return;
    }
    while moments.last().is_some_and(|&last| covers(moment, last)) {
        moments.pop();
    }
    moments.push(moment);
}

/// The lines that are the highest somewhere, the flattest first.
fn highest(mut lines: Vec<Size>) -> Vec<Size> {
    lines.sort_unstable_by_key(|line| (line.per_sample, line.fixed));
    let mut kept: Vec<Size> = Vec::new();
    for line in lines {
        while kept.last().is_some_and(|last| last.fixed <= line.fixed) {
            kept.pop();
        }
        while let [.., before, last] = kept[..]
            && is_covered(before, last, line)
        {
            kept.pop();
        }
        kept.push(line);
    }
    kept
}

/// Whether the middle one of three ever steeper, ever lower lines is nowhere higher than both others: the third overtakes the
/// first before the second does.
fn is_covered(first: Size, second: Size, third: Size) -> bool {
    let product = |bytes: u64, slope: u64| u128::from(bytes) * u128::from(slope);
    product(first.fixed - third.fixed, second.per_sample - first.per_sample)
        <= product(first.fixed - second.fixed, third.per_sample - first.per_sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{BufferId, CauseId, Role};

    #[test]
    fn the_floor_is_the_largest_sum_of_a_step() {
        let alloc =
            |buffer, size| Event::Alloc { buffer: BufferId(buffer), size, cause: CauseId(0), role: Role::Temporary };
        let free = |buffer| Event::Free { buffer: BufferId(buffer) };
        let mark = |phase| Event::Mark { phase };
        let events = vec![
            mark(Phase::Setup),
            alloc(0, Size::fixed(100)),
            alloc(1, Size::fixed(1000)),
            free(1),
            mark(Phase::Forward),
            alloc(2, Size::per_sample(10)),
            alloc(3, Size { fixed: 0, per_sample: 7 }),
            free(2),
        ];
        let trace = Trace { events, causes: Default::default(), buffer_count: 4 };
        let floor = FloorLines::of(&trace);
        assert_eq!(floor.at(2), FloorLine { bytes: 134, per_sample: 17 });
        assert_eq!(floor.at(9), FloorLine { bytes: 253, per_sample: 17 });
    }

    #[test]
    fn no_line_that_is_ever_the_highest_is_left_out() {
        let line = |fixed, per_sample| Size { fixed, per_sample };
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let all: Vec<Size> = (0..1 + random(30)).map(|_| line(random(1000), random(20))).collect();
            let kept = FloorLines(highest(all.clone()));
            for batch in 0..200 {
                assert_eq!(kept.at(batch).bytes, all.iter().map(|line| line.at(batch)).max().unwrap());
            }
        }
        assert_eq!(highest(vec![line(10, 0), line(5, 1), line(0, 2)]), [line(10, 0), line(0, 2)]);
        assert_eq!(highest(vec![line(9, u64::MAX), line(u64::MAX, 9), line(8, 8)]).len(), 2);
    }
}
