//! Constants of full size that TensorFlow makes once and keeps.
//!
//! In: a number and a shape. Out: a value that lives as long as the compiled graph, or a kernel that makes it anew in each step
//! where it is too large to be kept. Not counted: constants of a few bytes.

use rustc_hash::FxHashMap;

use super::Lowering;
use crate::model::{DType, Shape};
use crate::step::Processor;
use crate::step::graph::{InPlace, ValueId, Variable};
use crate::trace::Role;

/// Before a graph is run, whatever depends on constants alone is computed and kept, unless it is larger than this
/// (tensorflow/core/common_runtime/constant_folding.h, `max_constant_size_in_bytes`). The graph optimizer's own folding stops
/// at 100 KiB, so the kernels are still there in the graphs that it writes out.
const KEPT_BYTES: u64 = 10 << 20;

/// Those that are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptConstants {
    /// Unfolded by the graph optimizer.
    pub full: FxHashMap<(Shape, DType), ValueId>,
    /// Numbers repeated to a shape, by the number.
    repeated: FxHashMap<(ValueId, Shape), ValueId>,
}

impl Lowering<'_> {
    /// A constant of full size that the graph optimizer unfolds: it lives as long as the compiled graph.
    pub(super) fn full_constant(&mut self, shape: Shape, dtype: DType) -> ValueId {
        let key = (shape.clone(), dtype);
        if let Some(&value) = self.kept_constants.full.get(&key) {
            return value;
        }
        let value = self.kept(shape, dtype);
        self.kept_constants.full.insert(key, value);
        value
    }

    /// A number repeated to a shape: what the gradient of a sum of losses begins with. On a GPU, where nothing of this was
    /// measured, it is made anew: kernels do not depend on the batch there.
    pub(super) fn repeated(&mut self, number: ValueId, shape: &Shape) -> ValueId {
        let dtype = self.dtype(number);
        if self.job.processor == Processor::Gpu || shape.size(dtype).at(self.job.micro_batch()) > KEPT_BYTES {
            return self.call("Tile", &[number], (shape.clone(), dtype), InPlace::No);
        }
        let key = (number, shape.clone());
        if let Some(&value) = self.kept_constants.repeated.get(&key) {
            return value;
        }
        let value = self.kept(shape.clone(), dtype);
        self.kept_constants.repeated.insert(key, value);
        value
    }

    fn kept(&mut self, shape: Shape, dtype: DType) -> ValueId {
        let variable =
            Variable { layer: None, role: Role::Temporary, shape, dtype, random: false, created: Variable::LAST };
        let variable = self.graph.variable(variable);
        self.graph.read(variable, false)
    }
}
