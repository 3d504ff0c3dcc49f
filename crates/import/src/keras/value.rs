//! Values during the run of a net: what layers take and return.
//!
//! In: arguments of a call, with tensors in the place of references. Out: tensors, constants, and structures of them.

use brimful_core::model::TensorId;

use super::json::Json;
use crate::error::Result;

/// One value.
#[derive(Clone, Debug)]
pub(super) enum Value<'d> {
    None,
    Tensor(TensorId),
    List(Vec<Value<'d>>),
    Dict(Vec<(&'d str, Value<'d>)>),
    /// A number, text or list in the file.
    Const(&'d Json),
}

impl<'d> Value<'d> {
    pub(super) fn tensors(&self) -> Vec<TensorId> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    pub(super) fn collect(&self, found: &mut Vec<TensorId>) {
        match self {
            Value::Tensor(id) => found.push(*id),
            Value::List(items) => items.iter().for_each(|item| item.collect(found)),
            Value::Dict(entries) => entries.iter().for_each(|(_, item)| item.collect(found)),
            Value::None | Value::Const(_) => {}
        }
    }

    pub(super) fn map(&mut self, change: &mut impl FnMut(TensorId) -> Result<TensorId>) -> Result<()> {
        match self {
            Value::Tensor(id) => *id = change(*id)?,
            Value::List(items) => items.iter_mut().try_for_each(|item| item.map(change))?,
            Value::Dict(entries) => entries.iter_mut().try_for_each(|(_, item)| item.map(change))?,
            Value::None | Value::Const(_) => {}
        }
        Ok(())
    }

    /// A constant of the file, if it is one and not null.
    pub(super) fn constant(&self) -> Option<&'d Json> {
        match self {
            Value::Const(json) if !json.is_null() => Some(json),
            _ => None,
        }
    }

    pub(super) fn list(tensors: &[TensorId]) -> Value<'d> {
        Value::List(tensors.iter().map(|&id| Value::Tensor(id)).collect())
    }
}

/// The arguments of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Args<'d> {
    pub(super) positional: Vec<Value<'d>>,
    pub(super) named: Vec<(&'d str, Value<'d>)>,
}

impl<'d> Args<'d> {
    pub(super) fn one(tensor: TensorId) -> Args<'d> {
        Args { positional: vec![Value::Tensor(tensor)], named: Vec::new() }
    }

    /// An argument by position or name; `None` if it is absent or null.
    pub(super) fn get(&self, position: usize, name: &str) -> Option<&Value<'d>> {
        let found = self.positional.get(position).or_else(|| self.by_name(name))?;
        match found {
            Value::None => None,
            Value::Const(json) if json.is_null() => None,
            found => Some(found),
        }
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&Value<'d>> {
        self.named.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    pub(super) fn tensors(&self) -> Vec<TensorId> {
        let mut found = Vec::new();
        self.positional.iter().for_each(|value| value.collect(&mut found));
        self.named.iter().for_each(|(_, value)| value.collect(&mut found));
        found
    }

    pub(super) fn map(&mut self, change: &mut impl FnMut(TensorId) -> Result<TensorId>) -> Result<()> {
        self.positional.iter_mut().try_for_each(|value| value.map(change))?;
        self.named.iter_mut().try_for_each(|(_, value)| value.map(change))
    }
}
