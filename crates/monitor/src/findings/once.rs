//! Says something once.
//!
//! In: whether it is true at a moment, and how bad. Out: whether it is to be said now: when it becomes true, when it becomes worse, and again
//! only after it has been untrue for long. No clock.

use crate::judge::Level;

/// So long it must have been untrue.
const FORGOTTEN_MS: u64 = 5 * 60_000;

/// What has been said about one thing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Once {
    said: Option<Level>,
    last_true_ms: u64,
}

impl Once {
    /// Takes how bad it is now, none if all is well.
    pub fn is_news(&mut self, level: Option<Level>, at_ms: u64) -> bool {
        let Some(level) = level else {
            if at_ms.saturating_sub(self.last_true_ms) >= FORGOTTEN_MS {
                self.said = None;
            }
            return false;
        };
        self.last_true_ms = at_ms;
        let is_news = self.said.is_none_or(|said| level > said);
        self.said = self.said.max(Some(level));
        is_news
    }
}

/// Something that must last before it is said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lasting {
    since_ms: Option<u64>,
    once: Once,
}

impl Lasting {
    /// Takes whether it is true now; gives whether it is news that it has been for so long.
    pub fn is_news(&mut self, is_true: bool, at_ms: u64, long_ms: u64) -> bool {
        let since_ms = *self.since_ms.get_or_insert(at_ms);
        if !is_true {
            self.since_ms = None;
        }
        let lasts = is_true && at_ms.saturating_sub(since_ms) >= long_ms;
        self.once.is_news(lasts.then_some(Level::High), at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_and_again_when_worse_or_after_long() {
        let (high, critical) = (Some(Level::High), Some(Level::Critical));
        let mut once = Once::default();
        let mut said = |level, minute: u64| once.is_news(level, minute * 60_000);
        assert!(!said(None, 0) && said(high, 1) && !said(high, 2) && said(critical, 3) && !said(high, 4));
        assert!(!said(None, 5) && !said(critical, 6) && !said(None, 7) && !said(None, 12) && said(high, 13));
    }

    #[test]
    fn what_must_last_is_said_when_it_has() {
        let mut lasting = Lasting::default();
        let mut said = |is_true, second: u64| lasting.is_news(is_true, second * 1000, 3000);
        assert!(!said(true, 0) && !said(true, 2) && !said(false, 3) && !said(true, 4) && !said(true, 6));
        assert!(said(true, 7) && !said(true, 8));
    }
}
