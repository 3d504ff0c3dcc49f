"""Elementwise kernels, copies, softmax, scans and pooling; and the small helpers that all rules share.

In: one call. Out: its program. Elementwise ops without a rule allocate their results and nothing else. Not counted: copies that a
kernel makes when its tensors need more than 32 bits of index (they are views).
"""

from __future__ import annotations

from . import Call, Program, rule

_ITEM_BYTES = {
    "float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4, "uint32": 4, "complex32": 4,
    "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip


def dtype_name(dtype) -> str:
    """The name of a dtype without the module it is from, such as `float32`."""
    text = str(dtype)
    return text[6:] if text.startswith("torch.") else text


def item_bytes(name: str) -> int:
    """Bytes of one element of a dtype, by its name."""
    return _ITEM_BYTES.get(name, 1)


def size_bytes(tensor) -> int:
    """Bytes of a dense copy of a tensor."""
    return tensor.numel() * tensor.element_size()


def is_tensor(value) -> bool:
    return hasattr(value, "element_size")


def argument(call: Call, position: int, name: str, default=None):
    """An argument given by position or by name."""
    if position < len(call.args):
        return call.args[position]
    return call.kwargs.get(name, default)


def is_channels_last(tensor) -> bool:
    """Whether a 4-d or 5-d tensor lies dense with its channels innermost."""
    shape, stride = tensor.shape, tensor.stride()
    if len(shape) not in (4, 5):
        return False
    expected = 1
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[dim] != 1 and stride[dim] != expected:
            return False
        expected *= shape[dim]
    return True


def is_dense(shape, stride) -> bool:
    """Whether the elements fill their memory without gaps or overlaps, in any order of dims."""
    expected = 1
    for step, length in sorted((step, length) for step, length in zip(stride, shape) if length != 1):
        if step != expected:
            return False
        expected *= length
    return True


def contiguous_copy(program: Program, tensor) -> int | None:
    """The copy that `tensor.contiguous()` makes, if it makes one; the result is its name for `free`."""
    if not is_tensor(tensor) or tensor.is_contiguous() or tensor.numel() == 0:
        return None
    return program.take(size_bytes(tensor), "contiguous copy")


def release(program: Program, *names: int | None) -> None:
    """Frees those that were taken."""
    for name in names:
        if name is not None:
            program.free(name)


@rule("aten._softmax", "aten._log_softmax", "aten._log_softmax_backward_data", "aten.max_pool2d_with_indices")
def contiguous_inputs(call: Call) -> Program:
    """Kernels that copy inputs that are not dense once their results are made."""
    program = Program()
    program.outs(call)
    count = 2 if call.op.endswith("backward_data") else 1
    pool = call.op == "aten.max_pool2d_with_indices"
    copies = [contiguous_copy(program, t) for t in call.args[:count] if is_tensor(t) and not (pool and is_channels_last(t))]
    release(program, *reversed(copies))
    return program


@rule("aten._softmax_backward_data")
def softmax_backward(call: Call) -> Program:
    """The gradient times the output is a tensor of its own."""
    program = Program()
    program.outs(call)
    grad, output = argument(call, 0, "grad_output"), argument(call, 1, "output")
    if is_tensor(grad) and is_tensor(output):
        copies = [contiguous_copy(program, grad), contiguous_copy(program, output)]
        program.scratch(grad.numel() * max(grad.element_size(), output.element_size()), "gradient times output")
        release(program, *reversed(copies))
    return program


@rule("aten._safe_softmax")
def safe_softmax(call: Call) -> Program:
    """The softmax, where the input is minus infinity, which rows are so throughout, and the zero that those rows get."""
    from .reduction import reduce, reduced_dims  # at call time: it needs this module

    program = Program()
    program.outs(call)
    source, dim = argument(call, 0, "self"), argument(call, 1, "dim", -1)
    if not is_tensor(source) or source.numel() == 0:
        return program
    shape = tuple(source.shape)
    masked = program.take(source.numel(), "mask")
    reduced = reduced_dims(dim, len(shape))
    rows = 1
    for index, length in enumerate(shape):
        rows *= 1 if index in reduced else length
    masked_rows = program.take(rows, "mask")
    reduce(program, shape, tuple(source.stride()), reduced, 1, call.gpu)
    zero = program.take(call.outputs[0].element_size() if call.outputs else 4, "zero")
    release(program, zero, masked_rows, masked)
    return program


@rule("aten.native_dropout")
def dropout(call: Call) -> Program:
    """The mask comes before the result."""
    program = Program()
    for index in reversed(range(len(call.outputs))):
        program.out(index)
    return program


@rule("aten.roll")
def roll(call: Call) -> Program:
    """One dim after the other, each into a tensor of its own, all of which live until the last is done."""
    program = Program()
    source = argument(call, 0, "self")
    shifts = argument(call, 1, "shifts", ())
    count = 1 if isinstance(shifts, int) else len(shifts)
    taken = [contiguous_copy(program, source)]
    if is_tensor(source) and source.numel():
        taken += [program.take(size_bytes(source), "rolled") for _ in range(count - 1)]
    program.outs(call)
    release(program, *reversed(taken))
    return program


@rule("aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward")
def max_pool_backward(call: Call) -> Program:
    """The gradient and the indices are copied where they do not lie as the input does."""
    program = Program()
    program.outs(call)
    grad, source = argument(call, 0, "grad_output"), argument(call, 1, "self")
    indices = call.args[-1] if call.args else None
    channels_last = is_tensor(source) and is_channels_last(source) and not source.is_contiguous()
    copies = []
    for tensor in (grad, indices):
        if is_tensor(tensor) and tensor.numel() and not (is_channels_last(tensor) if channels_last else tensor.is_contiguous()):
            copies.append(program.take(size_bytes(tensor), "contiguous copy"))
    release(program, *reversed(copies))
    return program


@rule("aten.cumsum", "aten.cumprod")
def scan(call: Call) -> Program:
    """The input is cast to the result's dtype first; one long row is scanned by CUB."""
    program = Program()
    program.outs(call)
    source = argument(call, 0, "self")
    if not is_tensor(source) or source.numel() == 0 or not call.outputs:
        return program
    result = call.outputs[0]
    cast = None
    if dtype_name(result.dtype) != dtype_name(source.dtype):
        cast = program.take(source.numel() * result.element_size(), "cast")
    if len(source.shape) and max(source.shape) == source.numel() and source.is_contiguous():
        program.scratch(scan_temporary_bytes(source.numel(), 1024), "scan temporary")
    release(program, cast)
    return program


def scan_temporary_bytes(elements: int, tile: int) -> int:
    """What CUB's scan over tiles asks for: 16 bytes for each tile and for a warp more, aligned. The tile is a guess that fits."""
    return -(-(-(-elements // tile) + 32) * 16 // 256) * 256 + 256 + 255
