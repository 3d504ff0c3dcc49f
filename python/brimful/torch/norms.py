"""What keeps a split batch from being exactly the whole: BatchNorm, random numbers and other state; and statistics that keep their speed.

In: the model. Out: sentences for the user, and a context in which each part moves the running statistics by its share: of momentum m and
n of N samples, 1 - (1 - m)^(n/N), so that after the batch as much of the old statistics is left as after one full batch. InstanceNorm's
are means over samples: there the momenta are such that the statistics are those of one full batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

BATCH_NORM = (
    "BatchNorm takes its statistics from each part, so the gradients are those of the parts, not of the full batch; its running "
    "statistics keep their speed"
)
RANDOM = "dropout and other random numbers are drawn part by part: equal in distribution to the full batch, not number by number"

#: Modules whose buffers are looked after here.
NORMS = (_BatchNorm, _InstanceNorm)


def changes(names: list[str]) -> str:
    """Why a batch in parts is not the whole where a forward pass changes these buffers."""
    others = f" and {len(names) - 1} other buffers" if len(names) > 2 else f" and {names[1]}" if len(names) == 2 else ""
    return f"the forward pass changes {names[0]}{others}: in parts once for each, so the result is not exactly the full batch's"


def batch_norms(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Modules that take statistics over the samples of a batch now."""
    return [
        module
        for module in model.modules()
        if isinstance(module, _BatchNorm) and (module.training or (module.running_mean is None and module.running_var is None))
    ]


def least(model: torch.nn.Module, total: int) -> int:
    """The fewest samples at a time: BatchNorm has no statistics of one, and an odd batch leaves one over when it is taken by twos."""
    if not batch_norms(model):
        return 1
    return min(total, 2 if total % 2 == 0 else 3)


def draws(model: torch.nn.Module) -> bool:
    """Whether a module of PyTorch's draws random numbers in training; what functions draw is seen when they do."""
    for module in model.modules():
        if not module.training:
            continue
        if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0:
            return True
        if isinstance(module, (torch.nn.RNNBase, torch.nn.MultiheadAttention)) and module.dropout > 0:
            return True
    return False


class RunningStatistics:
    """Sets the momentum of each part, and afterwards everything but the statistics as after one batch."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.modules = [
            module
            for module in model.modules()
            if isinstance(module, NORMS)
            and module.training
            and module.track_running_stats
            and module.running_mean is not None
            # Without a momentum InstanceNorm leaves its statistics as they are.
            and not (isinstance(module, _InstanceNorm) and module.momentum is None)
        ]

    def __enter__(self) -> "RunningStatistics":
        self._momenta = [module.momentum for module in self.modules]
        # Where momentum is None the statistics are the mean over all batches so far: the next one weighs 1 / (count + 1).
        self._weights = [
            1.0 / (int(module.num_batches_tracked) + 1) if module.momentum is None else module.momentum for module in self.modules
        ]
        self._parts, self._left = 0, 1.0
        return self

    def share(self, part: float) -> None:
        """The next part is this share of the batch."""
        self._parts += 1
        self._left -= part
        for module, weight in zip(self.modules, self._weights):
            if isinstance(module, _InstanceNorm):
                # What the parts after this one take away from it is made up for.
                module.momentum = weight * part / (1.0 - weight * max(0.0, self._left))
            else:
                module.momentum = 1.0 if weight >= 1.0 else 1.0 - (1.0 - weight) ** part

    def __exit__(self, *error: Any) -> None:
        for module, momentum in zip(self.modules, self._momenta):
            module.momentum = momentum
        counted = [module for module in self.modules if isinstance(module, _BatchNorm)]  # InstanceNorm does not count
        counters = [module.num_batches_tracked for module in counted if module.num_batches_tracked is not None]
        if error[0] is None and self._parts > 1 and counters:
            torch._foreach_sub_(counters, self._parts - 1)
