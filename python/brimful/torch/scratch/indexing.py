"""Reading and writing through indices: embeddings, indexing, sorting.

In: one call. Out: its results, copies of indices that are not contiguous, and the buffers of CUB's sorts, scans and reductions. The
temporary of CUB's radix sort follows how it works; those of its scans were measured. Not counted: masks as indices, whose count of
elements only the data knows.
"""

from __future__ import annotations

from . import Call, Program, rule
from .pointwise import argument, contiguous_copy, is_tensor, release, scan_temporary_bytes, size_bytes

SORT_TILE = 4608  # keys of one block of CUB's radix sort, for keys and values of 8 bytes
DIRECT_INDICES = 3072  # fewer than this are added without a sort
ROWS_PER_SEGMENT = 10
MAX_BLOCK_THREADS = 1024
ATOMIC_BLOCKS_PER_MULTIPROCESSOR = 4
UNIQUE_TILE, SCAN_TILE = 4608, 1024  # fitted to the recorded temporaries


def sort_temporary_bytes(elements: int, key_bytes: int = 8, value_bytes: int = 8, bits: int = 64) -> int:
    """The temporary of CUB's radix sort of pairs: counts of digits, the blocks' look-back, second buffers for several passes."""
    passes = -(-max(bits, 1) // 8)
    size = passes * 256 * 8 + -(-elements // SORT_TILE) * 1024 + 256 + 255
    if passes > 1:
        size += -(-elements * key_bytes // 256) * 256 + -(-elements * value_bytes // 256) * 256
    return size


@rule("aten.embedding")
def embedding(call: Call) -> Program:
    program = Program()
    copy = contiguous_copy(program, argument(call, 1, "indices"))
    program.outs(call)
    release(program, copy)
    return program


@rule("aten.embedding_dense_backward")
def embedding_backward(call: Call) -> Program:
    """Many indices are sorted, and rows with the same index are summed in segments of bounded length."""
    program = Program()
    grad, indices = argument(call, 0, "grad_output"), argument(call, 1, "indices")
    num_weights, by_frequency = argument(call, 2, "num_weights", 0), argument(call, 4, "scale_grad_by_freq", False)
    if not (is_tensor(grad) and is_tensor(indices)) or indices.numel() == 0 or grad.numel() == 0:
        program.outs(call)
        return program
    count, item = indices.numel(), indices.element_size()
    index_bytes = count * item
    copies = [contiguous_copy(program, indices), contiguous_copy(program, grad)]
    if count <= DIRECT_INDICES and not by_frequency:
        program.outs(call)
        release(program, *reversed(copies))
        return program
    ordered = [program.take(index_bytes, "sorted indices"), program.take(index_bytes, "original indices")]
    numbers = program.take(index_bytes, "numbers")
    program.scratch(sort_temporary_bytes(count, item, item), "sort temporary")
    program.free(numbers)
    counts = program.take(index_bytes, "counts") if by_frequency else None
    program.outs(call)
    segments = min(count, num_weights)
    partial = count // ROWS_PER_SEGMENT + segments
    offsets = program.take(index_bytes, "segments")
    number = program.take(8, "number of segments")
    unused = program.take(index_bytes, "unique indices")
    program.scratch(scan_temporary_bytes(count, UNIQUE_TILE), "unique temporary")
    program.free(unused)
    parts = program.take(segments * item, "parts of segments")
    part_offsets = program.take(segments * item, "parts of segments")
    program.scratch(scan_temporary_bytes(segments, SCAN_TILE), "scan temporary")
    part_number = program.take(8, "number of parts")
    starts = program.take(partial * item, "parts of segments")
    width = grad.shape[-1] if grad.shape else 1
    accumulators = width * max(4, grad.element_size())
    threads = -(-width // 32) * 32
    blocks = -(-segments * threads // min(threads, MAX_BLOCK_THREADS))
    sums = []
    if blocks < call.gpu.multiprocessors * ATOMIC_BLOCKS_PER_MULTIPROCESSOR and partial > 4 * blocks:
        # few rows with many indices each: added up atomically, in float32
        sums.append(program.take(partial * item, "parts of segments"))
        if grad.element_size() == 2:
            sums.append(program.take(num_weights * accumulators, "sums"))
    else:
        sums.append(program.take(partial * accumulators, "sums of parts"))
    release(program, *reversed(sums), starts, part_number, part_offsets, parts, number, offsets, counts)
    release(program, *reversed(ordered), *reversed(copies))
    return program


def _broadcast(shapes) -> tuple[int, ...]:
    rank = max(len(shape) for shape in shapes)
    result = [1] * rank
    for shape in shapes:
        for back, length in enumerate(reversed(shape), 1):
            if length != 1:
                result[rank - back] = length
    return tuple(result)


def _index_copies(program: Program, indices) -> list[int]:
    """Several indices are broadcast, and copied unless all of them have the same strides."""
    given = [index for index in indices or () if is_tensor(index)]
    if len(given) < 2:
        return []
    shape = _broadcast([index.shape for index in given])
    elements = 1
    for length in shape:
        elements *= length
    strides = set()
    for index in given:
        pad = len(shape) - len(index.shape)
        dims = zip(index.shape, index.stride(), shape[pad:])
        strides.add((0,) * pad + tuple(0 if n == 1 and length != 1 else step for n, step, length in dims))
    if elements == 0 or len(strides) == 1:
        return []
    return [
        program.take(elements * index.element_size(), "contiguous copy")
        for index in given
        if tuple(index.shape) != shape or not index.is_contiguous()
    ]


@rule("aten.index", "aten._unsafe_index")
def index(call: Call) -> Program:
    program = Program()
    copies = _index_copies(program, argument(call, 1, "indices"))
    program.outs(call)
    release(program, *reversed(copies))
    return program


@rule("aten.index_put", "aten.index_put_", "aten._index_put_impl_", "aten._unsafe_index_put")
def index_put(call: Call) -> Program:
    """Adding through indices sorts them; overwriting does not."""
    program = Program()
    program.outs(call)
    target, indices, values = argument(call, 0, "self"), argument(call, 1, "indices", ()), argument(call, 2, "values")
    given = [i for i in indices or () if is_tensor(i)]
    if not is_tensor(target) or not given or any(i.element_size() == 1 for i in given) or target.numel() == 0:
        return program
    if not argument(call, 3, "accumulate", False):
        release(program, *reversed(_index_copies(program, indices)))
        return program
    shape = _broadcast([i.shape for i in given])
    count = 1
    for length in shape:
        count *= length
    if count == 0:
        return program
    linear = None
    for _ in given:  # bounds of each index, then its share of the linear index
        for _ in range(2):
            bound = program.take(8, "bound")
            program.scratch(1, "reduction temporary")
            program.free(bound)
        wrapped = program.take(count * 8, "wrapped indices")
        share = program.take(count * 8, "linear indices")
        program.free(wrapped)
        if linear is not None:
            total = program.take(count * 8, "linear indices")
            release(program, share, linear)
            share = total
        linear = share
    indexed = 1
    for dim, i in enumerate(indices):
        if is_tensor(i) and dim < len(target.shape):
            indexed *= target.shape[dim]
    slices = target.numel() // max(indexed, 1)
    copy = None
    if is_tensor(values) and (values.numel() != count * slices or not values.is_contiguous()):
        copy = program.take(count * slices * target.element_size(), "contiguous copy")
    taken = [program.take(count * 8, label) for label in ("sorted indices", "original indices", "numbers")]
    program.scratch(sort_temporary_bytes(count, bits=max(indexed - 1, 1).bit_length()), "sort temporary")
    release(program, *reversed(taken), copy, linear)
    return program


@rule("aten.sort", "aten.argsort")
def sort(call: Call) -> Program:
    """From the source, not measured: long rows are sorted as pairs, with the numbers of the elements as values."""
    program = Program()
    program.outs(call)
    source = argument(call, 0, "self")
    if not is_tensor(source) or source.numel() == 0 or not source.shape or max(source.shape) <= 4096:
        return program  # short rows are sorted in shared memory
    copy = program.take(size_bytes(source), "contiguous copy")
    numbers = program.take(source.numel() * 8, "numbers")
    item = source.element_size()
    program.scratch(sort_temporary_bytes(source.numel(), item, 8, 8 * item), "sort temporary")
    release(program, numbers, copy)
    return program
