"""`brimful.plan` for Keras models.

In: a model and what is asked of it. Out: a `Plan`. The model's own description (`to_json`) is planned, for TensorFlow, as `brimful plan model.keras` does
it; its weights and data are not touched. A subclassed model has no description: a sentence says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from brimful import _native
from brimful.fitting import gpu, memory
from brimful.planned import Report, checked_batch

from .planning import description

_MODES = ("train", "inference")


class Plan(Report):
    """Will it fit, where does the memory go, and what would make it fit?"""

    def __init__(self, described: str, request: dict[str, Any]) -> None:
        self._described, self._request = described, request
        super().__init__(json.loads(_native.keras_plan(described, json.dumps(request))))

    def at(self, batch: int) -> Plan:
        """The plan for another batch."""
        return Plan(self._described, {**self._request, "batch": checked_batch(batch)})

    def text(self, colour: bool = False) -> str:
        """The report as the command prints it into a file, 80 columns wide."""
        return self._command("--format", "text", "--color", "always" if colour else "never")

    def html(self) -> str:
        """The report as the command's `--format html` writes it: one page that needs nothing but a browser."""
        return self._command("--format", "html")

    def _command(self, *options: str) -> str:
        """What the command says: pages and texts are its own."""
        asked = self._request
        words = ["--batch", asked["batch"], "--device", asked["device"], "--memory", asked["memory_bytes"]]
        words += ["--optimizer", asked["optimizer"], "--loss", asked["loss"], "--precision", asked["precision"]]
        given = [str(word) for pair in zip(words[::2], words[1::2]) if pair[1] is not None for word in pair]
        given += ["--inference"] if asked["inference"] else []
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        with tempfile.TemporaryDirectory(prefix="brimful-") as folder:
            file = os.path.join(folder, "model.json")
            with open(file, "w", encoding="utf-8") as written:
                written.write(self._described)
            run = subprocess.run(
                [sys.executable, "-m", "brimful", "plan", file, *given, *options],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
            )
        if run.returncode not in (0, 1):
            raise RuntimeError(run.stderr.strip().removeprefix("error: "))
        return run.stdout


def plan(
    model: Any,
    *,
    batch: int | None = None,
    optimizer: str | None = None,
    loss: str | None = None,
    precision: str | None = None,
    device: str | None = None,
    memory: str | int | None = None,
    mode: str = "train",
) -> Plan:
    """Predict the memory of a Keras model's training step under TensorFlow, without running it.

    model: a functional or sequential model of Keras 3; it is not touched.
    batch: samples per step; 32 by default, as in Keras.
    optimizer, loss: names; by default as the model was compiled, else adam and what suits the last layer.
    precision: a dtype policy such as ``mixed_float16``; by default the model's.
    device: a name of ``brimful devices``; by default this machine's first GPU, all of it, or else a CPU.
    memory: what TensorFlow may use at most, such as ``"14GiB"``.
    mode: ``train`` or ``inference``.
    """
    if mode not in _MODES:
        raise ValueError(f"mode is '{mode}': write train or inference")
    described = description(model)
    if described is None:
        raise TypeError(f"the model ({type(model).__name__}) has no description: build it with the functional API, or keras.Sequential")
    request = {
        "batch": None if batch is None else checked_batch(batch),
        "optimizer": optimizer,
        "loss": loss,
        "precision": precision,
        "device": device or _this_device(),
        "memory_bytes": _size(memory),
        "inference": mode == "inference",
    }
    return Plan(described, request)


def _size(given: str | int | None) -> int | None:
    return None if given is None else memory.parse(given)


def _this_device() -> str:
    """This machine's GPU by its name in the catalogue: what this process holds of it already is for the same job."""
    found = gpu.gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not found:
        return "cpu"
    try:
        return json.loads(_native.device(found[0].name))["id"]
    except ValueError:
        raise ValueError(f"this machine's {found[0].name} is not in the catalogue: name a device, 'brimful devices' lists them") from None
