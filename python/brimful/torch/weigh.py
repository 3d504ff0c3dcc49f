"""How much each part of a batch weighs, so that the gradient is that of the whole.

In: the loss, and what the user says it counts. Out: `Rule`s, the likeliest first; `probe` settles which of them holds. A mean over n of
N items weighs n/N, a sum weighs 1. What is counted is what the loss divides by: samples, targets that are not ignored, or the sum of
their class weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

import torch

from . import inputs as given
from . import parts

#: What cross entropy leaves out where it is not told otherwise; transformers mask labels with it.
IGNORED = -100


@dataclass(frozen=True)
class Rule:
    """What the loss divides by: `count` of a part, or nothing where it is a sum."""

    name: str
    count: Callable[[Any], Any] | None

    def counts(self, pieces: list[Any]) -> list[float]:
        """What each part holds of it, read from the device at once."""
        if self.count is None:
            return [1.0] * len(pieces)
        found = [self.count(piece) for piece in pieces]
        if all(isinstance(value, torch.Tensor) for value in found):
            return torch.stack([value.detach().reshape(()).to(torch.float64) for value in found]).tolist()
        return [float(value) for value in found]

    def weights(self, counts: list[float]) -> list[float]:
        """The parts' weights in the loss of the whole."""
        if self.count is None:
            return [1.0] * len(counts)
        total = sum(counts)
        return [value / total for value in counts]


def samples_of(batch: Any) -> int:
    return parts.rows(batch)


SAMPLES = Rule("samples", samples_of)
SUM = Rule("a sum", None)


def rules(model: torch.nn.Module, loss: Any, normalize: Callable | None, batch: Any) -> list[Rule]:
    """What the loss may divide by, the likeliest first."""
    if normalize is not None:
        return [Rule("what normalize= counts", normalize), SUM]
    if loss is None:
        labels = batch.get("labels") if isinstance(batch, Mapping) else None
        index = next((index for index, tensor in enumerate(parts.leaves(batch)) if tensor is labels), None)
        return [*([] if index is None or labels.is_floating_point() else _entries(index)), SAMPLES, SUM]
    if getattr(loss, "reduction", None) == "sum":
        return [SUM]
    targets = _targets_counted(model, loss)
    if targets is not None:
        return [targets]
    masked = [index for index, tensor in enumerate(parts.leaves(batch)) if _holds_ignored(tensor)]
    return [SAMPLES, *(rule for index in masked for rule in _entries(index)), SUM]


def may_be_empty(model: torch.nn.Module, loss: Any, normalize: Callable | None) -> Rule | None:
    """What a batch may hold none of: then its mean loss is NaN. None where that cannot be."""
    if normalize is not None:
        return Rule("what normalize= counts", normalize)
    if getattr(loss, "reduction", None) == "sum":
        return None
    if loss is None and hasattr(model, "config"):
        return Rule("labels that are not ignored", _own_labels)
    return _targets_counted(model, loss)


def _own_labels(batch: Any) -> Any:
    labels = batch.get("labels") if isinstance(batch, Mapping) else None
    return (labels != IGNORED).sum() if isinstance(labels, torch.Tensor) and labels.dtype == torch.int64 else 1


def leftover(model: torch.nn.Module, batch: Any, optional: bool) -> tuple:
    """What the model's forward does not take, without running it."""
    return given.call(Signed(model, lambda *_, **__: None), batch, optional)[1]


class Signed:
    """Has the signature of the model's forward, also of one that was compiled, and calls something."""

    def __init__(self, model: torch.nn.Module, called: Callable) -> None:
        self.forward = getattr(model, "_orig_mod", model).forward
        self.called = called

    def __call__(self, *values: Any, **named: Any) -> Any:
        return self.called(*values, **named)


def _targets_counted(model: torch.nn.Module, loss: Any) -> Rule | None:
    """For cross entropy and negative log likelihood: targets that are not ignored, by the weight of their class."""
    if isinstance(loss, (torch.nn.CrossEntropyLoss, torch.nn.NLLLoss)):
        ignored, weight = loss.ignore_index, loss.weight
    elif loss in (torch.nn.functional.cross_entropy, torch.nn.functional.nll_loss):
        ignored, weight = IGNORED, None
    else:
        return None

    def count(batch: Any) -> Any:
        left = leftover(model, batch, False)
        if not left or not isinstance(left[0], torch.Tensor) or left[0].is_floating_point():
            # Probabilities of classes: each sample counts as much.
            return parts.rows(batch)
        kept = left[0] != ignored
        if weight is None:
            return kept.sum()
        indices = left[0].where(kept, left[0].new_zeros(()))
        return (weight.detach().to(left[0].device, torch.float64)[indices] * kept).sum()

    return Rule("targets that are not ignored", count)


def _entries(index: int) -> list[Rule]:
    """Entries of one of the batch's tensors that are not ignored; causal language models leave out each row's first."""

    def counter(first: int) -> Callable[[Any], Any]:
        def count(batch: Any) -> Any:
            labels = list(parts.leaves(batch))[index]
            return (labels[..., first if labels.dim() > 1 else 0 :] != IGNORED).sum()

        return count

    return [
        Rule("labels that are not ignored, without each row's first", counter(1)),
        Rule("labels that are not ignored", counter(0)),
    ]


def _holds_ignored(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.int64 and bool((tensor == IGNORED).any())


def holds_ignored(batch: Any) -> bool:
    """Whether any label of the batch is masked."""
    return any(_holds_ignored(tensor) for tensor in parts.leaves(batch))
