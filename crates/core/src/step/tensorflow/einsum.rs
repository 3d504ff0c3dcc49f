//! Einsums of two tensors: which are products of matrices in Keras, and what TensorFlow's kernel copies for the others.
//!
//! In: an equation. Out: whether an operand or the result is transposed, and the equations of the gradients. Letters that an operand
//! has twice are not known.

/// An einsum of two tensors by its letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Equation {
    /// Letters of both operands.
    operands: [String; 2],
    /// Letters of the result.
    result: String,
}

/// What the kernel does with a dimension; operands are wanted in this order (einsum_op_impl.h, `EinsumDimensionType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Batch,
    Free,
    Contracted,
    Reduced,
}

/// Those of which one operand is a kernel, or has the layout of one, that Keras writes as a product of matrices without a copy of the other
/// operand (keras/src/backend/tensorflow/numpy.py, `einsum`).
const MATRIX_PRODUCTS: [&str; 10] = [
    "ab,bc->ac", "ab,cb->ac", "abc,cd->abd", "abc,dc->abd", "abc,cde->abde", "abc,dce->abde", "abc,dec->abde",
    "abcd,cde->abe", "abcd,ced->abe", "abcd,ecd->abe",
];

/// How Keras writes an einsum of two tensors with heads. The last two axes of an operand are exchanged without a copy
/// (arithmetic_optimizer.cc, `FoldTransposeIntoMatMul`), so that is left out.
pub(super) struct ByHeads {
    /// What the operands are copied to.
    pub operands: [Option<&'static str>; 2],
    /// The letters of the product.
    pub product: &'static str,
    /// It is transposed at the end: whether only its last two axes change places.
    pub result: Option<bool>,
}

const BY_HEADS: [(&str, ByHeads); 6] = [
    ("abcd,abde->abce", ByHeads { operands: [None, None], product: "abce", result: None }),
    ("abcd,abed->abce", ByHeads { operands: [None, None], product: "abce", result: None }),
    ("abcd,acbe->adbe", ByHeads { operands: [None, Some("abce")], product: "abde", result: Some(false) }),
    ("abcd,adbe->acbe", ByHeads { operands: [None, Some("abde")], product: "abce", result: Some(false) }),
    ("abcd,aecd->acbe", ByHeads { operands: [Some("acbd"), Some("acde")], product: "acbe", result: None }),
    ("abcd,aecd->aceb", ByHeads { operands: [Some("acbd"), Some("acde")], product: "acbe", result: Some(true) }),
];

impl Equation {
    /// Reads `ab,bc->ac`.
    pub(super) fn parse(text: &str) -> Option<Equation> {
        let (operands, result) = text.split_once("->")?;
        let (left, right) = operands.split_once(',')?;
        Some(Equation { operands: [left.to_owned(), right.to_owned()], result: result.to_owned() })
    }

    /// Of `Dot`: a batch, then one axis of each operand that is summed over.
    pub(super) fn dot(axes: [usize; 2], ranks: [usize; 2]) -> Equation {
        let mut free = 'c'..='z';
        let mut letters = |at: usize| -> String {
            let letter = |axis: usize, free: &mut std::ops::RangeInclusive<char>| match axis {
                0 => 'a',
                _ if axis == axes[at] => 'b',
                _ => free.next().unwrap_or('z'),
            };
            (0..ranks[at]).map(|axis| letter(axis, &mut free)).collect()
        };
        let operands = [letters(0), letters(1)];
        let alone = operands.iter().flat_map(|own| own.chars()).filter(|letter| !"ab".contains(*letter));
        let result = std::iter::once('a').chain(alone).collect();
        Equation { operands, result }
    }

    /// The same with letters in the order in which they first come (`_normalize_einsum_subscripts`).
    fn normalized(&self) -> String {
        let label = |letter: char| (b'a' + self.label(letter).min(25) as u8) as char;
        let [left, right] = self.operands.each_ref().map(|letters| letters.chars().map(label).collect::<String>());
        format!("{left},{right}->{}", self.result.chars().map(label).collect::<String>())
    }

    /// Whether Keras writes it as a product with one matrix.
    pub(super) fn is_matrix_product(&self) -> bool {
        MATRIX_PRODUCTS.contains(&self.normalized().as_str())
    }

    /// How Keras writes it, if that is products of matrices for each head.
    pub(super) fn by_heads(&self) -> Option<&'static ByHeads> {
        let text = self.normalized();
        BY_HEADS.iter().find(|(known, _)| *known == text).map(|(_, how)| how)
    }

    /// The sizes behind letters of the normalized equation, given the operands' dimensions.
    pub(super) fn sizes(&self, letters: &str, dims: [&[u64]; 2]) -> Vec<u64> {
        let size = |wanted: char| {
            let own = self.letters().find(|&letter| (b'a' + self.label(letter).min(25) as u8) as char == wanted);
            own.map_or(1, |own| self.size(own, dims))
        };
        letters.chars().map(size).collect()
    }

    /// The number of products behind each element of the result.
    pub(super) fn inner(&self, dims: [&[u64]; 2]) -> u64 {
        let contracted = self.operands[0].chars().filter(|&letter| self.role(letter) == Role::Contracted);
        contracted.fold(1, |inner, letter| inner.saturating_mul(self.size(letter, dims)))
    }

    fn size(&self, letter: char, dims: [&[u64]; 2]) -> u64 {
        let sizes = self.operands.iter().zip(dims).filter_map(|(own, dims)| dims.get(own.find(letter)?).copied());
        sizes.max().unwrap_or(1)
    }

    fn letters(&self) -> impl Iterator<Item = char> {
        self.operands[0].chars().chain(self.operands[1].chars()).chain(self.result.chars())
    }

    /// The place of a letter among those that came before.
    fn label(&self, wanted: char) -> usize {
        let mut seen: Vec<char> = Vec::new();
        for letter in self.letters() {
            if letter == wanted {
                break;
            }
            if !seen.contains(&letter) {
                seen.push(letter);
            }
        }
        seen.len()
    }

    fn role(&self, letter: char) -> Role {
        let [in_left, in_right] = self.operands.each_ref().map(|own| own.contains(letter));
        match (in_left && in_right, self.result.contains(letter)) {
            (true, true) => Role::Batch,
            (true, false) => Role::Contracted,
            (false, true) => Role::Free,
            (false, false) => Role::Reduced,
        }
    }

    /// Whether the kernel transposes an operand first: neither in the order of the roles nor with free and contracted dimensions exchanged
    /// (`ReduceOperand`, `ShouldSwapFreeAndContract`).
    pub(super) fn copies_operand(&self, at: usize) -> bool {
        let swapped = |role| match role {
            Role::Free => Role::Contracted,
            Role::Contracted => Role::Free,
            other => other,
        };
        let keys: Vec<(Role, usize)> =
            self.operands[at].chars().map(|letter| (self.role(letter), self.label(letter))).collect();
        let exchanged: Vec<(Role, usize)> = keys.iter().map(|&(role, label)| (swapped(role), label)).collect();
        !keys.is_sorted() && !exchanged.is_sorted()
    }

    /// Whether the product is transposed at the end: it has what both operands share, then what each has alone.
    pub(super) fn copies_result(&self) -> bool {
        let mut shared: Vec<char> =
            self.operands[0].chars().filter(|&letter| self.role(letter) == Role::Batch).collect();
        shared.sort_by_key(|&letter| self.label(letter));
        let mut made: String = shared.into_iter().collect();
        for operand in &self.operands {
            let mut free: Vec<char> = operand.chars().filter(|&letter| self.role(letter) == Role::Free).collect();
            free.sort_by_key(|&letter| self.label(letter));
            made.extend(free);
        }
        made != self.result
    }

    /// The gradient of an operand is an einsum of the result's gradient with the other one (linalg_grad.py, `_EinsumGrad`).
    pub(super) fn gradient(&self, at: usize) -> Equation {
        let other = self.operands[1 - at].clone();
        Equation { operands: [self.result.clone(), other], result: self.operands[at].clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(text: &str) -> (bool, bool, bool) {
        let equation = Equation::parse(text).unwrap();
        (equation.copies_operand(0), equation.copies_operand(1), equation.copies_result())
    }

    #[test]
    fn what_lies_as_the_product_wants_it_is_not_copied() {
        assert_eq!(copies("BTNH,BSNH->BNTS"), (true, true, false));
        assert_eq!(copies("BNTS,BSNH->BTNH"), (false, true, true));
        assert_eq!(copies("abcd,def->abcef"), (false, false, false));
        assert_eq!(copies("bid,ijde->bije"), (true, true, true));
    }

    #[test]
    fn gradients_exchange_an_operand_and_the_result() {
        let equation = Equation::parse("abcd,def->abcef").unwrap();
        assert_eq!(equation.gradient(0), Equation::parse("abcef,def->abcd").unwrap());
        assert_eq!(equation.gradient(1), Equation::parse("abcef,abcd->def").unwrap());
        assert!(equation.gradient(1).copies_result());
    }

    #[test]
    fn letters_do_not_matter_for_what_keras_knows() {
        assert!(Equation::parse("bsd,dhk->bshk").unwrap().is_matrix_product());
        assert!(!Equation::parse("bijd,dhk->bijhk").unwrap().is_matrix_product());
        let scores = Equation::parse("bqhd,bkhd->bhqk").unwrap();
        let how = scores.by_heads().unwrap();
        let dims: [&[u64]; 2] = [&[1, 5, 3, 2], &[1, 7, 3, 2]];
        assert_eq!(scores.sizes(how.operands[1].unwrap(), dims), [1, 3, 2, 7]);
        assert_eq!(scores.inner(dims), 2);
    }
}
