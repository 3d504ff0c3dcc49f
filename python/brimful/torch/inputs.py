"""From what the user gives as inputs to an example batch, and to calls of the model.

In: tensors, tuples, dicts of them, or their shapes. Out: a batch of tensors without data, its size, and `call`, which passes to the
model what its forward takes and leaves the rest, labels say, to the loss.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

# Inputs of these names hold indices.
_INDICES = ("ids", "mask", "labels", "label", "target", "targets", "tokens")


class InputError(ValueError):
    """The inputs are not what a model can be called with."""


def example(inputs: Any, model: torch.nn.Module) -> Any:
    """The inputs as tensors; shapes become tensors without data."""
    if _is_shape(inputs):
        return _empty(inputs, _dtype(model, "", inputs))
    if isinstance(inputs, Mapping):
        return {name: _one(name, value, model) for name, value in inputs.items()}
    if isinstance(inputs, (tuple, list)):
        return tuple(_one("", value, model) if index == 0 else _one("label", value, model) for index, value in enumerate(inputs))
    if isinstance(inputs, torch.Tensor):
        return inputs
    if type(inputs).__module__ == "numpy" and hasattr(inputs, "dtype"):
        return torch.as_tensor(inputs)
    raise InputError(
        f"inputs are a {type(inputs).__name__}: give an example batch (a tensor, a tuple or a dict of tensors) or its shapes, such as "
        "(32, 3, 224, 224)"
    )


def _one(name: str, value: Any, model: torch.nn.Module) -> Any:
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return torch.as_tensor(value)
    return _empty(value, _dtype(model, name, value)) if _is_shape(value) else value


def _is_shape(value: Any) -> bool:
    return (
        isinstance(value, (tuple, list)) and len(value) > 0 and all(isinstance(size, int) and not isinstance(size, bool) for size in value)
    )


def _empty(shape: Any, dtype: torch.dtype) -> torch.Tensor:
    if any(size < 0 for size in shape):
        raise InputError(f"{tuple(shape)} is no shape: sizes are not negative")
    return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _dtype(model: torch.nn.Module, name: str, shape: Any) -> torch.dtype:
    if any(name.endswith(ending) for ending in _INDICES):
        return torch.int64
    for module in model.modules():
        parameter = next(iter(module.parameters(recurse=False)), None)
        if parameter is not None:
            embeds = isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag))
            return torch.int64 if embeds else parameter.dtype
    return torch.get_default_dtype()


def batch_size(batch: Any) -> int:
    """The first dimension of the first tensor that has one."""
    for tensor in torch.utils._pytree.tree_leaves(batch):
        if isinstance(tensor, torch.Tensor) and tensor.dim() > 0:
            return int(tensor.shape[0])
    raise InputError("no input has a first dimension: give at least one tensor whose first dimension is the batch")


def call(model: torch.nn.Module, batch: Any, optional: bool) -> tuple[Any, tuple]:
    """The model's output, and the inputs that its forward does not take, or need not take where optional ones are not passed."""
    if isinstance(batch, Mapping):
        names = _names(model)
        if names is None:
            return model(**batch), ()
        taken = {name: value for name, value in batch.items() if name in names}
        return model(**taken), tuple(value for name, value in batch.items() if name not in names)
    if isinstance(batch, (tuple, list)):
        count = _positional(model, optional)
        return model(*batch[:count]), tuple(batch[count:])
    return model(batch), ()


def _parameters(model: torch.nn.Module) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL), inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]


def _names(model: torch.nn.Module) -> set[str] | None:
    parameters = _parameters(model)
    if any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {parameter.name for parameter in parameters}


def _positional(model: torch.nn.Module, optional: bool) -> int | None:
    """How many of the inputs forward takes: those without a default, or with those that have one; all if it takes any number."""
    parameters = _parameters(model)
    # Models of transformers have a dozen optional arguments before their labels: those go by name.
    optional = optional and all(parameter.name != "labels" for parameter in parameters)
    if any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in kinds and (optional or p.default is p.empty)]
    return max(1, len(needed))
