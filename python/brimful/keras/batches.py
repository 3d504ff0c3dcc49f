"""Batches as Keras passes them: nested structures of tensors with a shared first dimension.

In: a batch. Out: its rows, and parts of it. Nothing is copied that the framework does not copy by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops, tree
from keras.src.trainers.data_adapters import data_adapter_utils

from brimful.fitting import CannotSplit

#: Larger arrays are not brought to the host to find samples that differ.
LOOKED_AT_BYTES = 64 << 20


def rows(batch: Any) -> int:
    """How many samples a batch has."""
    sizes = [int(leaf.shape[0]) for leaf in tree.flatten(batch) if leaf is not None and len(getattr(leaf, "shape", ())) > 0]
    if not sizes:
        return 0
    return sizes[0]


def part(batch: Any, begin: int, end: int) -> Any:
    """Some of the samples of a batch, in order."""
    total = rows(batch)
    return batch if (begin, end) == (0, total) else tree.map_structure(lambda leaf: _rows(leaf, begin, end, total), batch)


def _rows(leaf: Any, begin: int, end: int, total: int) -> Any:
    if leaf is None:
        return None
    shape = getattr(leaf, "shape", ())
    if len(shape) == 0 or int(shape[0]) != total:
        raise CannotSplit(
            f"a part of the batch has the shape {tuple(shape)} where {total} samples were expected: it cannot be taken in parts"
        )
    if hasattr(leaf, "dense_shape"):
        import tensorflow as tf

        start = [begin] + [0] * (len(shape) - 1)
        return tf.sparse.slice(leaf, start, [end - begin, *leaf.dense_shape[1:].numpy()])
    return leaf[begin:end]


def spread(batch: Any, count: int) -> Any:
    """Some samples from all over a batch: neighbours may be alike, where it is sorted. First those with the least in an array, last those
    with the most: what a mask or a label of its own leaves out is mostly there."""
    total = rows(batch)
    if not can_choose(batch):
        return part(batch, 0, count)
    least, most = _extremes(batch, total)
    last = most[: count // 2]
    first = [row for row in least if row not in last][: count // 2]
    between = [total * index // count for index in range(count)]
    between = [row for row in dict.fromkeys([*between, *range(total)]) if row not in first and row not in last]
    return chosen(batch, [*first, *sorted(between[: count - len(first) - len(last)]), *last])


def chosen(batch: Any, indices: list[int], total: int | None = None) -> Any:
    """These samples of a batch, as copies. total: how many it has, where each may have several rows, as words have that are folded into the batch."""
    return tree.map_structure(lambda leaf: _chosen(leaf, indices, total), batch)


def can_choose(batch: Any) -> bool:
    """Whether samples can be had by their numbers: tensors that are sparse or ragged give neighbours only."""
    return not any(_has_no_rows(leaf) for leaf in tree.flatten(batch))


def _has_no_rows(leaf: Any) -> bool:
    return hasattr(leaf, "dense_shape") or hasattr(leaf, "row_splits")


def _extremes(batch: Any, total: int) -> tuple[list[int], list[int]]:
    """The samples with the least and with the most in each array, targets and weights before inputs; what is no number is the most."""
    least, most = [], []
    for leaf in reversed([leaf for leaf in tree.flatten(batch) if leaf is not None]):
        if len(leaf.shape) == 0 or int(leaf.shape[0]) != total or "str" in str(leaf.dtype) or bytes_of(leaf) > LOOKED_AT_BYTES:
            continue
        sums = np.nan_to_num(ops.convert_to_numpy(leaf).reshape(total, -1).astype("float64").sum(1), nan=np.inf)
        least.append(int(sums.argmin()))
        most.append(int(sums.argmax()))
    return list(dict.fromkeys(least)), list(dict.fromkeys(most))


def _chosen(leaf: Any, indices: list[int], total: int | None) -> Any:
    if leaf is None:
        return None
    each = int(leaf.shape[0]) // total if total else 1
    if each > 1:
        indices = [row * each + inside for row in indices for inside in range(each)]
    return leaf[indices] if isinstance(leaf, np.ndarray) else ops.take(leaf, indices, axis=0)


def bytes_of(batch: Any, arrays: bool = True) -> int:
    """What a batch holds; NumPy's arrays are outside a framework's memory."""
    total = 0
    for leaf in tree.flatten(batch):
        if leaf is None or not hasattr(leaf, "dtype") or (not arrays and isinstance(leaf, np.ndarray)):
            continue
        count = 1
        for size in getattr(leaf, "shape", ()):
            count *= int(size or 1)
        total += count * item_bytes(leaf.dtype)
    return total


def item_bytes(dtype: Any) -> int:
    """What one number of a type holds."""
    import keras

    name = keras.backend.standardize_dtype(dtype) if not isinstance(dtype, str) else dtype
    return {"bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "bfloat16": 2, "string": 16}.get(name) or int(
        "".join(filter(str.isdigit, name))
    ) // 8


def unpacked(data: Any) -> tuple:
    """A batch as Keras passes it, as inputs, targets and sample weights."""
    x, y, weights = data_adapter_utils.unpack_x_y_sample_weight(data)
    return x, y, weights
