"""What `Step` takes, and what it refuses with a sentence.

In: a model, an optimizer, a scheduler, as the user gives them. Out: nothing, or an error before anything has happened.
"""

from __future__ import annotations

from typing import Any

import torch

from . import guard, hooks, optimizers

ONE = "Step works with one process and one device today"


def check(model: Any, optimizer: Any, scheduler: Any) -> None:
    """Raises where the job cannot be taken over."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}: give a torch.nn.Module")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer is a {type(optimizer).__name__}: give an optimizer over the model's parameters")
    wrapper = _distributed_wrapper(model)
    if wrapper is not None:
        raise ValueError(
            f"the model is wrapped in {wrapper}: {ONE}; give the model that it wraps, on one GPU, or plan it with brimful.plan"
        )
    world = _world_size()
    if world > 1:
        raise ValueError(f"torch.distributed runs {world} ranks: {ONE}; start one process, without torchrun")
    devices = {tensor.device for tensor in (*model.parameters(), *model.buffers(), *guard.parameters_of(optimizer))}
    if any(device.type == "meta" for device in devices):
        raise ValueError(
            "the model has no weights (it is on the meta device): load them before it is trained, or plan it with brimful.plan"
        )
    if len(devices) > 1:
        names = ", ".join(sorted(map(str, devices)))
        raise ValueError(f"the parameters are on several devices ({names}): {ONE}; move the model to one of them")
    if not any(parameter.requires_grad for parameter in guard.parameters_of(optimizer)):
        raise ValueError("no parameter of the optimizer is trainable: nothing would change")
    if optimizers.needs_closure(optimizer):
        raise ValueError("LBFGS calls the model several times within its step, which cannot be taken in parts: use another optimizer")
    hooked = hooks.within_backward(model, optimizer)
    if hooked is not None:
        raise ValueError(hooked)
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise ValueError("ReduceLROnPlateau takes a metric once per epoch: call its step yourself, and leave scheduler= out")


def _distributed_wrapper(model: torch.nn.Module) -> str | None:
    """The class that spreads the model over devices, if there is one."""
    names = {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule", "PipelineStage", "DeepSpeedEngine"}
    for module in model.modules():
        found = names & {kind.__name__ for kind in type(module).__mro__}
        if found:
            return found.pop()
    if any(type(parameter).__name__ == "DTensor" or type(parameter.data).__name__ == "DTensor" for parameter in model.parameters()):
        return "DTensor"
    return None


def _world_size() -> int:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    return 1
