"""Arrays that do not fit into the budget as a whole, given to the step part by part.

In: the arguments of `fit`, `evaluate` or `predict`. Out: the same, with numbers of rows in place of arrays that are too large. On
TensorFlow Keras makes one tensor of each array and another of each batch; the numbers of the rows are shuffled and batched by Keras in
the same order, and the rows are taken from the arrays where a part needs them. The other backends take batches from arrays as they are.
Also: whether somebody may write into arrays while they are trained with.
"""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
from keras import tree
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from keras.src.utils.python_utils import is_default

from brimful.fitting import lines, memory

#: Keras's own.
BATCH = 32
#: A share of the room that arrays, or a batch of them, may take as tensors; the step needs the rest.
SHARE = 0.25
#: What numbers of rows go by among the inputs.
KEY = "brimful rows of "
#: What is called around each batch.
HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


class Rows:
    """Arrays, and batches of them by the numbers of their rows."""

    def __init__(self, arrays: tuple, class_weight: dict | None = None) -> None:
        self.arrays, self.class_weight = arrays, class_weight
        self.count = len(next(leaf for leaf in tree.flatten(arrays) if leaf is not None))

    def batch(self, numbers: Any) -> tuple:
        """Inputs, targets and weights of these rows; a view of the arrays where they are neighbours."""
        together = len(numbers) and int(numbers[-1]) - int(numbers[0]) == len(numbers) - 1 and (np.diff(numbers) == 1).all()
        chosen = slice(int(numbers[0]), int(numbers[-1]) + 1) if together else numbers
        x, y, weights = tree.map_structure(lambda array: None if array is None else _as_keras(array[chosen]), self.arrays)
        if self.class_weight is not None:
            weights = keras.ops.convert_to_numpy(data_adapter_utils.class_weight_to_sample_weights(y, self.class_weight))
        return x, y, weights


def _as_keras(rows: Any) -> Any:
    """Keras takes arrays of any float as its own float."""
    return rows.astype(keras.backend.floatx(), copy=False) if np.issubdtype(rows.dtype, np.floating) else rows


def taken(job: Any, data: tuple) -> tuple:
    """The batch that numbers of rows stand for."""
    if not job.rows:
        return data
    for name, rows in job.rows.items():
        if isinstance(data[0], dict) and [*data[0]] == [KEY + name]:
            return rows.batch(np.asarray(data[0][KEY + name]))
    # A callback's own batch, or a validation that Keras reads by itself.
    return data


def _large(value: Any, batch: int, room_bytes: int) -> bool:
    leaves = [leaf for leaf in tree.flatten(value) if leaf is not None]
    if not leaves or not all(isinstance(leaf, np.ndarray) and leaf.ndim and len(leaf) for leaf in leaves):
        return False
    total = sum(leaf.nbytes for leaf in leaves)
    # Keras holds all of it, the batch, and the next one.
    return total + 2 * total * min(1, batch / len(leaves[0])) > SHARE * room_bytes


def undisturbed(name: str, args: tuple, kwargs: dict) -> bool:
    """Whether nobody is called between the batches of an epoch who could write into the arrays that they are drawn from.

    A callback may. Threads of the user's that write into arrays while they are trained with are not known here: what Keras trains with
    would be chance then, too.
    """
    callbacks = (_bound(name, args, kwargs) or {}).get("callbacks") or []
    return isinstance(callbacks, (list, tuple)) and all(is_default(getattr(each, hook, None)) for each in callbacks for hook in HOOKS)


def _bound(name: str, args: tuple, kwargs: dict) -> dict | None:
    """The arguments by their names; nothing where Keras says better what is wrong with them."""
    try:
        return inspect.signature(getattr(keras.Model, name)).bind(None, *args, **kwargs).arguments
    except TypeError:
        return None


def streamed(name: str, job: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments, with numbers of rows for what is too large."""
    job.rows = {}
    if keras.backend.backend() != "tensorflow" or not job.backend.device.startswith("CPU"):
        return args, kwargs
    room = (job.wanted_bytes or job.backend.limit_bytes() or 0) - (job.backend.used_bytes() or 0)
    given = _bound(name, args, kwargs)
    if given is None:
        return args, kwargs
    given = {key: value for key, value in given.items() if key not in ("self", "kwargs")}
    changed = _changed(name, job, given, room)
    return ((), changed) if changed is not None else (args, kwargs)


def _changed(name: str, job: Any, given: dict, room_bytes: int) -> dict | None:
    arrays = (given.get("x"), given.get("y"), given.get("sample_weight"))
    validation, batch = given.get("validation_data"), given.get("batch_size") or BATCH
    called = {"fit": {"train_function", "test_function"}, "evaluate": {"test_function"}, "predict": {"predict_function"}}[name]
    # Functions of the user's know nothing of numbers of rows.
    if not _large(arrays, batch, room_bytes) or not called <= job.taken:
        return None
    if len({len(leaf) for leaf in tree.flatten(arrays) if leaf is not None}) > 1:
        return None
    if given.get("class_weight") is not None and given.get("sample_weight") is not None:
        # Keras says that this is one too many.
        return None
    changed = dict(given)
    if given.get("validation_split") and validation is None:
        arrays, validation = array_slicing.train_validation_split(arrays, validation_split=given["validation_split"])
        changed.pop("validation_split")
    for key in ("y", "sample_weight", "class_weight"):
        changed.pop(key, None)
    job.rows["data"] = Rows(arrays, given.get("class_weight"))
    changed["x"] = {KEY + "data": np.arange(job.rows["data"].count)}
    if validation is not None:
        whole = data_adapter_utils.unpack_x_y_sample_weight(validation)
        if all(leaf is None or isinstance(leaf, np.ndarray) for leaf in tree.flatten(whole)):
            job.rows["validation"] = Rows(whole)
            validation = ({KEY + "validation": np.arange(job.rows["validation"].count)},)
        changed["validation_data"] = validation
    size = sum(leaf.nbytes for leaf in tree.flatten(arrays) if leaf is not None)
    lines.say(
        f"the arrays ({memory.human(size)}) are taken part by part, in Keras's order: as tensors they would take the room of the step"
    )
    return changed
