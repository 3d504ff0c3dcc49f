//! When something is due again. In: the time of each call. Out: whether it is due. No clock.

/// Something that is done every so often, the first time at once.
#[derive(Debug)]
pub struct Every {
    interval_ms: u64,
    least_ms: u64,
    next_ms: Option<u64>,
}

impl Every {
    pub fn ms(interval_ms: u64) -> Every {
        Every { interval_ms, least_ms: 0, next_ms: None }
    }

    /// Whether it is due; if so, it counts as done.
    pub fn is_due(&mut self, at_ms: u64) -> bool {
        let due = self.next_ms.is_none_or(|next_ms| at_ms >= next_ms);
        if due {
            self.done(at_ms);
        }
        due
    }

    pub fn done(&mut self, at_ms: u64) {
        self.next_ms = Some(at_ms.saturating_add(self.interval_ms.max(self.least_ms)));
    }

    /// Due at the next call.
    pub fn now(&mut self) {
        self.next_ms = None;
    }

    /// Not more often than this from now on.
    pub fn at_least_ms(&mut self, least_ms: u64) {
        self.least_ms = least_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_at_once_then_after_the_interval() {
        let mut every = Every::ms(1000);
        let due: Vec<u64> = (0..40).map(|tick| tick * 100).filter(|&at_ms| every.is_due(at_ms)).collect();
        assert_eq!(due, [0, 1000, 2000, 3000]);
        every.at_least_ms(5000);
        assert!(every.is_due(u64::MAX) && every.is_due(u64::MAX));
    }
}
