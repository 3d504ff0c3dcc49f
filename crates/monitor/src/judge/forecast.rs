//! When a leak meets the limit.
//!
//! In: a series, its leak, and the limit. Out: [`Forecast`], the step or minute at which the highest of what the job does meets it. It dies at a
//! peak, not at the lowest, so what recent peaks were above is added. None without a leak. Not foreseen: a leak that changes its pace.

use super::leak::Leak;
use super::series::Series;

/// The share of the series, at its end, whose peaks count as recent.
const RECENT_PART: usize = 4;

/// When the limit is met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// The step, or minute.
    pub at_x: f64,
    /// The earliest, at the fastest rate that the leak may have.
    pub earliest_x: f64,
    /// The latest; none if the slowest rate never gets there.
    pub latest_x: Option<f64>,
    /// From the end of the series to then: steps or minutes that are left.
    pub left_x: f64,
    /// Bytes that are left, at a peak.
    pub left_bytes: f64,
}

/// Works it out. A limit that has been met is met now.
pub fn forecast(series: &Series, leak: &Leak, limit_bytes: u64) -> Option<Forecast> {
    let buckets = series.buckets();
    let recent = buckets.get(buckets.len() - buckets.len().div_ceil(RECENT_PART)..)?;
    let now_x = recent.last()?.last_x;
    // Each peak as it would be now, had it grown since.
    let grown = |bucket: &super::series::Bucket| bucket.high_bytes + leak.bytes_per_x * (now_x - bucket.middle_x());
    let high_bytes = recent.iter().map(grown).fold(f64::MIN, f64::max);
    let left_bytes = (limit_bytes as f64 - high_bytes).max(0.0);
    let at = |rate: f64| (rate > 0.0).then(|| now_x + left_bytes / rate);
    let at_x = at(leak.bytes_per_x)?;
    Some(Forecast {
        at_x,
        earliest_x: at(leak.high_bytes_per_x).unwrap_or(at_x),
        latest_x: at(leak.low_bytes_per_x),
        left_x: at_x - now_x,
        left_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Rule, leak};

    #[test]
    fn a_leak_of_a_megabyte_a_step_meets_the_limit_when_it_should() {
        // 1 GB at first, 1 MB more each step, and every 50 steps a peak of 500 MB.
        let size = |step: u32| {
            1_000_000_000 + u64::from(step) * 1_000_000 + if step.is_multiple_of(50) { 500_000_000 } else { 0 }
        };
        let series: Series = (0..600).map(|step| (f64::from(step), size(step))).collect();
        let leak = leak(&series, Rule::STEPS).unwrap();
        assert!((leak.bytes_per_x - 1e6).abs() < 1e4 && leak.confidence() > 0.9, "{leak:?}");
        let met = forecast(&series, &leak, 4_000_000_000).unwrap();
        assert!((met.at_x - 2500.0).abs() < 20.0 && met.earliest_x <= met.at_x, "{met:?}");
        assert_eq!(forecast(&series, &leak, 1_000).unwrap().left_x, 0.0);
        assert_eq!(forecast(&Series::default(), &leak, 1_000), None);
    }
}
