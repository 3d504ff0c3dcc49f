"""Hooks of the user's that run within backward: what they see of a batch in parts.

In: the model, the optimizer's parameters. Out: sentences. A hook on gradients is given those of each part; one behind a gradient that was added up is called for
each part, and may change the weights before the batch is done, which nobody can put back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules import module as modules

from . import guard


def _named(model: torch.nn.Module, optimizer: Any) -> Iterator[tuple[str, torch.Tensor]]:
    known = {id(parameter): name for name, parameter in model.named_parameters()}
    yield from model.named_parameters()
    yield from (("a parameter", parameter) for parameter in guard.parameters_of(optimizer) if id(parameter) not in known)


def within_backward(model: torch.nn.Module, optimizer: Any) -> str | None:
    """Why a step cannot be put back or taken in parts, if a hook is called when a gradient is there."""
    for name, parameter in _named(model, optimizer):
        if getattr(parameter, "_post_accumulate_grad_hooks", None):
            return (
                f"{name} has a hook that runs as soon as its gradient is there (register_post_accumulate_grad_hook): an optimizer that steps "
                "within backward can neither be put back nor taken in parts; remove the hook, and give Step the optimizer"
            )
    return None


def on_gradients(model: torch.nn.Module, optimizer: Any) -> str | None:
    """Why the result of parts may be another one, if hooks are given gradients."""
    name = next((name for name, parameter in _named(model, optimizer) if parameter._backward_hooks), None)
    if name is None:
        name = next(
            (name or "the model" for name, module in model.named_modules() if module._backward_hooks or module._backward_pre_hooks), None
        )
    if name is None and (modules._global_backward_hooks or modules._global_backward_pre_hooks):
        name = "every module"
    return None if name is None else f"hooks on gradients ({name} has one) are given those of each part, not of the full batch"
