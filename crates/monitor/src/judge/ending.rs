//! Growth that goes on, told from growth that ends.
//!
//! In: points that rise. Out: how far they are from every kind of growth that ends, in standard deviations. Those kinds are an approach to a level
//! (warm-up), filling at an even pace (a cache) and a single jump. A leak is what none of them explains: the best of them with a line beside it fits
//! much better than the best alone (a likelihood ratio). Points that hang together count for less (generalised least squares). Not told from
//! a leak: growth that ends, but hardly before the last point.

use super::trend::{lag_one_correlation, median, trend};

/// How soon an approach comes near its level, as parts of the whole length. Slower ones are as good as lines.
const APPROACHES: [f64; 7] = [0.04, 0.08, 0.14, 0.2, 0.27, 0.35, 0.45];
/// Where filling ends.
const FILLED: [f64; 7] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7];
/// Where a jump is.
const JUMPS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// How far the best of these is moved to fit better, at first, and how often.
const FINER: f64 = 1.25;
const FINER_TIMES: usize = 8;
/// What a fit takes from the points: level, size, place, line.
const FITTED: f64 = 4.0;
/// More would be a walk without aim, of which nothing can be said.
const MOST_CORRELATION: f64 = 0.95;
/// Above the line by so many median distances is a peak: three standard deviations.
const FAR: f64 = 4.5;

/// A way to end growing, over 0 to 1.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Approach(f64),
    Fill(f64),
    Jump(f64),
}

impl Shape {
    fn at(self, x: f64) -> f64 {
        match self {
            Shape::Approach(pace) => 1.0 - (-x / pace).exp(),
            Shape::Fill(full) => x.min(full),
            Shape::Jump(at) if x < at => 0.0,
            Shape::Jump(_) => 1.0,
        }
    }

    /// The same a little later, or sooner; none later than the latest of its kind. A jump stays.
    fn moved(self, by: f64) -> Option<Shape> {
        match self {
            Shape::Approach(pace) => Some(Shape::Approach((pace * by).min(APPROACHES[APPROACHES.len() - 1]))),
            Shape::Fill(full) => Some(Shape::Fill((full * by).min(FILLED[FILLED.len() - 1]))),
            Shape::Jump(_) => None,
        }
    }

    fn all() -> impl Iterator<Item = Shape> {
        let approaches = APPROACHES.into_iter().map(Shape::Approach);
        approaches.chain(FILLED.into_iter().map(Shape::Fill)).chain(JUMPS.into_iter().map(Shape::Jump))
    }
}

/// How far from growth that ends; 0 for too few points, and for a line that falls.
pub fn lasting_z(points: &[(f64, f64)], may_hang_together: bool) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let free = points.len() as f64 - FITTED;
    if free < 1.0 {
        return 0.0;
    }
    let length = (last.0 - first.0).max(f64::MIN_POSITIVE);
    let xs: Vec<f64> = points.iter().map(|point| (point.0 - first.0) / length).collect();
    let mut sizes = Sizes { ys: without_peaks(points), xs, correlation: 0.0 };
    if may_hang_together {
        sizes.correlation = sizes.best(true).map_or(0.0, |fit| correlation(&fit.residuals));
    }
    match (sizes.best(false), sizes.best(true)) {
        (Some(ends), Some(lasts)) if lasts.rise > 0.0 => {
            // From Student's t to the normal, as Wallace (1959) has it.
            let ratio = ends.square.max(f64::MIN_POSITIVE) / lasts.square.max(f64::MIN_POSITIVE);
            (8.0 * free + 1.0) / (8.0 * free + 3.0) * (free * ratio.ln().max(0.0)).sqrt()
        }
        _ => 0.0,
    }
}

/// How much each residual hangs on the one before, without what the fit takes from that (Kendall, 1954).
fn correlation(residuals: &[f64]) -> f64 {
    let count = residuals.len() as f64;
    ((count * lag_one_correlation(residuals) + 2.0) / (count - 4.0)).clamp(0.0, MOST_CORRELATION)
}

/// Sizes, of which those far above the line (a long evaluation, that leaves no low) are taken down: squares would see nothing else.
fn without_peaks(points: &[(f64, f64)]) -> Vec<f64> {
    let slope = trend(points).slope;
    let above: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    let line = median(above.clone());
    let far = FAR * median(above.iter().map(|above| (above - line).abs()).collect());
    points.iter().map(|(x, y)| y.min(slope * x + line + far)).collect()
}

struct Sizes {
    xs: Vec<f64>,
    ys: Vec<f64>,
    correlation: f64,
}

struct Fit {
    shape: Shape,
    /// The sum of squares that is left.
    square: f64,
    residuals: Vec<f64>,
    /// Of the line.
    rise: f64,
}

impl Sizes {
    /// The best of all shapes, with a line beside it or not.
    fn best(&self, with_line: bool) -> Option<Fit> {
        let better = |one: Fit, other: Fit| if other.square < one.square { other } else { one };
        let mut best = Shape::all().map(|shape| self.fit(shape, with_line)).reduce(better)?;
        let mut by = FINER;
        for _ in 0..FINER_TIMES {
            let near = [by, 1.0 / by].into_iter().filter_map(|by| best.shape.moved(by));
            match near.map(|shape| self.fit(shape, with_line)).reduce(better) {
                Some(near) if near.square < best.square => best = near,
                _ => by = by.sqrt(),
            }
        }
        Some(best)
    }

    /// Least squares, by making each part stand at a right angle to those before it.
    fn fit(&self, shape: Shape, with_line: bool) -> Fit {
        let parts = [vec![1.0; self.xs.len()], self.xs.iter().map(|&x| shape.at(x)).collect(), self.xs.clone()];
        let mut residuals = self.apart(&self.ys);
        let (mut done, mut rise) = (Vec::<Vec<f64>>::new(), 0.0);
        for part in parts.iter().take(if with_line { 3 } else { 2 }) {
            let mut part = self.apart(part);
            let square = dot(&part, &part);
            done.iter().for_each(|other| {
                take_out(&mut part, other);
            });
            // Nothing of its own: a jump before the second point, say.
            if dot(&part, &part) <= 1e-12 * square {
                part.fill(0.0);
            }
            rise = take_out(&mut residuals, &part);
            done.push(part);
        }
        Fit { shape, square: dot(&residuals, &residuals), residuals, rise }
    }

    /// Each value without what the one before says of it.
    fn apart(&self, values: &[f64]) -> Vec<f64> {
        let first = values.first().map(|first| first * (1.0 - self.correlation.powi(2)).sqrt());
        first.into_iter().chain(values.windows(2).map(|pair| pair[1] - self.correlation * pair[0])).collect()
    }
}

/// Takes out of `from` what lies along `along`; gives how much.
fn take_out(from: &mut [f64], along: &[f64]) -> f64 {
    let square = dot(along, along);
    let part = if square > 0.0 { dot(from, along) / square } else { 0.0 };
    from.iter_mut().zip(along).for_each(|(value, along)| *value -= part * along);
    part
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 22 sizes, with a little unrest that has no order.
    fn z(size: impl Fn(f64) -> f64) -> f64 {
        let unrest = |n: u32| f64::from(n * 7919 % 13) / 13.0;
        let points: Vec<(f64, f64)> =
            (0..22).map(|n| (f64::from(n) * 20.0, 1e9 + size(f64::from(n) / 21.0) + unrest(n))).collect();
        lasting_z(&points, true)
    }

    #[test]
    fn a_line_is_far_from_growth_that_ends_and_such_growth_is_not() {
        let line = z(|x| 100.0 * x);
        assert!(line > 6.0, "{line}");
        // None of these is one of the shapes that are tried first.
        let ends = [
            z(|x| 100.0 * (1.0 - (-x / 0.17).exp())),
            z(|x| 100.0 * x.min(0.53)),
            z(|x| if x > 0.66 { 9.0 } else { 0.0 }),
        ];
        assert!(ends.iter().all(|&z| z < 3.0), "{ends:?}");
        // A line beside an approach goes on.
        assert!(z(|x| 100.0 * (1.0 - (-x / 0.1).exp()) + 50.0 * x) > 3.0);
    }

    #[test]
    fn nothing_is_said_of_few_points_level_ones_and_falling_ones() {
        assert_eq!(lasting_z(&[], true), 0.0);
        assert_eq!(lasting_z(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0)], true), 0.0);
        assert_eq!(lasting_z(&[(0.0, 7.0); 9], true), 0.0);
        assert_eq!(z(|x| -100.0 * x), 0.0);
    }
}
