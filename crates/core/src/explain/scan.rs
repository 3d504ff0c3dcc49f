//! From a stream of bytes to the lines that say something, in bounded memory and one pass.
//!
//! In: bytes, a piece at a time, of any length and content. Out: each line with a phrase of the registry, as an [`Excerpt`], to a function.
//! A phrase that comes thousands of times is looked at only so often in each stretch: what repeats says nothing new, and a log of gigabytes
//! is read at the speed of the search.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use memchr::{memchr, memchr_iter, memrchr};

use super::clean::{self, Line};
use super::excerpt::Excerpt;
use super::pasted;

/// Bytes scanned at a time.
const STRETCH_BYTES: usize = 1 << 20;
/// Bytes kept before what is scanned: a traceback, or a progress bar above a dump.
const BEFORE_BYTES: usize = 48 << 10;
/// The end of a log, which is looked at anew.
const LAST_BYTES: usize = 64 << 10;
/// A log that is longer is read as it is: people paste less (a report on GitHub has at most 64 KiB), and each line is held while it is looked at.
const PASTED_BYTES: usize = 256 << 10;
/// Bytes needed after a line before it is looked at: a wrapped message, a table below it.
const AFTER_BYTES: usize = 12 << 10;
/// A physical line longer than this is looked at piece by piece around its matches.
const LINE_WINDOW_BYTES: usize = 16 << 10;
/// Pieces of one physical line that are looked at, at each of its ends.
const MOST_PIECES: usize = 6;
/// Lines handed out on each side of a line.
const MOST_LINES: usize = 300;
/// How often one phrase is looked at in a stretch, and how often once it has been seen very often.
const LOOKS_IN_STRETCH: u32 = 24;
const LOOKS_WHEN_COMMON: u32 = 2;
/// A look at a line that says something counts as much as that many at lines that say nothing.
const LOOK: u32 = 20;
/// A phrase that was looked at this often is common.
const COMMON: u32 = 240;

/// What must be known of the lines around a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// It says nothing.
    Nothing,
    /// It stands for itself.
    Alone,
    /// Those below, which may continue it.
    Below,
    /// Those above, too.
    Around,
}

/// Who is told of lines with phrases.
pub trait Reader {
    /// A line, and the phrases in it as indices: what is needed to understand it.
    fn line(&mut self, phrases: &[usize], line: &Line) -> Needs;

    /// A line that says something, with what stands around it.
    fn excerpt(&mut self, phrases: &[usize], excerpt: &Excerpt);
}

/// The automaton of the registry's phrases, built once: it takes longer than most logs.
fn automaton(phrases: &[&str]) -> AhoCorasick {
    static BUILT: OnceLock<AhoCorasick> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .build(phrases)
            .expect("a few hundred short phrases make a small automaton")
    });
    built.clone()
}

/// Finds lines with phrases.
pub struct Scanner {
    phrases: AhoCorasick,
    buffer: Vec<u8>,
    /// How often each phrase was looked at.
    looked: Vec<u32>,
    /// Everything before this offset of the buffer was scanned.
    scanned: usize,
    /// Line feeds before `counted` in all that came so far.
    lines_before: u64,
    /// Up to where line feeds in the buffer were counted.
    counted: usize,
    /// The numbers of its lines in what was pasted, where that is not what was written.
    numbers: Vec<u64>,
}

impl Scanner {
    /// A scanner for these phrases, whatever their case.
    pub fn new(phrases: &[&str]) -> Scanner {
        let phrases = automaton(phrases);
        let looked = vec![0; phrases.patterns_len()];
        Scanner { phrases, buffer: Vec::new(), looked, scanned: 0, lines_before: 0, counted: 0, numbers: Vec::new() }
    }

    /// All phrases in a text, as indices into the list given at the start; each once.
    fn phrases_in(&self, text: &str) -> Vec<usize> {
        let mut found: Vec<usize> =
            self.phrases.find_overlapping_iter(text).map(|found| found.pattern().as_usize()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Takes more of the log.
    pub fn push(&mut self, mut bytes: &[u8], reader: &mut dyn Reader) {
        while !bytes.is_empty() {
            let room = (self.scanned + STRETCH_BYTES + AFTER_BYTES).saturating_sub(self.buffer.len()).max(1);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() - self.scanned >= STRETCH_BYTES + AFTER_BYTES {
                self.scan(self.buffer.len() - AFTER_BYTES, reader);
                self.forget();
            }
        }
    }

    /// The log has ended.
    pub fn finish(&mut self, reader: &mut dyn Reader) {
        // What is longer was not pasted by anybody.
        let short = self.scanned == 0 && self.buffer.len() <= PASTED_BYTES;
        if let Some(pasted) = short.then(|| pasted::undone(&self.buffer, &self.phrases)).flatten() {
            self.buffer = pasted.bytes;
            self.numbers = pasted.numbers;
        }
        // The last words count most: they have looks of their own.
        self.scan(self.buffer.len().saturating_sub(LAST_BYTES), reader);
        self.looked.fill(0);
        self.scan(self.buffer.len(), reader);
    }

    fn scan(&mut self, end: usize, reader: &mut dyn Reader) {
        let mut looks = vec![0u32; self.phrases.patterns_len()];
        let mut at = self.scanned;
        while at < end {
            // A phrase may reach over the end: it is found now, and what follows starts after its line.
            let Some(found) = self.phrases.find(&self.buffer[at..]) else { break };
            let (start, stop) = (at + found.start(), at + found.end());
            if start >= end {
                break;
            }
            let phrase = found.pattern().as_usize();
            let most = if self.looked[phrase] > COMMON * LOOK { LOOKS_WHEN_COMMON } else { LOOKS_IN_STRETCH };
            if looks[phrase] >= most * LOOK {
                at = stop;
                continue;
            }
            let (line_end, says) = self.look(start, stop, reader);
            at = line_end.max(stop);
            // Lines that say nothing are cheap, and many are looked through for one that does.
            looks[phrase] += if says { LOOK } else { 1 };
            self.looked[phrase] = self.looked[phrase].saturating_add(if says { LOOK } else { 1 });
        }
        self.scanned = at.max(end).min(self.buffer.len());
    }

    /// Hands out the physical line around a match; gives where it ends, and whether it says something.
    fn look(&mut self, start: usize, stop: usize, reader: &mut dyn Reader) -> (usize, bool) {
        let lowest = start.saturating_sub(LINE_WINDOW_BYTES);
        let line_start = memrchr(b'\n', &self.buffer[lowest..start]).map_or(lowest, |feed| lowest + feed + 1);
        let highest = (stop + LINE_WINDOW_BYTES).min(self.buffer.len());
        let line_end = memchr(b'\n', &self.buffer[stop..highest]).map_or(highest, |feed| stop + feed);
        let number = self.number(line_start);
        let pieces = clean::lines(&self.buffer[line_start..line_end], number);
        // What stands around a line is only made ready for those that say something: most phrases are found in lines that do not.
        let needs: Vec<Needs> = pieces.iter().map(|piece| reader.line(&self.phrases_in(&piece.text), piece)).collect();
        let most = needs.iter().copied().max().unwrap_or(Needs::Nothing);
        if most > Needs::Nothing {
            let before = if most == Needs::Around { self.before(line_start, number) } else { Vec::new() };
            let after = if most >= Needs::Below { self.after(line_end, number) } else { Vec::new() };
            let speaking: Vec<usize> = (0..pieces.len()).filter(|&index| needs[index] > Needs::Nothing).collect();
            // One physical line may hold thousands that were escaped: its ends say what there is to say.
            let skipped = MOST_PIECES..speaking.len().saturating_sub(MOST_PIECES).max(MOST_PIECES);
            for (rank, &index) in speaking.iter().enumerate() {
                if skipped.contains(&rank) {
                    continue;
                }
                let line = pieces[index].clone();
                let near = index.saturating_sub(MOST_LINES);
                let above = before.len().saturating_sub(MOST_LINES - (index - near));
                let before = before[above..].iter().chain(&pieces[near..index]).cloned().collect();
                let after = pieces[index + 1..].iter().chain(&after).take(MOST_LINES).cloned().collect();
                reader.excerpt(&self.phrases_in(&pieces[index].text), &Excerpt { before, line, after });
            }
        }
        (line_end, most > Needs::Nothing)
    }

    fn before(&self, line_start: usize, number: u64) -> Vec<Line> {
        let from = line_start.saturating_sub(BEFORE_BYTES / 2);
        let whole = if from == 0 {
            0
        } else {
            memchr(b'\n', &self.buffer[from..line_start]).map_or(line_start, |feed| from + feed + 1)
        };
        let text = &self.buffer[whole..line_start.saturating_sub(1).max(whole)];
        if text.is_empty() {
            return Vec::new();
        }
        let lines = memchr_iter(b'\n', text).count() as u64 + 1;
        clean::lines(text, number.saturating_sub(lines))
    }

    fn after(&self, line_end: usize, number: u64) -> Vec<Line> {
        let from = (line_end + 1).min(self.buffer.len());
        let to = (from + AFTER_BYTES / 2).min(self.buffer.len());
        if from >= to { Vec::new() } else { clean::lines(&self.buffer[from..to], number + 1) }
    }

    /// The number of the line at an offset, as an editor shows it.
    fn number(&mut self, offset: usize) -> u64 {
        let line = self.count(offset);
        let index = usize::try_from(line).map_or(0, |line| line.saturating_sub(1));
        self.numbers.get(index).copied().unwrap_or(line)
    }

    fn count(&mut self, offset: usize) -> u64 {
        if offset >= self.counted {
            self.lines_before += memchr_iter(b'\n', &self.buffer[self.counted..offset]).count() as u64;
            self.counted = offset;
            return self.lines_before + 1;
        }
        self.lines_before + 1 - memchr_iter(b'\n', &self.buffer[offset..self.counted]).count() as u64
    }

    /// Drops what nothing will look back at.
    fn forget(&mut self) {
        let drop = self.scanned.saturating_sub(BEFORE_BYTES);
        if self.counted < drop {
            self.number(drop);
        }
        self.buffer.drain(..drop);
        self.scanned -= drop;
        self.counted -= drop;
    }
}
