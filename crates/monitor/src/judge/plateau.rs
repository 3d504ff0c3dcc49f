//! Memory that has come to rest.
//!
//! In: a series. Out: [`Plateau`], or none while it still moves. At rest is what stays, peaks and all, within a narrow band over the last half of the
//! series: then the highest that was seen is most likely the highest that comes, until the job does something else.

use super::series::{Bucket, Series};

/// Fewer say nothing.
const LEAST_WINDOWS: usize = 10;
const MOST_WINDOWS: usize = 48;
const WINDOW_SIZES: usize = 20;
/// The width of the band, as a share of the level and at least so many bytes.
const BAND_SHARE: f64 = 0.02;
const BAND_BYTES: f64 = 20e6;

/// A level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    /// The lowest of it.
    pub low_bytes: f64,
    /// Its peak.
    pub high_bytes: f64,
    /// The step, or minute, since when.
    pub since_x: f64,
}

/// Looks for rest at the end of a series.
pub fn plateau(series: &Series) -> Option<Plateau> {
    let windows = series.windows(0, WINDOW_SIZES, MOST_WINDOWS);
    if windows.len() < LEAST_WINDOWS {
        return None;
    }
    let last = windows.last()?;
    let band_bytes = (BAND_SHARE * last.high_bytes).max(BAND_BYTES);
    let alike = |window: &&Bucket| {
        (window.low_bytes - last.low_bytes).abs() <= band_bytes
            && (window.high_bytes - last.high_bytes).abs() <= band_bytes
    };
    let at_rest: Vec<Bucket> = windows.iter().rev().take_while(alike).copied().collect();
    if at_rest.len() * 2 < windows.len() {
        return None;
    }
    let whole = at_rest.into_iter().rev().reduce(Bucket::join)?;
    Some(Plateau { low_bytes: whole.low_bytes, high_bytes: whole.high_bytes, since_x: whole.first_x })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_is_told_from_growth() {
        let warm_up: Series =
            (0..600_u64).map(|step| (step as f64, 1_000_000_000 + 10_000_000 * step.min(100))).collect();
        let level = plateau(&warm_up).unwrap();
        assert!((level.high_bytes, level.since_x <= 120.0) == (2e9, true), "{level:?}");
        let grows: Series = (0..600_u64).map(|step| (step as f64, 1_000_000_000 + 1_000_000 * step)).collect();
        assert_eq!(plateau(&grows), None);
        assert_eq!(plateau(&Series::default()), None);
    }
}
