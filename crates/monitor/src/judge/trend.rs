//! Whether sizes rise, and how fast: Mann–Kendall and Theil–Sen, which single outliers do not move.
//!
//! In: points in order of x. Out: [`Trend`]. Points that hang together (each near the one before, as caches and allocators make them) say less
//! than as many that do not: the test's variance is larger by what the residuals' lag-one correlation says (Yue and Wang, 2004). Not
//! told: the shape of the rise.

/// A rise or a fall.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trend {
    /// Bytes for each unit of x: the median over all pairs of points.
    pub slope: f64,
    /// The slope's 95 % interval.
    pub slope_low: f64,
    /// Its upper end.
    pub slope_high: f64,
    /// How far the order is from chance, in standard deviations, if points do not hang together.
    pub z: f64,
    /// The same, if they do as much as they seem to.
    pub careful_z: f64,
    /// Share of pairs that rise less the share that fall: 1 if every point is above all before it.
    pub tau: f64,
    /// Half the width of the band around the line that holds two thirds of the points.
    pub spread_bytes: f64,
}

/// The trend of points; all zero for fewer than three.
pub fn trend(points: &[(f64, f64)]) -> Trend {
    let count = points.len();
    if count < 3 {
        return Trend::default();
    }
    let mut slopes = Vec::with_capacity(count * (count - 1) / 2);
    let mut rising = 0.0;
    for (index, (x, y)) in points.iter().enumerate() {
        for (later_x, later_y) in &points[index + 1..] {
            slopes.push((later_y - y) / (later_x - x).max(f64::MIN_POSITIVE));
            rising += if later_y > y {
                1.0
            } else if later_y < y {
                -1.0
            } else {
                0.0
            };
        }
    }
    slopes.sort_by(f64::total_cmp);
    let slope = quantile(&slopes, 0.5);
    let residuals: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    let inflation = {
        let correlation = lag_one_correlation(&residuals).clamp(0.0, 0.9);
        (1.0 + correlation) / (1.0 - correlation)
    };
    let variance = variance(points);
    let towards_zero = |difference: f64| (difference.abs() - 1.0).max(0.0).copysign(difference);
    let score = |variance: f64| if variance > 0.0 { towards_zero(rising) / variance.sqrt() } else { 0.0 };
    let pairs = slopes.len() as f64;
    let half_interval = (1.96 * variance.sqrt() / pairs / 2.0).min(0.5);
    Trend {
        slope,
        slope_low: quantile(&slopes, 0.5 - half_interval),
        slope_high: quantile(&slopes, 0.5 + half_interval),
        z: score(variance),
        careful_z: score(variance * inflation),
        tau: rising / pairs,
        spread_bytes: spread(residuals),
    }
}

/// That of the count of rising pairs if the order were chance; points that are level count for less.
fn variance(points: &[(f64, f64)]) -> f64 {
    let term = |count: f64| count * (count - 1.0) * (2.0 * count + 5.0);
    let mut values: Vec<f64> = points.iter().map(|point| point.1).collect();
    values.sort_by(f64::total_cmp);
    let level: f64 = values.chunk_by(|a, b| a == b).map(|level| term(level.len() as f64)).sum();
    (term(points.len() as f64) - level) / 18.0
}

/// How much each value hangs on the one before; what is left of a fitted line seems to do so less than it does.
pub(super) fn lag_one_correlation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let product: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if square > 0.0 { product / square } else { 0.0 }
}

fn spread(mut residuals: Vec<f64>) -> f64 {
    residuals.sort_by(f64::total_cmp);
    (quantile(&residuals, 5.0 / 6.0) - quantile(&residuals, 1.0 / 6.0)) / 2.0
}

/// The middle of values; 0 of none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    if values.is_empty() { 0.0 } else { quantile(&values, 0.5) }
}

/// Of sorted values, at least one.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_exactly_and_an_outlier_does_not_move_it() {
        let mut points: Vec<(f64, f64)> = (0..22).map(|n| (f64::from(n), 5.0 * f64::from(n))).collect();
        let line = trend(&points);
        assert!((line.slope, line.tau) == (5.0, 1.0) && line.z > 6.0 && line.spread_bytes < 1e-9, "{line:?}");
        points[20].1 = -1e9;
        let bent = trend(&points);
        assert!((bent.slope - 5.0).abs() < 0.5 && bent.z > 4.0 && bent.slope_low <= 5.0, "{bent:?}");
    }

    #[test]
    fn level_points_have_no_trend() {
        assert_eq!(trend(&[(0.0, 7.0), (1.0, 7.0), (2.0, 7.0), (3.0, 7.0)]).z, 0.0);
        assert_eq!(trend(&[(0.0, 1.0), (1.0, 2.0)]), Trend::default());
        // Known by hand: S = 8 of 10 pairs, variance 50/3.
        let few = trend(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 5.0), (4.0, 4.0)]);
        assert!((few.z - 7.0 / (50.0_f64 / 3.0).sqrt()).abs() < 1e-12 && (few.tau - 0.8).abs() < 1e-12, "{few:?}");
    }
}
