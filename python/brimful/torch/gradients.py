"""The gradient of a batch, from its parts.

In: a batch, the bounds of its parts, the rule by which they weigh. Out: the batch's loss, with the gradients in `.grad`. A batch that is
all on the CPU goes to the model's device part by part.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, Callable

import torch

from . import norms, parts, probe, steps, weigh

Bounds = list  # of (begin, end)


class Gradients:
    """Forward and backward over the parts."""

    def __init__(self, model: torch.nn.Module, loss: Any, scaler: Any, normalize: Callable | None, device: torch.device) -> None:
        self.model, self.loss, self.scaler = model, loss, scaler
        self.normalize, self.device = normalize, device
        self.precision = "keep"
        #: Counts what an unsplit batch holds to learn from, where that may be nothing.
        self._counted = weigh.may_be_empty(model, loss, normalize)

    def weights(self, rule: weigh.Rule | None, batch: Any, total: int, bounds: Bounds) -> list[float] | None:
        """What each part's loss weighs; None if the batch holds nothing to learn from."""
        if len(bounds) == 1:
            # On a GPU it is counted at once, while nothing waits; on a CPU only where the loss turns out to be NaN.
            return None if self.device.type != "cpu" and self._is_empty(batch) else [1.0]
        counts = rule.counts([parts.take(batch, begin, end, total) for begin, end in bounds])
        if rule.count is not None and sum(counts) == 0:
            return None
        if self.normalize is not None and rule.count is not None:
            whole = rule.counts([batch])[0]
            if not math.isclose(whole, sum(counts), rel_tol=1e-4):
                raise ValueError(f"normalize= counts {whole:g} in the batch and {sum(counts):g} in its parts: it must add up")
        return rule.weights(counts)

    def _is_empty(self, batch: Any) -> bool:
        return self._counted is not None and self._counted.counts([batch]) == [0.0]

    def learnt_nothing(self, batch: Any, value: torch.Tensor) -> bool:
        """Whether the loss is NaN because the batch held nothing that counts."""
        return self.device.type == "cpu" and bool(value != value) and self._is_empty(batch)

    def __call__(self, batch: Any, total: int, bounds: Bounds, weights: list[float]) -> torch.Tensor:
        """Adds the batch's gradient to `.grad`, and gives its loss."""
        split = len(bounds) > 1
        moves = self.moves(batch)
        amp = steps.AUTOCAST.get(self.precision)
        sum_of_losses = None
        with norms.RunningStatistics(self.model) if split else contextlib.nullcontext() as statistics:
            for (begin, end), weight in zip(bounds, weights):
                part = parts.take(batch, begin, end, total) if split else batch
                if moves:
                    part = self.moved(part)
                if split:
                    statistics.share((end - begin) / total)
                # A part in which nothing counts has no loss, but its forward pass moves statistics and random numbers.
                with torch.set_grad_enabled(weight != 0), torch.autocast(self.device.type, dtype=amp, enabled=amp is not None):
                    value = probe.forward(self.model, self.loss, part)[1]
                if weight == 0:
                    continue
                if weight != 1.0:
                    value = value * weight
                (value if self.scaler is None else self.scaler.scale(value)).backward()
                sum_of_losses = value.detach() if sum_of_losses is None else sum_of_losses + value.detach()
                del value, part
        return sum_of_losses

    def moves(self, batch: Any) -> bool:
        """Whether the batch is all on the CPU and the model is not."""
        return self.device.type != "cpu" and all(tensor.device.type == "cpu" for tensor in parts.leaves(batch))

    def moved(self, part: Any) -> Any:
        return parts.mapped(part, lambda tensor: tensor.to(self.device))
