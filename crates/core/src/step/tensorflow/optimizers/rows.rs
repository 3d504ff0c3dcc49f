//! Updates that touch only the rows of a table that the batch has looked up.
//!
//! In: a gradient that is rows and their indices. Out: nodes that change those rows of the weight or of a slot, or a table of the weight's size
//! where Keras makes one. Follows keras/src/backend/tensorflow/sparse.py and optimizer.py (3.15): functions of one tensor, products and
//! quotients stay rows; sums and differences with a table become one. What is changed in rows is copied whenever it is read
//! (tensorflow/core/kernels/training_op_helpers.h, `EnsureSparseVariableAccess`). Not counted: indices.

use super::{Given, Lowering, sum_rows};
use crate::model::{DType, Shape};
use crate::step::graph::{InPlace, Kernel, NewNode, NodeId, ValueId, VariableId};

/// Rows of a table, and which ones.
pub(super) type Rows = (ValueId, ValueId);

/// `function` of the gradient as a table: of the rows alone where there are rows, which are then summed up.
pub(super) fn table(
    lowering: &mut Lowering<'_>,
    given: Given,
    variable: VariableId,
    function: impl FnOnce(&mut Lowering<'_>, ValueId) -> ValueId,
) -> ValueId {
    match given.rows {
        Some((values, indices)) => {
            let values = function(lowering, values);
            sum_rows(lowering, variable, values, indices)
        }
        None => function(lowering, given.dense),
    }
}

/// The same rows of a table, once `after` is known.
pub(super) fn gather(lowering: &mut Lowering<'_>, table: ValueId, rows: Rows, after: &[ValueId]) -> ValueId {
    let output = (lowering.graph.shape(rows.0).clone(), lowering.dtype(table));
    let kernel = Kernel { name: "GatherV2", attr: 0 };
    let (scratch, work) = (vec![], crate::bytes::Size::ZERO);
    lowering.graph.add(NewNode {
        kernel,
        inputs: &[table, rows.1],
        output,
        in_place: InPlace::No,
        scratch,
        work,
        after,
    })
}

/// Rows divided by a table. The whole table is searched for zeros and for what is no number first: with any, other rows count, too.
pub(super) fn quotient(lowering: &mut Lowering<'_>, rows: Rows, table: ValueId) -> ValueId {
    let zero = lowering.constant(0.0, table);
    let zeros = lowering.compare("Equal", table, zero);
    let shape = lowering.graph.shape(table).clone();
    let no_numbers = lowering.call("IsNan", &[table], (shape.clone(), DType::Bool), InPlace::No);
    let either = lowering.call("LogicalOr", &[zeros, no_numbers], (shape, DType::Bool), InPlace::Any);
    let any = lowering.reduce("Any", either, Shape::fixed(&[]));
    let below = gather(lowering, table, rows, &[any]);
    lowering.binary("RealDiv", rows.0, below)
}

/// Adds rows to those of a variable.
pub(super) fn add(lowering: &mut Lowering<'_>, variable: VariableId, values: ValueId) -> NodeId {
    lowering.graph.assign("ResourceScatterAdd", variable, values, &[])
}

/// Subtracts rows from those of a variable.
pub(super) fn subtract(lowering: &mut Lowering<'_>, variable: VariableId, values: ValueId) {
    lowering.graph.assign("ResourceScatterSub", variable, values, &[]);
}
