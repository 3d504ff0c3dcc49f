"""A guard around a part of one's own training loop: when memory runs out inside, everything is as before.

In: what the loop changes: a model, an optimizer, a GradScaler, a scheduler. Out: an `Attempt` that says whether it went well. A copy of
parameters and optimizer state is kept for as long as the guard lasts. Not put back: what modules keep in plain attributes, and variables
of the loop; those that hold tensors of the attempt must be dropped by the caller.
"""

from __future__ import annotations

from typing import Any

import torch

from brimful.fitting import failure

from . import guard


class Attempt:
    """How it went: `succeeded`, and the error's words in `error`."""

    def __init__(self) -> None:
        self.succeeded: bool | None = None
        self.error: str | None = None


class recover:  # noqa: N801 - used as a function
    """Undoes what was done inside when memory runs out there, and goes on after the block.

        size = 128
        while True:
            with brimful.torch.recover(model, optimizer) as attempt:
                train_on(batch, size)     # in a function of its own: its variables are let go with it
            if attempt.succeeded:
                break
            size = max(1, size // 2)

    Parameters, optimizer state, buffers, random state, the scaler and the scheduler are as before; gradients are None. Other errors
    pass, and nothing is undone for them. on_host keeps the copy in the host's memory instead of the GPU's.
    """

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, scaler: Any = None, scheduler: Any = None, on_host: bool = False
    ) -> None:
        self._model, self._optimizer = model, optimizer
        self._light = guard.Light(model, scaler)
        self._scheduler, self._on_host = scheduler, on_host

    def __enter__(self) -> Attempt:
        self._light.take()
        self._copy = guard.Copy(self._optimizer, self._scheduler, self._on_host, extra=list(self._model.parameters()))
        self._attempt = Attempt()
        return self._attempt

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        copy, self._copy = self._copy, None
        self._attempt.succeeded = error is None
        if error is None or not failure.is_out_of_memory(error):
            return False
        del trace
        self._attempt.error = failure.forget(error)
        self._optimizer.zero_grad(set_to_none=True)
        for parameter in self._model.parameters():
            parameter.grad = None
        copy.put_back()
        self._light.put_back()
        guard.release(self._light.device)
        return True
