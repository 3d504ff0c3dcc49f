"""`brimful.plan`, and what plans of every framework have.

In: a model, of PyTorch or Keras. Out: a plan: the report's fields as attributes, which draws itself in a notebook. Importing this imports no framework.
"""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import Any

__all__ = ["Report", "plan"]


class Report:
    """Will it fit, where does the memory go, and what would make it fit?"""

    def __init__(self, report: dict[str, Any]) -> None:
        #: Everything, as `--format json` writes it (docs/json.md).
        self.report = report

    @property
    def fits(self) -> bool | None:
        """Whether the job fits, if tightly; None if only a part of the step could be captured, and that part fits."""
        if self.report["verdict"] == "does_not_fit":
            return False
        return None if self.partial else True

    @property
    def partial(self) -> bool:
        """Whether the capture stopped before the end of the step; a note says where and why."""
        return any(note["code"] == "partial_capture" for note in self.notes)

    @property
    def verdict(self) -> str:
        """`fits`, `tight` or `does_not_fit`."""
        return self.report["verdict"]

    @property
    def peak(self) -> SimpleNamespace:
        """The peak: `allocated_bytes`, `reserved_bytes`, `device_bytes`, `low_bytes`, `high_bytes`, `at`."""
        return SimpleNamespace(**self.report["peak"])

    @property
    def breakdown(self) -> dict[str, int]:
        """What fills the device at the peak, in bytes; the parts add up to `peak.device_bytes`."""
        return self.report["breakdown"]

    @property
    def max_batch(self) -> int | None:
        """The largest batch that fits; None if nothing limits it or not even one sample fits."""
        return self.report["max_batch"]

    @property
    def remedies(self) -> list[dict[str, Any]]:
        """Changes that need less memory, best first."""
        return self.report["remedies"]

    @property
    def notes(self) -> list[dict[str, Any]]:
        """What was guessed, bounded or never measured."""
        return self.report["notes"]

    def to_json(self) -> str:
        """The report as the command's `--format json` writes it."""
        return json.dumps(self.report, indent=2)

    def text(self) -> str:
        """The report as the command prints it."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        gib = self.peak.device_bytes / 2**30
        verdict = "a part of the step only" if self.partial else self.verdict
        return f"<Plan: {self.report['model']['name']} at batch {self.report['job']['batch']}, {gib:.2f} GiB, {verdict}>"

    def _repr_html_(self) -> str:
        from brimful.notebook import plan_box

        return plan_box.box(self.report)


def plan(model: Any, inputs: Any = None, **options: Any) -> Report:
    """Predict the memory of a training step, without running it.

    A PyTorch model takes an example batch or its shapes, and what `brimful.torch.plan` takes:

        brimful.plan(model, (64, 3, 224, 224), optimizer="adamw", device="t4")

    A Keras model knows its inputs, and takes what `brimful.keras.plan` takes:

        brimful.plan(model, batch=128, device="t4")

    The answer has `fits`, `max_batch`, `breakdown`, `remedies`; `print` shows it as the command does, a notebook draws it.
    """
    if isinstance(model, (str, os.PathLike)):
        raise TypeError(f"{os.fspath(model)!r} is a path: 'brimful plan {os.fspath(model)}' plans files; here the model itself is wanted")
    if inputs is None and _is_keras(model):
        from brimful.keras import plan as plan_keras

        return plan_keras(model, **options)
    if inputs is None:
        raise TypeError("inputs is missing: a PyTorch model needs an example batch or its shapes, such as (64, 3, 224, 224)")
    from brimful.torch import plan as plan_torch

    return plan_torch(model, inputs, **options)


def checked_batch(batch: Any) -> int:
    """A number of samples, or a sentence."""
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        raise ValueError(f"batch is {batch!r}: write a number of samples, 1 or more")
    return batch


def _is_keras(model: Any) -> bool:
    return any(kind.__name__ == "Model" and kind.__module__.partition(".")[0] == "keras" for kind in type(model).__mro__)
