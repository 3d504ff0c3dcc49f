"""The gradient of a batch, part by part, for training loops of one's own.

In: a batch, a size, a function that gives a part's loss. Out: the batch's loss, and the gradients in `.grad`. Nothing is looked into:
whether the loss is a mean or a sum, and what it counts, is the caller's to say.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import torch

from . import parts
from .weigh import SAMPLES, SUM, Rule


def accumulate(
    batch: Any,
    size: int,
    loss: Callable[[Any], torch.Tensor],
    *,
    normalize: Callable[[Any], Any] | None = None,
    reduction: str = "mean",
    scaler: Any = None,
) -> float:
    """Adds the gradient of the whole batch to `.grad`, taking at most `size` samples at a time, and gives the batch's loss.

        optimizer.zero_grad()
        value = brimful.torch.accumulate((x, y), 32, lambda part: criterion(model(part[0]), part[1]))
        optimizer.step()

    loss: a function of a part that gives its loss with its graph.
    normalize: for a mean over something else than samples: counts it in a part, such as its unmasked tokens. Parts weigh n/N.
    reduction: ``mean``, or ``sum`` where the loss is a sum over its part: then each weighs 1.
    scaler: a GradScaler, whose scale the gradients then have; unscale once, after this.

    A batch in which nothing counts adds no gradient, and its loss is NaN, as the mean of nothing is.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction is '{reduction}': write mean or sum")
    rule = SUM if reduction == "sum" else SAMPLES if normalize is None else Rule("what normalize= counts", normalize)
    pieces = list(parts.split(batch, size))
    if not pieces:
        raise ValueError("the batch has no samples")
    counts = rule.counts(pieces)
    if sum(counts) == 0:
        return math.nan
    total: Any = 0.0
    for piece, weight in zip(pieces, rule.weights(counts)):
        if weight == 0:
            continue
        value = loss(piece) * weight
        (value if scaler is None else scaler.scale(value)).backward()
        total = total + value.detach()
        del value
    return float(total)
