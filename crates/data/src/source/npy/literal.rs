//! The few Python values that stand in a header of `.npy`, read by hand: nothing is ever evaluated.
//!
//! In: text such as `{'descr': '<f4', 'fortran_order': False, 'shape': (10, 3), }`. Out: a [`Literal`], or what is wrong at which
//! character.

/// A Python value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    Text(String),
    Number(u64),
    Truth(bool),
    /// A tuple or a list.
    List(Vec<Literal>),
    Dict(Vec<(String, Literal)>),
}

/// Deeper than any header that NumPy writes.
const DEPTH: usize = 8;

/// The one value of a text.
pub(super) fn parse(text: &str) -> Result<Literal, String> {
    let mut parser = Parser { text: text.as_bytes(), whole: text, at: 0 };
    let value = parser.value(DEPTH)?;
    parser.blanks();
    if parser.at < parser.text.len() { Err(parser.wrong("nothing more")) } else { Ok(value) }
}

struct Parser<'a> {
    text: &'a [u8],
    whole: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn wrong(&self, expected: &str) -> String {
        match self.text.get(self.at) {
            Some(byte) => format!("expected {expected} but found '{}' at character {}", byte.escape_ascii(), self.at),
            None => format!("expected {expected} but the header ends"),
        }
    }

    fn blanks(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn takes(&mut self, what: &str) -> bool {
        self.blanks();
        let found = self.text[self.at..].starts_with(what.as_bytes());
        self.at += if found { what.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: usize) -> Result<Literal, String> {
        if depth == 0 {
            return Err("values are nested too deeply".to_owned());
        }
        self.blanks();
        match self.text.get(self.at) {
            Some(b'{') => self.dict(depth),
            Some(b'(') => self.list(depth, ")"),
            Some(b'[') => self.list(depth, "]"),
            Some(b'\'' | b'"') => Ok(Literal::Text(self.string()?)),
            Some(b'0'..=b'9') => self.number(),
            _ if self.takes("True") => Ok(Literal::Truth(true)),
            _ if self.takes("False") => Ok(Literal::Truth(false)),
            _ => Err(self.wrong("a value")),
        }
    }

    fn dict(&mut self, depth: usize) -> Result<Literal, String> {
        self.at += 1;
        let mut entries = Vec::new();
        while !self.takes("}") {
            self.blanks();
            let key = self.string()?;
            if !self.takes(":") {
                return Err(self.wrong("':'"));
            }
            entries.push((key, self.value(depth - 1)?));
            if !self.takes(",") && self.text.get(self.at) != Some(&b'}') {
                return Err(self.wrong("',' or '}'"));
            }
        }
        Ok(Literal::Dict(entries))
    }

    fn list(&mut self, depth: usize, end: &str) -> Result<Literal, String> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.takes(end) {
            items.push(self.value(depth - 1)?);
            if !self.takes(",") && !self.text[self.at..].starts_with(end.as_bytes()) {
                return Err(self.wrong(&format!("',' or '{end}'")));
            }
        }
        Ok(Literal::List(items))
    }

    fn string(&mut self) -> Result<String, String> {
        self.takes("u");
        let quote = match self.text.get(self.at) {
            Some(quote @ (b'\'' | b'"')) => *quote,
            _ => return Err(self.wrong("a quoted name")),
        };
        let first = self.at + 1;
        let length = self.text[first..].iter().position(|byte| *byte == quote);
        let length = length.ok_or_else(|| "a quoted name does not end".to_owned())?;
        let text = &self.whole[first..first + length];
        if text.contains('\\') {
            return Err(format!("the name '{text}' has a backslash, which is not read"));
        }
        self.at = first + length + 1;
        Ok(text.to_owned())
    }

    fn number(&mut self) -> Result<Literal, String> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = &self.whole[self.at..self.at + digits];
        let number = text.parse().map_err(|_| format!("the number {text} is too large"))?;
        self.at += digits;
        // Python 2 wrote long numbers so.
        self.takes("L");
        Ok(Literal::Number(number))
    }
}
