"""The closing lines of a job under `brimful fit`: which training ran as it is, and what would change that.

In: what was seen in this process. Out: lines on stderr, or none: where methods were taken over `brimful.keras` has said its own, and
a process without a framework, a worker or a fork has nothing to say.
"""

from __future__ import annotations

import os
import sys

from . import loops
from .seen import facts

_STEPS = {
    loops.KERAS: ("step = brimful.keras.Step(model, loss, optimizer)", "loss = step(x, y)"),
    loops.TORCH: ("step = brimful.torch.Step(model, loss, optimizer)", "loss = step(batch)"),
}
_REFUSALS = {
    loops.KERAS_2: "Keras 2, which is not taken over: it needs Keras 3 (TensorFlow 2.16 or newer, without tf_keras)",
    loops.TENSORFLOW_1: "an optimizer of TensorFlow 1, which is not taken over: it needs Keras 3 or PyTorch",
}


def lines() -> list[str]:
    """The lines for what was seen."""
    said = []
    for kind, place in facts.loops.items():
        if kind in _STEPS:
            said.append(f"the training loop at {place} ran as it is; these two lines would keep it inside the budget:")
            said += [f"    {line}" for line in _STEPS[kind]]
        else:
            said.append(f"{place} trains with {_REFUSALS[kind]}")
    if not said and not facts.taken:
        said.append("no training was seen")
    return said


def say(installed_in: int, first: bool) -> None:
    """Writes the lines at the end of the process in which the take-over was installed."""
    if os.getpid() != installed_in or not facts.frameworks or _is_worker():
        return
    # A process that another one of the job started may have had nothing to train; so may the one that starts workers.
    if not facts.loops and (not first or "torch.distributed.run" in sys.modules):
        return
    for line in lines():
        print(f"brimful: {line}", file=sys.stderr, flush=True)


def _is_worker() -> bool:
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None
