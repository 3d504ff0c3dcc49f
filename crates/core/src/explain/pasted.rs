//! What a terminal, a mail or a page did to a whole log, undone before it is read.
//!
//! In: all bytes of a log that is short enough to be pasted. Out: the lines as they were written, each with the number of the line where it begins; none
//! where nothing was done to them. Undone are quotation marks of mails, times and names of containers, blank lines between all lines, and breaks at the
//! width of a terminal, in the middle of words or between them. What happens to single lines is undone by `clean`. How many lines must show it are
//! judgements: too few, and what a program wrote itself is taken apart.

mod breaks;

use std::borrow::Cow;

use aho_corasick::AhoCorasick;

/// Lines of which each is followed by a blank one: fewer happen by themselves.
const MOST_BY_CHANCE: usize = 4;

/// A log as it was written.
pub struct Pasted {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The number of each of its lines in what was pasted, from 1.
    pub numbers: Vec<u64>,
}

struct Line<'a> {
    number: u64,
    text: Cow<'a, [u8]>,
}

/// The log as it was written, if something was done to it.
pub fn undone(log: &[u8], phrases: &AhoCorasick) -> Option<Pasted> {
    let split = log.split(|&byte| byte == b'\n').zip(1..);
    let mut lines: Vec<Line> = split.map(|(text, number)| Line { number, text: Cow::Borrowed(text) }).collect();
    let quoted = unquote(&mut lines);
    let marked = unmark(&mut lines);
    let doubled = close_up(&mut lines);
    let joined = breaks::unwrap(&mut lines) || breaks::mend(&mut lines, phrases);
    if !(joined || quoted || marked || doubled) {
        return None;
    }
    let bytes = lines.iter().map(|line| &*line.text).collect::<Vec<_>>().join(&b'\n');
    Some(Pasted { bytes, numbers: lines.iter().map(|line| line.number).collect() })
}

fn is_blank(line: &Line) -> bool {
    line.text.trim_ascii().is_empty()
}

/// Takes `> ` from the start of lines that nearly all have it. A prompt has three of them.
fn unquote(lines: &mut [Line]) -> bool {
    let quoted = |line: &Line| line.text.starts_with(b">") && !line.text.starts_with(b">>>");
    let (all, marked) =
        (lines.iter().filter(|line| !is_blank(line)).count(), lines.iter().filter(|l| quoted(l)).count());
    if marked < 3 || marked * 5 < all * 4 {
        return false;
    }
    for line in lines.iter_mut().filter(|line| quoted(line)) {
        let start = if line.text.starts_with(b"> ") { 2 } else { 1 };
        line.text = Cow::Owned(line.text[start..].to_vec());
    }
    true
}

/// How long a mark at the start of a line is, if it has one.
type Mark = fn(&[u8]) -> Option<usize>;

/// Takes what a container's log puts before every line: its time, or its name.
fn unmark(lines: &mut [Line]) -> bool {
    let all = lines.iter().filter(|line| !is_blank(line)).count();
    let mut found = false;
    // A name is one for all lines.
    for (mark, is_one) in [(time_of as Mark, false), (name_of, true)] {
        let marks: Vec<Option<usize>> = lines.iter().map(|line| mark(&line.text)).collect();
        let marked = marks.iter().flatten().count();
        let mut texts = marks.iter().zip(&*lines).filter_map(|(length, line)| Some(&line.text[..(*length)?]));
        let first = texts.next();
        let differ = is_one && texts.any(|text| Some(text) != first);
        if marked < 3 || marked * 10 < all * 9 || differ {
            continue;
        }
        for (line, length) in lines.iter_mut().zip(marks) {
            line.text = Cow::Owned(line.text[length.unwrap_or(0)..].to_vec());
        }
        found = true;
    }
    found
}

/// The length of `2026-03-01T10:00:01.123456789Z ` at the start of a line, and of the stream that containerd writes behind it: `stderr F `. Programs
/// write their own times otherwise.
fn time_of(line: &[u8]) -> Option<usize> {
    let end = line.iter().position(|&byte| byte == b' ')?;
    let shape: Vec<u8> = line[..end].iter().map(|byte| if byte.is_ascii_digit() { b'0' } else { *byte }).collect();
    let dated = shape.starts_with(b"0000-00-00T00:00:00") && (shape.ends_with(b"Z") || shape.ends_with(b":00"));
    let streams: [&[u8]; 4] = [b"stdout F ", b"stderr F ", b"stdout P ", b"stderr P "];
    let stream = streams.iter().find(|stream| line[end + 1..].starts_with(stream)).map_or(0, |stream| stream.len());
    dated.then_some(end + 1 + stream)
}

/// The length of a container's name at the start of a line: `trainer-1  | ` of Docker's compose, `[pod/train-0/trainer] ` of `kubectl`.
fn name_of(line: &[u8]) -> Option<usize> {
    let end = line.iter().position(|&byte| byte == b' ')?;
    if line.starts_with(b"[pod/") {
        return line[..end].ends_with(b"]").then_some(end + 1);
    }
    let named = end > 0 && line[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    let bar = line[end..].iter().position(|&byte| byte != b' ').map(|at| end + at)?;
    (named && line[bar..].starts_with(b"| ")).then_some(bar + 2)
}

/// Takes blank lines out where every second line is one.
fn close_up(lines: &mut Vec<Line>) -> bool {
    let Some(first) = lines.iter().position(|line| !is_blank(line)) else { return false };
    let apart = lines.iter().skip(first + 1).step_by(2).all(is_blank);
    if !apart || lines.iter().filter(|line| !is_blank(line)).count() < MOST_BY_CHANCE {
        return false;
    }
    let mut index = 0;
    lines.retain(|_| {
        index += 1;
        (index - 1) % 2 == first % 2
    });
    true
}

#[cfg(test)]
mod tests {
    use aho_corasick::MatchKind;

    use super::*;

    fn phrases() -> AhoCorasick {
        AhoCorasick::builder().match_kind(MatchKind::Standard).build(["CUDA out of memory"]).expect("one phrase")
    }

    fn text(log: &str) -> Option<String> {
        undone(log.as_bytes(), &phrases()).map(|pasted| String::from_utf8(pasted.bytes).expect("it was text"))
    }

    fn wrapped(log: &str, width: usize) -> String {
        let broken = |line: &str| {
            line.as_bytes().chunks(width).map(|part| String::from_utf8_lossy(part).into_owned()).collect::<Vec<_>>()
        };
        log.lines().flat_map(broken).collect::<Vec<_>>().join("\n")
    }

    const LOG: &str = "Traceback (most recent call last):\n  File \"/opt/conda/envs/job/lib/python3.11/site-packages/torch/nn/modules/conv.py\", line 456, in _conv_forward\n    return F.conv2d(input, weight, bias, self.stride,\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 7.79 GiB total capacity; 6.10 GiB already allocated; 801.00 MiB free)";

    #[test]
    fn lines_that_a_terminal_broke_are_whole_again() {
        for width in [60, 72, 80] {
            assert_eq!(text(&wrapped(LOG, width)).as_deref(), Some(LOG), "{width}");
        }
        assert_eq!(text(LOG), None);
        let pasted = undone(wrapped(LOG, 80).as_bytes(), &phrases()).expect("it is broken");
        assert_eq!(pasted.numbers, [1, 2, 4, 5]);
    }

    #[test]
    fn lines_that_a_page_broke_are_whole_again() {
        let whole = "RuntimeError: the server did not start, and says that it has found no room for the cache of keys and values, which needs \
                     more than what is left over once the weights are loaded, so that nothing can be served at all by this card.";
        for width in [60, 72] {
            let mut page = String::new();
            for word in whole.split(' ') {
                let column = page.rsplit('\n').next().map_or(0, str::len);
                page.push_str(if column == 0 {
                    ""
                } else if column + 1 + word.len() > width {
                    "\n"
                } else {
                    " "
                });
                page.push_str(word);
            }
            assert_eq!(text(&page).as_deref(), Some(whole), "{width}");
        }
    }

    #[test]
    fn a_phrase_that_goes_over_the_end_of_a_line_makes_it_one() {
        let soft = "worker 3 of 8 has stopped: RuntimeError: CUDA out of\nmemory. Tried to allocate 2.00 GiB\ndone";
        assert_eq!(text(soft), Some(soft.replacen('\n', " ", 1)));
        let hard = "worker 3 of 8 has stopped: RuntimeError: CUDA out o\nf memory. Tried to allocate 2.00 GiB\ndone";
        assert_eq!(text(hard), Some(hard.replacen('\n', "", 1)));
        assert_eq!(text("worker 3 of 8 has stopped, and the reason is not CUDA\n    out of memory"), None);
    }

    #[test]
    fn quotes_and_blank_lines_go() {
        assert_eq!(text("> a\n> b\n>\n> c\n\nthanks").as_deref(), Some("a\nb\n\nc\n\nthanks"));
        assert_eq!(text("a\n\nb\n\nc\n\nd\n\ne\n\nf\n").as_deref(), Some("a\nb\nc\nd\ne\nf"));
        assert_eq!(text("a\n\nb\n\nc\nd\n\ne\n\nf\n"), None);
        assert_eq!(text(">>> a\n>>> b\n>>> c"), None);
    }

    #[test]
    fn times_and_names_of_containers_go() {
        let lines = ["Traceback", "  File \"a.py\"", "MemoryError"];
        for mark in ["2026-03-01T10:00:01.123Z ", "2026-03-01T10:00:01+02:00 stderr F ", "trainer-1  | ", "[pod/a/b] "]
        {
            let marked = lines.map(|line| format!("{mark}{line}")).join("\n");
            assert_eq!(text(&marked), Some(lines.join("\n")), "{mark}");
        }
        assert_eq!(text("a  | x\nb  | y\nc  | z"), None);
        assert_eq!(text("2026-03-01 10:00:01: W x\n2026-03-01 10:00:02: W y\n2026-03-01 10:00:03: W z"), None);
    }

    #[test]
    fn lines_of_one_length_are_not_broken() {
        let steps: Vec<String> = (0..9)
            .map(|step| format!("Epoch: [1][452{step}/5000] time 2.27 data 0.01 accuracy 62.36 loss 2.1318"))
            .collect();
        assert_eq!(text(&steps.join("\n")), None);
        let table = format!("{0}\n|{1}|\n|{1}|\n{0}\nKilled", "+".to_owned() + &"-".repeat(70) + "+", " ".repeat(70));
        assert_eq!(text(&table), None);
        let twice = format!("{LOG}\n{}\nKilled", LOG.lines().last().expect("a line"));
        assert_eq!(text(&twice), None);
        assert_eq!(text(""), None);
    }
}
