//! Einsum equations: ellipses resolved to letters, and the sizes they stand for.
//!
//! In: an equation and shapes. Out: the equation without ellipses and the shape of a result.

/// An equation without ellipses.
pub(super) struct Equation {
    /// Letters of each operand.
    pub(super) operands: Vec<String>,
    /// Letters of the result.
    pub(super) result: String,
}

impl Equation {
    /// Resolves an equation for operands of these ranks. `None`: it does not fit them.
    pub(super) fn resolve(text: &str, ranks: &[usize]) -> Option<Equation> {
        let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let operands: Vec<&str> = left.split(',').collect();
        if operands.len() != ranks.len() {
            return None;
        }
        // Letters for what the ellipses stand for; the longest run decides how many.
        let free: Vec<char> = ('a'..='z').chain('A'..='Z').filter(|&letter| !text.contains(letter)).collect();
        let named = |operand: &str| operand.chars().filter(char::is_ascii_alphabetic).count();
        let mut elided = 0;
        for (operand, &rank) in operands.iter().zip(ranks) {
            if operand.contains("...") {
                elided = elided.max(rank.checked_sub(named(operand))?);
            } else if named(operand) != rank {
                return None;
            }
        }
        let run: String = free.get(..elided)?.iter().collect();
        let mut resolved = Vec::with_capacity(operands.len());
        for (operand, &rank) in operands.iter().zip(ranks) {
            // Broadcasting aligns at the right.
            let own = if operand.contains("...") { &run[elided - (rank - named(operand))..] } else { "" };
            resolved.push(operand.replacen("...", own, 1));
        }
        let result = match right {
            Some(right) => right.replacen("...", &run, 1),
            None => {
                // Implicit: the ellipsis, then letters that occur once, sorted.
                let all: String = operands.concat();
                let once = |letter: &char| letter.is_ascii_alphabetic() && all.matches(*letter).count() == 1;
                let mut letters: Vec<char> = all.chars().filter(once).collect();
                letters.sort_unstable();
                run.chars().chain(letters).collect()
            }
        };
        let plain = |text: &String| text.chars().all(|letter| letter.is_ascii_alphabetic());
        if !resolved.iter().all(plain) || !plain(&result) {
            return None;
        }
        Some(Equation { operands: resolved, result })
    }

    /// The size behind a letter: the largest, so that a broadcast 1 gives way.
    pub(super) fn size(&self, letter: char, shapes: &[&[u64]]) -> Option<u64> {
        let sizes = self.operands.iter().zip(shapes).filter_map(|(operand, dims)| {
            let at = operand.find(letter)?;
            dims.get(at).copied()
        });
        sizes.max()
    }

    /// The result's dimensions.
    pub(super) fn result_dims(&self, shapes: &[&[u64]]) -> Option<Vec<u64>> {
        self.result.chars().map(|letter| self.size(letter, shapes)).collect()
    }

    pub(super) fn text(&self) -> String {
        format!("{}->{}", self.operands.join(","), self.result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ellipses_become_letters() {
        let equation = Equation::resolve("...x,xy->...y", &[4, 2]).unwrap();
        assert_eq!(equation.text(), "abcx,xy->abcy");
        assert_eq!(equation.result_dims(&[&[1, 7, 8, 9], &[9, 3]]), Some(vec![1, 7, 8, 3]));
        assert_eq!(Equation::resolve("ab,bc", &[2, 2]).unwrap().text(), "ab,bc->ac");
        assert!(Equation::resolve("ab,bc->ac", &[3, 2]).is_none());
        assert!(Equation::resolve("a…", &[1]).is_none());
    }
}
