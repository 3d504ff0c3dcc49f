"""One step of a loop of one's own, inside a memory budget.

    step = brimful.keras.Step(model, loss, optimizer)
    for x, y in dataset:
        loss = step(x, y)

In: a model, a Keras loss and an optimizer, on any backend of Keras 3. Out: the loss of the batch, as a number; nothing else is held from
one step to the next. Losses of layers (regularisers) are added, as `model.fit` does.
"""

from __future__ import annotations

from typing import Any

import keras

from brimful.fitting import lines

from .api import job_of


class _Loop(keras.Model):
    """The user's model, as a model that Keras's step can be asked of."""

    def __init__(self, model: Any) -> None:
        super().__init__(name="loop")
        self.brimful_inner = model
        self._call_has_training_arg = getattr(model, "_call_has_training_arg", True)

    def call(self, x: Any, training: bool | None = None) -> Any:
        return self.brimful_inner(x, training=training) if self._call_has_training_arg else self.brimful_inner(x)

    def build(self, *shapes: Any, **named: Any) -> None:
        self.built = True


class Step:
    """A training step that takes its batch in parts where it does not fit as a whole."""

    def __init__(
        self,
        model: Any,
        loss: Any,
        optimizer: Any,
        memory: str | int = "auto",
        allow: str = "exact",
        jit_compile: Any = "auto",
        quiet: bool = False,
    ) -> None:
        """
        loss: a Keras loss, its name, or a function of (targets, predictions).
        optimizer: a Keras optimizer or its name.
        memory: ``auto`` for what the device has free now, or a limit such as ``"3GiB"``.
        """
        self.model = model
        self.quiet = quiet
        self._loop = _Loop(model)
        self._loop.compile(optimizer=optimizer, loss=loss, jit_compile=jit_compile)
        self._job = job_of(self._loop, memory, allow)
        self._train = self._job.backend.functions(self._job)["train_function"]

    @property
    def optimizer(self) -> Any:
        """The optimizer, its number of steps included."""
        return self._loop.optimizer

    @property
    def micro_batch(self) -> int | None:
        """How many samples are taken at a time now."""
        kind = self._job.kinds.get("train")
        return kind and kind.size.size

    @property
    def differences(self) -> list[str]:
        """What is not as it would be with the batch as a whole, one sentence each."""
        return [finding.text for finding in self._job.findings]

    def __call__(self, x: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Takes one optimizer step with a batch, and gives its loss."""
        with lines.quiet(self.quiet):
            return self._job.backend.one_step(self._train, (x, y, sample_weight))

    def summary(self) -> None:
        """Says what was done, and keeps what was learnt for the next run."""
        with lines.quiet(self.quiet):
            self._job.finished()
