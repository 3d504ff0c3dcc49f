//! Which values look like a secret, whatever their name. In: text. Out: whether, or the text without them.

use super::MASK;

/// How keys of well-known services begin, and how many letters at least follow.
const FORMS: [(&str, usize); 16] = [
    ("hf_", 16),
    ("sk-", 16),
    ("sk_live_", 10),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghs_", 16),
    ("github_pat_", 16),
    ("glpat-", 10),
    ("AKIA", 12),
    ("ASIA", 12),
    ("AIza", 20),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("eyJ", 20),
    ("pypi-", 20),
    ("npm_", 20),
];

/// Long, of one piece, and of letters and digits mixed: what no person would type.
pub fn looks_random(value: &str) -> bool {
    let letters = value.chars().filter(char::is_ascii_alphabetic).count();
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let one_piece = value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '/' | '=' | '.'));
    one_piece
        && value.len() >= 16
        && letters >= 4
        && digits >= 4
        && value.matches(['/', '.']).count() * 12 <= value.len()
}

/// Masks keys that begin like those of a well-known service, and the passwords of addresses.
pub fn mask_known_forms(text: &str) -> String {
    mask_addresses(&mask_forms(text))
}

fn mask_forms(text: &str) -> String {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_letter(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let form = FORMS.iter().find(|(begin, least)| word.starts_with(begin) && word.len() >= begin.len() + least);
        match form {
            Some((begin, _)) => out.extend([begin, MASK]),
            None => out.push_str(word),
        }
        let gap = after.find(is_letter).unwrap_or(after.len());
        out.push_str(&after[..gap]);
        rest = &after[gap..];
    }
    out
}

/// `scheme://user:password@host`.
fn mask_addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find("://") {
        let (before, after) = rest.split_at(place + 3);
        out.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'')).unwrap_or(after.len());
        let (authority, after) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((user, host)) => {
                let name = user.split_once(':').map_or("", |(name, _)| name);
                out.extend([name, if name.is_empty() { "" } else { ":" }, MASK, "@", host]);
            }
            None => out.push_str(authority),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
