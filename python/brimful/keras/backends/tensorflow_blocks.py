"""The optimizer's update of large weights, some rows at a time.

In: an optimizer of Keras whose update treats each number by itself, gradients and weights. Out: the same update, number by number, with
temporaries as large as a block instead of as large as the largest weight (an embedding, mostly). Not done: optimizers that look at a
whole weight (Lamb, Adafactor, Muon), averages of weights, accumulation, loss scaling: those are updated as Keras does it.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

#: Optimizers whose update of a number needs that number's gradient and state alone.
ELEMENTWISE = {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Lion", "Ftrl"}
#: Weights above this are updated in blocks of about this size.
BLOCK_BYTES = 2 << 20


def joined(gradient: Any) -> Any:
    """The rows of an embedding from all parts of a batch, as if they came from one."""
    if not isinstance(gradient, list):
        return gradient
    if len(gradient) == 1 and not on_host(gradient[0]):
        return gradient[0]
    values, indices = [part.values for part in gradient], [part.indices for part in gradient]
    if all(map(on_host, gradient)):
        values, indices = tensor(np.concatenate(values)), tensor(np.concatenate(indices))
    else:
        values, indices = tf.concat(values, 0), tf.concat(indices, 0)
    return tf.IndexedSlices(values, indices, gradient[0].dense_shape)


def on_host(rows: Any) -> bool:
    """Whether these rows wait outside the framework's memory."""
    return isinstance(rows.values, np.ndarray)


def to_host(rows: Any) -> Any:
    """The rows of one part, where they take nothing from the parts that are still to come."""
    return rows if on_host(rows) else tf.IndexedSlices(rows.values.numpy(), rows.indices.numpy(), rows.dense_shape)


def tensor(numbers: Any) -> Any:
    """An array as a tensor."""
    numbers = np.asarray(numbers)
    # Where there is no room for it, this says so; the conversion of an array would end the process.
    tf.raw_ops.Empty(shape=tf.constant(numbers.shape, tf.int32), dtype=tf.as_dtype(numbers.dtype))
    return tf.convert_to_tensor(numbers)


def possible(optimizer: Any) -> bool:
    """Whether this optimizer's update can be done in blocks."""
    known = type(optimizer).__name__ in ELEMENTWISE and type(optimizer).__module__.startswith("keras.")
    plain = not optimizer.use_ema and not optimizer.gradient_accumulation_steps and optimizer.loss_scale_factor is None
    return known and plain and optimizer.built


def apply(optimizer: Any, gradients: list, weights: list, held: dict) -> None:
    """One update of all weights; the large ones in blocks.

    held: the numbers of all variables, on the host, by their ids.
    """
    pairs = [(gradient, weight) for gradient, weight in zip(gradients, weights) if gradient is not None]
    clips = {name: getattr(optimizer, name) for name in ("clipnorm", "global_clipnorm", "clipvalue")}
    if any(clips.values()):
        clipped = optimizer._clip_gradients([joined(gradient) for gradient, _ in pairs])
        pairs = [(gradient, weight) for gradient, (_, weight) in zip(clipped, pairs)]
    small = [(joined(gradient), weight) for gradient, weight in pairs if not _large(weight)]
    for gradient, weight in pairs:
        if _large(weight):
            _in_blocks(optimizer, gradient, weight, held)
            if weight.constraint is not None:
                weight.assign(weight.constraint(weight))
    if not small:
        optimizer.iterations.assign_add(1)
        return
    try:
        # They are clipped already; their norms are not those of all gradients.
        for name in clips:
            setattr(optimizer, name, None)
        optimizer.apply_gradients(small)
    finally:
        for name, value in clips.items():
            setattr(optimizer, name, value)


def _large(weight: Any) -> bool:
    return len(weight.shape) > 0 and weight.shape[0] > 1 and _row_bytes(weight) * weight.shape[0] > BLOCK_BYTES


def _row_bytes(weight: Any) -> int:
    return tf.as_dtype(weight.dtype).size * max(1, int(tf.TensorShape(weight.shape[1:]).num_elements()))


def _in_blocks(optimizer: Any, gradient: Any, weight: Any, held: dict) -> None:
    """Each block is written where it belongs: a variable that is replaced as a whole moves, and leaves a gap in the allocator's pool."""
    slots = {"": weight, **_slots(optimizer, weight)}
    for begin, end in _blocks(weight):
        block, stand_in = _stand_in(optimizer, weight, end - begin)
        inside = {"": block, **_slots(stand_in, block)}
        for name, slot in slots.items():
            inside[name].assign(tensor(held[id(slot)][begin:end]))
        stand_in.iterations.assign(optimizer.iterations)
        stand_in.apply_gradients([(_rows(gradient, begin, end), block)])
        for name, slot in slots.items():
            _write_rows(slot, begin, end, inside[name].value)
    for slot in slots.values():
        _shared(slot)


def _blocks(weight: Any) -> list[tuple[int, int]]:
    rows, per_block = weight.shape[0], max(1, BLOCK_BYTES // _row_bytes(weight))
    return [(begin, min(begin + per_block, rows)) for begin in range(0, rows, per_block)]


def _stand_in(optimizer: Any, weight: Any, rows: int) -> tuple[Any, Any]:
    """A variable for some rows of a weight, and an optimizer of the same kind for it, at the same rate."""
    made = optimizer.__dict__.setdefault("_brimful_stand_ins", {})
    # The optimizer leaves some weights out of the decay, by their paths.
    decays = optimizer._use_weight_decay(weight)
    key = (rows, tuple(weight.shape[1:]), str(weight.dtype), decays)
    if key not in made:
        config = optimizer.get_config()
        config.update(clipnorm=None, global_clipnorm=None, clipvalue=None, learning_rate=float(optimizer.learning_rate))
        if not decays:
            config["weight_decay"] = None
        block = keras.Variable("zeros", (rows, *weight.shape[1:]), dtype=weight.dtype, name=weight.name)
        stand_in = type(optimizer).from_config(config)
        stand_in.build([block])
        made[key] = block, stand_in
    block, stand_in = made[key]
    stand_in.learning_rate = float(optimizer.learning_rate)
    return block, stand_in


def _slots(optimizer: Any, weight: Any) -> dict[str, Any]:
    """The optimizer's state of one weight, by the names of the lists that hold it."""
    index = optimizer._get_variable_index(weight)
    count = len(optimizer._trainable_variables)
    found = {}
    for name, value in vars(optimizer).items():
        if name == "_trainable_variables" or not isinstance(value, list) or len(value) != count or not value:
            continue
        slot = value[index]
        if isinstance(slot, keras.Variable) and tuple(slot.shape) == tuple(weight.shape):
            found[name] = slot
    return found


def _rows(gradient: Any, begin: int, end: int) -> Any:
    if isinstance(gradient, list):
        return joined([_rows(part, begin, end) for part in gradient])
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient[begin:end]
    if on_host(gradient):
        inside = np.flatnonzero((gradient.indices >= begin) & (gradient.indices < end))
        values, indices = tensor(gradient.values[inside]), tensor(gradient.indices[inside] - begin)
        return tf.IndexedSlices(values, indices, (end - begin, *gradient.values.shape[1:]))
    inside = tf.where((gradient.indices >= begin) & (gradient.indices < end))[:, 0]
    shape = tf.concat([[end - begin], tf.shape(gradient.values)[1:]], 0)
    values = tf.gather(gradient.values, inside)
    return tf.IndexedSlices(values, tf.gather(gradient.indices, inside) - tf.cast(begin, gradient.indices.dtype), shape)


def read(variables: list) -> list:
    """The numbers of variables, on the host, with nothing beside them in the framework's memory."""
    return [_shared(variable).numpy() for variable in variables]


def write(variable: Any, numbers: Any) -> None:
    """Numbers from the host into a variable; a large one by rows, without a second place for it."""
    if not _large(variable):
        variable.assign(tensor(numbers))
        return
    for begin, end in _blocks(variable):
        _write_rows(variable, begin, end, tensor(numbers[begin:end]))
    _shared(variable)


def _write_rows(variable: Any, begin: int, end: int, rows: Any) -> None:
    tf.raw_ops.ResourceScatterUpdate(resource=variable.value.handle, indices=tf.range(begin, end), updates=rows)


def _shared(variable: Any) -> Any:
    """The variable, read without a copy: once written by rows, TensorFlow copies all of it at each read, in every forward pass."""
    tf.raw_ops.DisableCopyOnRead(resource=variable.value.handle)
    return variable
