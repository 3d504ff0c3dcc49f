"""Arrays that do not fit into the budget as a whole, given to Keras batch by batch.

In: the arguments of `fit`, `evaluate` or `predict`. Out: the same, with arrays that are too large behind a `PyDataset`. On TensorFlow
Keras makes one tensor of each array; the other backends take batches from the arrays as they are. Smaller arrays are left to Keras:
it shuffles them in its own order.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import keras
import numpy as np
from keras import tree
from keras.src.trainers.data_adapters import array_slicing

from brimful.fitting import lines, memory

#: Keras's own.
BATCH = 32
#: A share of the room that arrays may take as tensors; the step needs the rest.
SHARE = 0.25


class Batches(keras.utils.PyDataset):
    """Batches of arrays that stay where they are."""

    def __init__(self, arrays: tuple, batch: int, shuffle: bool) -> None:
        super().__init__()
        self.arrays, self.batch, self.shuffle = arrays, batch, shuffle
        self.rows = len(tree.flatten(arrays)[0])
        self.random = np.random.default_rng(int(np.random.randint(1 << 31))) if shuffle else None
        self.order = self._shuffled()

    def _shuffled(self) -> Any:
        return self.random.permutation(self.rows) if self.shuffle else None

    def __len__(self) -> int:
        return math.ceil(self.rows / self.batch)

    def __getitem__(self, index: int) -> tuple:
        begin, end = index * self.batch, min((index + 1) * self.batch, self.rows)
        chosen = slice(begin, end) if self.order is None else np.sort(self.order[begin:end])
        return tree.map_structure(lambda array: None if array is None else _as_keras(array[chosen]), self.arrays)

    def on_epoch_end(self) -> None:
        self.order = self._shuffled()


def _as_keras(rows: Any) -> Any:
    """Keras takes arrays of any float as its own float."""
    return rows.astype(keras.backend.floatx()) if np.issubdtype(rows.dtype, np.floating) else rows


def _large(value: Any, room_bytes: int) -> bool:
    leaves = [leaf for leaf in tree.flatten(value) if leaf is not None]
    if not leaves or not all(isinstance(leaf, np.ndarray) and leaf.ndim for leaf in leaves):
        return False
    return sum(leaf.nbytes for leaf in leaves) > SHARE * room_bytes


def streamed(name: str, job: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments, with what is too large as batches."""
    if keras.backend.backend() != "tensorflow" or not job.backend.device.startswith("CPU"):
        return args, kwargs
    room = (job.wanted_bytes or job.backend.limit_bytes() or 0) - (job.backend.used_bytes() or 0)
    try:
        given = inspect.signature(getattr(keras.Model, name)).bind(job.model, *args, **kwargs).arguments
    except TypeError:
        # Keras says better what is wrong with them.
        return args, kwargs
    given = {key: value for key, value in given.items() if key not in ("self", "kwargs")}
    changed = _changed(name, given, room)
    return ((), changed) if changed is not None else (args, kwargs)


def _changed(name: str, given: dict, room_bytes: int) -> dict | None:
    arrays = (given.get("x"), given.get("y"), given.get("sample_weight"))
    validation = given.get("validation_data")
    train_large, test_large = _large(arrays, room_bytes), validation is not None and _large(validation, room_bytes)
    if not train_large and not test_large:
        return None
    changed = dict(given)
    batch = given.get("batch_size") or BATCH
    if train_large:
        if given.get("validation_split") and validation is None:
            arrays, validation = array_slicing.train_validation_split(arrays, validation_split=given["validation_split"])
            changed.pop("validation_split")
            test_large = True
        for key in ("x", "y", "sample_weight", "batch_size"):
            changed.pop(key, None)
        shuffle = name == "fit" and bool(given.get("shuffle", True))
        changed["x"] = Batches(_packed(arrays), batch, shuffle)
        if name == "fit":
            changed["shuffle"] = False
        size = sum(leaf.nbytes for leaf in tree.flatten(arrays) if leaf is not None)
        order = ", shuffled in an order of its own" if shuffle else ""
        lines.say(f"the arrays ({memory.human(size)}) are taken batch by batch{order}: as one tensor they would not fit")
    if test_large:
        changed["validation_data"] = Batches(_packed(tuple(validation)), given.get("validation_batch_size") or batch, False)
        changed.pop("validation_batch_size", None)
    return changed


def _packed(arrays: tuple) -> tuple:
    """Without the weights, or the targets, that are not there."""
    while len(arrays) > 1 and arrays[-1] is None:
        arrays = arrays[:-1]
    return arrays
