"""Plan any PyTorch model without a GPU, and train it inside a budget.

    import brimful, torchvision
    plan = brimful.plan(torchvision.models.resnet50(), (64, 3, 224, 224), device="t4")
    step = brimful.torch.Step(model, loss, optimizer)

In: the user's model, an example batch and how it is trained. Out: a `Plan`. The step runs on tensors without data (`capture`), with the
kernels that the GPU would run (`kernels`, `autocast`, `scratch`); the allocator, the verdict and the remedies are Rust's. Not counted:
other streams, other processes, several GPUs. `Step` trains; `split`, `accumulate` and `recover` are for loops of one's own.

PyTorch is imported when a name is first used: where it is missing, one sentence says so.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from brimful.needed import library

if TYPE_CHECKING:
    from .accumulation import accumulate
    from .api import PlanError, plan
    from .parts import split
    from .recovery import recover
    from .result import Plan
    from .step import Step

__all__ = ["Plan", "PlanError", "Step", "accumulate", "plan", "recover", "split"]

_LAZY = {
    "Plan": "result",
    "PlanError": "api",
    "Step": "step",
    "accumulate": "accumulation",
    "plan": "api",
    "recover": "recovery",
    "split": "parts",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        library("torch", asker=__name__)
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
