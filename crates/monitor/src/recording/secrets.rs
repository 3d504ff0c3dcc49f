//! Keeps secrets out of recordings: values behind names that sound like one, and values that look like one.
//!
//! In: a command, a setting, a text. Out: the same with `***` in place of secrets. It errs on the side of masking: `--pad-token 0` loses its
//! value. Not found: a secret with an ordinary name and ordinary letters.

mod names;
mod values;

use std::collections::BTreeMap;

use names::{Name, kind_of};
use values::{looks_random, mask_known_forms};

/// What stands for a secret.
pub const MASK: &str = "***";

/// Settings that matter to memory begin with one of these; the rest of the environment is nobody's business.
const SETTINGS: [&str; 20] = [
    "CUDA", "NVIDIA_VISIBLE", "TF_", "XLA_", "JAX_", "KERAS_", "PYTORCH_", "TORCH_", "OMP_", "MKL_", "OPENBLAS_",
    "MALLOC_", "NCCL_", "LD_PRELOAD", "PYTHONMALLOC", "PYTHONHASHSEED", "SLURM_MEM", "SLURM_JOB_ID", "BRIMFUL_",
    "TOKENIZERS_PARALLELISM",
];

/// The settings of an environment that are worth keeping, masked.
pub fn settings(environment: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let kept = environment.into_iter().filter(|(name, _)| SETTINGS.iter().any(|prefix| name.starts_with(prefix)));
    kept.map(|(name, value)| (name.clone(), mask_value(&name, &value))).collect()
}

/// The value of a setting or an option.
pub fn mask_value(name: &str, value: &str) -> String {
    match kind_of(name) {
        Name::Secret if !value.is_empty() => MASK.to_owned(),
        Name::Doubtful if looks_random(value) => MASK.to_owned(),
        _ => mask_text(value),
    }
}

/// A command: `--token x`, `--token=x`, `TOKEN=x`, and code or texts among its arguments.
pub fn mask_command(command: &[String]) -> Vec<String> {
    let mut masked: Vec<String> = Vec::with_capacity(command.len());
    let mut option: Option<&str> = None;
    for (index, argument) in command.iter().enumerate() {
        let is_option = argument.starts_with('-');
        let whole = argument.split_once('=').filter(|(name, _)| index > 0 && is_plain_name(name));
        masked.push(match (option.take(), whole) {
            // A value that begins with a dash is most likely the next option.
            (Some(name), _) if !is_option => mask_value(name, argument),
            (_, Some((name, value))) => format!("{name}={}", mask_value(name, value)),
            _ => mask_text(argument),
        });
        let takes_a_value = is_option && whole.is_none() && index > 0;
        option = takes_a_value.then_some(argument.as_str());
    }
    masked
}

/// Any text: `name=value`, `"name": "value"`, `--name value`, `Bearer x`, and forms that give themselves away.
pub fn mask_text(text: &str) -> String {
    let text = mask_known_forms(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    // The last word, if it is a name whose value may follow.
    let mut name: Option<String> = None;
    while !rest.is_empty() {
        let gap_end = rest.find(is_word_char).unwrap_or(rest.len());
        let (gap, after) = rest.split_at(gap_end);
        out.push_str(gap);
        let word_end = after.find(|c| !is_word_char(c)).unwrap_or(after.len());
        let (word, after) = after.split_at(word_end);
        let leads = |name: &String| gap.contains(['=', ':']) || name.starts_with('-') || is_scheme(name);
        // A line that ends at a name says nothing about the next line.
        let value_of = name.take().filter(|name| leads(name) && !gap.contains('\n'));
        match value_of {
            Some(before) if is_scheme(&before) && looks_random(word) => out.push_str(MASK),
            Some(before) if !is_scheme(word) && !word.is_empty() && mask_word(&before, word) => out.push_str(MASK),
            // `Authorization: Bearer x`: the name goes on to the next word.
            Some(before) if is_scheme(word) && kind_of(&before) == Name::Secret => {
                out.push_str(word);
                name = Some(before);
                rest = after;
                // The gap is a blank, which does not lead from an ordinary name.
                if let Some(value) = after.strip_prefix(' ') {
                    let end = value.find(|c| !is_word_char(c)).unwrap_or(value.len());
                    out.push(' ');
                    out.push_str(if end > 0 { MASK } else { "" });
                    rest = &value[end..];
                    name = None;
                }
                continue;
            }
            _ => out.push_str(word),
        }
        name = Some(word.to_owned());
        rest = after;
    }
    out
}

fn mask_word(name: &str, word: &str) -> bool {
    match kind_of(name) {
        Name::Secret => true,
        Name::Doubtful => looks_random(word),
        Name::Plain => false,
    }
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// What names and values consist of; `*` so that a mask is a word, too.
fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | '*' | '~' | '!' | '#' | '$' | '%' | '^' | '@')
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests;
