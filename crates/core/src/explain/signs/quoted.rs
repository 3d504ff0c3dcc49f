//! Lines that show the words of a failure and report none: code, the help of an option, documentation.
//!
//! In: a line, and what stands above it. Out: whether its words are somebody's text. Tracebacks and notebooks show the code around an error, and code
//! that handles a full device names it: `except torch.cuda.OutOfMemoryError:` stands above errors of every kind. A manual shows what is said before it
//! says what to do about it.

use super::super::excerpt::Excerpt;
use super::super::sizes::{has_any, has_word_of};
use super::talk::is_own;

/// How lines of Python begin that name an exception or a message, and are neither.
const CODE: &[&str] = &[
    "except ", "except(", "raise ", "elif ", "with pytest.raises(", "with self.assertRaises", "print(",
    "logger.error(", "logger.warning(", "logger.info(", "logger.exception(", "logging.error(", "logging.warning(",
    "logging.info(", "warnings.warn(", "parser.add_argument(", "isinstance(", "if isinstance(",
];

/// Whether a line shows words that were not said now.
pub fn is_quoted(text: &str) -> bool {
    let line = text.trim_start();
    // reStructuredText; a message that is pasted has single ones, or is all between them.
    let pasted = line.starts_with("``") && line.trim_end().ends_with("``");
    let documented = text.matches("``").count() >= 2 && !text.contains("```") && !pasted;
    documented
        || defines(line)
        || is_never_said(line)
        || searches(line)
        || is_change(line)
        || is_entry(line)
        || helps(line)
        || is_code(line)
        || is_row(line)
        || is_section(line)
        || is_frame(line)
        || is_comment(line)
}

/// Whether a line is none that a process or a shell writes when it ends: for signs that are no messages.
pub fn is_never_said(line: &str) -> bool {
    is_added(line) || leaves_out(line)
}

/// A sentence that says what an error is. A message with its figures has happened, whatever is said of it.
fn defines(line: &str) -> bool {
    let words = [
        " means the ", " means that ", " does not mean ", "a common error", "common error is", "Understanding the ",
        "happens when your GPU", "happens when the GPU", "occurs when your GPU", "occurs when the GPU",
    ];
    has_any(line, &words) && !line.contains(|c: char| c.is_ascii_digit())
}

/// A command that looks for the words: `dmesg | grep -i 'killed process'`. What it found stands below it. A shell names
/// one that was killed, too, so that this counts for messages alone.
fn searches(line: &str) -> bool {
    has_any(line, &["grep -", "grep '", "grep \""])
}

/// How titles of changes begin: they say what is to be done about a failure.
const CHANGES: &[&str] = &[
    "Add", "Adds", "Allow", "Avoid", "Better", "Catch", "Check", "Detect", "Document", "Enable", "Expose", "Fix",
    "Handle", "Ignore", "Implement", "Improve", "Include", "Indicate", "Make", "Only", "Prevent", "Propagate",
    "Reduce", "Relaunch", "Report", "Restart", "Retry", "Return", "Set", "Show", "Skip", "Support", "Surface", "Treat",
    "Understand", "Use", "Warn",
];

/// How titles of pages begin that teach what to do about one.
const LESSONS: &[&str] = &[
    "Avoiding", "Debugging", "Deciphering", "Demystifying", "Diagnosing", "Fixing", "Handling", "Overcoming",
    "Preventing", "Resolving", "Solving", "Tackling", "Troubleshooting", "Understanding",
];

/// The title of a change or of a lesson: `# Handle OOMKilled workers`, `Fixing CUDA out of memory`. A message with its figures has happened all the same.
pub fn is_change(line: &str) -> bool {
    let first = |title: &str| title.split_whitespace().next().unwrap_or("").to_owned();
    let change = line.strip_prefix("# ").map(first).is_some_and(|verb| CHANGES.contains(&verb.as_str()));
    let title = line.trim_start_matches(['#', ' ']);
    let scoped = is_scoped_change(title);
    let lesson = LESSONS.contains(&first(title).as_str())
        || ["How to Fix ", "How to fix ", "How to Resolve "].iter().any(|start| title.starts_with(start));
    (change && !line.contains(|c: char| c.is_ascii_digit()))
        || ((lesson || scoped) && !line.contains("ried to allocate"))
}

/// Whether a title says what is changed, and what for: `runtime(io): add a state for OUT_OF_MEMORY`. A message begins so, too, and goes on with no such verb.
pub fn is_scoped_change(title: &str) -> bool {
    let Some((scope, text)) = title.split_once(": ") else { return false };
    let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-/()".contains(c);
    let verb = text.split_whitespace().next().unwrap_or("");
    scope.starts_with(|c: char| c.is_ascii_lowercase())
        && scope.chars().all(named)
        && !["error", "warning", "fatal", "info", "note"].contains(&scope)
        && CHANGES.iter().any(|change| change.to_ascii_lowercase() == verb)
}

/// An entry of a list that says what a word means: `• OUT_OF_MEMORY: the job used more than it had asked for`. An error's own name is followed by what it
/// says, and a message has its figures.
fn is_entry(line: &str) -> bool {
    const FEWEST_WORDS: usize = 6;
    let Some(entry) = ["• ", "- ", "* ", "· "].iter().find_map(|mark| line.strip_prefix(mark)) else { return false };
    let Some((word, meaning)) = entry.split_once(": ") else { return false };
    let told = meaning.split_whitespace().count() >= FEWEST_WORDS && meaning.starts_with(|c: char| c.is_lowercase());
    told && !has_any(word, &["error", "exception", "warn"]) && !meaning.contains(|c: char| c.is_ascii_digit())
}

/// A message without its number, which nobody said: `DataLoader worker (pid ...) is killed by signal`.
fn leaves_out(line: &str) -> bool {
    has_any(line, &["(pid ...", "(pid …", "(pid(s) ..."])
}

/// A line of a list of changes, as it stands there: `+Exit code 137 is said of …`. A shell that shows its commands leaves a blank: `+ python train.py`.
fn is_added(line: &str) -> bool {
    let Some(text) = line.strip_prefix('+') else { return false };
    text.starts_with("  ") || text.starts_with(|c: char| c.is_alphabetic() || "#`*|".contains(c))
}

/// The heading of a section: `## Too many open files`. A report's own title has one mark, and a message that is pasted as one has a colon.
fn is_section(line: &str) -> bool {
    let title = line.trim_start_matches('#');
    line.starts_with("##") && title.starts_with(' ') && !title.contains(':')
}

/// A row of a table with three columns or more, as Markdown has them: `| 13B | 8 | CUDA out of memory |`. An allocator's own message has its figures.
fn is_row(line: &str) -> bool {
    let line = line.trim_end();
    let row = line.starts_with('|') && line.ends_with('|') && line.matches('|').count() >= 4;
    row && !line.contains("ried to allocate")
}

/// How a manual brings in what its reader may meet. Whoever reports a failure says `if you run this, you get`.
pub const MANUALS: &[&str] = &[
    "if you still get", "if you still see", "if you see", "if you encounter", "if you receive", "if you hit",
    "if you run into", "if you face", "if you get a", "if you get the", "if you get this", "if you get:",
    "or if you get", "what to do if", "you may see", "you might see", "you may encounter", "you might encounter",
    "you may get", "you might get",
];

/// How a page brings in what an error looks like. Whoever had it says so of himself.
const SHOWS: &[&str] = &[
    "such as this:", "such as:", "error like", "errors like", "message like", "messages like", "looks like this",
    "look like this", "similar to this:", "similar to the following:", "for example:", "might look like",
    "may look like", "usually look like", "typically see", "will see", "you'll see", "commonly appears as",
];

/// Lines of a sample that are looked through for where it begins.
const LONGEST_SAMPLE: usize = 40;

/// Whether a line is a sample: of a manual, in an indented or fenced block right below a sentence like `If you see`; of a page, below `an error such as this:`; or of a list
/// of changes.
pub fn is_sample(excerpt: &Excerpt) -> bool {
    let indent = |text: &str| text.len() - text.trim_start().len();
    let own = indent(&excerpt.line.text);
    // On a page without marks it stands below a sentence that ends in a colon.
    let mut near = excerpt.before.iter().rev().map(|line| line.text.trim()).filter(|text| !text.is_empty());
    if near.next().is_some_and(|text| text.ends_with(':') && has_any(text, SHOWS) && !is_own(text)) {
        return true;
    }
    if is_item(&excerpt.line.text) && lists_causes(excerpt) {
        return true;
    }
    let mut above = excerpt.before.iter().rev().map(|line| line.text.as_str()).take(LONGEST_SAMPLE);
    // Where the block begins: at its fence, or at the first line that is indented less.
    let Some(edge) = above.find(|text| is_fence(text) || (!text.trim().is_empty() && indent(text) < own)) else {
        return false;
    };
    // A list of changes, as it is quoted in a review.
    if edge.trim() == "```diff" {
        return true;
    }
    let sentence = if is_fence(edge) { above.find(|text| !text.trim().is_empty()) } else { Some(edge) };
    sentence.is_some_and(|text| has_any(text, MANUALS))
}

/// An entry of a list.
fn is_item(text: &str) -> bool {
    let line = text.trim_start();
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "• ", "· "].iter().any(|mark| line.starts_with(mark))
        || (number.len() < line.len() && (number.starts_with(". ") || number.starts_with(") ")))
}

/// How somebody brings in what may be the reason.
const REASONS: &[&str] = &[
    "can happen", "can also happen", "may happen", "may also happen", "might happen", "could happen", "can occur",
    "can also occur", "may occur", "happens when", "happens if", "happens for", "possible causes", "possible reasons",
    "common causes", "common reasons", "several reasons", "following reasons", "the reasons",
];

/// Whether the list that a line stands in is one of reasons, as the sentence above it says. Whoever had it says so of himself.
fn lists_causes(excerpt: &Excerpt) -> bool {
    let above = excerpt.before.iter().rev().map(|line| line.text.trim()).take(LONGEST_SAMPLE);
    let mut sentences = above.filter(|text| !text.is_empty() && !is_item(text));
    sentences.next().is_some_and(|text| text.ends_with(':') && has_any(text, REASONS) && !is_own(text))
}

fn is_fence(text: &str) -> bool {
    let line = text.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}

/// The help of an option: `--max-batch N    lower it if …`, `  -b, --batch …`. The option is set apart from what is said of it.
fn helps(line: &str) -> bool {
    let option = line.starts_with("--") || (line.starts_with('-') && line.contains(", --"));
    let named = line.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
    option && named && line.contains("  ")
}

/// A frame of a native stack, which names files of the allocator below errors of every kind: `frame #2: … (CPUAllocator.cpp:0)`.
fn is_frame(line: &str) -> bool {
    line.strip_prefix("frame #").is_some_and(|tail| tail.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a line has what is raised, and then what was said: `raise RuntimeError(text) RuntimeError: CUDA out of memory`, as two lines become one title.
fn raises_and_says(code: &str) -> bool {
    let said = code.strip_prefix("raise ").and_then(|tail| tail.split_once([')', '"', ' '])).map(|(_, tail)| tail);
    said.is_some_and(|tail| {
        let mut words = tail.split_whitespace();
        words.any(|word| word.ends_with("Error:") || word.ends_with("Exception:"))
    })
}

/// A line of code, with the number or the arrow that a notebook puts before it: `---> 88     except RuntimeError as error:`.
fn is_code(line: &str) -> bool {
    // Or with the mark that a list of changes puts there.
    let code = line.trim_start_matches(|c: char| c.is_ascii_digit() || "+->: |\t".contains(c));
    let asks = (code.starts_with("if ") || code.starts_with("assert ")) && code.contains(" in str(");
    asks || (CODE.iter().any(|start| code.starts_with(start)) && !raises_and_says(code))
}

/// How comments begin that say something to whoever reads the code.
const NOTES: &[&str] = &["note:", "todo:", "fixme:", "hint:", "tip:", "warning:", "default:", "e.g.:", "example:"];

/// A comment of a script or of settings: `# raise it if pods get OOMKilled`. What a root's prompt shows has the same form, and is a command; and so has the
/// title of a report, which begins as a message does and is one: `# torch.cuda.OutOfMemoryError: …`, `# slurmstepd: error: …`; or says who had it.
fn is_comment(line: &str) -> bool {
    let Some(comment) = line.strip_prefix("# ").filter(|comment| !comment.contains("ried to allocate")) else {
        return false;
    };
    let (first, tail) = comment.split_once(' ').unwrap_or((comment, ""));
    let named = first.ends_with(':') && !NOTES.contains(&first) && comment.contains(|c: char| c.is_ascii_digit());
    let message =
        named || has_any(first, &["error", "exception"]) || tail.starts_with("error:") || raises_and_says(comment);
    comment.starts_with(|c: char| c.is_ascii_lowercase()) && !message && !has_word_of(comment, &["i", "i'm", "my"])
}

#[cfg(test)]
mod tests {
    use super::super::super::clean::Line;
    use super::*;

    #[test]
    fn code_and_help_are_not_reports() {
        assert!(is_quoted("        except torch.cuda.OutOfMemoryError:"));
        assert!(is_quoted("---> 88     raise MemoryError(size)"));
        assert!(is_quoted("  --offload        avoids torch.cuda.OutOfMemoryError on small cards"));
        assert!(is_quoted("  -o, --offload    avoids torch.cuda.OutOfMemoryError"));
        assert!(is_quoted("    If a ``torch.cuda.OutOfMemoryError`` is raised, less is taken."));
        assert!(!is_quoted("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"));
        assert!(!is_quoted("`RuntimeError: CUDA out of memory.`"));
        assert!(!is_quoted("-- RuntimeError: CUDA out of memory."));
        assert!(!is_quoted("``RuntimeError: CUDA out of memory.``"));
        assert!(!is_quoted("logger.py:88: RuntimeError: CUDA out of memory."));
        assert!(!is_quoted("from rank 3: CUDA out of memory."));
        assert!(is_quoted("    logger.error('CUDA out of memory')"));
        assert!(is_quoted("+        if \"out of memory\" in str(error):"));
        assert!(is_quoted("> +    except torch.cuda.OutOfMemoryError:"));
        assert!(is_quoted("    # raise it if pods get OOMKilled"));
        assert!(is_quoted("$ dmesg -T | egrep -i 'killed process|out of memory'"));
        assert!(!is_quoted("Out of memory: Killed process 71 (grep) total-vm:84kB"));
        assert!(!is_quoted("+ RuntimeError: CUDA out of memory."));
        assert!(is_quoted("# Handle CUDA out of memory in the worker"));
        assert!(!is_quoted("# Handle it: CUDA out of memory. Tried to allocate 2.00 GiB"));
        assert!(!is_quoted("# RuntimeError: CUDA out of memory."));
        assert!(!is_quoted("# torch.cuda.OutOfMemoryError: CUDA out of memory"));
        assert!(!is_quoted("# slurmstepd: error: Detected 3 oom_kill events in StepId=88.0"));
        assert!(!is_quoted(
            "# executor: Container killed by YARN for exceeding memory limits. 9.1 GB of 9 GB physical"
        ));
        assert!(!is_quoted("# since the last release i have CUDA out of memory on both cards"));
        assert!(!is_quoted("#  éé"));
        assert!(is_quoted("# note: pods with less than 4 GB get OOMKilled"));
        assert!(!is_quoted("```RuntimeError: CUDA out of memory.```"));
    }

    #[test]
    fn tables_and_headings_are_not_reports() {
        assert!(is_quoted("| 13B | 8 | CUDA out of memory | - |"));
        assert!(!is_quoted("| RuntimeError: CUDA out of memory. |"));
        assert!(!is_quoted("| 0 | 8 | CUDA out of memory. Tried to allocate 2.00 GiB | - |"));
        assert!(!is_quoted("train-1  | RuntimeError: CUDA out of memory."));
        assert!(is_quoted("frame #2: at::detail::empty_cpu + 0x1 (CPUAllocator.cpp:0)"));
        assert!(!is_quoted("frame 2 of 9: CUDA out of memory"));
        assert!(is_quoted("## Too many open files"));
        assert!(!is_quoted("# CUDA out of memory on two cards"));
        assert!(!is_quoted("## RuntimeError: CUDA out of memory."));
    }

    fn excerpt(log: &str) -> Excerpt {
        let mut before: Vec<Line> = log.lines().map(|text| Line { number: 0, text: text.to_owned() }).collect();
        let line = before.pop().expect("the line itself");
        Excerpt { before, line, after: Vec::new() }
    }

    #[test]
    fn samples_of_a_manual_are_not_reports() {
        assert!(is_sample(&excerpt("If you see\n\n    RuntimeError: CUDA out of memory.")));
        assert!(is_sample(&excerpt("If you run into this:\n\n```\nTraceback\n  File \"a.py\"\nMemoryError")));
        assert!(!is_sample(&excerpt("If you run it on one card, you get\n\n    RuntimeError: CUDA out of memory.")));
        assert!(!is_sample(&excerpt("If you see it, lower the batch.\n\nI did:\n```\nMemoryError")));
        assert!(!is_sample(&excerpt("If you see errors above, restart.\nMemoryError")));
    }
}
