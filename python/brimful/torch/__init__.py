"""Plan any PyTorch model without a GPU.

    import brimful, torchvision
    plan = brimful.plan(torchvision.models.resnet50(), (64, 3, 224, 224), device="t4")

In: the user's model, an example batch and how it is trained. Out: a `Plan`. The step runs on tensors without data (`capture`), with the
kernels that the GPU would run (`kernels`, `autocast`, `scratch`); the allocator, the verdict and the remedies are Rust's. Not counted:
other streams, other processes, several GPUs.
"""

from __future__ import annotations

from .api import PlanError, plan
from .result import Plan

__all__ = ["Plan", "PlanError", "plan"]
