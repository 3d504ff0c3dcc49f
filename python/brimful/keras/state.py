"""The state that a forward pass changes, and the predictions with their masks.

In: a model. Out: its variables by what changes them. The weights and the optimizer's state change in the update alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops, tree
from keras.src import backend
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR

from brimful.fitting import failure

from . import findings


def changed_by_forward(model: Any, shared: bool = True) -> list:
    """Moving averages, metrics and seeds, with or without the one that layers share. Frozen weights do not change, however large they are."""
    frozen = {id(variable) for layer in model._flatten_layers() for variable in getattr(layer, "_trainable_variables", ())}
    moving = [variable for variable in model.non_trainable_variables if id(variable) not in frozen]
    return moving + list(model.metrics_variables) + (shared_seed() if shared else [])


def shared_seed() -> list:
    """The generator behind random numbers without a seed, if any were drawn. JAX cannot draw from it inside a step."""
    generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    return [generator.state] if generator is not None and keras.backend.backend() != "jax" else []


def others(model: Any, metrics: bool = True) -> list:
    """What a forward pass might change beside BatchNorm's averages, seeds and Keras's metrics. Those of layers are updated by the layers.

    metrics: also those that the model holds beside what it was compiled with, which it may update in its call or its loss.
    """
    own = [] if metrics else model._metrics
    metrics = [variable for metric in [*compiled_metrics(model), *own] for variable in metric.variables]
    known = {id(variable) for variable in [*seeds(model), *metrics]}
    for layer in findings.batch_norms(model):
        known |= {id(variable) for variable in layer.non_trainable_variables}
    return [variable for variable in changed_by_forward(model) if id(variable) not in known]


def compiled_metrics(model: Any) -> list:
    """Those that Keras updates itself."""
    own = {id(metric) for metric in model._metrics}
    return [metric for metric in model._get_own_metrics() if id(metric) not in own]


def build(model: Any, data: tuple, training: bool) -> None:
    """Makes the variables that Keras would make in the first step, in training the optimizer's included."""
    if training or (model.compiled and data[1] is not None):
        # A model that runs with data only is built by its first step.
        with contextlib.nullcontext() if training else _unbuilt(model.optimizer):
            try:
                model._symbolic_build(data_batch=tree.map_structure(_any_rows, data))
            except RuntimeError as error:
                if failure.is_out_of_memory(error):
                    raise


@contextlib.contextmanager
def _unbuilt(optimizer: Any) -> Iterator[None]:
    """Leaves an optimizer without the state that only an update needs: it may be twice as large as the model."""
    if optimizer is None or optimizer.built:
        yield
        return
    optimizer.built = True
    try:
        yield
    finally:
        optimizer.built = False


def _any_rows(leaf: Any) -> Any:
    """A model that is built by its first batch takes others, too."""
    if leaf is None:
        return None
    return keras.KerasTensor((None, *leaf.shape[1:]), backend.standardize_dtype(leaf.dtype))


def seeds(model: Any) -> list:
    """The states of what draws random numbers in a forward pass."""
    generators = [generator for layer in model._flatten_layers() for generator in getattr(layer, "_seed_generators", None) or ()]
    states, known = [], set()
    for generator in generators:
        if isinstance(generator, keras.random.SeedGenerator) and id(generator.state) not in known:
            known.add(id(generator.state))
            states.append(generator.state)
    return states


def varied(seed_states: list, index: int) -> list:
    """The states for another part of the same batch: other numbers, and none that a later batch would draw."""
    changed = []
    for value in seed_states:
        value = value.copy()
        # An odd constant, as in Weyl sequences: it visits every state before it returns to the first. PyTorch's states are int32.
        states = 1 << (31 if value.dtype == "int32" else 32)
        value[0] = (int(value[0]) + index * 0x9E3779B9) % states
        changed.append(value)
    return changed


@contextlib.contextmanager
def moving_averages(model: Any, share: Any) -> Iterator[None]:
    """Lets a part move BatchNorm's averages by its share, so that a batch moves them once."""
    norms = findings.batch_norms(model)
    before = [layer.momentum for layer in norms]
    try:
        for layer in norms:
            layer.momentum = ops.power(ops.cast(layer.momentum, "float32"), ops.cast(share, "float32"))
        yield
    finally:
        for layer, momentum in zip(norms, before):
            layer.momentum = momentum


def drop_masks(y_pred: Any) -> None:
    """Takes the masks off. On JAX predictions leave Keras's gradient without them: its metrics count masked steps in training."""
    for leaf in tree.flatten(y_pred):
        if leaf is not None and backend.get_keras_mask(leaf) is not None:
            backend.set_keras_mask(leaf, None)


def with_masks(y_pred: Any) -> list:
    """Predictions and the masks that Keras hangs on them: they are lost where a tensor leaves its graph."""
    return [y_pred, tree.map_structure(lambda leaf: backend.get_keras_mask(leaf), y_pred)]


def masks_for_loss(y_pred: Any) -> list:
    """The same where Keras's metrics see no masks, and its losses do."""
    return [y_pred, None, with_masks(y_pred)[1]]


def without_masks(kept: Any, loss: bool = False) -> Any:
    """The predictions, with their masks hung on again. loss: with those that only the loss sees, too."""
    y_pred, *masks = kept
    masks = masks[-1] if loss else masks[0]
    for leaf, mask in zip(tree.flatten(y_pred), _masks(y_pred, masks)):
        if mask is not None:
            backend.set_keras_mask(leaf, mask)
    return y_pred


def _masks(y_pred: Any, masks: Any) -> list:
    flat = tree.flatten(masks)
    return flat if len(flat) == len(tree.flatten(y_pred)) else [None] * len(tree.flatten(y_pred))
