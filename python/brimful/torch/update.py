"""The optimizer's step, which cannot be repeated by itself: what it needs is asked for first, and what it changes is kept in danger.

In: accumulated gradients. Out: one update: unscaled, clipped, stepped, scheduled, each once; or `undo`, which puts everything back. A copy
is kept for the time of the step while there is danger: at the first step, in split batches, after a failure, and where little memory is
left. Without danger there is none: it would cost time, and what it guards against does not happen with room to spare. A copy never
outlives its step: written back later, it would undo what others did to the weights since.
"""

from __future__ import annotations

import time
from typing import Any, Callable

import torch

from brimful.fitting import failure, lines, memory

from . import guard
from .budget import Budget

#: Seconds between two looks at the free memory: a look costs up to a millisecond.
LOOK_S = 0.25
#: Tensors of a parameter's size that an optimizer creates at its first step, where it is known.
CREATED = {"SGD": 0, "Adagrad": 0, "Adafactor": 1, "RMSprop": 1}


class Update:
    """Applies the gradients once, or leaves no trace."""

    def __init__(
        self, model: torch.nn.Module, optimizer: Any, clip: float | Callable | None, scaler: Any, scheduler: Any, budget: Budget
    ) -> None:
        self.model, self.optimizer, self.clip = model, optimizer, clip
        self.scaler, self.scheduler, self.budget = scaler, scheduler, budget
        #: Whether little room is predicted to be left.
        self.tight = True
        self.use_host_next = False
        self.failed_last = False
        #: Whether an error of another kind had the update undone.
        self.undone = False
        self._on_host = False
        self._copy: guard.Copy | None = None
        self._changing = False
        self._looked_s = -LOOK_S
        self._short = True
        self._said = False

    def begin(self) -> None:
        """A new attempt: nothing of an earlier one is left to undo."""
        self._copy, self._changing = None, False
        self.failed_last = self.undone = False

    def __call__(self, danger: bool) -> None:
        """Updates. Out of memory, the caller lets go of what the error holds and calls `undo`; other errors undo at once."""
        try:
            self._apply(danger)
        except BaseException as error:  # an interrupt, too
            if not isinstance(error, Exception) or not failure.is_out_of_memory(error):
                copy, self._copy, self._changing = self._copy, None, False
                if copy is not None:
                    copy.put_back()
                    self.undone = True
            raise

    def _apply(self, danger: bool) -> None:
        self.failed_last = True
        if danger or self.tight or self._is_short():
            self._copy = self._kept()
            self._reserve()
        if self.clip is not None:
            parameters = guard.parameters_of(self.optimizer)
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            if callable(self.clip):
                self.clip(parameters)
            else:
                torch.nn.utils.clip_grad_norm_(parameters, self.clip)
        # Up to here only gradients have changed, which are made anew.
        self._changing = True
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        if self.scheduler is not None:
            self.scheduler.step()
        self._changing = self.failed_last = False
        self._copy = None

    def undo(self) -> None:
        """Puts back what the step changed before it failed."""
        changing, copy = self._changing, self._copy
        self._changing, self._copy = False, None
        if copy is not None:
            copy.put_back()
            if self.budget.device.type == "cuda" and not self._on_host:
                self._on_host = self.use_host_next = True
        elif changing:
            raise RuntimeError(
                "memory ran out within the optimizer's step although there had been room for it, and no copy was kept: parameters and "
                "optimizer state may be half updated. Start again from the last checkpoint"
            )

    def _is_short(self) -> bool:
        """Whether what is free now is less than the optimizer's step may take, looked at a few times a second."""
        now = time.monotonic()
        if now - self._looked_s >= LOOK_S:
            self._looked_s = now
            self._short = self.budget.free_bytes() < 2 * guard.copied_bytes(self.optimizer)
        return self._short

    def _kept(self) -> guard.Copy | None:
        """A copy on the device where there is room for it beside the step, else in the host's memory, else none."""
        size_bytes = guard.copied_bytes(self.optimizer)
        on_gpu = self.budget.device.type == "cuda"
        places = []
        if on_gpu and not self._on_host and self.budget.free_bytes() >= size_bytes + self._needed_bytes():
            places.append(False)
        # A host without free memory does not refuse: it ends the process. So it is asked first.
        if memory.host_room_bytes() >= size_bytes + (0 if on_gpu else self._needed_bytes()):
            places.append(True)
        for on_host in places:
            try:
                return guard.Copy(self.optimizer, self.scheduler, on_host)
            except Exception as error:
                if not failure.is_out_of_memory(error):
                    raise
                failure.forget(error)
        if not self._said:
            self._said = True
            lines.say(
                "there is no room for a copy of the weights during the optimizer's step: should it fail half-way, it cannot be undone"
            )
        return None

    def _created(self, parameter: torch.Tensor) -> int:
        """Tensors of this parameter's size that the step will create."""
        if parameter.grad is None or self.optimizer.state.get(parameter):
            return 0
        group = next((g for g in self.optimizer.param_groups if any(p is parameter for p in g["params"])), {}) if self._few else {}
        return CREATED.get(type(self.optimizer).__name__, 2) + bool(group.get("amsgrad")) + bool(group.get("momentum"))

    @property
    def _few(self) -> bool:
        return sum(len(group["params"]) for group in self.optimizer.param_groups) < 2000

    def _needed_bytes(self) -> int:
        """What the step needs beside what is there: state to be created, and temporaries of the size of the parameters."""
        parameters = guard.parameters_of(self.optimizer)
        created = sum(self._created(parameter) * parameter.nbytes for parameter in parameters)
        sizes = [parameter.nbytes for parameter in parameters if parameter.grad is not None]
        together = self.budget.device.type == "cuda"  # kernels over all parameters at once are the default there
        return created + (sum(sizes) if together else 2 * max(sizes, default=0))

    def _reserve(self) -> None:
        """Asks for what the step needs and gives it back, so that the usual failure comes before anything has changed."""
        taken = []
        largest = None
        for parameter in guard.parameters_of(self.optimizer):
            if parameter.grad is None:
                continue
            together = self.budget.device.type == "cuda"
            taken += [torch.empty_like(parameter) for _ in range(self._created(parameter) + together)]
            largest = parameter if largest is None or parameter.nbytes > largest.nbytes else largest
        if largest is not None:
            taken += [torch.empty_like(largest), torch.empty_like(largest)]
