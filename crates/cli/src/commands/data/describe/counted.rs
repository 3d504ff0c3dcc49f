//! Range, mean and deviation of numbers that come one after the other.
//!
//! Means and deviations are of the distances from the first number, by Welford's method: numbers that are large and close to each other
//! keep what is between them. Whole numbers are subtracted before they become floats.

use super::super::numbers::Number;

/// What was seen of a column.
#[derive(Clone, Default)]
pub struct Counted {
    pub missing: u64,
    known: u64,
    first: Option<Number>,
    least: Option<Number>,
    most: Option<Number>,
    /// Of the distances from the first number.
    mean: f64,
    squares: f64,
    /// The sum of numbers without an end, which have no distance.
    endless: f64,
}

impl Counted {
    pub fn add(&mut self, number: Number) {
        let value = number.float();
        if value.is_nan() {
            self.missing += 1;
            return;
        }
        self.least = Some(self.least.filter(|least| !below(number, *least)).unwrap_or(number));
        self.most = Some(self.most.filter(|most| !below(*most, number)).unwrap_or(number));
        if value.is_infinite() {
            self.endless += value;
            return;
        }
        let first = *self.first.get_or_insert(number);
        let distance = match (number, first) {
            (Number::Whole(number), Number::Whole(first)) => {
                let distance = number - first;
                i64::try_from(distance).map_or(distance as f64, |distance| distance as f64)
            }
            _ => value - first.float(),
        };
        self.known += 1;
        let away = distance - self.mean;
        self.mean += away / self.known as f64;
        self.squares += away * (distance - self.mean);
    }

    pub fn least(&self) -> Option<Number> {
        self.least
    }

    pub fn most(&self) -> Option<Number> {
        self.most
    }

    pub fn mean(&self) -> Option<f64> {
        let mean = self.first.map(|first| first.float() + self.mean);
        if self.endless == 0.0 { mean } else { Some(self.endless) }
    }

    pub fn deviation(&self) -> Option<f64> {
        let deviation = (self.squares / self.known.max(1) as f64).sqrt();
        self.least.map(|_| if self.endless == 0.0 { deviation } else { f64::NAN })
    }
}

fn below(one: Number, other: Number) -> bool {
    match (one, other) {
        (Number::Whole(one), Number::Whole(other)) => one < other,
        _ => one.float() < other.float(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(numbers: impl IntoIterator<Item = Number>) -> Counted {
        let mut counted = Counted::default();
        numbers.into_iter().for_each(|number| counted.add(number));
        counted
    }

    #[test]
    fn large_numbers_keep_what_is_between_them() {
        let ids = counted([9007199254740993, 9007199254740995].map(Number::Whole));
        assert_eq!(
            (ids.least(), ids.most()),
            (Some(Number::Whole(9007199254740993)), Some(Number::Whole(9007199254740995)))
        );
        assert_eq!(ids.deviation(), Some(1.0));
        let floats = counted([9007199254740992.0, 9007199254740994.0].map(Number::Float));
        assert_eq!(floats.deviation(), Some(1.0));
        let ends = counted([i128::from(i64::MIN), i128::from(u64::MAX)].map(Number::Whole));
        assert_eq!(ends.deviation(), Some(1.3835058055282164e19));
    }

    #[test]
    fn numbers_without_an_end_do_not_hide_the_others() {
        let seen = counted([f64::INFINITY, 1.0, f64::NAN, 3.0].map(Number::Float));
        assert_eq!(
            (seen.missing, seen.least(), seen.most()),
            (1, Some(Number::Float(1.0)), Some(Number::Float(f64::INFINITY)))
        );
        assert_eq!(seen.mean(), Some(f64::INFINITY));
        assert!(seen.deviation().unwrap().is_nan());
        assert_eq!(counted([]).mean(), None);
    }
}
