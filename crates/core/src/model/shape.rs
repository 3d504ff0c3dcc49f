//! Element types and shapes with a symbolic batch.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::bytes::Size;

/// The product of dimensions; saturates, so that an absurd shape gives an absurd size and never a wrapped one.
pub fn product(dims: &[u64]) -> u64 {
    dims.iter().fold(1, |product, &dim| product.saturating_mul(dim))
}

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    Int8,
    UInt8,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Int64,
    UInt64,
    Float8,
    Float16,
    BFloat16,
    Float32,
    Float64,
    String,
}

impl DType {
    /// Bytes of one element. A string counts as a reference: its text lives on the host's heap.
    pub fn bytes(self) -> u64 {
        match self {
            DType::Bool | DType::Int8 | DType::UInt8 | DType::Float8 => 1,
            DType::Int16 | DType::UInt16 | DType::Float16 | DType::BFloat16 => 2,
            DType::Int32 | DType::UInt32 | DType::Float32 => 4,
            DType::Int64 | DType::UInt64 | DType::Float64 => 8,
            // TensorFlow's tstring is 24 bytes inline (tensorflow/core/platform/ctstring_internal.h).
            DType::String => 24,
        }
    }

    /// Whether gradients flow through values of this type.
    pub fn is_float(self) -> bool {
        matches!(self, DType::Float8 | DType::Float16 | DType::BFloat16 | DType::Float32 | DType::Float64)
    }

    /// Reads a framework's name for a type, such as `bfloat16`.
    pub fn parse(name: &str) -> Option<DType> {
        Some(match name {
            "bool" => DType::Bool,
            "int8" => DType::Int8,
            "uint8" => DType::UInt8,
            "int16" => DType::Int16,
            "uint16" => DType::UInt16,
            "int32" => DType::Int32,
            "uint32" => DType::UInt32,
            "int64" => DType::Int64,
            "uint64" => DType::UInt64,
            "float8" | "float8_e4m3fn" | "float8_e5m2" => DType::Float8,
            "float16" | "half" => DType::Float16,
            "bfloat16" => DType::BFloat16,
            "float32" => DType::Float32,
            "float64" | "double" => DType::Float64,
            "string" => DType::String,
            _ => return None,
        })
    }
}

/// Dimensions; up to six need no allocation.
pub type Dims = SmallVec<[u64; 6]>;

/// A shape whose first dimension may be a multiple of the batch.
///
/// With `batched`, the first dimension is `batch × dims[0]`: an image batch is `[1, 224, 224, 3]`, and the same images
/// folded over 8 time steps are `[8, 224, 224, 3]`. Without it, all dimensions are plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Whether the first dimension counts batches.
    pub batched: bool,
    /// Dimensions; with `batched`, the first is the multiple of the batch.
    pub dims: Dims,
}

impl Hash for Shape {
    /// Number by number: a derived one hashes the dimensions byte by byte, which takes several times as long.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64((self.dims.len() as u64) << 1 | u64::from(self.batched));
        self.dims.iter().for_each(|&dim| state.write_u64(dim));
    }
}

impl Shape {
    /// A shape of these dimensions; with `batched`, the first is the multiple of the batch.
    pub fn new(batched: bool, dims: &[u64]) -> Shape {
        Shape { batched, dims: dims.into() }
    }

    /// A shape per sample: `(224, 224, 3)` becomes `[batch, 224, 224, 3]`.
    pub fn batched(sample_dims: &[u64]) -> Shape {
        let mut dims = Dims::new();
        dims.push(1);
        dims.extend_from_slice(sample_dims);
        Shape { batched: true, dims }
    }

    /// A shape that does not depend on the batch.
    pub fn fixed(dims: &[u64]) -> Shape {
        Shape { batched: false, dims: dims.into() }
    }

    /// Number of dimensions, the batch's included.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Elements, of one sample if `batched`, else of all; saturates.
    pub fn elements(&self) -> u64 {
        product(&self.dims)
    }

    /// The last dimension; 1 for a scalar.
    pub fn last(&self) -> u64 {
        self.dims.last().copied().unwrap_or(1)
    }

    /// Bytes as a function of the batch.
    pub fn size(&self, dtype: DType) -> Size {
        let bytes = self.elements().saturating_mul(dtype.bytes());
        if self.batched { Size::per_sample(bytes) } else { Size::fixed(bytes) }
    }
}
