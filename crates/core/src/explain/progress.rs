//! How far a job had come: the last epoch and step that the log shows above a failure.
//!
//! In: the lines before it. Out: numbers as the log counts them. Read are `Epoch 3/10`, `epoch=3`, `step 120`, `Iter 120`, and progress bars
//! (`120/1000 [`).

use super::excerpt::Excerpt;
use super::sign::Numbers;
use super::sizes::{find, has_any, quantity};

/// Fills in the step and the epoch.
pub fn read(excerpt: &Excerpt, numbers: &mut Numbers) {
    for line in excerpt.before_by_speaker().iter().rev() {
        if numbers.step.is_some() && numbers.epoch.is_some() {
            return;
        }
        // Code in a traceback is no progress.
        if line.len() > 400 || line.starts_with("    ") || line.contains("File \"") {
            continue;
        }
        numbers.epoch = numbers.epoch.or_else(|| labelled(line, "epoch"));
        let step =
            || ["global_step", "step", "iteration", "iter", "batch"].iter().find_map(|word| labelled(line, word));
        numbers.step = numbers.step.or_else(step).or_else(|| bar(line));
    }
}

/// `Epoch 3/10`, `epoch: 3`, `step=120`: the word, something that separates, digits.
fn labelled(line: &str, word: &str) -> Option<u64> {
    let at = find(line, word)?;
    let starts = at == 0 || !line.as_bytes()[at - 1].is_ascii_alphanumeric();
    let tail = &line[at + word.len()..];
    let tail = tail.strip_prefix('s').unwrap_or(tail);
    let separated = tail.starts_with([' ', ':', '=', '[', '#', '(']);
    let number = || quantity(tail.trim_start_matches(['[', '#', '(', ' '])).map(|found| found.value as u64);
    (starts && separated).then(number)?
}

/// What bars of a job that has not begun are called: those of files that are fetched or read, and of data that is made ready.
const PREPARES: &[&str] = &[
    "load", "fetching", "map", "tokeniz", "generating", "filter", "extract", "preprocess", "caching", "scanning",
    "unpack", "quantiz", "converting", "resolving", "collecting", "reading", "creating", "indexing",
];

/// `120/1000 [`: Keras's and tqdm's bars.
fn bar(line: &str) -> Option<u64> {
    let bracket = line.find('[')?;
    if has_any(&line[..bracket], PREPARES) || line.contains("B/s") {
        return None;
    }
    let head = line[..bracket].trim_end().trim_end_matches(['━', '█', '▏', '|', ' ']);
    let (left, right) = head.rsplit_once('/')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let done = left.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    (digits(done) && digits(right.trim())).then(|| done.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_words() {
        assert_eq!(bar(" 12/157 [=>......] - ETA: 3s"), Some(12));
        assert_eq!(bar(" 8%|▊         | 77/1000 [00:10<02:00]"), Some(77));
        assert_eq!(bar("files/x [1]"), None);
        assert_eq!(bar("Loading checkpoint shards: 100%|███| 2/2 [00:10<00:00]"), None);
        assert_eq!(bar("100%|███| 420/420 [00:01<00:00, 321kB/s]"), None);
        assert_eq!(labelled("Epoch 3/10", "epoch"), Some(3));
        assert_eq!(labelled("{'epoch': 2}", "epoch"), None);
        assert_eq!(labelled("global_step=120, loss=1", "global_step"), Some(120));
        assert_eq!(labelled("footstep 3", "step"), None);
    }
}
