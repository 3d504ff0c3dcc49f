"""Batches as Keras passes them: nested structures of tensors with a shared first dimension.

In: a batch. Out: its rows, and parts of it. Nothing is copied that the framework does not copy by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops, tree
from keras.src.trainers.data_adapters import data_adapter_utils

from brimful.fitting import CannotSplit


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
    """Some samples from all over a batch: neighbours may be alike, where it is sorted."""
    total = rows(batch)
    chosen = [total * index // count for index in range(count)]
    if any(hasattr(leaf, "dense_shape") or hasattr(leaf, "row_splits") for leaf in tree.flatten(batch)):
        return part(batch, 0, count)
    return tree.map_structure(lambda leaf: _chosen(leaf, chosen), batch)


def _chosen(leaf: Any, indices: list[int]) -> Any:
    if leaf is None:
        return None
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
