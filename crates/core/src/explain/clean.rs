//! Raw bytes of a log as lines a person would have read.
//!
//! In: a stretch of bytes in any encoding. Out: text without colours, control characters, boxes and the prefixes that schedulers, ranks and
//! loggers put in front; line breaks that were written as `\n` in JSON or a Python repr are line breaks again. What was cut off stays cut off.

use std::borrow::Cow;

/// Longer lines are cut: nothing that explains a failure is longer.
pub const LONGEST_LINE: usize = 6000;

/// A line, and its number in the file; pieces of one physical line share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// As an editor counts, from 1.
    pub number: u64,
    /// What it says.
    pub text: String,
}

/// The lines of a stretch of bytes whose first line has this number.
pub fn lines(bytes: &[u8], first_number: u64) -> Vec<Line> {
    let mut found = Vec::new();
    for (index, raw) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let number = first_number + index as u64;
        let text = String::from_utf8_lossy(raw);
        for piece in pieces(&text) {
            found.push(Line { number, text: piece });
        }
    }
    found
}

/// The pieces of one physical line: progress bars return without a line feed, and escaped text has its breaks written out.
fn pieces(raw: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in raw.split('\r') {
        if part.is_empty() && raw.contains('\r') {
            continue;
        }
        let message = message_of_json(part);
        if message.is_some() || is_escaped(part) {
            found.extend(unescaped(message.unwrap_or(part)).split('\n').map(clean));
        } else {
            found.push(clean(part));
        }
    }
    found
}

/// Text with its escapes made out.
fn unescaped(text: &str) -> String {
    let escapes = [("\\\\n", "\n"), ("\\n", "\n"), ("\\\"", "\""), ("\\'", "'"), ("\\t", "\t"), ("\\r", "")];
    let colours = [("\\u001b", "\u{1b}"), ("\\u001B", "\u{1b}"), ("\\x1b", "\u{1b}")];
    escapes
        .iter()
        .chain(&colours)
        .fold(text.to_owned(), |text, (from, to)| if text.contains(from) { text.replace(from, to) } else { text })
}

/// The message of a line that is a JSON object, as containers write them; still escaped. What loggers write has its traceback
/// under another key and stays whole.
fn message_of_json(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if !line.starts_with('{') {
        return None;
    }
    let start = ["\"log\":\"", "\"log\": \""].into_iter().find_map(|key| line.find(key).map(|at| at + key.len()))?;
    let mut end = start;
    let bytes = line.as_bytes();
    while end < bytes.len() && bytes[end] != b'"' {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    let inner = line.get(start..end.min(line.len()))?;
    // The break that ends a line is the line's own.
    Some(inner.strip_suffix("\\n").unwrap_or(inner))
}

/// Whether line breaks are written as `\n`. Paths of Windows have `\n` too (`torch\nn\modules`), but no blanks or capitals after it.
fn is_escaped(text: &str) -> bool {
    let marks = ["\\n  ", "\\n\\n", "\\nTraceback", "\\nRuntimeError", "\\n\"", "\\n'", "\\n\\t", "\\n\\u", "\\n\\x1b"];
    text.contains("\\n") && (text.trim_start().starts_with('{') || marks.iter().any(|mark| text.contains(mark)))
}

/// One line without what is only for the eye.
pub fn clean(text: &str) -> String {
    let cut = text.char_indices().nth(LONGEST_LINE).map_or(text, |(at, _)| &text[..at]);
    let restored = with_escapes(cut);
    let cut = &*restored;
    // Most lines have nothing to take out.
    if cut.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\t') {
        return cut.trim_end().to_owned();
    }
    let mut plain = String::with_capacity(cut.len());
    let mut characters = cut.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\u{1b}' => skip_escape(&mut characters),
            // Left over where the escape character itself was lost.
            '\u{fffd}' | '\u{feff}' | '\u{200b}' => {}
            '│' | '┃' | '║' => plain.push(' '),
            '\u{a0}' => plain.push(' '),
            // A forum makes them of plain ones.
            '“' | '”' | '„' => plain.push('"'),
            '‘' | '’' => plain.push('\''),
            c if c.is_control() && c != '\t' => {}
            c => plain.push(c),
        }
    }
    plain.truncate(plain.trim_end().len());
    plain
}

/// The breaks at the end of a page's lines, however they are written.
const BREAKS: [&str; 5] = ["<br>", "<br/>", "<br />", "</p>", "</pre>"];

/// Colours as they were before a logger wrote their escape out (`#033[34m`, `^[[34m`) or whoever pasted them lost it (`[34m`); quotes and brackets as
/// they were before they became part of a page.
fn with_escapes(text: &str) -> Cow<'_, str> {
    if let Some(line) = BREAKS.iter().find_map(|end| text.trim_end().strip_suffix(end)) {
        let line = line.strip_prefix("<p>").or_else(|| line.strip_prefix("<pre>")).unwrap_or(line);
        return Cow::Owned(with_escapes(line).into_owned());
    }
    if ["&quot;", "&lt;", "&#39;", "&#x27;", "&gt;"].iter().any(|entity| text.contains(entity)) {
        let entities =
            [("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&#39;", "'"), ("&#x27;", "'"), ("&amp;", "&")];
        return Cow::Owned(entities.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)));
    }
    for written in ["#033[", "^[["] {
        if text.contains(written) {
            return Cow::Owned(text.replace(written, "\u{1b}["));
        }
    }
    // Only where a line begins with one: `rate(x[5m])` is no colour.
    if colour(text.trim_start()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('[') {
        plain.push_str(&rest[..at]);
        let length = colour(&rest[at..]).unwrap_or(0);
        if length == 0 {
            plain.push('[');
        }
        rest = &rest[at + length.max(1)..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The length of a colour without its escape at the start of a text: 4 of `[34m`.
fn colour(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let length = inner.bytes().take(12).take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    (length > 0 && inner[length..].starts_with('m')).then_some(length + 2)
}

fn skip_escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.peek() {
        Some('[') => {
            characters.next();
            // Parameters, then one final character in @…~.
            while let Some(&c) = characters.peek() {
                characters.next();
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        }
        // A title or a link, up to a bell or an escape.
        Some(']') => {
            while let Some(&c) = characters.peek() {
                if c == '\u{1b}' {
                    break;
                }
                characters.next();
                if c == '\u{7}' {
                    break;
                }
            }
        }
        Some(_) => {
            characters.next();
        }
        None => {}
    }
}

/// Which process of many wrote a line, where its prefix says so: `[rank3]:`, `[1,3]<stderr>:`, `(Worker pid=12)`.
pub fn speaker(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let (open, close) = match text.as_bytes().first()? {
        b'[' => ('[', ']'),
        b'(' => ('(', ')'),
        _ => return None,
    };
    let end = text.find(close)?;
    let inner = &text[open.len_utf8()..end];
    let ranks = ["rank", "pid=", "default", "Rank", "worker", "Worker", "actor", "stderr"];
    let mpi = close == ']' && text[end + 1..].starts_with("<std");
    (inner.len() < 60 && (mpi || ranks.iter().any(|word| inner.contains(word)))).then_some(inner)
}

/// The rank in a prefix, if it names one.
pub fn rank(speaker: &str) -> Option<u32> {
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let tail = speaker.split_once("rank").or_else(|| speaker.split_once("Rank")).map(|(_, tail)| tail)?;
    digits(tail.trim_start_matches([':', '=', ' ', '-'])).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8]) -> Vec<String> {
        lines(bytes, 1).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn colours_boxes_and_control_characters_go() {
        assert_eq!(clean("\u{1b}[31mout\u{1b}[0m of \u{1b}]8;;http://x\u{7}memory\u{8}"), "out of memory");
        assert_eq!(clean("│ x = 3 │").trim(), "x = 3");
        assert_eq!(clean("\u{1b}"), "");
        assert_eq!(clean("\u{1b}["), "");
        assert_eq!(clean("File “a.py”, ‘x’"), "File \"a.py\", 'x'");
        assert_eq!(clean("<p>Killed<br>"), "Killed");
        assert_eq!(clean("RuntimeError: &#x27;x&#x27; &gt; 3<br />"), "RuntimeError: 'x' > 3");
    }

    #[test]
    fn escaped_breaks_are_breaks_and_windows_paths_are_not() {
        assert_eq!(
            texts(br#"{"log":"Traceback\n  File \"a.py\"\nKilled"}"#),
            ["Traceback", "  File \"a.py\"", "Killed"]
        );
        let path = br#"  File "C:\lib\torch\nn\modules\module.py", line 1"#;
        assert_eq!(texts(path).len(), 1);
    }

    #[test]
    fn numbers_are_those_of_an_editor() {
        let found = lines(b"a\n10%\r20%\nb", 7);
        assert_eq!(found.iter().map(|line| line.number).collect::<Vec<_>>(), [7, 8, 8, 9]);
    }

    #[test]
    fn speakers() {
        assert_eq!(speaker("[rank12]: Traceback").and_then(rank), Some(12));
        assert_eq!(speaker("(RayTrainWorker pid=3, ip=1.2.3.4) x"), Some("RayTrainWorker pid=3, ip=1.2.3.4"));
        assert_eq!(speaker("[1,3]<stderr>: x"), Some("1,3"));
        assert_eq!(speaker("[node a/b]"), None);
        assert_eq!(speaker("[rank"), None);
    }
}
