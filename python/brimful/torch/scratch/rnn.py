"""cuDNN's recurrent layers: LSTM, GRU and plain RNN, forward and backward.

In: one call of `aten._cudnn_rnn` or its backward. Out: copies that put the steps first, results, cuDNN's workspace, and the reserve
that forward keeps for backward. `reserve_bytes` gives the reserve's size, which PyTorch's meta kernel reports as 0.

The formulas were read off recordings (cuDNN 9.19 on an H200: `fixtures/torch_ops/kernel_grid.jsonl.gz` and the older
`calls.jsonl.gz`; up to three layers, 512 units, 128 steps). The reserve is exact for all of them, the workspace for all but a few,
which `workspace_bytes` names. Not counted: the layout of packed sequences (taken as padded), and projections.
"""

from __future__ import annotations

from . import Call, Program, rule
from .pointwise import argument, contiguous_copy, dtype_name, is_tensor, release, size_bytes

RELU, TANH, LSTM, GRU = range(4)
GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}
RESERVED = {RELU: 1, TANH: 1, LSTM: 5, GRU: 6}  # hidden widths kept for each step, layer and direction
# cuDNN keeps the recurrent weights on the chip where they are few, in float32 and float16. It did so for LSTM and GRU with 128 units,
# not with 256, and for plain RNNs with 256, not with 512; where between the limit lies is a guess.
PERSISTENT_WEIGHTS = 65_536
# Hidden widths that a direction's forward and backward take for each step, and once for each layer: (standard, persistent).
FORWARD_WIDTHS = {RELU: ((2, 3), (6, 4)), TANH: ((2, 3), (6, 4)), LSTM: ((5, 10), (21, 8)), GRU: ((4, 5), (16, 4))}
BACKWARD_WIDTHS = {RELU: ((3, 5), (12, 6)), TANH: ((3, 5), (12, 6)), LSTM: ((3, 11), (15, 12)), GRU: ((3, 5), (17, 6))}
STREAM_BYTES = 8 << 20  # of each layer and direction
FIXED_BYTES = 256
ALIGNMENT_BYTES = 32
NAMES = (
    "input", "weight", "weight_stride0", "weight_buf", "hx", "cx", "mode", "hidden_size", "proj_size", "num_layers", "batch_first",
    "dropout", "train", "bidirectional", "batch_sizes", "dropout_state",
)  # fmt: skip
BACKWARD_NAMES = (*NAMES[:6], "output", "grad_output", "grad_hy", "grad_cy", *NAMES[6:], "reserve", "output_mask")


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


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
    and for dropout one bit for each of those outputs and direction."""
    if not train or not is_tensor(input) or input.numel() == 0:
        return 0
    steps, batch = _steps_and_batch(input, batch_first, batch_sizes)
    directions = 2 if bidirectional else 1
    values = steps * batch * hidden_size * directions
    between = (num_layers - 1) * values
    size = (values * RESERVED.get(mode, 5) * num_layers + between) * input.element_size()
    if dropout:
        size += between * directions // 8
    return _aligned(size + FIXED_BYTES)


def _weight_elements(mode: int, inputs: int, hidden: int, layers: int, directions: int) -> int:
    """Elements of the weights of all layers, without biases."""
    gate_rows = directions * GATES.get(mode, 4) * hidden
    return gate_rows * (inputs + hidden) + (layers - 1) * gate_rows * (directions * hidden + hidden)


def workspace_bytes(
    source, mode: int, hidden: int, layers: int, batch_first: bool, bidirectional: bool, batch_sizes=(), dropout: float = 0.0,
    train: bool = True,
) -> int:  # fmt: skip
    """Bytes of the workspace, which forward and backward of training ask for alike: the larger of what the two need.

    An upper bound, up to 3 % above what was recorded, for training with several layers, one direction and about 100 steps or more
    where weights are not kept on the chip (cuDNN then splits the steps, by a rule that is not known). Too small by up to 128 bytes
    where a row of hidden units is not a multiple of 32 bytes and the batch is 1. Guessed, on the safe side: backward in two
    directions with several layers where weights are not kept on the chip."""
    steps, batch = _steps_and_batch(source, batch_first, batch_sizes)
    inputs = source.shape[-1] if source.shape else 1
    item = source.element_size()
    directions = 2 if bidirectional else 1
    on_chip = dtype_name(source.dtype) in ("float32", "float16") and GATES.get(mode, 4) * hidden * hidden <= PERSISTENT_WEIGHTS
    inputs_bytes = _aligned(steps * batch * inputs * item)
    hidden_bytes = steps * batch * hidden * item
    once_bytes = layers * batch * hidden * item
    more_once = 2 if on_chip else 4

    widths, once = FORWARD_WIDTHS.get(mode, FORWARD_WIDTHS[LSTM])[on_chip]
    if bidirectional:
        widths += FORWARD_WIDTHS.get(mode, FORWARD_WIDTHS[LSTM])[0][0] + 4
        once = 2 * once + more_once
    elif dropout and train:
        widths += 1
    need = inputs_bytes + widths * hidden_bytes + once * once_bytes
    if train:
        widths, once = BACKWARD_WIDTHS.get(mode, BACKWARD_WIDTHS[LSTM])[on_chip]
        if bidirectional:
            widths += 3 + (2 if layers > 1 else 0)
            once = 2 * once + more_once
            wider = 4
        else:
            widths += layers > 1 and on_chip
            wider = 1
        backward = 2 * inputs_bytes + wider * max(inputs_bytes, hidden_bytes) + widths * hidden_bytes + once * once_bytes
        need = max(need, backward)
    weights_bytes = _weight_elements(mode, inputs, hidden, layers, directions) * item
    return layers * directions * STREAM_BYTES + FIXED_BYTES + _aligned(8 * batch) + weights_bytes + _aligned(need)


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
        bool(given["bidirectional"]), given["batch_sizes"] or (), given["dropout"] or 0.0, bool(given["train"]),
    )  # fmt: skip


@rule("aten._cudnn_rnn")
def forward(call: Call) -> Program:
    """The fifth result is the given buffer of weights unless none was given (bfloat16, whose weights PyTorch does not flatten)."""
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
    of one buffer, so that they are one result. cuDNN's buffer always has biases: for a layer without them (`weight_stride0` is 2
    then, not 4) PyTorch copies the gradients out of the buffer and gives it back."""
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
        weights = range(1 + states, len(call.outputs))
        if given["weight_stride0"] == 2:
            buffer = program.take(_buffer_bytes(given), "gradient of the weights")
            workspace = program.take(workspace_size, "rnn workspace")
            for index in weights:
                program.out(index)
            release(program, workspace, buffer, source)
        else:
            for index in weights:
                program.out(index)
            workspace = program.take(workspace_size, "rnn workspace")
            release(program, workspace, source)
    release(program, *reversed(zeros))
    return program


def _buffer_bytes(given: dict) -> int:
    """Bytes of cuDNN's buffer of weights: every layer and direction has two biases."""
    source, mode, hidden, layers = given["input"], given["mode"], given["hidden_size"], given["num_layers"]
    directions = 2 if given["bidirectional"] else 1
    biases = layers * directions * 2 * GATES.get(mode, 4) * hidden
    return (_weight_elements(mode, source.shape[-1], hidden, layers, directions) + biases) * source.element_size()
