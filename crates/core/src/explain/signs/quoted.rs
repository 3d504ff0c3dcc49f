//! Lines that show the words of a failure and report none: code, the help of an option, documentation.
//!
//! In: a line. Out: whether its words are somebody's text. Tracebacks and notebooks show the code around an error, and code that handles a full device
//! names it: `except torch.cuda.OutOfMemoryError:` stands above errors of every kind.

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
    documented || helps(line) || is_code(line)
}

/// The help of an option: `--max-batch N    lower it if …`, `  -b, --batch …`. The option is set apart from what is said of it.
fn helps(line: &str) -> bool {
    let option = line.starts_with("--") || (line.starts_with('-') && line.contains(", --"));
    let named = line.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
    option && named && line.contains("  ")
}

/// A line of code, with the number or the arrow that a notebook puts before it: `---> 88     except RuntimeError as error:`.
fn is_code(line: &str) -> bool {
    let code = line.trim_start_matches(|c: char| c.is_ascii_digit() || "->: |\t".contains(c));
    CODE.iter().any(|start| code.starts_with(start))
}

#[cfg(test)]
mod tests {
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
        assert!(!is_quoted("```RuntimeError: CUDA out of memory.```"));
    }
}
