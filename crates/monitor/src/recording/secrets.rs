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
    // Terraform's begin with the same letters as TensorFlow's.
    let is_foreign = |name: &str| ["TF_VAR_", "TF_CLI_"].iter().any(|prefix| name.starts_with(prefix));
    let is_kept = |name: &str| SETTINGS.iter().any(|prefix| name.starts_with(prefix)) && !is_foreign(name);
    let kept = environment.into_iter().filter(|(name, _)| is_kept(name));
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

/// Programs that take a password behind this short option, with a blank in between or without.
const PASSWORD_OPTIONS: [(&str, &str); 10] = [
    ("sshpass", "-p"),
    ("mysql", "-p"),
    ("mysqldump", "-p"),
    ("mysqladmin", "-p"),
    ("mariadb", "-p"),
    ("mongo", "-p"),
    ("mongosh", "-p"),
    ("docker", "-p"),
    ("redis-cli", "-a"),
    ("ldapsearch", "-w"),
];

/// The short option of a command that has a password. A port that `docker run -p` maps is none.
fn password_option(command: &[String]) -> Option<&'static str> {
    let program = |argument: &str| argument.rsplit('/').next().unwrap_or("").to_owned();
    let is_login = command.iter().any(|argument| argument == "login");
    PASSWORD_OPTIONS
        .iter()
        .find(|(name, _)| (*name != "docker" || is_login) && command.iter().any(|argument| program(argument) == *name))
        .map(|(_, option)| *option)
}

/// A command: `--token x`, `--token=x`, `TOKEN=x`, and code or texts among its arguments.
pub fn mask_command(command: &[String]) -> Vec<String> {
    let mut masked: Vec<String> = Vec::with_capacity(command.len());
    let mut option: Option<&str> = None;
    let password = password_option(command);
    for (index, argument) in command.iter().enumerate() {
        let is_option = argument.starts_with('-');
        let whole = argument.split_once('=').filter(|(name, _)| index > 0 && is_plain_name(name));
        masked.push(match (option.take(), whole) {
            (Some(name), _) if Some(name) == password && !is_option => MASK.to_owned(),
            (_, None) if password.is_some_and(|name| argument.len() > name.len() && argument.starts_with(name)) => {
                format!("{}{MASK}", password.unwrap_or_default())
            }
            // A value that begins with a dash is most likely the next option.
            // Elsewhere it may be a port, a prefix or a partition.
            (Some("-p" | "-P" | "-w"), _) if !is_option && looks_random(argument) => MASK.to_owned(),
            (Some(name), _) if !is_option => mask_login(name, argument).unwrap_or_else(|| mask_value(name, argument)),
            (_, Some((name, value))) => format!("{name}={}", mask_value(name, value)),
            _ => mask_text(argument),
        });
        let takes_a_value = is_option && whole.is_none() && index > 0;
        option = takes_a_value.then_some(argument.as_str());
    }
    masked
}

/// `-u name:password`, as many programs take it.
fn mask_login(option: &str, value: &str) -> Option<String> {
    let is_login = ["-u", "--user", "--login", "--proxy-user"].contains(&option);
    let (name, password) = value.split_once(':').filter(|_| is_login)?;
    (!password.is_empty()).then(|| format!("{name}:{MASK}"))
}

/// Any text: `name=value`, `"name": "value"`, `--name value`, `Bearer x`, and forms that give themselves away.
pub fn mask_text(text: &str) -> String {
    let text = mask_known_forms(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (gap, after) = rest.split_at(rest.find(is_word_char).unwrap_or(rest.len()));
        let (name, after) = after.split_at(after.find(|c| !is_word_char(c)).unwrap_or(after.len()));
        out.extend([gap, name]);
        rest = after;
        let found = (kind_of(name) != Name::Plain || is_scheme(name)).then(|| value_after(name, after)).flatten();
        let Some((lead, value)) = found else { continue };
        // `Authorization: Bearer x`: what follows the scheme is the secret.
        let scheme = value.split_once(' ').map(|(word, _)| word).unwrap_or(value);
        let is_secret = match kind_of(name) {
            Name::Secret => !is_scheme(scheme),
            Name::Doubtful | Name::Plain => looks_random(value),
        };
        if is_secret {
            out.extend([lead, MASK]);
            rest = &after[lead.len() + value.len()..];
        } else if kind_of(name) == Name::Secret {
            let credentials = &after[lead.len() + scheme.len()..];
            let begin = credentials.len() - credentials.trim_start_matches(' ').len();
            let end = credentials[begin..].find(ends_value).map_or(credentials.len(), |end| begin + end);
            out.extend([lead, scheme, &credentials[..begin], if end > begin { MASK } else { "" }]);
            rest = &credentials[end..];
        }
    }
    out
}

/// What stands between a name and its value, and the value: up to its closing quote, or to a blank.
fn value_after<'a>(name: &str, rest: &'a str) -> Option<(&'a str, &'a str)> {
    let is_quote = |c: char| matches!(c, '"' | '\'');
    let is_blank = |c: char| matches!(c, ' ' | '\t');
    let separator = rest.strip_prefix(is_quote).unwrap_or(rest).trim_start_matches(is_blank);
    let value = separator.trim_start_matches(['=', ':']);
    // `Key::get` is code, and so is `key == x`.
    let is_separated = separator.len() == value.len() + 1;
    let is_next_word = separator.len() == value.len() && separator.len() < rest.len() && !value.starts_with('-');
    if !is_separated && !(is_next_word && (name.starts_with('-') || is_scheme(name))) {
        return None;
    }
    let value = value.trim_start_matches(is_blank);
    let quote = value.chars().next().filter(|c| is_quote(*c));
    let value = quote.map_or(value, |quote| &value[quote.len_utf8()..]);
    let lead = &rest[..rest.len() - value.len()];
    let end = match quote {
        Some(quote) => value.find([quote, '\n']),
        None => value.find(ends_value),
    };
    let value = &value[..end.unwrap_or(value.len())];
    (!value.is_empty()).then_some((lead, value))
}

fn ends_value(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'')
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// What names consist of.
fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests;
