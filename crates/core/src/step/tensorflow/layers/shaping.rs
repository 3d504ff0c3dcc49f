//! Splitting one tensor into several.

use super::super::Lowering;
use crate::model::Op;
use crate::step::graph::ValueId;

impl Lowering<'_> {
    pub(super) fn split(&mut self, op: &Op, x: ValueId) {
        let dtype = self.dtype(x);
        let mut first: Option<ValueId> = None;
        for (index, &output) in op.outputs.iter().enumerate() {
            let shape = self.model.tensor(output).shape.clone();
            let value = match first {
                None => *first.insert(self.copy_op("Split", op, &[x])),
                Some(first) => self.graph.add_output(first, shape, dtype),
            };
            self.set_output(op, index, value);
        }
    }
}
