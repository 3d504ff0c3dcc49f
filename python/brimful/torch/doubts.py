"""Whether a loss of the user's adds up over the parts of this batch, and not only over the few samples that `probe` tried.

In: the outputs of the parts, which are there anyway, and the batch. Out: whether the loss is the same with the samples in other parts. What
divides by a mask that those few samples did not show has another value then. Asked before the update, of outputs that are small. Not asked: models
that bring their own loss, outputs that are no tensors with one row for each sample, and PyTorch's own losses, of which it is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import torch

from brimful.fitting import failure

from . import loss_state, parts, probe
from .guard import RandomState, device_of
from .weigh import Rule, leftover

#: Larger outputs are not kept until the batch is done.
KEPT_BYTES = 16 << 20
#: Where outputs have 16 bits, and the loss does not.
COARSE = probe.REDUCED_TOLERANCE


def is_doubtful(loss: Any) -> bool:
    """Whether the loss is a function or a module of the user's."""
    kind = type(loss) if isinstance(loss, torch.nn.Module) else loss
    return loss is not None and not (getattr(kind, "__module__", None) or "").startswith("torch.")


class Outputs:
    """The outputs of a batch's parts, and the loss that came of them."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.known = True
        self._bytes = 0
        self._pieces: list[Any] = []

    def add(self, outputs: Any, rows: int) -> None:
        """Those of the next part."""
        if not self.known:
            return
        try:
            piece = _each(outputs, lambda tensor: _of_rows(tensor, rows))
        except _NoRows:
            self.known = False
        else:
            self._bytes += sum(tensor.nbytes for tensor in parts.leaves(piece))
            self._pieces.append(piece)
            self.known = self._bytes <= KEPT_BYTES
        if not self.known:
            self._pieces = []

    def adds_up(self, model: Any, loss: Any, rule: Rule, batch: Any, value: float, moved: Callable[[Any], Any]) -> bool:
        """Whether the batch's loss is this one, too, with every n-th sample in a part, in place of neighbours."""
        # Of one sample alone nothing can be seen.
        count = min(len(self._pieces), self.total // 2)
        if not self.known or count < 1:
            return True
        random = RandomState(device_of(model))
        try:
            with torch.no_grad(), loss_state.each_call_the_first(loss, model, training=True) as held:
                whole = _joined(self._pieces)
                pieces = [parts.every(batch, first, count, self.total) for first in range(count)]
                weights, found = rule.weights(rule.counts(pieces)), []
                for first, (piece, weight) in enumerate(zip(pieces, weights)):
                    if weight != 0:
                        piece = moved(piece)
                        outputs = _each(whole, lambda tensor: tensor[first::count])  # noqa: B023 -- called at once
                        found.append(weight * probe.valued(loss, outputs, piece, leftover(model, piece, False)))
                again = torch.stack([each.detach() for each in found]).to(torch.float64)
                after, scale = float(again.sum()), float(again.abs().sum())
        except Exception as error:  # noqa: BLE001 -- a loss that wants more than values, or no room: nothing is known
            failure.forget(error)
            return True
        finally:
            drawn = random.drawn()
            if drawn:
                random.put_back()
        if drawn or held.changed:
            # Other numbers each time say nothing.
            return True
        if value != value and after != after:
            return True
        halves = any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in parts.leaves(whole))
        tolerance = max(probe._tolerance({found[0].dtype}), COARSE if halves else 0.0)
        return abs(value - after) <= tolerance * max(scale, 1e-12)


class _NoRows(Exception):
    """Something among the outputs has no row for each sample."""


def _of_rows(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    if tensor.shape[:1] != (rows,):
        raise _NoRows
    return tensor.detach()


def _each(outputs: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Outputs of the same form; nothing else than tensors and what holds them is known."""
    if isinstance(outputs, (torch.Tensor, Mapping, tuple, list)):
        if not isinstance(outputs, torch.Tensor):
            for value in outputs.values() if isinstance(outputs, Mapping) else outputs:
                _each(value, lambda tensor: tensor)
        return parts.mapped(outputs, change)
    if outputs is None or isinstance(outputs, (bool, int, float, str)):
        return outputs
    raise _NoRows


def _joined(pieces: list[Any]) -> Any:
    """The outputs of the batch."""
    columns = zip(*map(parts.leaves, pieces))
    whole = iter([torch.cat(column) for column in columns])
    return parts.mapped(pieces[0], lambda _: next(whole))
