//! Numbers of one type as numbers of another, straight from the bytes of a file.
//!
//! In: bytes as a file has them, little-endian or swapped, at any alignment. Out: bytes as a field has them. Floats are rounded to the
//! type; whole numbers are cut to its range; NaN becomes 0 in whole numbers; what is not 0 is true.

use half::f16;

use super::DType;

/// Converts as many numbers as both sides hold.
pub fn convert(from: &[u8], from_dtype: DType, swapped: bool, to: &mut [u8], to_dtype: DType) {
    if from_dtype == to_dtype && from_dtype != DType::Bool && (!swapped || from_dtype.bytes() == 1) {
        let bytes = from.len().min(to.len());
        to[..bytes].copy_from_slice(&from[..bytes]);
        return;
    }
    macro_rules! with {
        ($dtype:expr, $name:ident => $body:expr) => {
            match $dtype {
                DType::Bool => with!(@ $name, Truth, $body),
                DType::U8 => with!(@ $name, u8, $body),
                DType::I8 => with!(@ $name, i8, $body),
                DType::U16 => with!(@ $name, u16, $body),
                DType::I16 => with!(@ $name, i16, $body),
                DType::U32 => with!(@ $name, u32, $body),
                DType::I32 => with!(@ $name, i32, $body),
                DType::U64 => with!(@ $name, u64, $body),
                DType::I64 => with!(@ $name, i64, $body),
                DType::F16 => with!(@ $name, f16, $body),
                DType::F32 => with!(@ $name, f32, $body),
                DType::F64 => with!(@ $name, f64, $body),
            }
        };
        (@ $name:ident, $type:ty, $body:expr) => {{
            type $name = $type;
            $body
        }};
    }
    with!(from_dtype, From => with!(to_dtype, To => run::<From, To>(from, swapped, to)));
}

fn run<S: Number, D: Number>(from: &[u8], swapped: bool, to: &mut [u8]) {
    let pairs = from.chunks_exact(size_of::<S>()).zip(to.chunks_exact_mut(size_of::<D>()));
    if swapped {
        pairs.for_each(|(from, to)| cast::<S, D>(S::load_swapped(from)).store(to));
    } else {
        pairs.for_each(|(from, to)| cast::<S, D>(S::load(from)).store(to));
    }
}

fn cast<S: Number, D: Number>(value: S) -> D {
    if S::FLOAT || D::FLOAT { D::from_float(value.float()) } else { D::from_whole(value.whole()) }
}

trait Number: Copy {
    const FLOAT: bool;
    fn load(bytes: &[u8]) -> Self;
    fn load_swapped(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
    fn float(self) -> f64;
    fn whole(self) -> i128;
    fn from_float(value: f64) -> Self;
    fn from_whole(value: i128) -> Self;
}

macro_rules! number {
    ($type:ty, $float:expr, $to_float:expr, $from_float:expr, $to_whole:expr, $from_whole:expr) => {
        impl Number for $type {
            const FLOAT: bool = $float;
            fn load(bytes: &[u8]) -> $type {
                <$type>::from_le_bytes(bytes.try_into().expect("cut to this size"))
            }
            fn load_swapped(bytes: &[u8]) -> $type {
                <$type>::from_be_bytes(bytes.try_into().expect("cut to this size"))
            }
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
            fn float(self) -> f64 {
                $to_float(self)
            }
            fn whole(self) -> i128 {
                $to_whole(self)
            }
            fn from_float(value: f64) -> $type {
                $from_float(value)
            }
            fn from_whole(value: i128) -> $type {
                $from_whole(value)
            }
        }
    };
}

macro_rules! whole {
    ($($type:ty),*) => {
        $(number!(
            $type, false, |v: $type| v as f64, |v: f64| v as $type, |v: $type| v as i128,
            |v: i128| v.clamp(<$type>::MIN as i128, <$type>::MAX as i128) as $type
        );)*
    };
}

whole!(u8, i8, u16, i16, u32, i32, u64, i64);
number!(f32, true, |v: f32| f64::from(v), |v: f64| v as f32, |v: f32| v as i128, |v: i128| v as f32);
number!(f64, true, |v: f64| v, |v: f64| v, |v: f64| v as i128, |v: i128| v as f64);
number!(f16, true, f16::to_f64, f16::from_f64, |v: f16| v.to_f64() as i128, |v: i128| f16::from_f64(v as f64));

/// One byte that is 0 or 1 in memory, whatever a file has.
#[derive(Clone, Copy)]
struct Truth(u8);

impl Number for Truth {
    const FLOAT: bool = false;
    fn load(bytes: &[u8]) -> Truth {
        Truth(u8::from(bytes[0] != 0))
    }
    fn load_swapped(bytes: &[u8]) -> Truth {
        Truth::load(bytes)
    }
    fn store(self, bytes: &mut [u8]) {
        bytes[0] = self.0;
    }
    fn float(self) -> f64 {
        f64::from(self.0)
    }
    fn whole(self) -> i128 {
        i128::from(self.0)
    }
    fn from_float(value: f64) -> Truth {
        Truth(u8::from(value != 0.0))
    }
    fn from_whole(value: i128) -> Truth {
        Truth(u8::from(value != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<const N: usize>(from: &[u8], from_dtype: DType, swapped: bool, to_dtype: DType) -> [u8; N] {
        let mut to = [0xAA; N];
        convert(from, from_dtype, swapped, &mut to, to_dtype);
        to
    }

    #[test]
    fn values_keep_their_meaning() {
        assert_eq!(one(&1.5f64.to_le_bytes(), DType::F64, false, DType::F32), 1.5f32.to_ne_bytes());
        assert_eq!(one(&1.5f64.to_be_bytes(), DType::F64, true, DType::F32), 1.5f32.to_ne_bytes());
        assert_eq!(one(&300i64.to_le_bytes(), DType::I64, false, DType::U8), [255]);
        assert_eq!(one(&(-3i64).to_le_bytes(), DType::I64, false, DType::U64), 0u64.to_ne_bytes());
        assert_eq!(one(&u64::MAX.to_le_bytes(), DType::U64, false, DType::I64), i64::MAX.to_ne_bytes());
        assert_eq!(one(&f32::NAN.to_le_bytes(), DType::F32, false, DType::I32), 0i32.to_ne_bytes());
        assert_eq!(one(&[7], DType::Bool, false, DType::Bool), [1]);
        assert_eq!(one(&[7], DType::Bool, false, DType::F32), 1f32.to_ne_bytes());
        assert_eq!(one(&f16::from_f32(0.5).to_le_bytes(), DType::F16, false, DType::Bool), [1]);
        let exact = (1i64 << 53) + 1;
        assert_eq!(one(&exact.to_be_bytes(), DType::I64, true, DType::I64), exact.to_ne_bytes());
    }
}
