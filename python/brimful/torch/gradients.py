"""The gradient of a batch, from its parts.

In: a batch, the bounds of its parts, the rule by which they weigh. Out: the batch's loss, with the gradients in `.grad`. A batch that is
all on the CPU goes to the model's device part by part. The host does not wait for a GPU here: what it must know of an unsplit batch is
counted between forward and backward, and read while backward runs.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, Callable

import torch

from . import doubts, norms, parts, probe, steps, weigh

Bounds = list  # of (begin, end)


class Gradients:
    """Forward and backward over the parts."""

    def __init__(self, model: torch.nn.Module, loss: Any, scaler: Any, normalize: Callable | None, device: torch.device) -> None:
        self.model, self.loss, self.scaler = model, loss, scaler
        self.normalize, self.device = normalize, device
        self.precision = "keep"
        #: Counts what an unsplit batch holds to learn from, where that may be nothing.
        self._counted = weigh.may_be_empty(model, loss, normalize)
        self._answer: Any = None

    def weights(self, rule: weigh.Rule | None, batch: Any, total: int, bounds: Bounds) -> list[float] | None:
        """What each part's loss weighs; None if the batch holds nothing to learn from."""
        if len(bounds) == 1:
            # Whether the batch holds anything is asked later: see `learnt_nothing`.
            return [1.0]
        counts = rule.counts([parts.take(batch, begin, end, total) for begin, end in bounds])
        if rule.count is not None and sum(counts) == 0:
            return None
        if self.normalize is not None and rule.count is not None:
            whole = rule.counts([batch])[0]
            if not math.isclose(whole, sum(counts), rel_tol=1e-4):
                raise ValueError(f"normalize= counts {whole:g} in the batch and {sum(counts):g} in its parts: it must add up")
        return rule.weights(counts)

    def learnt_nothing(self, batch: Any, value: torch.Tensor) -> bool:
        """Whether the loss of an unsplit batch is NaN because it held nothing that counts."""
        if self._counted is None:
            return False
        if self.device.type == "cpu":
            return bool(value != value) and self._counted.counts([batch]) == [0.0]
        return self._answer.read() == 0.0

    def _ask(self, batch: Any) -> None:
        """Counts what the batch holds, behind the forward pass: the answer is there long before backward ends."""
        if self._counted is not None and self.device.type != "cpu":
            if self._answer is None:
                self._answer = Answer()
            self._answer.ask(self._counted.count(batch))

    def __call__(
        self,
        batch: Any,
        total: int,
        bounds: Bounds,
        weights: list[float],
        look: Callable[[], None] | None = None,
        kept: doubts.Outputs | None = None,
    ) -> torch.Tensor:
        """Adds the batch's gradient to `.grad`, and gives its loss. `look` is called after the first part and after the last."""
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
                # Without a precision of ours the user's own autocast stays as it is.
                autocast = contextlib.nullcontext() if amp is None else torch.autocast(self.device.type, dtype=amp)
                with torch.set_grad_enabled(weight != 0), autocast:
                    outputs, value = probe.forward(self.model, self.loss, part)
                if kept is not None:
                    kept.add(outputs, end - begin)
                del outputs
                if not split:
                    self._ask(batch)
                if weight != 0:
                    if weight != 1.0:
                        value = value * weight
                    (value if self.scaler is None else self.scaler.scale(value)).backward()
                    sum_of_losses = value.detach() if sum_of_losses is None else sum_of_losses + value.detach()
                del value, part
                if look is not None and (begin == 0 or end == total):
                    look()
        return sum_of_losses

    def adds_up(self, rule: weigh.Rule, batch: Any, value: float, kept: doubts.Outputs) -> bool:
        """Whether the loss is the same with the samples in other parts."""
        amp = steps.AUTOCAST.get(self.precision)
        move = self.moved if self.moves(batch) else lambda part: part
        with contextlib.nullcontext() if amp is None else torch.autocast(self.device.type, dtype=amp):
            return kept.adds_up(self.model, self.loss, rule, batch, value, move)

    def moves(self, batch: Any) -> bool:
        """Whether the batch is all on the CPU and the model is not."""
        return self.device.type != "cpu" and all(tensor.device.type == "cpu" for tensor in parts.leaves(batch))

    def moved(self, part: Any) -> Any:
        return parts.mapped(part, lambda tensor: tensor.to(self.device))


class Answer:
    """A number from the device, which the host reads without waiting for what was asked for later."""

    def __init__(self) -> None:
        self._value: float | None = None
        self._pinned: torch.Tensor | None = None
        self._copied: Any = None

    def ask(self, value: Any) -> None:
        if not isinstance(value, torch.Tensor) or value.device.type != "cuda":
            self._value = float(value)
            return
        if self._pinned is None:
            self._pinned = torch.empty((), dtype=torch.float64, pin_memory=True)
            self._copied = torch.cuda.Event()
        self._value = None
        self._pinned.copy_(value.detach().reshape(()).to(torch.float64), non_blocking=True)
        self._copied.record(torch.cuda.current_stream(value.device))

    def read(self) -> float:
        if self._value is None:
            self._copied.synchronize()
            self._value = float(self._pinned)
        return self._value
