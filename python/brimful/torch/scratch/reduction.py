"""Reductions (sum, mean, norm, max, all, var, ...): the staging buffer that blocks share when several work on one output.

In: one call of a reduction. Out: its results, the cast of its input where the result's dtype asks for one, then the staging buffer
and one semaphore per column of blocks. The launch configuration follows PyTorch's generic reduction kernel (Reduce.cuh) and the
order of dims follows its TensorIterator. Not counted: tensors of 2^31 elements or more, which PyTorch reduces in parts, are taken
as if one launch could reduce them.
"""

from __future__ import annotations

from functools import lru_cache

from . import Call, Gpu, Program, rule
from .pointwise import argument, dtype_name, is_dense, is_tensor, item_bytes

MAX_THREADS = 512
MIN_VALUES_PER_THREAD = 16
MAX_VALUES_PER_THREAD = 256
HALF = ("float16", "bfloat16")


def last_power_of_2(number: int) -> int:
    return 1 << (number.bit_length() - 1) if number > 0 else 1


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def reduced_dims(dims, rank: int) -> frozenset[int]:
    """The dims to reduce as non-negative numbers; none given means all of them."""
    if dims is None or isinstance(dims, bool):  # in some overloads a flag comes second
        return frozenset(range(rank))
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return frozenset(dim % rank for dim in dims) if dims and rank else frozenset(range(rank))


def _iterate(shape, stride, reduced) -> tuple[list[int], list[int], list[int]]:
    """Lengths, input strides and output strides of the dims in the order of the iteration: innermost first, neighbours merged."""
    rank = len(shape)
    out_stride, step = [0] * rank, 1
    for dim in range(rank - 1, -1, -1):
        if dim not in reduced:
            out_stride[dim] = step
            step *= shape[dim]

    def compare(a: int, b: int) -> int:
        if (out_stride[a] == 0) != (out_stride[b] == 0):
            return 1 if out_stride[b] == 0 else -1  # reduced dims come first
        for strides in (out_stride, stride):
            if strides[a] == 0 or strides[b] == 0:
                continue
            if strides[a] != strides[b]:
                return -1 if strides[a] < strides[b] else 1
            if shape[a] > shape[b]:
                return 1
        return 0

    order = list(range(rank - 1, -1, -1))
    for i in range(1, rank):
        at = i
        for before in range(i - 1, -1, -1):
            comparison = compare(order[before], order[at])
            if comparison > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif comparison < 0:
                break
    lengths: list[int] = []
    inputs: list[int] = []
    outputs: list[int] = []
    for dim in order:
        length, step_in, step_out = shape[dim], stride[dim], out_stride[dim]
        if lengths:
            last = lengths[-1]
            if last == 1 or length == 1 or (last * inputs[-1] == step_in and last * outputs[-1] == step_out):
                if last == 1:
                    inputs[-1], outputs[-1] = step_in, step_out
                lengths[-1] = last * length
                continue
        lengths.append(length)
        inputs.append(step_in)
        outputs.append(step_out)
    return lengths, inputs, outputs


@lru_cache(maxsize=4096)
def staging_bytes(
    shape: tuple, stride: tuple, reduced: frozenset, accumulator_bytes: int, vector: int, multiprocessors: int, threads_per_sm: int
) -> tuple[int, int]:
    """Bytes of the staging buffer and of the semaphores of one reduction; (0, 0) where no output is shared by several blocks.

    `vector` is how many elements one thread loads at once along the reduced dim.
    """
    lengths, inputs, outputs = _iterate(shape, stride, reduced)
    elements = 1
    for length in lengths:
        elements *= length
    if elements == 0:
        return 0, 0
    num_reduce_dims = sum(1 for step in outputs if step == 0)
    num_outputs = 1
    for length, step in zip(lengths, outputs):
        if step != 0:
            num_outputs *= length
    num_inputs = elements // num_outputs
    rank = len(lengths)
    output_vector = 1
    if rank:
        on_fastest = num_reduce_dims == rank or inputs[0] < inputs[num_reduce_dims]
        dim0, dim1 = (num_inputs, num_outputs) if on_fastest else (num_outputs, num_inputs)
        if inputs[0 if on_fastest else num_reduce_dims] == 1:
            if on_fastest:
                if dim0 >= 128 and num_reduce_dims == 1:
                    dim0 //= vector
            else:
                output_vector = 4  # how many neighbouring outputs one thread loads at once
                for number in (lengths[num_reduce_dims], *(s for i, s in enumerate(inputs) if i != num_reduce_dims)):
                    while number % output_vector:
                        output_vector //= 2
                dim0 //= output_vector
    else:
        on_fastest, dim0, dim1 = True, 1, 1

    max_threads = MAX_THREADS // output_vector
    dim0 = last_power_of_2(dim0) if dim0 < max_threads else max_threads
    dim1 = last_power_of_2(dim1) if dim1 < max_threads else max_threads
    height = min(dim1, max_threads // min(dim0, 32))
    width = min(dim0, max_threads // height)
    step_input = width if on_fastest else 1
    step_output = 1 if on_fastest else width
    if _ceil_div(num_inputs, step_input) < min(height * 16, MAX_VALUES_PER_THREAD):
        return 0, 0  # each warp has an output of its own
    step_input *= height
    values = _ceil_div(num_inputs, step_input)
    target_grid = multiprocessors * (threads_per_sm // (width * height))
    grid = _ceil_div(num_outputs // output_vector, step_output)
    if values < MAX_VALUES_PER_THREAD or grid > target_grid:
        return 0, 0
    blocks = max(min(_ceil_div(target_grid, grid), _ceil_div(values, MIN_VALUES_PER_THREAD)), _ceil_div(values, MAX_VALUES_PER_THREAD))
    if blocks <= 1:
        return 0, 0
    buffer = accumulator_bytes * num_outputs * blocks
    if not on_fastest:
        buffer *= width * output_vector
    return buffer, 4 * grid


def reduce(program: Program, shape, stride, reduced, accumulator_bytes: int, gpu: Gpu, vector: int = 4) -> None:
    """The staging buffer and semaphores of one reduction, which live until the kernel is launched."""
    buffer, semaphores = staging_bytes(
        tuple(shape), tuple(stride), reduced, accumulator_bytes, vector, gpu.multiprocessors, gpu.max_threads_per_multiprocessor
    )
    if buffer:
        staging = program.take(buffer, "reduction staging")
        counters = program.take(semaphores, "reduction semaphores")
        program.free(counters)
        program.free(staging)


def contiguous_stride(shape) -> tuple[int, ...]:
    stride, step = [], 1
    for length in reversed(shape):
        stride.append(step)
        step *= max(length, 1)
    return tuple(reversed(stride))


def _accumulator(name: str) -> int:
    """Bytes of the accumulator for a sum of this dtype: halves are summed in float32."""
    return 4 if name in HALF else item_bytes(name)


def _reduce_call(call: Call, dims, accumulator_bytes=None, vector=None, dtype=None) -> Program:
    """A reduction of the first argument: results, the cast to the dtype that is reduced in, staging."""
    program = Program()
    program.outs(call)
    source = call.args[0] if call.args else None
    if not is_tensor(source) or source.numel() == 0:
        return program
    name = dtype_name(source.dtype)
    shape, stride = tuple(source.shape), tuple(source.stride())
    cast = None
    # halves are reduced to float32 without a cast; anything else is cast first
    if dtype is not None and dtype != name and not (name in HALF and dtype == "float32"):
        cast = program.take(source.numel() * item_bytes(dtype), "cast")
        name = dtype
        if not is_dense(shape, stride):
            stride = contiguous_stride(shape)
    if vector is None:  # no recorded call tells 8 from 4: the staging comes out the same for all of them
        vector = 8 if item_bytes(name) == 2 else 4
    if accumulator_bytes is None:
        accumulator_bytes = _accumulator(name)
    reduce(program, shape, stride, reduced_dims(dims, len(shape)), accumulator_bytes, call.gpu, vector)
    if cast is not None:
        program.free(cast)
    return program


def _result_dtype(call: Call) -> str | None:
    return dtype_name(call.outputs[0].dtype) if call.outputs else None


@rule("aten.sum", "aten.nansum", "aten.prod")
def sum_(call: Call) -> Program:
    dims = argument(call, 1, "dim")
    return _reduce_call(call, dims, vector=4 if call.op == "aten.prod" else None, dtype=_result_dtype(call))


@rule("aten.mean", "aten.linalg_vector_norm")
def mean_or_norm(call: Call) -> Program:
    dims = argument(call, 1, "dim") if call.op == "aten.mean" else argument(call, 2, "dim")
    return _reduce_call(call, dims, vector=4, dtype=_result_dtype(call))


@rule("aten.amax", "aten.amin")
def extreme_values(call: Call) -> Program:
    source = call.args[0] if call.args else None
    return _reduce_call(call, argument(call, 1, "dim"), source.element_size() if is_tensor(source) else 4, 4)


@rule("aten.max", "aten.min", "aten.argmax", "aten.argmin", "aten.aminmax")
def extremes(call: Call) -> Program:
    """Positions are found along with values, as pairs of 16 bytes; of two tensors, `max` is elementwise."""
    dims = argument(call, 1, "dim")
    source = call.args[0] if call.args else None
    if is_tensor(dims) or not is_tensor(source):
        program = Program()
        program.outs(call)
        return program
    values_only = dims is None and call.op in ("aten.max", "aten.min")
    return _reduce_call(call, dims, source.element_size() if values_only else 16, 4)


@rule("aten.all", "aten.any")
def logical(call: Call) -> Program:
    return _reduce_call(call, argument(call, 1, "dim"), 1, 4)


@rule("aten.var", "aten.std", "aten.var_mean", "aten.std_mean")
def moments(call: Call) -> Program:
    """Mean, sum of squares and two counts for each partial result; two loads at once, not four, to spare registers."""
    source = call.args[0] if call.args else None
    double = is_tensor(source) and dtype_name(source.dtype) == "float64"
    return _reduce_call(call, argument(call, 1, "dim"), 32 if double else 16, 2)


@rule("aten.mse_loss", "aten.smooth_l1_loss")
def loss(call: Call) -> Program:
    """The losses of all elements are a tensor of their own, which is then reduced. From the source, not measured."""
    program = Program()
    program.outs(call)
    source = call.args[0] if call.args else None
    if is_tensor(source) and source.numel() and argument(call, 2, "reduction", 1):
        name = dtype_name(source.dtype)
        losses = program.take(source.numel() * source.element_size(), "losses")
        shape = (source.numel(),)
        reduce(program, shape, (1,), frozenset((0,)), _accumulator(name), call.gpu, 8 if item_bytes(name) == 2 else 4)
        program.free(losses)
    return program


@rule("aten._foreach_norm")
def norms(call: Call) -> Program:
    """Partial norms of 65,536 elements each, as many for every tensor as for the largest. From the source, not measured."""
    program = Program()
    given = argument(call, 0, "self", ())
    tensors = [t for t in given if is_tensor(t)] if isinstance(given, (list, tuple)) else []
    partial = None
    if tensors:
        chunks = max(-(-t.numel() // 65536) for t in tensors)
        if chunks:
            partial = program.take(len(tensors) * chunks * max(4, tensors[0].element_size()), "partial norms")
    program.outs(call)
    if partial is not None:
        program.free(partial)
    return program
