"""Loaders of `brimful.data` among the arguments of `fit`, `evaluate` and `predict`: their budgets are part of the job.

In: the arguments, the job. Out: the job's room, less what loaders may hold, where the model computes in the host's memory: a limit that the user gave
covers both, and of what is free the loaders still take what they do not hold yet. A GPU has memory of its own, and a loader's budget is then
another one: nothing is taken off.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from brimful.fitting import DoesNotFit, lines, memory


def _loader(value: Any) -> Any:
    module = sys.modules.get("brimful.data.loader")
    if module is None:
        return None
    found = getattr(value, "loader", None) if not isinstance(value, module.Loader) else value
    return found if isinstance(found, module.Loader) else None


def loaders(values: Iterable[Any]) -> list[Any]:
    """The loaders among them, each once."""
    return [*{id(found): found for found in map(_loader, values) if found is not None}.values()]


def counted(job: Any, args: tuple, kwargs: dict) -> None:
    """Takes the loaders' budgets off the room of this run."""
    job.wanted_bytes = None if job.wanted in ("auto", None) else memory.parse(job.wanted)
    job.data_bytes = 0
    found = loaders([*args, *kwargs.values()])
    if not found:
        return
    # Keras takes nothing but the data itself beside an adapter, and says nothing about the rest.
    given = [name for name in ("y", "sample_weight", "class_weight") if kwargs.get(name) is not None]
    given += ["y"] * (len(args) > 1 and _loader(args[0]) is not None and args[1] is not None)
    if given:
        raise ValueError(
            f"{', '.join(given)} beside a loader would be ignored by Keras: make it part of the data (labels=...), or of the loss"
        )
    if not job.backend.device.lower().startswith("cpu"):
        return
    budget = sum(loader.memory_bytes for loader in found)
    if job.wanted_bytes is not None:
        if budget >= job.wanted_bytes:
            raise DoesNotFit(
                f"the data's budget of {memory.human(budget)} leaves nothing of {memory.human(job.wanted_bytes)} for the model: give the loader "
                "less memory, or the job more"
            )
        lines.say(
            f"{memory.human(budget)} of the {memory.human(job.wanted_bytes)} are the data's, {memory.human(job.wanted_bytes - budget)} the model's"
        )
        job.wanted_bytes -= budget
    elif os.environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() not in ("1", "true"):
        # What they hold already is no longer free.
        job.data_bytes = sum(max(0, loader.memory_bytes - loader.stats().used_bytes) for loader in found)
