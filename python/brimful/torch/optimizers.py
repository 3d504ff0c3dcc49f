"""From what the user says about the optimizer to one over the copies of the parameters.

In: an optimizer, its class, its name, or a function of the parameters. Out: a function that makes it for a replica.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable

import torch

from . import replicas

# Names that are not a class's own.
_NAMED: dict[str, Callable[[list], Any]] = {
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
}


def known() -> list[str]:
    """The names that can be written."""
    classes = (name for name, value in vars(torch.optim).items() if inspect.isclass(value) and issubclass(value, torch.optim.Optimizer))
    return sorted({*_NAMED, *(name.lower() for name in classes if name != "Optimizer")})


def needs_closure(optimizer: Any) -> bool:
    """Whether its step calls the model itself, which only a step of the user's can do."""
    name = optimizer if isinstance(optimizer, str) else getattr(optimizer, "__name__", type(optimizer).__name__)
    return "lbfgs" in name.lower()


def maker(optimizer: Any) -> Callable:
    """What makes the optimizer for a model's replica."""
    if isinstance(optimizer, torch.optim.Optimizer):
        return lambda model, memo: replicas.of_optimizer(optimizer, memo)
    if isinstance(optimizer, str):
        return _of_name(optimizer)
    if callable(optimizer):
        return lambda model, memo: optimizer(_trainable(model))
    raise TypeError(f"optimizer is a {type(optimizer).__name__}: give an optimizer, its class, its name, or a function of the parameters")


def _of_name(text: str) -> Callable:
    name, _, kind = text.lower().partition("_")
    options = {"fused": {"fused": True}, "foreach": {"foreach": True}, "forloop": {"foreach": False}, "": {}}.get(kind)
    classes = {key.lower(): value for key, value in vars(torch.optim).items() if inspect.isclass(value)}
    if options is None or (name not in _NAMED and name not in classes):
        raise ValueError(f"'{text}' is not an optimizer of this PyTorch: write one of {', '.join(known())}, or give the optimizer itself")
    if name in _NAMED and not options:
        return lambda model, memo: _NAMED[name](_trainable(model))
    extra = {"sgd": {"lr": 1e-3}, "momentum": {"lr": 1e-3, "momentum": 0.9}}.get(name, {})
    made = torch.optim.SGD if name == "momentum" else classes[name]
    return lambda model, memo: made(_trainable(model), **extra, **options)


def _trainable(model: torch.nn.Module) -> list:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError("no parameter of the model is trainable: plan it with mode='inference'")
    return parameters
