//! Types that lose nothing.
//!
//! In: a layout, the columns of its source. Out: the same values in fields of the columns' own types, or in the least type that has
//! room for all of them; which values a type holds as they are. Not here: what is in the files. A column of whole numbers may have gaps there.

use super::{Column, Conversion, DType, Field, Kind, Layout, Slot};

impl DType {
    /// Whether every number of another type is one of this type, too.
    pub fn holds(self, other: DType) -> bool {
        if self == other {
            return true;
        }
        match (self.is_float(), other.is_float()) {
            (true, true) => self.bytes() > other.bytes(),
            (true, false) => other.digits() <= self.digits(),
            (false, true) => false,
            (false, false) => {
                self != DType::Bool && other.digits() <= self.digits() && self.has_sign() >= other.has_sign()
            }
        }
    }

    /// The least type that holds all of these; float64 where none does, which rounds whole numbers beyond 2^53.
    pub fn common(types: impl IntoIterator<Item = DType> + Clone) -> DType {
        let holds_all = |dtype: &DType| types.clone().into_iter().all(|other| dtype.holds(other));
        DType::ALL.into_iter().find(holds_all).unwrap_or(DType::F64)
    }

    /// Binary digits, besides the sign.
    fn digits(self) -> u32 {
        match self {
            DType::Bool => 1,
            DType::I8 => 7,
            DType::U8 => 8,
            DType::F16 => 11,
            DType::I16 => 15,
            DType::U16 => 16,
            DType::F32 => 24,
            DType::I32 => 31,
            DType::U32 => 32,
            DType::F64 => 53,
            DType::I64 => 63,
            DType::U64 => 64,
        }
    }

    fn has_sign(self) -> bool {
        !matches!(self, DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }
}

impl Slot {
    /// The type of the values, before they become the field's.
    pub fn own_dtype(&self, columns: &[Column]) -> DType {
        match (&self.conversion, columns[self.column].kind) {
            (Conversion::Number, Kind::Number(dtype)) => dtype,
            _ => DType::I64,
        }
    }
}

impl Layout {
    /// Each column a field of its own, with the file's type; in the order of the fields.
    pub fn with_own_types(&self, columns: &[Column]) -> Layout {
        let mut slots: Vec<&Slot> = self.slots.iter().collect();
        slots.sort_by_key(|slot| (slot.field, slot.first));
        let field = |slot: &&Slot| Field {
            name: columns[slot.column].name.clone(),
            dtype: slot.own_dtype(columns),
            shape: columns[slot.column].shape.clone(),
        };
        let fields = slots.iter().map(field).collect();
        let slot = |(field, slot): (usize, &Slot)| Slot { field, first: 0, ..slot.clone() };
        let mut slots: Vec<Slot> = slots.into_iter().enumerate().map(slot).collect();
        slots.sort_by_key(|slot| slot.column);
        Layout { fields, slots, left_out: self.left_out.clone() }
    }

    /// The same fields, each with the least type that holds what its columns have.
    pub fn with_common_types(&self, columns: &[Column]) -> Layout {
        let mut layout = self.clone();
        for (number, field) in layout.fields.iter_mut().enumerate() {
            let mine: Vec<DType> = self.filling(number).map(|slot| slot.own_dtype(columns)).collect();
            field.dtype = DType::common(mine);
        }
        layout
    }

    /// The slots of a field.
    pub fn filling(&self, field: usize) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(move |slot| slot.field == field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Request;

    #[test]
    fn a_type_holds_another_where_no_number_changes() {
        for (wide, narrow) in [
            (DType::I64, DType::Bool),
            (DType::I64, DType::U32),
            (DType::F64, DType::I32),
            (DType::F32, DType::U16),
            (DType::F16, DType::U8),
            (DType::U64, DType::U8),
        ] {
            assert!(wide.holds(narrow) && !narrow.holds(wide), "{wide:?} {narrow:?}");
        }
        for (one, other) in
            [(DType::F64, DType::I64), (DType::U64, DType::I8), (DType::F32, DType::I32), (DType::U8, DType::I8)]
        {
            assert!(!one.holds(other) && !other.holds(one), "{one:?} {other:?}");
        }
        assert_eq!(DType::common([DType::I64, DType::Bool]), DType::I64);
        assert_eq!(DType::common([DType::U8, DType::I8]), DType::I16);
        assert_eq!(DType::common([DType::F32, DType::I16]), DType::F32);
        assert_eq!(DType::common([DType::F32, DType::I32]), DType::F64);
        assert_eq!(DType::common([DType::I64, DType::F64]), DType::F64);
        assert_eq!(DType::common([DType::Bool]), DType::Bool);
    }

    #[test]
    fn fields_of_own_types_keep_their_order() {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind, shape: Vec::new() };
        let columns = [
            column("label", Kind::Number(DType::Bool)),
            column("name", Kind::Text),
            column("id", Kind::Number(DType::I64)),
            column("x", Kind::Number(DType::F64)),
        ];
        let request = Request { labels: vec!["label".to_owned()], ..Request::default() };
        let matrix = Layout::new(&columns, &request).unwrap();
        let own = matrix.with_own_types(&columns);
        let seen: Vec<_> = own.fields.iter().map(|field| (field.name.as_str(), field.dtype)).collect();
        assert_eq!(seen, [("id", DType::I64), ("x", DType::F64), ("label", DType::Bool)]);
        let places: Vec<_> = own.slots.iter().map(|slot| (slot.column, slot.field, slot.first)).collect();
        assert_eq!(places, [(0, 2, 0), (2, 0, 0), (3, 1, 0)]);
        assert_eq!(own.left_out, ["name"]);
        let common: Vec<_> = matrix.with_common_types(&columns).fields.iter().map(|field| field.dtype).collect();
        assert_eq!(common, [DType::F64, DType::Bool]);
    }
}
