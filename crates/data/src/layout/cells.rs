//! A field's numbers to write into, with the usual types at hand.
//!
//! Where every nanosecond of a value counts: the type is looked up once for a piece, not once for a number.

use half::f16;

use super::DType;

/// The numbers of a field, for all rows that there may be: `row * elements + element`.
#[allow(missing_docs)]
pub enum Cells<'a> {
    F32(&'a mut [f32]),
    F64(&'a mut [f64]),
    I64(&'a mut [i64]),
    /// Every other type, as bytes.
    Other(DType, &'a mut [u8]),
}

impl<'a> Cells<'a> {
    /// Bytes that begin at a multiple of the number's size, as numbers.
    pub fn new(dtype: DType, bytes: &'a mut [u8]) -> Cells<'a> {
        match dtype {
            DType::F32 => Cells::F32(bytemuck::cast_slice_mut(bytes)),
            DType::F64 => Cells::F64(bytemuck::cast_slice_mut(bytes)),
            DType::I64 => Cells::I64(bytemuck::cast_slice_mut(bytes)),
            other => Cells::Other(other, bytes),
        }
    }

    /// Whether the type has a value for "not known".
    pub fn is_float(&self) -> bool {
        match self {
            Cells::F32(_) | Cells::F64(_) => true,
            Cells::I64(_) => false,
            Cells::Other(dtype, _) => dtype.is_float(),
        }
    }

    /// Puts a number in place: floats are rounded to the type, whole numbers are cut to its range.
    #[inline]
    pub fn put_f64(&mut self, index: usize, value: f64) {
        match self {
            Cells::F32(cells) => cells[index] = value as f32,
            Cells::F64(cells) => cells[index] = value,
            Cells::I64(cells) => cells[index] = value as i64,
            Cells::Other(dtype, bytes) => match dtype {
                DType::F16 => put(bytes, index, f16::from_f64(value)),
                DType::Bool => put(bytes, index, u8::from(value != 0.0)),
                DType::U8 => put(bytes, index, value as u8),
                DType::I8 => put(bytes, index, value as i8),
                DType::U16 => put(bytes, index, value as u16),
                DType::I16 => put(bytes, index, value as i16),
                DType::U32 => put(bytes, index, value as u32),
                DType::I32 => put(bytes, index, value as i32),
                DType::U64 => put(bytes, index, value as u64),
                DType::I64 | DType::F32 | DType::F64 => unreachable!("they have arms of their own"),
            },
        }
    }

    /// The same for whole numbers, which a float of eight bytes would round.
    #[inline]
    pub fn put_i64(&mut self, index: usize, value: i64) {
        match self {
            Cells::F32(cells) => cells[index] = value as f32,
            Cells::I64(cells) => cells[index] = value,
            Cells::Other(DType::U64, bytes) => put(bytes, index, value.max(0) as u64),
            _ => self.put_f64(index, value as f64),
        }
    }

    /// Puts "not known": NaN, or 0 in whole numbers.
    pub fn put_unknown(&mut self, index: usize) {
        self.put_f64(index, if self.is_float() { f64::NAN } else { 0.0 });
    }
}

fn put<T: bytemuck::Pod>(bytes: &mut [u8], index: usize, value: T) {
    bytemuck::cast_slice_mut::<u8, T>(bytes)[index] = value;
}
