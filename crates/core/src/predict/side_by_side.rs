//! The same work for several numbers, on two threads.
//!
//! In: numbers, and what is to be made of each. Out: what was made, in the order of the numbers, whichever thread made it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes something of each number, on this thread and another.
pub(super) fn side_by_side<T: Send>(numbers: Range<u64>, make: impl Fn(u64) -> T + Sync) -> Vec<T> {
    if numbers.end.saturating_sub(numbers.start) < 2 {
        return numbers.map(make).collect();
    }
    let next = AtomicU64::new(numbers.start);
    let take_part = || {
        let mut made = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return made;
            }
            made.push((number, make(number)));
        }
    };
    let mut made = std::thread::scope(|scope| {
        let other = scope.spawn(take_part);
        let mut made = take_part();
        made.extend(other.join().expect("what is made does not panic"));
        made
    });
    made.sort_by_key(|(number, _)| *number);
    made.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_comes_in_the_order_of_the_numbers() {
        for end in 3..40 {
            assert_eq!(
                side_by_side(3..end, |number| number * 7),
                (3..end).map(|number| number * 7).collect::<Vec<_>>()
            );
        }
    }
}
