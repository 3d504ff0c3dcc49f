//! Lines that a terminal or a page broke at its width, put together again.
//!
//! In: the lines of a short log. Out: the same, each as long as it was written. A terminal breaks in the middle of words, where the longest lines end; a
//! page between words, where the next one would not have fitted. Few lines of a short log are broken: there a known phrase that goes over the end of a
//! line shows it. Not undone: breaks behind a prefix that each line has.

use aho_corasick::AhoCorasick;

use super::{Line, is_blank};

/// Columns of a terminal or a page that breaks lines.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=240;
/// Breaks in the middle of words, and breaks between them, that show that all lines were broken. Judgements: two lines of one length that are the longest
/// of all are rare, and lines that end where the next word would not have fitted are less so.
const HARD_BREAKS: usize = 2;
const SOFT_BREAKS: usize = 3;

/// How a line goes on in the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Break {
    /// It does not.
    None,
    /// In the middle of a word, perhaps.
    Hard,
    /// Between two words, and what follows does not begin a sentence.
    Soft,
    /// Between two words, perhaps: what follows could begin a line of its own.
    Unsure,
}

/// Joins lines that were broken at one width.
pub(super) fn unwrap(lines: &mut Vec<Line>) -> bool {
    let widths: Vec<usize> = lines.iter().map(|line| columns(&line.text)).collect();
    let widest = widths.iter().copied().max().unwrap_or(0);
    if !WIDTHS.contains(&widest) {
        return false;
    }
    let pairs = || lines.windows(2).zip(&widths);
    let hard: Vec<Break> = pairs().map(|(pair, &width)| hard_break(&pair[0], &pair[1], width, widest)).collect();
    let soft: Vec<Break> = pairs().map(|(pair, &width)| soft_break(&pair[0], &pair[1], width, widest)).collect();
    // Between words lines end at different columns, in the middle of words at one.
    let short = soft.iter().zip(&widths).filter(|(found, width)| **found == Break::Soft && **width < widest).count();
    let full = hard.iter().filter(|found| **found == Break::Hard).count();
    let breaks = if short <= full && is_hard(lines, &hard, &widths, widest) {
        hard
    } else if is_soft(lines, &soft, &widths, widest) {
        soft
    } else {
        return false;
    };
    join(lines, breaks);
    true
}

/// Joins each line with the one before it, where that goes on.
fn join(lines: &mut Vec<Line>, breaks: Vec<Break>) {
    let mut joined: Vec<Line> = Vec::with_capacity(lines.len());
    let mut goes_on = Break::None;
    for (line, next) in lines.drain(..).zip(breaks.into_iter().chain([Break::None])) {
        match joined.last_mut().filter(|_| goes_on != Break::None) {
            Some(last) => {
                let text = last.text.to_mut();
                if text.ends_with(b"\r") {
                    text.pop();
                }
                if goes_on != Break::Hard {
                    text.truncate(text.trim_ascii_end().len());
                    text.push(b' ');
                }
                text.extend_from_slice(&line.text);
            }
            None => joined.push(line),
        }
        goes_on = next;
    }
    *lines = joined;
}

/// Bytes of a known phrase, and of its part in each of two lines, that show that these were one: fewer meet by chance.
const LONG_PHRASE: usize = 14;
const LONG_PART: usize = 3;
/// Bytes of a line that are looked at on each side of its end.
const NEAR: usize = 80;

/// Joins lines over whose end a known phrase goes: `RuntimeError: CUDA out of` and `memory. Tried to allocate`. Few lines of a short log are long enough
/// to be broken, and show no width.
pub(super) fn mend(lines: &mut Vec<Line>, phrases: &AhoCorasick) -> bool {
    let between = |line: &Line, next: &Line| {
        let (line, next) = (line.text.trim_ascii_end(), next.text.trim_ascii_end());
        let tail = &line[line.len().saturating_sub(NEAR)..];
        let apart =
            is_drawn(line) || line.len() < *WIDTHS.start() / 2 || next.len() - next.trim_ascii_start().len() > 1;
        let spans = |separator: &[u8]| {
            let head = &next[..next.len().min(NEAR)];
            let text = [tail, separator, head].concat();
            let (ends, starts) = (tail.len(), tail.len() + separator.len());
            phrases.find_overlapping_iter(&text).any(|found| {
                let long = found.end() - found.start() >= LONG_PHRASE;
                long && found.start() + LONG_PART <= ends && found.end() >= starts + LONG_PART
            })
        };
        match apart {
            false if spans(b" ") => Break::Soft,
            false if spans(b"") => Break::Hard,
            _ => Break::None,
        }
    };
    let breaks: Vec<Break> = lines.windows(2).map(|pair| between(&pair[0], &pair[1])).collect();
    let found = breaks.iter().any(|found| *found != Break::None);
    if found {
        join(lines, breaks);
    }
    found
}

/// Whether enough of the longest lines go on with what begins no sentence, and nearly all of them with something. One line that was printed twice is one.
fn is_hard(lines: &[Line], breaks: &[Break], widths: &[usize], widest: usize) -> bool {
    let full = lines.iter().zip(widths).filter(|(line, width)| **width == widest && !is_drawn(&line.text)).count();
    let broken = breaks.iter().filter(|found| **found == Break::Hard).count();
    let within = |pair: &&[Line]| !pair[1].text.first().is_some_and(u8::is_ascii_uppercase);
    let pairs = lines.windows(2).zip(breaks).filter(|(_, found)| **found == Break::Hard).map(|(pair, _)| pair);
    let mut sure: Vec<&[u8]> = pairs.filter(within).map(|pair| &*pair[0].text).collect();
    sure.sort_unstable();
    sure.dedup();
    sure.len() >= HARD_BREAKS && sure.len() * 2 >= full && broken * 5 >= full * 4
}

/// Whether enough lines end where the next word would not have fitted, and most of those go on with what begins no line.
fn is_soft(lines: &[Line], breaks: &[Break], widths: &[usize], widest: usize) -> bool {
    let filled = |index: &usize| {
        let next = &lines[index + 1].text;
        !is_drawn(&lines[*index].text) && widths[*index] + 1 + first_word(next) > widest
    };
    let all = (0..breaks.len()).filter(filled).count();
    let pairs = lines.windows(2).zip(breaks).filter(|(_, found)| **found == Break::Soft).map(|(pair, _)| pair);
    // What comes again and again below one line is a part of what is said there.
    let mut starts: Vec<&[u8]> = pairs.map(|pair| &pair[1].text[..pair[1].text.len().min(ALIKE)]).collect();
    let sure = starts.len();
    starts.sort_unstable();
    starts.dedup();
    starts.len() >= SOFT_BREAKS && sure * 5 >= all * 3
}

fn hard_break(line: &Line, next: &Line, width: usize, widest: usize) -> Break {
    let full = width == widest && !is_drawn(&line.text);
    if full && !is_blank(next) && !begins(&line.text, &next.text) { Break::Hard } else { Break::None }
}

fn soft_break(line: &Line, next: &Line, width: usize, widest: usize) -> Break {
    let filled = width + 1 + first_word(&next.text) > widest && !is_drawn(&line.text);
    let plain = next.text.first().is_some_and(|byte| !byte.is_ascii_whitespace());
    if !filled || !plain || is_blank(line) || begins(&line.text, &next.text) {
        return Break::None;
    }
    let begins_sentence = next.text.first().is_some_and(u8::is_ascii_uppercase);
    // A word alone may be all that a shell says.
    let alone = columns(next.text.trim_ascii()) == first_word(&next.text);
    match (begins_sentence, alone) {
        (false, _) => Break::Soft,
        (true, false) => Break::Unsure,
        (true, true) => Break::None,
    }
}

/// Bytes at the start of two lines that make them alike.
const ALIKE: usize = 6;

/// What lines begin with that are no continuation.
const STARTS: &[&[u8]] = &[
    b"Traceback", b"During handling", b"The above exception", b"File ", b"Epoch", b"Killed", b"INFO", b"WARNING",
    b"ERROR", b"[rank", b"> ", b"$ ", b"+ ", b"| ", b"- ", b"```", b"at ",
];

/// Whether a line begins something new: it is set apart, it has a date, or it begins as the one before it does.
fn begins(line: &[u8], next: &[u8]) -> bool {
    let digits = next.iter().take(10).filter(|byte| byte.is_ascii_digit()).count();
    let dated = digits >= 5 && next.iter().take(10).any(|byte| b"-/:".contains(byte));
    let alike = line.len() >= ALIKE && next.get(..ALIKE) == line.get(..ALIKE);
    let apart = next.starts_with(b"  ") || next.starts_with(b"\t");
    dated || alike || apart || is_drawn(next) || STARTS.iter().any(|start| next.starts_with(start))
}

/// Whether a line is drawn: of a table, a box or a rule.
fn is_drawn(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let ascii = line.last().is_some_and(|byte| b"|+=-_*~^#".contains(byte));
    ascii
        || [&b"\xe2\x94"[..], b"\xe2\x95"]
            .iter()
            .any(|drawn| line.len() >= 3 && line[line.len() - 3..].starts_with(drawn))
}

/// Columns that a line takes, if each character takes one.
fn columns(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte & 0xc0 != 0x80 && byte != b'\r').count()
}

fn first_word(text: &[u8]) -> usize {
    columns(text.split(u8::is_ascii_whitespace).next().unwrap_or(b""))
}
