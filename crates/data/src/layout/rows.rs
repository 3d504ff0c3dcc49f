//! Memory that holds rows of a layout.
//!
//! In: a slab. Out: typed access to each field, numbers put in place, rows gathered from one into another. The number of rows may be
//! less than the memory holds.

use std::sync::Arc;

use half::f16;

use super::{Cells, DType, Layout};
use crate::budget::Slab;

/// Rows of one layout in a slab.
pub struct Rows {
    slab: Slab,
    layout: Arc<Layout>,
    offsets: Vec<usize>,
    capacity: usize,
    rows: usize,
}

impl Rows {
    /// No rows yet; the slab must hold `layout.bytes(capacity)`.
    pub fn new(slab: Slab, layout: Arc<Layout>, capacity: usize) -> Rows {
        let offsets = layout.offsets(capacity);
        debug_assert!(slab.len() >= *offsets.last().expect("never empty"));
        Rows { slab, layout, offsets, capacity, rows: 0 }
    }

    /// Their layout.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// How many rows there may be.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Says how many rows were written.
    pub fn set_len(&mut self, rows: usize) {
        assert!(rows <= self.capacity, "{rows} rows in memory for {}", self.capacity);
        self.rows = rows;
    }

    /// Where a field's first row lies, as a number: for those who borrow it.
    pub fn address(&self, field: usize) -> usize {
        self.slab[self.offsets[field]..].as_ptr() as usize
    }

    /// Where a field begins in [`Rows::bytes`].
    pub fn field_offset(&self, field: usize) -> usize {
        self.offsets[field]
    }

    /// All bytes, of every field.
    pub fn bytes(&self) -> &[u8] {
        &self.slab
    }

    /// A field's bytes, for all rows that there may be.
    pub fn field(&self, field: usize) -> &[u8] {
        let bytes = self.layout.fields[field].row_bytes() * self.capacity;
        &self.slab[self.offsets[field]..self.offsets[field] + bytes]
    }

    /// The same to write into.
    pub fn field_mut(&mut self, field: usize) -> &mut [u8] {
        let bytes = self.layout.fields[field].row_bytes() * self.capacity;
        let first = self.offsets[field];
        &mut self.slab[first..first + bytes]
    }

    /// A field's numbers, for all rows that there may be: `row * elements + element`. Panics where the type is another one.
    pub fn numbers_mut<T: bytemuck::Pod>(&mut self, field: usize) -> &mut [T] {
        assert_eq!(size_of::<T>(), self.layout.fields[field].dtype.bytes());
        bytemuck::cast_slice_mut(self.field_mut(field))
    }

    /// Puts one number in place, as the field's type: floats are rounded to it, whole numbers are cut to its range.
    pub fn put_f64(&mut self, field: usize, index: usize, value: f64) {
        match self.layout.fields[field].dtype {
            DType::F32 => self.numbers_mut::<f32>(field)[index] = value as f32,
            DType::F64 => self.numbers_mut::<f64>(field)[index] = value,
            DType::F16 => self.numbers_mut::<f16>(field)[index] = f16::from_f64(value),
            DType::Bool => self.numbers_mut::<u8>(field)[index] = u8::from(value != 0.0),
            DType::U8 => self.numbers_mut::<u8>(field)[index] = value as u8,
            DType::I8 => self.numbers_mut::<i8>(field)[index] = value as i8,
            DType::U16 => self.numbers_mut::<u16>(field)[index] = value as u16,
            DType::I16 => self.numbers_mut::<i16>(field)[index] = value as i16,
            DType::U32 => self.numbers_mut::<u32>(field)[index] = value as u32,
            DType::I32 => self.numbers_mut::<i32>(field)[index] = value as i32,
            DType::U64 => self.numbers_mut::<u64>(field)[index] = value as u64,
            DType::I64 => self.numbers_mut::<i64>(field)[index] = value as i64,
        }
    }

    /// The same for whole numbers, which a float of eight bytes would round.
    pub fn put_i64(&mut self, field: usize, index: usize, value: i64) {
        match self.layout.fields[field].dtype {
            DType::I64 => self.numbers_mut::<i64>(field)[index] = value,
            DType::U64 => self.numbers_mut::<u64>(field)[index] = value.max(0) as u64,
            _ => self.put_f64(field, index, value as f64),
        }
    }

    /// All fields to write into at once, without looking each up again.
    pub fn cells(&mut self) -> Vec<Cells<'_>> {
        let mut rest: &mut [u8] = &mut self.slab;
        let mut at = 0;
        let mut cells = Vec::with_capacity(self.layout.fields.len());
        for (field, first) in self.layout.fields.iter().zip(&self.offsets) {
            let (_, from) = rest.split_at_mut(first - at);
            let (mine, behind) = from.split_at_mut(field.row_bytes() * self.capacity);
            at = first + mine.len();
            rest = behind;
            cells.push(Cells::new(field.dtype, mine));
        }
        cells
    }

    /// Copies a row of another buffer of the same layout to `to`, and counts nothing.
    pub fn copy_row(&mut self, to: usize, from: &Rows, row: usize) {
        for field in 0..self.layout.fields.len() {
            let bytes = self.layout.fields[field].row_bytes();
            let source = &from.field(field)[row * bytes..(row + 1) * bytes];
            self.field_mut(field)[to * bytes..(to + 1) * bytes].copy_from_slice(source);
        }
    }
}
