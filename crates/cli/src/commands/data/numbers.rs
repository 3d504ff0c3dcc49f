//! The numbers of a batch, each as what it is: a whole number of any size is not rounded on the way to the one who looks at it.

use std::fmt;
use std::ops::Range;

use brimful_data::layout::{DType, Layout};
use brimful_data::loader::Batch;
use serde_json::{Value, json};

/// One number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Without a fraction, by its type.
    Whole(i128),
    /// Of four bytes or fewer.
    Single(f32),
    /// Of eight bytes.
    Float(f64),
}

impl Number {
    /// As a float, rounded.
    pub fn float(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Single(value) => value.into(),
            Number::Float(value) => value,
        }
    }

    /// For programs; what is no number has none there.
    pub fn json(self) -> Value {
        match self {
            Number::Whole(value) => i64::try_from(value).map_or_else(|_| json!(value as u64), |value| json!(value)),
            other => json!(other.float()),
        }
    }
}

/// As few digits as tell it from its neighbours; nothing where it is not known.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            _ if self.float().is_nan() => Ok(()),
            Number::Whole(value) => value.fmt(f),
            Number::Single(value) => value.fmt(f),
            Number::Float(value) => value.fmt(f),
        }
    }
}

/// Elements of a field, of all rows one after the other.
pub fn each(batch: &Batch, layout: &Layout, field: usize, elements: Range<usize>, mut take: impl FnMut(Number)) {
    let bytes = batch.field(field);
    macro_rules! numbers {
        ($type:ty, $number:expr) => {
            bytemuck::cast_slice::<u8, $type>(bytes)[elements].iter().for_each(|value| take($number(*value)))
        };
    }
    match layout.fields[field].dtype {
        DType::Bool | DType::U8 => numbers!(u8, |value| Number::Whole(i128::from(value))),
        DType::I8 => numbers!(i8, |value| Number::Whole(i128::from(value))),
        DType::U16 => numbers!(u16, |value| Number::Whole(i128::from(value))),
        DType::I16 => numbers!(i16, |value| Number::Whole(i128::from(value))),
        DType::U32 => numbers!(u32, |value| Number::Whole(i128::from(value))),
        DType::I32 => numbers!(i32, |value| Number::Whole(i128::from(value))),
        DType::U64 => numbers!(u64, |value| Number::Whole(i128::from(value))),
        DType::I64 => numbers!(i64, |value| Number::Whole(i128::from(value))),
        DType::F16 => numbers!(half::f16, |value: half::f16| Number::Single(value.to_f32())),
        DType::F32 => numbers!(f32, Number::Single),
        DType::F64 => numbers!(f64, Number::Float),
    }
}
