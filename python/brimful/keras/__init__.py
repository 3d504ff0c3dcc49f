"""Train, evaluate and predict Keras 3 models inside a memory budget, with the batch that was asked for.

    brimful.keras.plan(model, batch=128, device="t4")              # whether it will fit; so does brimful.plan
    brimful.keras.fit(model, x, y, batch_size=128, epochs=5)       # takes what model.fit takes
    step = brimful.keras.Step(model, loss, optimizer)              # for loops of one's own: loss = step(x, y)

In: what Keras takes. Out: what Keras gives. Keras's own loop, callbacks and logs run; what is inside a step is done in parts
(`job`), on TensorFlow, JAX or PyTorch (`backends`). Not done: several devices or ranks.

Keras is imported when a name is first used: where it is missing, one sentence says so.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from brimful.needed import library

if TYPE_CHECKING:
    from .api import evaluate, fit, predict
    from .prediction import Plan, plan
    from .step import Step

__all__ = ["Plan", "Step", "evaluate", "fit", "plan", "predict"]

_LAZY = {"Plan": "prediction", "Step": "step", "evaluate": "api", "fit": "api", "plan": "prediction", "predict": "api"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        library("keras", asker=__name__)
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
