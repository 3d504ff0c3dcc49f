"""cuDNN's recurrent layers: LSTM, GRU and plain RNN, forward and backward.

In: one call of `aten._cudnn_rnn` or its backward. Out: copies that put the steps first, results, cuDNN's workspace, and the reserve
that forward keeps for backward. `reserve_bytes` gives the reserve's size, which PyTorch's meta kernel reports as 0.

The reserve and the workspace were measured only (cuDNN 9.19): LSTM of one layer and of two layers in both directions with dropout,
GRU of two layers, all with 256 inputs, 64 hidden units and 128 steps, in float32 and (but for the two-way LSTM) float16, at batches
32 to 2048. Fits of those reproduce every recorded call. Which terms grow with the inputs, the hidden units, the layers, the
directions or dropout could not all be told apart, so for other shapes both are estimates. Not counted: the layout of packed
sequences, and inference (taken as training without a reserve).
"""

from __future__ import annotations

from . import Call, Program, rule
from .pointwise import argument, contiguous_copy, is_tensor, release, size_bytes

RELU, TANH, LSTM, GRU = range(4)
GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}
RESERVED = {RELU: 2, TANH: 2, LSTM: 5, GRU: 6}  # hidden widths kept for each step and layer; RNNs' is a guess
FIXED_WORKSPACE_BYTES = (8 << 20) + 256
ALIGNMENT_BYTES = 256
NAMES = (
    "input", "weight", "weight_stride0", "weight_buf", "hx", "cx", "mode", "hidden_size", "proj_size", "num_layers", "batch_first",
    "dropout", "train", "bidirectional", "batch_sizes", "dropout_state",
)  # fmt: skip
BACKWARD_NAMES = (*NAMES[:6], "output", "grad_output", "grad_hy", "grad_cy", *NAMES[6:], "reserve", "output_mask")


def _steps_and_batch(source, batch_first: bool, batch_sizes) -> tuple[int, int]:
    if batch_sizes:
        return len(batch_sizes), int(batch_sizes[0])
    shape = tuple(source.shape)
    if len(shape) < 2:
        return 1, 1
    return (shape[1], shape[0]) if batch_first else (shape[0], shape[1])


def reserve_bytes(
    input, weight, weight_stride0, weight_buf, hx, cx, mode, hidden_size, proj_size, num_layers, batch_first, dropout, train,
    bidirectional, batch_sizes=(), dropout_state=None,
) -> int:  # fmt: skip
    """Bytes of the reserve, with the arguments of `aten._cudnn_rnn`: gates and states of all layers, the outputs between layers,
    and for dropout a quarter of a byte for each of those outputs."""
    if not train or not is_tensor(input) or input.numel() == 0:
        return 0
    steps, batch = _steps_and_batch(input, batch_first, batch_sizes)
    directions = 2 if bidirectional else 1
    values = steps * batch * hidden_size * directions
    between = (num_layers - 1) * values
    item = input.element_size()
    size = values * RESERVED.get(mode, 5) * num_layers * item + between * item
    if dropout and num_layers > 1:
        size += between // 4
    return size + ALIGNMENT_BYTES


def workspace_bytes(source, mode: int, hidden: int, layers: int, batch_first: bool, bidirectional: bool, batch_sizes=()) -> int:
    """Bytes of the workspace, which forward and backward ask for alike: the weights once more, and per sample a fit of what was
    measured (see the module's text) of `steps * wide + once` hidden widths, plus 8 bytes."""
    steps, batch = _steps_and_batch(source, batch_first, batch_sizes)
    inputs = source.shape[-1] if source.shape else 1
    item = source.element_size()
    directions = 2 if bidirectional else 1
    gates = GATES.get(mode, 4)
    weights = directions * gates * hidden * (inputs + hidden)
    weights += (layers - 1) * directions * gates * hidden * (directions * hidden + hidden)
    between = layers > 1
    if mode == GRU:
        per_step = 22 * directions + between + (between and item == 2)
        once = 6 * layers * directions
    else:
        per_step = 19 * directions + between
        once = 12 * layers * directions + (4 if between else 0)
    per_sample = (steps * (2 * inputs + per_step * hidden) + once * hidden) * item + 8
    return FIXED_WORKSPACE_BYTES + weights * item + batch * per_sample


def _arguments(call: Call, names) -> dict:
    return {name: argument(call, index, name) for index, name in enumerate(names)}


def _steps_first_copy(program: Program, tensor, batch_first: bool) -> int | None:
    """The copy that makes a batch of sequences contiguous with the steps first."""
    if not is_tensor(tensor) or tensor.numel() == 0:
        return None
    if not batch_first or len(tensor.shape) != 3:
        return contiguous_copy(program, tensor)
    batch, steps, width = tensor.shape
    expected = (width, batch * width, 1)
    if all(n == 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride(), expected)):
        return None
    return program.take(size_bytes(tensor), "steps-first copy")


def _readable(given: dict) -> bool:
    return (
        is_tensor(given["input"])
        and given["input"].numel() > 0
        and isinstance(given["mode"], int)
        and isinstance(given["hidden_size"], int)
        and isinstance(given["num_layers"], int)
    )


def _workspace(given: dict) -> int:
    return workspace_bytes(
        given["input"], given["mode"], given["hidden_size"], given["num_layers"], bool(given["batch_first"]),
        bool(given["bidirectional"]), given["batch_sizes"] or (),
    )  # fmt: skip


@rule("aten._cudnn_rnn")
def forward(call: Call) -> Program:
    """The fifth result is the given buffer of weights unless none was given."""
    program = Program()
    given = _arguments(call, NAMES)
    if not _readable(given):
        program.outs(call)
        return program
    copy = _steps_first_copy(program, given["input"], bool(given["batch_first"]))
    for index in range(min(3, len(call.outputs))):
        program.out(index)
    if not is_tensor(given["weight_buf"]) and len(call.outputs) > 4:
        program.out(4)
    workspace = program.take(_workspace(given), "rnn workspace")
    if len(call.outputs) > 3:
        program.out(3)
    release(program, workspace, copy)
    return program


@rule("aten._cudnn_rnn_backward")
def backward(call: Call) -> Program:
    """Gradients of the data, then of the weights; both with copies and a workspace of their own. The weights' gradients are views
    of one buffer, so that they are one result."""
    program = Program()
    given = _arguments(call, BACKWARD_NAMES)
    if not _readable(given):
        program.outs(call)
        return program
    batch_first = bool(given["batch_first"])
    states = 2 if is_tensor(given["cx"]) else 1
    zeros = []
    for gradient, state in (("grad_hy", "hx"), ("grad_cy", "cx")):
        if not is_tensor(given[gradient]) and is_tensor(given[state]):
            zeros.append(program.take(size_bytes(given[state]), "zero gradient"))
    if not is_tensor(given["grad_output"]) and is_tensor(given["output"]):
        zeros.append(program.take(size_bytes(given["output"]), "zero gradient"))
    workspace_size = _workspace(given)
    source = _steps_first_copy(program, given["input"], batch_first)
    gradient = _steps_first_copy(program, given["grad_output"], batch_first)
    for index in range(min(1 + states, len(call.outputs))):
        program.out(index)
    workspace = program.take(workspace_size, "rnn workspace")
    release(program, workspace, gradient, source)
    if len(call.outputs) > 1 + states:
        source = _steps_first_copy(program, given["input"], batch_first)
        for index in range(1 + states, len(call.outputs)):
            program.out(index)
        workspace = program.take(workspace_size, "rnn workspace")
        release(program, workspace, source)
    release(program, *reversed(zeros))
    return program
