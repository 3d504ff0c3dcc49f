//! Text from outside, made harmless.
//!
//! In: any text. Out: text for an element or a quoted attribute; or JSON for a script element. Characters that turn the direction of what
//! follows are shown by their numbers: a name must not be able to make the words behind it read otherwise.

/// Text for an element, or for an attribute in quotes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if turns_direction(c) => out.push_str(&format!("[U+{:04X}]", c as u32)),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// JSON, as it may stand in a script element: `<` would end it, and two line ends of Unicode are none of JSON's.
pub fn json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if turns_direction(c) => out.push_str(&format!("[U+{:04X}]", c as u32)),
            c => out.push(c),
        }
    }
    out
}

fn turns_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_json() {
        let text = "</script><!-- \u{2028}\u{202e}\" & é";
        let escaped = json(&serde_json::to_string(text).unwrap());
        assert!(!escaped.contains('<') && !escaped.contains('\u{202e}'));
        let back: String = serde_json::from_str(&escaped).unwrap();
        assert_eq!(back, text.replace('\u{202e}', "[U+202E]"));
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(
            escape("a<b> & \"c\" 'd'\u{1b}\u{2066}"),
            "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;\u{fffd}[U+2066]"
        );
    }
}
