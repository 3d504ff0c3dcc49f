"""Scaled dot product attention: FlashAttention, the memory-efficient kernels of CUTLASS, cuDNN's, and the fused module.

In: one call. Out: its results in the order in which the kernel's host code makes them, with copies, accumulators and workspaces.
The seed and offset of dropout are tensors on the CPU for FlashAttention's and CUTLASS's kernels outside of CUDA graphs and take no
memory of the GPU, although they are results. Not counted: nested tensors, and gradients of a bias (an unpadded result is taken).
"""

from __future__ import annotations

from . import Call, Program, rule
from .blas import keep_cublas
from .pointwise import argument, dtype_name, is_tensor, release, size_bytes
from .reduction import contiguous_stride, reduce

CUDNN_WORKSPACE_BYTES = 256  # measured with cuDNN 9.19: what it asks for beyond the buffers below


def _ceil_to(number: int, step: int) -> int:
    return -(-number // step) * step


def _four(tensor) -> bool:
    return is_tensor(tensor) and len(tensor.shape) == 4


def _transposed_copy(program: Program, tensor) -> int | None:
    """The copy that makes (batch, heads, rows, width) contiguous as (batch, rows, heads, width)."""
    batch, heads, rows, width = tensor.shape
    expected = (rows * heads * width, width, heads * width, 1)
    if tensor.numel() == 0 or all(n == 1 or a == b for n, a, b in zip(tensor.shape, tensor.stride(), expected)):
        return None
    return program.take(size_bytes(tensor), "contiguous copy")


@rule("aten._scaled_dot_product_efficient_attention")
def efficient(call: Call) -> Program:
    program = Program()
    for index in range(min(2, len(call.outputs))):  # the seed and offset that follow are on the CPU
        program.out(index)
    return program


def _efficient_block(width: int, half: bool, call: Call) -> tuple[int, int, int]:
    """Queries and keys of one block of the backward kernel, and the widest head it takes, as PyTorch's list of kernels has them."""
    capability = call.gpu.capability
    roomy = capability in ((8, 0), (9, 0)) or capability[0] == 10  # shared memory for the larger blocks
    if width <= 64:
        return 64, 64, 32 if width <= 32 else 64
    if half and width <= 96 and capability in ((8, 6), (8, 9)):
        return 128, 64, 96
    if width <= 128:
        if not roomy:
            return 64, 64, 128
        return (128, 128, 128) if half else (128, 64, 128)
    return (128 if roomy else 64), 64, 65536


@rule("aten._scaled_dot_product_efficient_attention_backward")
def efficient_backward(call: Call) -> Program:
    program = Program()
    grad, query, key, value = (argument(call, i, name) for i, name in enumerate(("grad_out_", "query", "key", "value")))
    out = argument(call, 5, "out")
    if not (_four(grad) and _four(query) and _four(key) and _four(value)) or query.numel() == 0:
        program.outs(call)
        return program
    grad_copy = _transposed_copy(program, grad)
    program.outs(call)
    batch, heads, queries, width = query.shape
    keys = key.shape[2]
    half = query.element_size() == 2
    block_queries, block_keys, widest = _efficient_block(max(width, value.shape[3]), half, call)
    rows_bytes = batch * heads * queries * 4
    if half:  # the kernel sums the products of gradient and output itself
        delta = program.take(rows_bytes, "delta")
    else:
        casts = [program.take(grad.numel() * 4, "cast") for t in (grad, out) if is_tensor(t) and dtype_name(t.dtype) != "float32"]
        products = program.take(grad.numel() * 4, "gradient times output")
        sums = program.take(rows_bytes, "delta")
        shape = (batch, queries, heads, value.shape[3])
        reduce(program, shape, contiguous_stride(shape), frozenset((3,)), 4, call.gpu)
        if heads == 1 or queries == 1:  # the sums lie with the heads first already
            delta = sums
            release(program, products, *reversed(casts))
        else:
            delta = program.take(rows_bytes, "delta")
            release(program, sums, products, *reversed(casts))
    in_registers = half and widest <= block_queries
    accumulates = half and not in_registers
    splits = -(-keys // block_keys)
    if batch * heads >= 256 and keys <= 2 * block_keys:
        splits = 1
    if accumulates:
        splits = min(splits, 200 // (batch * heads))
    splits = max(1, splits)
    blocks = -(-queries // block_queries) * -(-width // block_keys)
    elements = blocks * (4 + block_queries * block_keys)  # a lock, a counter and padding precede each block
    if accumulates:
        elements += splits * block_keys * (_ceil_to(width, block_queries) + _ceil_to(value.shape[3], block_queries))
    workspace = program.take(batch * heads * _ceil_to(elements, 4) * 4, "attention workspace")
    release(program, delta, workspace, grad_copy)
    return program


@rule("aten._scaled_dot_product_cudnn_attention")
def cudnn(call: Call) -> Program:
    """Here the seed and the offset are on the GPU, and come first."""
    program = Program()
    scalars = [index for index, output in enumerate(call.outputs) if index >= 2 and len(output.shape) == 0]
    for index in scalars[:2]:
        program.out(index)
    for _ in range(2 - len(scalars[:2])):
        program.take(8, "dropout seed")
    for index in range(min(2, len(call.outputs))):
        program.out(index)
    program.scratch(CUDNN_WORKSPACE_BYTES, "attention workspace")
    return program


@rule("aten._scaled_dot_product_cudnn_attention_backward")
def cudnn_backward(call: Call) -> Program:
    """The workspace is measured (cuDNN 9.19): a float32 gradient of the queries, a sum for each query, and with fewer heads of keys
    than of queries the gradients of keys and values for every head of queries."""
    program = Program()
    program.outs(call)
    if len(call.outputs) < 3 or not all(_four(output) for output in call.outputs[:3]):
        return program
    query, key, value = call.outputs[:3]  # the gradients have their shapes
    batch, heads, queries, width = query.shape
    if query.numel() == 0:
        return program
    workspace = batch * heads * queries * (width + 1) * 4
    if key.shape[1] != heads:
        workspace += batch * heads * key.shape[2] * (width + value.shape[3]) * key.element_size()
    program.scratch(workspace + CUDNN_WORKSPACE_BYTES, "attention workspace")
    return program


def _flash_splits(batch_heads_blocks: int, multiprocessors: int, key_blocks: int) -> int:
    """How many blocks share one tile of queries: the fewest that fill the GPU to 85 % of the best filling."""
    if batch_heads_blocks >= 0.8 * multiprocessors:
        return 1
    best, efficiencies = 0.0, []
    for splits in range(1, min(128, multiprocessors, key_blocks) + 1):
        if splits > 1 and -(-key_blocks // splits) == -(-key_blocks // (splits - 1)):
            efficiencies.append(0.0)
            continue
        waves = batch_heads_blocks * splits / multiprocessors
        efficiency = waves / -(-batch_heads_blocks * splits // multiprocessors)
        best = max(best, efficiency)
        efficiencies.append(efficiency)
    for splits, efficiency in enumerate(efficiencies, 1):
        if efficiency >= 0.85 * best and efficiency > 0:
            return splits
    return 1


@rule("aten._scaled_dot_product_flash_attention")
def flash(call: Call) -> Program:
    """Results, accumulators where keys are split over blocks (from the source, not measured), and the state of dropout, which is
    made anew where there is dropout."""
    program = Program()
    for index in range(min(2, len(call.outputs))):
        program.out(index)
    query, key = argument(call, 0, "query"), argument(call, 1, "key")
    dropout = argument(call, 3, "dropout_p", 0.0)
    accumulators = []
    if _four(query) and _four(key) and query.numel() > 0 and not dropout:
        batch, heads, queries, width = query.shape
        block_keys = 256 if width <= 64 else 128 if width <= 128 else 64
        tiles = batch * heads * -(-queries // 64)
        splits = _flash_splits(tiles, 2 * call.gpu.multiprocessors, -(-key.shape[2] // block_keys))
        if splits > 1:
            rows_bytes = splits * batch * heads * queries * 4
            accumulators = [program.take(rows_bytes * size, "attention accumulator") for size in (1, _ceil_to(width, 32))]
    state = [index for index, output in enumerate(call.outputs) if index >= 2 and dtype_name(output.dtype) == "uint64"]
    first = program.take(size_bytes(call.outputs[state[0]]), "dropout state") if dropout and state else None
    for index in reversed(state) if dropout else state:
        program.out(index)
    release(program, first, *reversed(accumulators))
    return program


@rule("aten._scaled_dot_product_flash_attention_backward")
def flash_backward(call: Call) -> Program:
    """Copies of gradient and output (from the source, not measured), results, sums, a float32 gradient of the queries, and with
    fewer heads of keys than of queries the gradients of keys and values for every head of queries."""
    program = Program()
    grad, query, key, value, out = (argument(call, i, n) for i, n in enumerate(("grad_out", "query", "key", "value", "out")))
    if not (_four(grad) and _four(query) and _four(key) and _four(value) and _four(out)) or query.numel() == 0:
        program.outs(call)
        return program
    copies = [_transposed_copy(program, grad), _transposed_copy(program, out)]
    program.outs(call)
    batch, heads, queries, width = query.shape
    rows = _ceil_to(queries, 128)
    sums = program.take(batch * heads * rows * 4, "delta")
    gradient = program.take(batch * heads * rows * _ceil_to(width, 32 if width <= 128 else 64) * 4, "attention accumulator")
    expanded = []
    if key.shape[1] != heads:
        size = batch * heads * key.shape[2] * width * key.element_size()
        expanded = [program.take(size, "expanded gradient"), program.take(size, "expanded gradient")]
    release(program, *reversed(expanded), gradient, sums, *reversed(copies))
    return program


@rule("aten._native_multi_head_attention")
def multi_head(call: Call) -> Program:
    """The fused inference path: one product for queries, keys and values, attention, and the output's product."""
    program = Program()
    query = argument(call, 0, "query")
    if not is_tensor(query) or query.numel() == 0 or not call.outputs:
        program.outs(call)
        return program
    joined = program.take(3 * size_bytes(query), "queries, keys and values")
    keep_cublas(program, call, lt=True)
    attended = program.take(size_bytes(query), "attention output")
    program.outs(call)
    release(program, attended, joined)
    return program
