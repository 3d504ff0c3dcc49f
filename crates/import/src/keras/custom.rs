//! Layers and functions whose code is not known: an answer with a note, never a failure.
//!
//! In: a call and what Keras recorded about its result. Out: one [`OpKind::Opaque`] op. Not counted: the layer's weights,
//! which only its code knows.

use brimful_core::model::{DType, OpKind, Shape};

use super::build::Hints;
use super::config::{Arg, Recorded, Ref};
use super::cx::Cx;
use super::value::Value;
use crate::error::Result;

/// Results assumed to be kept for backward, and to be alive beside them: what a small layer of three or four steps has.
const SAVED: u32 = 2;
const LIVE: u32 = 2;

/// A layer that is not Keras's, or newer than this importer.
pub(super) fn call<'d>(cx: &mut Cx<'_, 'd>, module: &str, hints: Hints<'d>) -> Result<Value<'d>> {
    let value = opaque(cx, hints)?;
    let shape = value.tensors().first().map(|&out| cx.show(&cx.shape(out))).unwrap_or_default();
    let class = cx.def.class.clone();
    if module.starts_with("keras.src.ops") || module.starts_with("keras.ops") {
        let text = format!(
            "The function {class} of keras.ops is not modelled: its output is taken to be {shape}, its memory is a guess."
        );
        cx.note("unmodelled_function", text);
        return Ok(value);
    }
    let module = if module == "unknown" { String::new() } else { format!(" (module {module})") };
    let text = format!(
        "The code of {class}{module} is not in the file: its output is taken to be {shape}, its memory is a guess \
         and its weights are not counted."
    );
    cx.note("custom_layer", text);
    Ok(value)
}

/// One op whose outputs are as Keras recorded them, or as the first input.
pub(super) fn opaque<'d>(cx: &mut Cx<'_, 'd>, hints: Hints<'d>) -> Result<Value<'d>> {
    let inputs = cx.args.tensors();
    let mut results: Vec<(Shape, DType)> = Vec::new();
    if let (Some(net), Some(call)) = (hints.net, hints.call) {
        // Later outputs are recorded only where something reads them.
        for tensor in 0..net.arity.get(&(call.layer, call.node)).copied().unwrap_or(1) {
            let recorded = net.recorded.get(&Ref { layer: call.layer, node: call.node, tensor });
            results.push(result(cx, recorded, hints)?);
        }
    } else {
        results.push(result(cx, hints.recorded, hints)?);
    }
    let outputs = cx.op_many(OpKind::Opaque { saved: SAVED, live: LIVE }, &inputs, results, &[])?;
    Ok(if outputs.len() == 1 { Value::Tensor(outputs[0]) } else { Value::list(&outputs) })
}

/// The shape and type of a result.
fn result(cx: &Cx<'_, '_>, recorded: Option<&Recorded>, hints: Hints<'_>) -> Result<(Shape, DType)> {
    let input = cx.args.tensors().first().copied();
    let Some(recorded) = recorded else {
        return match input {
            Some(input) => Ok((cx.shape(input), cx.result_type(input))),
            None => cx.fail("it is called without a tensor, and its code is not in the file"),
        };
    };
    let now = input.map(|input| cx.shape(input));
    let then = first_recorded(hints);
    let mut shape = known(&recorded.shape, cx.builder.options.unknown_dim);
    // An override upstream may have changed the input since Keras recorded the output: what both shared, they share.
    if let (Some(now), Some(then)) = (&now, then)
        && now.rank() == then.shape.len()
        && shape.rank() == now.rank()
    {
        for axis in 0..shape.rank() {
            if recorded.shape[axis] == then.shape[axis] {
                shape.dims[axis] = now.dims[axis];
            }
        }
    }
    // A policy that was forced on the model changes floats.
    let dtype = match recorded.dtype {
        Some(dtype) if !dtype.is_float() => dtype,
        _ => cx.policy.compute,
    };
    Ok((shape, dtype))
}

/// What Keras recorded about the call's first input.
fn first_recorded<'d>(hints: Hints<'d>) -> Option<&'d Recorded> {
    let (net, call) = (hints.net?, hints.call?);
    let mut tensors = Vec::new();
    call.args.iter().for_each(|arg: &Arg| arg.collect(&mut tensors));
    net.recorded.get(tensors.first()?)
}

/// A recorded shape with numbers for what varies.
fn known(shape: &[Option<u64>], unknown: u64) -> Shape {
    let batched = shape.first().is_some_and(Option::is_none);
    let dims = shape.iter().enumerate().map(|(axis, dim)| match dim {
        None if axis == 0 => 1,
        None => unknown,
        Some(size) => *size,
    });
    Shape { batched, dims: dims.collect() }
}
