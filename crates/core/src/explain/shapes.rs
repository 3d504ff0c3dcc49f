//! Shapes and element types of tensors, as messages write them.
//!
//! In: the text of a message. Out: a shape, an element type, and the bytes they make together.

use super::sizes::{after, has, quantity};

/// A shape of at most this many dimensions: no framework has tensors of more.
const MOST_DIMENSIONS: usize = 32;

/// Bytes of the longest shape: 32 dimensions of a few digits each.
const LONGEST_SHAPE: usize = 400;

/// Names of element types and their bytes, longest first where one begins another.
const TYPES: [(&str, u64); 34] = [
    ("complex128", 16),
    ("complex64", 8),
    ("bfloat16", 2),
    ("float64", 8),
    ("float32", 4),
    ("float16", 2),
    ("float8", 1),
    ("uint64", 8),
    ("uint32", 4),
    ("uint16", 2),
    ("uint8", 1),
    ("int64", 8),
    ("int32", 4),
    ("int16", 2),
    ("int8", 1),
    ("double", 8),
    ("float", 4),
    ("half", 2),
    ("bool", 1),
    ("object", 8),
    ("bf16", 2),
    ("c128", 16),
    ("c64", 8),
    ("f64", 8),
    ("f32", 4),
    ("f16", 2),
    ("s64", 8),
    ("s32", 4),
    ("s16", 2),
    ("s8", 1),
    ("u32", 4),
    ("u8", 1),
    ("pred", 1),
    ("long", 8),
];

/// The shape that follows `shape`, in brackets of any kind: `shape[128,64,224,224]`, `shape (100000, 784)`.
pub fn shape(text: &str) -> Option<Vec<u64>> {
    // As protobuf writes it: `shapedim { size: 128 } dim { size: 14 }`.
    if has(text, "shape") && has(text, "dim { size:") {
        let sizes = text.split("size:").skip(1).take(MOST_DIMENSIONS);
        return sizes.map(|size| quantity(size).map(|found| found.value as u64)).collect();
    }
    let mut rest = text;
    while let Some(tail) = after(rest, "shape") {
        let open = tail.trim_start_matches(|c: char| c.is_whitespace() || ":=".contains(c) || c == '\'');
        let open = open.strip_prefix("TensorShape(").or_else(|| open.strip_prefix("torch.Size(")).unwrap_or(open);
        if let Some(found) = bracketed(open) {
            return Some(found);
        }
        rest = tail;
    }
    None
}

/// The list of numbers that follows a phrase.
pub fn list_after(text: &str, phrase: &str) -> Option<Vec<u64>> {
    after(text, phrase).and_then(bracketed)
}

/// The shape that a line of code writes down, if it comes to the bytes that were asked for: `torch.zeros([1024, 1024, 2])`.
pub fn written(code: &str, requested_bytes: u64) -> Option<Vec<u64>> {
    code.match_indices('(').take(MOST_DIMENSIONS).find_map(|(at, _)| {
        let inner = code[at + 1..].trim_start_matches(['(', '[', ' ']);
        let sizes = inner.split(',').map(|part| part.trim().trim_end_matches([')', ']', ' ']));
        let shape: Vec<u64> =
            sizes.map_while(|size| size.replace('_', "").parse().ok()).take(MOST_DIMENSIONS).collect();
        let elements = shape.iter().fold(1u64, |product, &size| product.saturating_mul(size));
        let bytes =
            |of_element: u64| elements.saturating_mul(of_element).abs_diff(requested_bytes) <= requested_bytes / 50;
        (!shape.is_empty() && elements > 1 && [1, 2, 4, 8].into_iter().any(bytes)).then_some(shape)
    })
}

/// The first shape in XLA's notation: `f32[256,1024]{1,0}`, with its element type.
pub fn xla_shape(text: &str) -> Option<(Vec<u64>, &'static str)> {
    let mut from = 0;
    while let Some(at) = text[from..].find('[').map(|at| at + from) {
        let word = text[..at]
            .rfind(|c: char| !c.is_ascii_alphanumeric())
            .map_or(0, |before| before + text[before..].chars().next().map_or(1, char::len_utf8));
        let named = TYPES.iter().find(|(name, _)| *name == &text[word..at]);
        if let (Some((name, _)), Some(dimensions)) = (named, bracketed(&text[at..])) {
            return Some((dimensions, name));
        }
        from = at + 1;
    }
    None
}

/// The element type that a message names after `type` or `dtype`.
pub fn dtype(text: &str) -> Option<&'static str> {
    let mut rest = text;
    while let Some(tail) = after(rest, "type") {
        let word = tail.trim_start_matches(|c: char| c.is_whitespace() || ":=<'\"".contains(c));
        if let Some(name) = named_type(word) {
            return Some(name);
        }
        rest = tail;
    }
    None
}

/// The element type that a text begins with: `torch.bfloat16`, `DT_FLOAT`.
pub fn named_type(text: &str) -> Option<&'static str> {
    let word = ["torch.", "tf.", "np.", "dtype('", "DT_", "class 'numpy."]
        .iter()
        .fold(text, |word, start| word.strip_prefix(start).unwrap_or(word));
    let lower: String = word.chars().take(12).collect::<String>().to_ascii_lowercase();
    TYPES.iter().find(|(name, _)| lower.starts_with(name)).map(|(name, _)| *name)
}

/// NumPy's type of texts of one length, as it writes it: `<U24`, `|S8`. Else `U16` would be an integer of 16 bits.
pub fn text_type(text: &str) -> Option<&str> {
    let code = after(text, "type")?.trim_start_matches(|c: char| c.is_whitespace() || ":='\"".contains(c));
    let length = code.strip_prefix(['<', '>', '|'])?.strip_prefix(['U', 'S'])?;
    let digits = length.len() - length.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    (digits > 0).then(|| &code[..2 + digits])
}

/// Bytes of one element. A letter of NumPy's takes four.
pub fn element_bytes(dtype: &str) -> Option<u64> {
    if let Some(length) = dtype.strip_prefix(['<', '>', '|']) {
        let of_letter = if length.starts_with('U') { 4 } else { 1 };
        let letters: u64 = length.strip_prefix(['U', 'S'])?.parse().ok()?;
        return Some(letters.saturating_mul(of_letter));
    }
    TYPES.iter().find(|(name, _)| *name == dtype).map(|(_, bytes)| *bytes)
}

/// Bytes of a whole tensor; saturates.
pub fn tensor_bytes(shape: &[u64], dtype: &str) -> Option<u64> {
    let elements = shape.iter().fold(1u64, |product, &size| product.saturating_mul(size));
    element_bytes(dtype).map(|bytes| elements.saturating_mul(bytes))
}

/// The start of a text, up to a character's bound.
fn start_of(text: &str) -> &str {
    let end = (0..=LONGEST_SHAPE.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..end]
}

fn bracketed(text: &str) -> Option<Vec<u64>> {
    // Not further than a shape can be long: a line of brackets would take the square of its length.
    let text = start_of(text);
    let close = match text.chars().next()? {
        '[' => ']',
        '(' => ')',
        _ => return None,
    };
    let inner =
        text[1..].split(close).next().filter(|inner| inner.len() < text.len() - 1)?.trim_start_matches(['[', '(']);
    let parts: Vec<&str> = inner.trim_end_matches(',').split([',', 'x']).map(str::trim).collect();
    if parts.len() > MOST_DIMENSIONS {
        return None;
    }
    parts.iter().map(|part| part.trim_end_matches('L').parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_all_frameworks() {
        assert_eq!(
            shape("OOM when allocating tensor with shape[128,64,224,224] and type float"),
            Some(vec![128, 64, 224, 224])
        );
        assert_eq!(shape("for an array with shape (100000, 784) and data type float64"), Some(vec![100_000, 784]));
        assert_eq!(shape("an array with shape (5,) and"), Some(vec![5]));
        assert_eq!(shape("the shape of things, shape=[2, 3]"), Some(vec![2, 3]));
        assert_eq!(shape("shape [?,3] of no use"), None);
        assert_eq!(shape("tensor with shapedim { size: 128 } dim { size: 14 }"), Some(vec![128, 14]));
        assert_eq!(shape("reshape"), None);
        assert_eq!(xla_shape("%fusion = bf16[8,128]{1,0} fusion"), Some((vec![8, 128], "bf16")));
        assert_eq!(xla_shape("x[3] and u[é"), None);
    }

    #[test]
    fn shapes_in_code_must_come_to_the_request() {
        let code = "a = torch.zeros([1024,1024,1024,2], dtype=torch.float32)";
        assert_eq!(written(code, 8 << 30), Some(vec![1024, 1024, 1024, 2]));
        assert_eq!(written(code, 3 << 30), None);
        assert_eq!(written("f(x, é), g((", 100), None);
    }

    #[test]
    fn types_and_their_bytes() {
        assert_eq!(dtype("and type float on /job"), Some("float"));
        assert_eq!(dtype("and data type float64"), Some("float64"));
        assert_eq!(text_type("and data type <U16"), Some("<U16"));
        assert_eq!(text_type("and data type |S7."), Some("|S7"));
        assert_eq!(text_type("and data type uint16"), None);
        assert_eq!(tensor_bytes(&[10, 3], "<U16"), Some(1920));
        assert_eq!(tensor_bytes(&[10, 3], "|S7"), Some(210));
        assert_eq!(dtype("dtype=torch.bfloat16"), Some("bfloat16"));
        assert_eq!(dtype("this type of error"), None);
        assert_eq!(named_type("DT_HALF"), Some("half"));
        assert_eq!(tensor_bytes(&[2, 3], "double"), Some(48));
        assert_eq!(tensor_bytes(&[u64::MAX, 3], "float"), Some(u64::MAX));
    }
}
