"""Plan any PyTorch model without a GPU.

    import brimful, torchvision
    plan = brimful.plan(torchvision.models.resnet50(), (64, 3, 224, 224), device="t4")

In: the user's model, an example batch and how it is trained. Out: a `Plan`. The step runs on tensors without data (`capture`), with the
kernels that the GPU would run (`kernels`, `autocast`, `scratch`); the allocator, the verdict and the remedies are Rust's. Not counted:
other streams, other processes, several GPUs.

PyTorch is imported when a name is first used: `command` can then say in one sentence why it cannot be.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import PlanError, plan
    from .result import Plan

__all__ = ["Plan", "PlanError", "plan"]

_LAZY = {"Plan": "result", "PlanError": "api", "plan": "api"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
