//! Growth that goes on: a leak.
//!
//! In: a [`Series`], of the job's memory or the device's, over steps or minutes. Out: [`Leak`], with its rate, or none. The first quarter is left
//! out, since jobs grow while they warm up. Of the rest, the lowest of each stretch is looked at: garbage that is collected now and then, and
//! evaluation, are above it. These must rise by Mann–Kendall, by more than a floor, in a way that no growth that ends explains ([`lasting_z`]), and the last half at no less than
//! a part of the pace of the whole, since caches fill ever more slowly. The bounds below were chosen on the generated jobs of `tests/leak.rs`. Not told apart: a cache that fills at an even pace, until it is full; jumps that
//! come several times, as the pieces of a leak do.

use super::ending::lasting_z;
use super::series::Series;
use super::trend::trend;

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Growth below this is none.
    pub floor_bytes: f64,
    /// Sizes of which the lowest is looked at.
    pub window_sizes: usize,
    /// Steps, or minutes, that are as good as so many sizes: fast steps are not all looked at.
    pub window_x: f64,
    /// Steps, or minutes, before anything can be said.
    pub least_x: f64,
    /// Steps, or minutes, after which it can be trusted: when a [`Watch`](super::Watch) first looks.
    pub enough_x: f64,
}

impl Rule {
    /// For a series with one size for each step.
    pub const STEPS: Rule =
        Rule { floor_bytes: 20e6, window_sizes: 20, window_x: 20.0, least_x: 200.0, enough_x: 596.0 };
    /// For a series over minutes, at ten sizes a second. Loading data is even growth, too: nothing is said for a while, and where steps are
    /// known they are the better series.
    pub const MINUTES: Rule =
        Rule { floor_bytes: 20e6, window_sizes: 100, window_x: f64::INFINITY, least_x: 5.0, enough_x: 15.0 };
}

/// A window has no fewer sizes, however many steps it is.
const LEAST_SIZES: usize = 5;
/// Fewer say nothing.
const LEAST_WINDOWS: usize = 8;
/// More cost time and say no more; fewer are longer.
const MOST_WINDOWS: [usize; 3] = [48, 18, 9];
/// How far from chance the order must be.
const LEAST_Z: f64 = 3.0;
/// So steady a rise needs no allowance for points that hang together: a leak of one large piece now and then.
const STEADY_TAU: f64 = 0.9;
/// The pace of the last half, as a part of the pace of the whole.
const LEAST_LAST_PACE: f64 = 0.55;
/// The pace of the last third, if all goes well for it, as a part of the pace of the third before.
const LEAST_THIRD_PACE: f64 = 0.75;
/// How far from growth that ends, when a series is first looked at, where a small leak is hardly farther.
const LEAST_LASTING_Z: f64 = 1.5;
/// The same for each look after that: chance has more of them, and a leak that went on is much farther by then.
const LEAST_LASTING_Z_LATER: f64 = 3.0;
/// Longer than at the first look, by this, is later.
const LATER: f64 = 1.2;
/// The growth of the last half, as a part of the floor.
const LEAST_LAST_PART: f64 = 0.5;

/// Growth that goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leak {
    /// Bytes for each step, or minute: whatever the series is over.
    pub bytes_per_x: f64,
    /// The 95 % interval of that.
    pub low_bytes_per_x: f64,
    /// Its upper end.
    pub high_bytes_per_x: f64,
    /// How far it is from chance, in standard deviations.
    pub z: f64,
    /// Growth over what was looked at.
    pub grown_bytes: f64,
    /// The step, or minute, from which on it was looked at.
    pub from_x: f64,
    /// The last one.
    pub to_x: f64,
}

impl Leak {
    /// How sure it is, from 0 to 1: the rate's interval is narrow and the order far from chance. Every standard deviation beyond the first
    /// halves the doubt: what is said at all, at three of them, has three quarters.
    pub fn confidence(&self) -> f64 {
        let width = (self.high_bytes_per_x - self.low_bytes_per_x) / (2.0 * self.bytes_per_x);
        (1.0 - width.clamp(0.0, 1.0) / 2.0) * (1.0 - (1.0 - self.z).exp2()).clamp(0.0, 1.0)
    }
}

/// Looks for a leak, in short stretches and in longer ones: garbage may be collected more rarely than a short one lasts.
pub fn leak(series: &Series, rule: Rule) -> Option<Leak> {
    let (first, last) = (series.buckets().first()?, series.buckets().last()?);
    if last.last_x - first.first_x < rule.least_x {
        return None;
    }
    MOST_WINDOWS.into_iter().find_map(|most_windows| leak_in(series, rule, most_windows))
}

fn leak_in(series: &Series, rule: Rule, most_windows: usize) -> Option<Leak> {
    let windows = series.windows(series.buckets().len() / 4, window_sizes(series, rule), most_windows);
    if windows.len() < LEAST_WINDOWS {
        return None;
    }
    let lows: Vec<(f64, f64)> = windows.iter().map(|window| (window.middle_x(), window.low_bytes)).collect();
    let (first, last) = (windows.first()?, windows.last()?);
    let whole = trend(&lows);
    let grown_bytes = whole.slope * (last.middle_x() - first.middle_x());
    let is_steady = whole.tau > STEADY_TAU;
    let by_order = whole.z > LEAST_Z && (whole.careful_z > LEAST_Z || is_steady);
    let is_later = last.last_x - series.buckets().first()?.first_x > LATER * rule.enough_x;
    let least_lasting_z = if is_later { LEAST_LASTING_Z_LATER } else { LEAST_LASTING_Z };
    let is_leak = by_order
        && grown_bytes > rule.floor_bytes
        && goes_on(&lows, whole.slope, rule)
        && lasting_z(&lows, !is_steady) > least_lasting_z;
    is_leak.then_some(Leak {
        bytes_per_x: whole.slope,
        low_bytes_per_x: whole.slope_low,
        high_bytes_per_x: whole.slope_high,
        z: whole.z,
        grown_bytes,
        from_x: first.first_x,
        to_x: last.last_x,
    })
}

/// The sizes of a window: as many as the rule says, or fewer where steps lie between them.
fn window_sizes(series: &Series, rule: Rule) -> usize {
    let enough = rule.window_x / series.spacing_x().max(f64::MIN_POSITIVE);
    // Infinite is as many as the rule says.
    rule.window_sizes.min((enough.ceil() as usize).max(LEAST_SIZES))
}

/// Whether the last half grows, by a part of the floor and of the pace of the whole, and the last third is not clearly slower than the one before.
fn goes_on(lows: &[(f64, f64)], pace: f64, rule: Rule) -> bool {
    let (_, half) = lows.split_at(lows.len() / 2);
    let (before, third) = lows[lows.len() - lows.len() / 3 * 2..].split_at(lows.len() / 3);
    let (Some(from), Some(to)) = (half.first(), half.last()) else { return false };
    let last_pace = trend(half).slope;
    let slows_down = trend(third).slope_high < LEAST_THIRD_PACE * trend(before).slope;
    let grown_bytes = last_pace * (to.0 - from.0);
    last_pace >= LEAST_LAST_PACE * pace && grown_bytes > rule.floor_bytes * LEAST_LAST_PART && !slows_down
}
