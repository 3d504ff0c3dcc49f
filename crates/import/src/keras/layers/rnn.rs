//! Recurrent layers and their cells.
//!
//! A stack of cells in one loop is modelled as loops one after the other, with no lists in between. Not counted: the states that a stateful layer
//! keeps between batches.

use brimful_core::model::{Activation, OpKind, Rnn, RnnCell, Shape, TensorId, WeightId};

use super::super::build::Hints;
use super::super::config::{Kind, LayerDef};
use super::super::cx::{Cx, WeightKind};
use super::super::value::{Args, Value};
use super::conv;
use crate::error::Result;

/// A cell with its weights.
struct Cell {
    kind: RnnCell,
    /// One output per sample and step.
    output: Vec<u64>,
    states: usize,
    weights: Vec<WeightId>,
    dropout: bool,
    recurrent_dropout: bool,
    fusable: bool,
}

/// A cell's weights, made in the view of the layer or cell that owns them. `step` is the shape of one step, without the batch.
fn cell(cx: &mut Cx<'_, '_>, class: &str, step: &Shape) -> Result<Cell> {
    let wide = step.last();
    let bias = cx.flag("use_bias", true);
    let (gates, kind, states) = match class.trim_end_matches("Cell") {
        "LSTM" => (4, RnnCell::Lstm, 2),
        "GRU" => (3, RnnCell::Gru { reset_after: cx.flag("reset_after", true) }, 1),
        "SimpleRNN" => (1, RnnCell::Simple, 1),
        _ => return other_cell(cx, step),
    };
    let units = cx.positive("units")?;
    let columns = units.saturating_mul(gates);
    let mut weights = vec![
        cx.weight("kernel", &[wide, columns], WeightKind::Trainable(Some("kernel_regularizer")))?,
        cx.weight("recurrent_kernel", &[units, columns], WeightKind::Trainable(Some("recurrent_regularizer")))?,
    ];
    if bias {
        // After-reset gates have a bias of their own for the recurrent part.
        let dims: &[u64] = if kind == (RnnCell::Gru { reset_after: true }) { &[2, columns] } else { &[columns] };
        weights.push(cx.weight("bias", dims, WeightKind::Trainable(Some("bias_regularizer")))?);
    }
    cx.seed()?;
    let dropout = cx.share("dropout")? > 0.0;
    let recurrent_dropout = cx.share("recurrent_dropout")? > 0.0;
    // cuDNN's kernel has these activations and no others; a plain recurrent layer is never run by it in Keras.
    let tanh = cx.activation_of("activation") == Activation::Tanh;
    let sigmoid = cx.activation_of("recurrent_activation") == Activation::Sigmoid;
    let fusable = match kind {
        RnnCell::Lstm => tanh && sigmoid && bias && !recurrent_dropout,
        RnnCell::Gru { reset_after } => tanh && sigmoid && bias && reset_after && !recurrent_dropout,
        _ => false,
    };
    Ok(Cell { kind, output: vec![units], states, weights, dropout, recurrent_dropout, fusable })
}

fn other_cell(cx: &mut Cx<'_, '_>, step: &Shape) -> Result<Cell> {
    let units = ["units", "state_size", "filters"].iter().find_map(|key| cx.get(key).and_then(|json| json.as_int()));
    let units = units.and_then(|units| u64::try_from(units).ok()).filter(|&units| units > 0).unwrap_or(step.last());
    let text = format!(
        "The code of this cell is not in the file: it is bounded as an LSTM of {units} units, and its weights are not counted."
    );
    cx.note("custom_cell", text);
    Ok(Cell {
        kind: RnnCell::Other,
        output: vec![units],
        states: 1,
        weights: Vec::new(),
        dropout: false,
        recurrent_dropout: false,
        fusable: false,
    })
}

/// The output and states of a recurrent layer in one direction.
pub(super) struct Results {
    pub(super) output: TensorId,
    pub(super) states: Vec<TensorId>,
}

impl Results {
    fn value<'d>(self, return_state: bool) -> Value<'d> {
        if !return_state {
            return Value::Tensor(self.output);
        }
        let mut all = vec![self.output];
        all.extend(self.states);
        Value::list(&all)
    }
}

/// Runs a recurrent layer of any class in its own view.
pub(super) fn run(cx: &mut Cx<'_, '_>, x: TensorId, initial: &[TensorId], backwards: Option<bool>) -> Result<Results> {
    let class = cx.def.class.as_str();
    if class.starts_with("ConvLSTM") {
        return run_conv(cx, x, initial, backwards);
    }
    let shape = cx.shape(x);
    if shape.rank() < 3 {
        return cx.fail(format!("it takes a sequence and is given {}", cx.show(&shape)));
    }
    let mut dims = vec![shape.dims[0]];
    dims.extend_from_slice(&shape.dims[2..]);
    let step = Shape::new(shape.batched, &dims);
    let mut cells = Vec::new();
    if class == "RNN" {
        let def = cx.inner("cell")?;
        let (prefix, stacked): (String, Vec<&LayerDef>) = match def.class.as_str() {
            "StackedRNNCells" => (format!("{}/", def.name), def.inner.iter().map(|(_, cell)| cell).collect()),
            _ => (String::new(), vec![def]),
        };
        if stacked.is_empty() {
            return cx.fail("its stack of cells is empty");
        }
        let mut step = step;
        for (at, def) in stacked.iter().enumerate() {
            // Cells of a stack often share a name.
            let repeated = stacked.iter().take(at).any(|earlier| earlier.name == def.name);
            let name = if repeated { format!("{prefix}{}_{at}", def.name) } else { format!("{prefix}{}", def.name) };
            let custom = matches!(def.kind, Kind::Custom { .. });
            let mut view = cx.sub(def, &name, Args::default());
            let class = if custom { "custom" } else { def.class.as_str() };
            let mut cell = cell(&mut view, class, &step)?;
            // The general loop never runs as cuDNN's kernel.
            cell.fusable = false;
            step =
                Shape { batched: step.batched, dims: [step.dims[0]].into_iter().chain(cell.output.clone()).collect() };
            cells.push((view.layer, cell));
        }
    } else {
        let layer = cx.layer;
        let own = cell(cx, class, &step)?;
        cells.push((layer, own));
    }
    loops(cx, x, initial, cells, backwards)
}

/// One op for each cell, over the whole sequence.
fn loops(
    cx: &mut Cx<'_, '_>,
    x: TensorId,
    initial: &[TensorId],
    cells: Vec<(brimful_core::model::LayerId, Cell)>,
    backwards: Option<bool>,
) -> Result<Results> {
    let shape = cx.shape(x);
    let (batch, steps) = (shape.dims[0], shape.dims[1]);
    let sequences = cx.flag("return_sequences", false);
    let return_state = cx.flag("return_state", false);
    let unroll = cx.flag("unroll", false);
    let masked = cx.builder.masked(x) || cx.args.by_name("mask").is_some_and(|mask| !mask.tensors().is_empty());
    let last = cells.len() - 1;
    let mut initial = initial.iter().copied();
    let mut x = x;
    let mut states = Vec::new();
    for (at, (layer, cell)) in cells.into_iter().enumerate() {
        let all = sequences || at < last;
        let mut inputs = vec![x];
        inputs.extend(initial.by_ref().take(cell.states));
        let one = |dims: &[u64]| Shape {
            batched: shape.batched,
            dims: [batch].into_iter().chain(dims.iter().copied()).collect(),
        };
        let mut out = one(&cell.output);
        if all {
            out.dims.insert(1, steps);
        }
        let mut results = vec![(out, cx.policy.compute)];
        if return_state {
            results.extend((0..cell.states).map(|_| (one(&cell.output), cx.policy.compute)));
        }
        let rnn = Rnn {
            units: brimful_core::model::product(&cell.output),
            cell: cell.kind,
            steps,
            return_sequences: all,
            go_backwards: backwards.unwrap_or(cx.flag("go_backwards", false)),
            unroll,
            masked,
            dropout: cell.dropout,
            recurrent_dropout: cell.recurrent_dropout,
            fusable: cell.fusable && !unroll,
            on_cell: at > 0,
            under_cell: at < last,
        };
        let outputs = cx.op_many(OpKind::Rnn(rnn), &inputs, results, &cell.weights)?;
        if let Some(op) = cx.builder.model.ops.last_mut() {
            op.layer = layer;
        }
        x = outputs[0];
        states.extend_from_slice(&outputs[1..]);
    }
    if masked && sequences {
        cx.builder.set_masked(x, true);
    }
    Ok(Results { output: x, states })
}

fn run_conv(cx: &mut Cx<'_, '_>, x: TensorId, initial: &[TensorId], backwards: Option<bool>) -> Result<Results> {
    let rank = conv::rank(&cx.def.class);
    let shape = cx.shape_of_rank(x, rank + 3)?;
    let mut dims = vec![shape.dims[0]];
    dims.extend_from_slice(&shape.dims[2..]);
    let geometry = conv::geometry(cx, Shape::new(shape.batched, &dims))?;
    let filters = cx.positive("filters")?;
    let out = geometry.output(cx, filters)?;
    let gates = filters.saturating_mul(4);
    let kernel =
        |channels: u64| -> Vec<u64> { geometry.conv.kernel.iter().copied().chain([channels, gates]).collect() };
    let mut weights = vec![
        cx.weight("kernel", &kernel(geometry.channels), WeightKind::Trainable(Some("kernel_regularizer")))?,
        cx.weight("recurrent_kernel", &kernel(filters), WeightKind::Trainable(Some("recurrent_regularizer")))?,
    ];
    if cx.flag("use_bias", true) {
        weights.push(cx.weight("bias", &[gates], WeightKind::Trainable(Some("bias_regularizer")))?);
    }
    cx.seed()?;
    let (dropout, recurrent_dropout) = (cx.share("dropout")? > 0.0, cx.share("recurrent_dropout")? > 0.0);
    let kind = RnnCell::ConvLstm(geometry.conv);
    let output = out.dims[1..].to_vec();
    let cell = Cell { kind, output, states: 2, weights, dropout, recurrent_dropout, fusable: false };
    let layer = cx.layer;
    loops(cx, x, initial, vec![(layer, cell)], backwards)
}

/// The sequence and the initial states of a call.
pub(super) fn sequence(cx: &Cx<'_, '_>) -> Result<(TensorId, Vec<TensorId>)> {
    let x = cx.input()?;
    // Keras 2 passed states in one list with the sequence.
    let mut states: Vec<TensorId> = cx.inputs().into_iter().skip(1).collect();
    if let Some(given) = cx.args.get(1, "initial_state") {
        states.extend(given.tensors());
    }
    Ok((x, states))
}

fn layer<'d>(cx: &mut Cx<'_, 'd>) -> Result<Value<'d>> {
    let (x, states) = sequence(cx)?;
    let results = run(cx, x, &states, None)?;
    Ok(results.value(cx.flag("return_state", false)))
}

pub(super) fn lstm<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    layer(cx)
}

pub(super) fn gru<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    layer(cx)
}

pub(super) fn simple<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    layer(cx)
}

pub(super) fn rnn<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    layer(cx)
}

pub(super) fn conv_lstm<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    layer(cx)
}

/// A cell called by itself: one step, as a sequence of length 1. Returns the output and the list of new states.
pub(super) fn cell_alone<'d>(cx: &mut Cx<'_, 'd>, _: Hints<'d>) -> Result<Value<'d>> {
    let x = cx.input()?;
    let initial = cx.args.get(1, "states").map(Value::tensors).unwrap_or_default();
    let step = cx.shape(x);
    let defs: Vec<&'d LayerDef> = match cx.def.class.as_str() {
        "StackedRNNCells" => cx.def.inner.iter().map(|(_, def)| def).collect(),
        _ => Vec::new(),
    };
    let mut cells = Vec::new();
    if defs.is_empty() {
        let class = cx.def.class.as_str();
        cells.push((cx.layer, cell(cx, class, &step)?));
    }
    let mut step = step;
    for (at, def) in defs.iter().enumerate() {
        let name = format!("{}_{at}", def.name);
        let mut view = cx.sub(def, &name, Args::default());
        let cell = cell(&mut view, &def.class, &step)?;
        step.dims.truncate(1);
        step.dims.extend_from_slice(&cell.output);
        cells.push((view.layer, cell));
    }
    let mut initial = initial.into_iter();
    let mut x = x;
    let mut states = Vec::new();
    let batch = cx.shape(x);
    for (layer, cell) in cells {
        let mut inputs = vec![x];
        inputs.extend(initial.by_ref().take(cell.states));
        let out =
            Shape { batched: batch.batched, dims: [batch.dims[0]].into_iter().chain(cell.output.clone()).collect() };
        let results = vec![(out, cx.policy.compute); 1 + cell.states];
        let rnn = Rnn {
            units: brimful_core::model::product(&cell.output),
            cell: cell.kind,
            steps: 1,
            return_sequences: false,
            go_backwards: false,
            unroll: true,
            masked: false,
            dropout: cell.dropout,
            recurrent_dropout: cell.recurrent_dropout,
            fusable: false,
            on_cell: false,
            under_cell: false,
        };
        let outputs = cx.op_many(OpKind::Rnn(rnn), &inputs, results, &cell.weights)?;
        if let Some(op) = cx.builder.model.ops.last_mut() {
            op.layer = layer;
        }
        x = outputs[0];
        states.extend_from_slice(&outputs[1..]);
    }
    Ok(Value::List(vec![Value::Tensor(x), Value::list(&states)]))
}
