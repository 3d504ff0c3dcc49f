"""The terms of a loss, each weighted so that the parts of a batch add up to the whole.

In: Keras's own computation of the loss, on a part of a batch. Out: the part's contribution to the loss of the whole batch. A mean over
samples counts by the part's share of them; a mean over what a mask or sample weights leave counts by the part's share of that; a sum
counts as it is; what does not depend on the batch (weights' regularisers) counts once over all parts.

Keras divides in one place, `reduce_weighted_values`, and adds layers' losses in another, `_aggregate_additional_loss`: both are listened
to while a part is computed, and only then. A loss that is made of other losses is one term: what it calls is left as it is.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import keras
from keras import ops
from keras.src.losses import loss as keras_loss

from brimful.fitting import CannotSplit

#: Keras's functions are replaced for the whole process while a part is computed.
_lock = threading.RLock()
MEAN, SUM, COUNTED, COUPLED = "mean", "sum", "counted", "coupled"
#: One number, which does not say how it was reduced.
SCALAR = "scalar"


@dataclass
class Rule:
    """How each term of this model's loss behaves when a batch is taken in parts; `probe` finds out what Keras does not say."""

    #: The model computes its loss in its own way: it is weighted as a whole.
    whole: str | None = None
    #: By index: losses that come as one number, and layers' own losses.
    scalars: dict[int, str] = field(default_factory=dict)
    layers: dict[int, str] = field(default_factory=dict)
    #: Whether a loss divides by what the data say, and what the predictions of one sample hold.
    counted: bool = False
    #: How many losses the layers had when it was found out, without training.
    layer_count: int | None = None
    sample_bytes: int = 0
    #: Whether a few samples said how it adds up, because a loss is the user's, and predictions are all that it takes to ask again.
    doubted: bool = False


class Seen:
    """What the terms of one part were."""

    def __init__(self) -> None:
        #: What each loss contributed, and what it was divided by where that depends on the data.
        self.values: list[Any] = []
        self.counts: list[Any] = []
        self.kinds: list[str] = []
        self.layers: list[Any] = []
        #: Whether a loss would divide by sample weights, if there were some; and whether one is not Keras's own.
        self.may_count = self.own = False


def _kind(values: Any, sample_weight: Any, mask: Any, reduction: str) -> str | None:
    """How a loss is reduced; nothing where it comes as one number, which says nothing about how."""
    if len(values.shape) == 0:
        # Keras multiplies the one number by each sample's weight: a product of two sums over the batch.
        return COUPLED if sample_weight is not None or (mask is not None and reduction == "sum") else None
    if reduction == "sum":
        return SUM
    if reduction in (None, "none"):
        return COUPLED
    counted = mask is not None or (reduction == "mean_with_sample_weight" and sample_weight is not None)
    return COUNTED if counted else MEAN


def _count(values: Any, sample_weight: Any, mask: Any, reduction: str) -> Any:
    """What the sum is divided by."""
    dtype = keras.backend.standardize_dtype(values.dtype)
    if reduction != "mean_with_sample_weight":
        return ops.sum(ops.cast(mask, dtype))
    # A copy, as above.
    weight = None if sample_weight is None else ops.copy(ops.convert_to_tensor(sample_weight, dtype=dtype))
    weight = keras_loss.apply_mask(weight, mask, dtype=dtype, reduction=reduction)
    return ops.sum(ops.cast(weight, dtype))


def _as(share: Any, value: Any) -> Any:
    """The share in the type of a value. TensorFlow would cast a number of Python through float32."""
    return share if isinstance(share, float) else ops.cast(share, value.dtype)


@contextlib.contextmanager
def listening(model: Any, rule: Rule, share: Any = None, counts: list | None = None) -> Iterator[Seen]:
    """Weights the terms of the loss that the model computes inside.

    share: the part's share of the batch; without it nothing is weighted and the terms are only recorded.
    counts: what the whole batch divides each loss by, where that depends on the data.
    """
    with _lock:
        yield from _listening(model, rule, share, counts)


def _listening(model: Any, rule: Rule, share: Any, counts: list | None) -> Iterator[Seen]:
    seen = Seen()
    reduce, aggregate, call = keras_loss.reduce_weighted_values, model._aggregate_additional_loss, keras_loss.Loss.__call__
    depth = 0

    def called(loss: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        depth += 1
        kind = getattr(loss, "fn", None) or type(loss)
        seen.own = seen.own or not (getattr(kind, "__module__", None) or "").startswith("keras.")
        try:
            return call(loss, *args, **kwargs)
        finally:
            depth -= 1

    def weighted(kind: str | None, value: Any, count: Any, index: int) -> Any:
        if share is None or kind == SUM:
            return value
        if kind == COUPLED:
            raise CannotSplit("the loss couples the samples of this batch: the sum over parts is another loss")
        if kind == COUNTED:
            return ops.divide_no_nan(value * count, ops.cast(counts[index], value.dtype))
        return value * _as(share, value)

    def reduced(values: Any, sample_weight: Any = None, mask: Any = None, reduction: str = "sum_over_batch_size", dtype: Any = None) -> Any:
        if depth > 1:
            return reduce(values, sample_weight=sample_weight, mask=mask, reduction=reduction, dtype=dtype)
        if sample_weight is not None and mask is not None:
            # On PyTorch Keras multiplies the user's tensor by the mask in place: a second look would see other weights.
            sample_weight = ops.copy(sample_weight)
        seen.may_count = seen.may_count or reduction == "mean_with_sample_weight"
        index = len(seen.values)
        own = reduce(values, sample_weight=sample_weight, mask=mask, reduction=reduction, dtype=dtype)
        values = ops.convert_to_tensor(values, dtype=dtype)
        kind = _kind(values, sample_weight, mask, reduction) or rule.scalars.get(index, MEAN)
        count = _count(values, sample_weight, mask, reduction) if kind == COUNTED else ops.zeros((), "float32")
        own = weighted(kind, own, count, index)
        seen.values.append(own)
        seen.counts.append(count)
        seen.kinds.append(kind if len(values.shape) or kind == COUPLED else SCALAR)
        return own

    def aggregated(loss: Any) -> Any:
        value = weighted(rule.layers.get(len(seen.layers), MEAN), aggregate(loss), None, -1)
        seen.layers.append(value)
        return value

    # One tracker for each of several losses: they get the whole batch's values at the end of the step.
    compiled = model._compile_loss
    trackers = getattr(compiled, "_metrics", None)
    keras_loss.reduce_weighted_values, keras_loss.Loss.__call__ = reduced, called
    model.__dict__["_aggregate_additional_loss"] = aggregated
    if trackers:
        compiled._metrics = [None] * len(trackers)
    try:
        yield seen
    finally:
        keras_loss.reduce_weighted_values, keras_loss.Loss.__call__ = reduce, call
        model.__dict__.pop("_aggregate_additional_loss", None)
        if trackers:
            compiled._metrics = trackers


@contextlib.contextmanager
def untracked(model: Any) -> Iterator[list]:
    """Keras's means of single losses are left alone inside; what they would have got is given instead."""
    compiled = model._compile_loss
    means = getattr(compiled, "_metrics", None)
    values: list = []
    if not means:
        yield values
        return
    with listening(model, Rule()) as seen:
        yield values
    values.extend(seen.values)


def part_loss(model: Any, rule: Rule, x: Any, y: Any, y_pred: Any, weights: Any, training: bool, share: Any, counts: list) -> tuple:
    """What a part contributes to the loss of the whole batch, and the same for each of the compiled losses."""
    if rule.whole is not None:
        with listening(model, Rule()) as seen:
            loss = model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weights, training=training)
        kinds = [rule.whole if kind == SCALAR else kind for kind in seen.kinds]
        values = [value if kind == SUM else value * _as(share, value) for kind, value in zip(kinds, seen.values)]
        return (loss if rule.whole == SUM else loss * _as(share, loss)), values
    with listening(model, rule, share, counts) as seen:
        loss = model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weights, training=training)
    if rule.layer_count is not None and len(seen.layers) != rule.layer_count:
        raise CannotSplit("a layer adds a loss in training only, and whether it adds up over parts of a batch is not known")
    return loss, seen.values


def part_counts(model: Any, x: Any, y: Any, y_pred: Any, weights: Any) -> list:
    """What a part divides each of its losses by, where that depends on the data."""
    with listening(model, Rule()) as seen:
        model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=weights, training=False)
    return [ops.cast(count, "float32") if kind != COUNTED else count for kind, count in zip(seen.kinds, seen.counts)]


def doubted(model: Any, rule: Rule, x: Any, y: Any, y_pred: Any, weights: Any, training: bool, share: Any, counts: list) -> list:
    """The same of samples whose predictions are there, of the numbers of which a few samples said how they add up."""
    if rule.whole is not None:
        # Those of the last part's layers.
        model._clear_losses()
        return [part_loss(model, rule, x, y, y_pred, weights, training, share, counts)[0]]
    with listening(model, rule, share, counts) as seen:
        model._compile_loss(y, y_pred, weights)
    return seen.values


def trackers(model: Any) -> list:
    """Keras's means of the single losses, where there are several."""
    return list(getattr(model._compile_loss, "metrics", None) or [])


def added(losses: list, values: list[list]) -> tuple[Any, list]:
    """The loss of a batch, and each of several, from those of its parts."""
    return sum(losses[1:], losses[0]), [sum(each[1:], each[0]) for each in zip(*values)]
