//! Layers around other layers: both directions of a sequence, every step of one.
//!
//! Not counted: a mask that goes along with the steps.

use brimful_core::model::{Merge, OpKind, Shape, TensorId};

use super::super::build::{Hints, Scope};
use super::super::config::{Kind, LayerDef};
use super::super::cx::Cx;
use super::super::overrides::direction;
use super::super::value::{Args, Value};
use super::rnn::{run, sequence};
use crate::error::Result;

/// Both directions, each with weights of its own, then their outputs merged.
pub(super) fn bidirectional<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let (x, initial) = sequence(cx)?;
    let forward = cx.inner("layer")?;
    let separate = cx.def.inner.iter().find(|(key, _)| *key == "backward_layer").map(|(_, def)| def);
    let (first, second) = initial.split_at(initial.len() / 2);
    let args = cx.args.clone();
    let mut view = cx.sub(forward, &direction("forward_", &forward.name), args.clone());
    let sequences = view.flag("return_sequences", false);
    let return_state = view.flag("return_state", false);
    let backwards = view.flag("go_backwards", false);
    let one = run(&mut view, x, first, Some(backwards))?;
    let (def, name) = match separate {
        Some(def) => (def, def.name.clone()),
        None => (forward, direction("backward_", &forward.name)),
    };
    let mut view = cx.sub(def, &name, args);
    let mut two = run(&mut view, x, second, Some(!backwards))?;
    if sequences {
        // The second is read in the order of the first: one reversed copy.
        two.output = cx.same(OpKind::Elementwise { steps: 1, saved: 0 }, two.output)?;
    }
    let both = [one.output, two.output];
    let shape = cx.shape(one.output);
    let axis = shape.rank() - 1;
    let mut outputs = match cx.text("merge_mode") {
        Some("concat") => {
            let mut out = shape;
            out.dims[axis] = out.dims[axis].saturating_add(cx.shape(two.output).last());
            vec![cx.op(OpKind::Concat { axis }, &both, out, &[])?]
        }
        Some("sum") => vec![cx.op(OpKind::Merge(Merge::Add), &both, shape, &[])?],
        Some("ave") => vec![cx.op(OpKind::Merge(Merge::Average), &both, shape, &[])?],
        Some("mul") => vec![cx.op(OpKind::Merge(Merge::Multiply), &both, shape, &[])?],
        None => both.to_vec(),
        Some(other) => return cx.fail(format!("'{other}' is not a merge mode; use concat, sum, ave or mul")),
    };
    if sequences && cx.builder.masked(x) {
        for &output in &outputs {
            cx.builder.set_masked(output, true);
        }
    }
    if return_state {
        outputs.extend(one.states);
        outputs.extend(two.states);
    }
    Ok(if outputs.len() == 1 { Value::Tensor(outputs[0]) } else { Value::list(&outputs) })
}

/// A layer for every step of a sequence. Keras puts time first, calls the layer once for each step, stacks the results and
/// puts the batch first again. Where the number of steps varies it vectorizes: one call on all steps at once.
pub(super) fn time_distributed<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let def = cx.inner("layer")?;
    let shape = cx.shape(x);
    if shape.rank() < 3 {
        return cx.fail(format!("it takes at least 3 dimensions and is given {}", cx.show(&shape)));
    }
    let dtype = cx.dtype(x);
    let (batch, steps) = (shape.dims[0], shape.dims[1]);
    let swapped = |dims: &[u64]| Shape {
        batched: shape.batched,
        dims: [dims[1], dims[0]].into_iter().chain(dims[2..].iter().copied()).collect(),
    };
    let axes = |rank: usize| -> Vec<usize> { [1, 0].into_iter().chain(2..rank).collect() };
    let time_first = swapped(&shape.dims);
    let dynamic = cx.builder.dynamic(x);
    let x = cx.op_to(OpKind::Permute { axes: axes(shape.rank()) }, &[x], time_first, dtype, &[])?;
    let each =
        Shape { batched: shape.batched, dims: [batch].into_iter().chain(shape.dims[2..].iter().copied()).collect() };
    let stacked = if dynamic {
        let mut folded = each;
        folded.dims[0] = batch.saturating_mul(steps);
        let x = cx.op_to(OpKind::Reshape, &[x], folded, dtype, &[])?;
        let y = call_inner(cx, def, x)?;
        let mut out = cx.shape(y);
        out.dims[0] = batch;
        out.dims.insert(0, steps);
        let dtype = cx.dtype(y);
        cx.op_to(OpKind::Reshape, &[y], out, dtype, &[])?
    } else {
        let mut results = Vec::new();
        for at in 0..steps {
            let step = cx.op_to(OpKind::Step { at: at as u32 }, &[x], each.clone(), dtype, &[])?;
            results.push(call_inner(cx, def, step)?);
        }
        let mut out = cx.shape(results[0]);
        out.dims.insert(0, steps);
        let dtype = cx.dtype(results[0]);
        cx.op_to(OpKind::Stack, &results, out, dtype, &[])?
    };
    let shape = cx.shape(stacked);
    let out = Shape {
        batched: shape.batched,
        dims: [shape.dims[1], shape.dims[0]].into_iter().chain(shape.dims[2..].iter().copied()).collect(),
    };
    let dtype = cx.dtype(stacked);
    Ok(Value::Tensor(cx.op_to(OpKind::Permute { axes: axes(shape.rank()) }, &[stacked], out, dtype, &[])?))
}

/// Calls the wrapped layer's `call`: what `__call__` does around it is left out.
fn call_inner<'d>(cx: &mut Cx<'_, 'd>, def: &'d LayerDef, x: TensorId) -> Result<TensorId> {
    let args = Args::one(x);
    let value = match &def.kind {
        Kind::Layer(entry) => cx.sub(def, &def.name, args).call_layer(entry, false, Hints::default())?,
        _ => {
            let path = cx.path.clone();
            cx.builder.call(def, Scope { path: &path, trainable: cx.trainable }, args, Hints::default())?
        }
    };
    match value.tensors().first() {
        Some(&tensor) if cx.shape(tensor).rank() > 0 => Ok(tensor),
        _ => cx.fail("the wrapped layer returns nothing that has a batch"),
    }
}
