"""Normalisations: layer, RMS, batch and group norm.

In: one call. Out: its results with copies of inputs that are not contiguous, partial sums and staging buffers, in order. Not
counted: copies of weights that are not contiguous.
"""

from __future__ import annotations

from . import Call, Program, rule
from .pointwise import argument, contiguous_copy, dtype_name, is_channels_last, is_tensor, release
from .reduction import HALF, contiguous_stride, last_power_of_2, reduce

# of the kernels for channels-last batch norm (Normalization.cuh)
ELEMENTS_PER_THREAD, TILE_WIDTH, MAX_BLOCKS_HIGH, MAX_BLOCK_THREADS = 16, 32, 128, 512


@rule("aten.native_layer_norm", "aten._fused_rms_norm")
def layer_norm(call: Call) -> Program:
    program = Program()
    copy = contiguous_copy(program, argument(call, 0, "input"))
    program.outs(call)
    release(program, copy)
    return program


def _product(lengths) -> int:
    result = 1
    for length in lengths:
        result *= length
    return result


@rule("aten.native_layer_norm_backward", "aten._fused_rms_norm_backward")
def layer_norm_backward(call: Call) -> Program:
    """Results, then a contiguous gradient; for many short rows the weights' gradients are summed from partial sums of blocks, which
    makes them anew. RMS norm, which has no bias, shares the kernels; that is from the source, not measured."""
    program = Program()
    grad, source = argument(call, 0, "grad_out"), argument(call, 1, "input")
    normalized_shape = argument(call, 2, "normalized_shape", ())
    if not (is_tensor(source) and is_tensor(grad)) or source.numel() == 0:
        program.outs(call)
        return program
    copy = contiguous_copy(program, source)
    columns = _product(normalized_shape)
    rows = source.numel() // max(columns, 1)
    # without a gradient of the input, the first result is a weight's
    weights = [i for i, output in enumerate(call.outputs) if i > 0 or output.numel() == columns != source.numel()]
    many = bool(weights) and rows > 64 * 1024 and columns // 32 < call.gpu.multiprocessors // 2
    if not many:
        program.outs(call)
        grad_copy = contiguous_copy(program, grad)
        release(program, grad_copy, copy)
        return program
    if 0 not in weights:
        program.out(0)
    replaced = [program.take(columns * call.outputs[i].element_size(), "replaced gradient") for i in weights]
    grad_copy = contiguous_copy(program, grad)
    blocks_wide = -(-columns // 32)
    blocks_high = min(64 * 1024 // 2 // blocks_wide, -(-rows // 32))
    partial = [program.take(blocks_high * columns * call.outputs[i].element_size(), "partial sums") for i in weights]
    shape = (blocks_high, columns)
    for index, old in zip(weights, replaced):
        output = call.outputs[index]
        program.out(index)
        item = output.element_size()
        reduce(program, shape, contiguous_stride(shape), frozenset((0,)), max(item, 4), call.gpu, 8 if item == 2 else 4)
        program.free(old)
    release(program, *reversed(partial), grad_copy, copy)
    return program


def _channels_innermost(tensor) -> bool:
    if not is_tensor(tensor) or len(tensor.shape) < 2:
        return False
    return is_channels_last(tensor) and not tensor.is_contiguous() or (tensor.is_contiguous() and tensor.stride()[1] == 1)


def _batch_norm_blocks(rows: int, channels: int) -> tuple[int, int]:
    """Blocks along the channels, and along the rows that are summed together."""
    width = min(last_power_of_2(channels), TILE_WIDTH)
    height = min(last_power_of_2(-(-rows // ELEMENTS_PER_THREAD)), MAX_BLOCK_THREADS // width)
    if width * height != MAX_BLOCK_THREADS:
        width = min(last_power_of_2(channels), MAX_BLOCK_THREADS // height)
    high = min(-(-rows // (height * ELEMENTS_PER_THREAD)), MAX_BLOCKS_HIGH)
    return -(-channels // width), 1 if high < 8 else high


def _batch_norm_staging(program: Program, source, values: int) -> None:
    channels = source.shape[1]
    wide, high = _batch_norm_blocks(source.numel() // channels, channels)
    if high > 1:
        item = 8 if dtype_name(source.dtype) == "float64" else 4
        staging = program.take(values * channels * high * item, "batch norm staging")
        semaphores = program.take(4 * wide, "batch norm semaphores")
        release(program, semaphores, staging)


@rule("aten.native_batch_norm", "aten._native_batch_norm_legit")
def batch_norm(call: Call) -> Program:
    program = Program()
    program.outs(call)
    source = argument(call, 0, "input")
    training = argument(call, 5, "training", True)
    if is_tensor(source) and training is True and source.numel() and _channels_innermost(source):
        _batch_norm_staging(program, source, 4)
    return program


@rule("aten.native_batch_norm_backward")
def batch_norm_backward(call: Call) -> Program:
    program = Program()
    source = argument(call, 1, "input")
    if len(call.outputs) < 3 or not is_tensor(source) or source.numel() == 0 or not _channels_innermost(source):
        program.outs(call)
        return program
    channel_bytes = source.shape[1] * (8 if dtype_name(source.dtype) == "float64" else 4)
    sums = [program.take(channel_bytes, "sums of gradients") for _ in range(2)]
    program.out(1)
    program.out(2)
    _batch_norm_staging(program, source, 2)
    program.out(0)
    release(program, *reversed(sums))
    return program


def _accumulator_bytes(tensor) -> int:
    return 4 if dtype_name(tensor.dtype) in HALF else tensor.element_size()


@rule("aten.native_group_norm")
def group_norm(call: Call) -> Program:
    program = Program()
    program.outs(call)
    source, gamma, beta = (argument(call, i, name) for i, name in enumerate(("input", "weight", "bias")))
    batch, channels, area = (argument(call, i, name, 0) for i, name in ((3, "N"), (4, "C"), (5, "HxW")))
    if is_tensor(source) and source.numel() and area != 1 and (is_tensor(gamma) or is_tensor(beta)):
        size = batch * channels * _accumulator_bytes(source)
        scales = [program.take(size, "scales"), program.take(size, "shifts")]
        release(program, *reversed(scales))
    return program


@rule("aten.native_group_norm_backward")
def group_norm_backward(call: Call) -> Program:
    program = Program()
    program.outs(call)
    source, gamma = argument(call, 1, "input"), argument(call, 4, "weight")
    batch, channels, area, groups = (argument(call, i, name, 0) for i, name in ((5, "N"), (6, "C"), (7, "HxW"), (8, "group")))
    if not is_tensor(source) or source.numel() == 0:
        return program
    item = _accumulator_bytes(source)
    taken = [program.take(batch * channels * item, "sums of gradients") for _ in range(2)] if area != 1 else []
    if (argument(call, 9, "output_mask") or [True])[0]:
        taken += [program.take(batch * groups * item, "coefficients") for _ in range(2)]
        if is_tensor(gamma) and area != 1:
            taken.append(program.take(batch * channels * item, "coefficients"))
    release(program, *reversed(taken))
    return program
