"""The optimizer's assignments, such that the old values can be held without copies.

In: an optimizer of Keras, while its update is traced. Out: the same numbers in new tensors. TensorFlow adds to a variable in place, and
copies it first if somebody holds its value; the sum as a tensor of its own takes the place of a temporary, and the variable takes the sum.
Not done: rows of embeddings, which are added where they belong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer

OPERATIONS = {"assign_add": tf.add, "assign_sub": tf.subtract}


@contextlib.contextmanager
def new_values(optimizer: Any) -> Iterator[None]:
    """What the optimizer adds or subtracts is assigned as a new value inside."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    # An optimizer with assignments of its own keeps them.
    names = [name for name in OPERATIONS if getattr(type(optimizer), name, None) is getattr(TFOptimizer, name)]
    for name in names:
        vars(optimizer)[name] = _assigning(OPERATIONS[name], getattr(optimizer, name))
    try:
        yield
    finally:
        for name in names:
            del vars(optimizer)[name]


def _assigning(operation: Any, original: Any) -> Any:
    def assign(variable: Any, value: Any) -> None:
        if isinstance(value, tf.IndexedSlices):
            original(variable, value)
            return
        variable = variable.value if isinstance(variable, keras.Variable) else variable
        variable.assign(operation(variable, tf.cast(value, variable.dtype)))

    return assign
