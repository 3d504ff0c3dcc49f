"""Copies of the user's objects that hold no data.

In: a model, an optimizer, a batch, on any device, also on none. Out: the same with fake tensors on the planned device. The originals
are not touched and no weight is copied. Not copied: what the objects reach through closures, whose real tensors PyTorch wraps when they
meet a fake one.
"""

from __future__ import annotations

import copy
from typing import Any, Iterator

import torch

from .recorder import DEVICE


def empty_like(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A fake of a tensor, on the planned device; floating-point ones of another dtype, if one is given."""
    dtype = dtype if dtype is not None and tensor.dtype.is_floating_point else tensor.dtype
    if tensor.layout != torch.strided or tensor.is_quantized:
        return torch.empty(tensor.shape, dtype=dtype, device=DEVICE)
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device=DEVICE)


def _fake(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    fake = empty_like(tensor, dtype)
    if isinstance(tensor, torch.nn.Parameter):
        fake = torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
    else:
        fake.requires_grad_(tensor.requires_grad)
    return fake


def of_model(model: torch.nn.Module, dtype: torch.dtype | None = None) -> tuple[torch.nn.Module, dict[int, Any]]:
    """A copy of the model without data, and what stands for each of its tensors, by id."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        for value in (*module._parameters.values(), *module._buffers.values(), *_tensors(vars(module))):
            if isinstance(value, torch.Tensor) and id(value) not in memo:
                if isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
                    raise ValueError("a lazy module has no weights yet: call the model with one batch before it is planned")
                memo[id(value)] = _fake(value, dtype)
    tensors = dict(memo)
    try:
        return copy.deepcopy(model, memo), memo
    except Exception:  # a lock, an open file, a handle of a library: what cannot be copied is shared
        return _shallow(model, tensors), tensors


def _tensors(attributes: dict) -> Iterator[torch.Tensor]:
    """The tensors among a module's attributes, also in lists and dicts."""
    for name, value in attributes.items():
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple, dict)) and name not in ("_modules", "_parameters", "_buffers"):
            yield from (leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def _shallow(module: torch.nn.Module, memo: dict[int, Any]) -> torch.nn.Module:
    """A copy of the tree of modules alone, with the copies of the tensors."""
    known = memo.get(id(module))
    if isinstance(known, torch.nn.Module):
        return known
    twin = object.__new__(type(module))
    memo[id(module)] = twin

    def twin_of(value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            return _shallow(value, memo)
        return memo.get(id(value), value) if isinstance(value, torch.Tensor) else value

    for name, value in vars(module).items():
        if name in ("_parameters", "_buffers"):
            value = type(value)((key, memo.get(id(tensor), tensor)) for key, tensor in value.items())
        elif name == "_modules":
            value = type(value)((key, child if child is None else _shallow(child, memo)) for key, child in value.items())
        elif isinstance(value, (torch.Tensor, torch.nn.Module)):
            value = twin_of(value)
        elif name.startswith("_") and name.endswith("_hooks"):
            value = copy.copy(value)
        elif isinstance(value, (dict, list, tuple)):
            value = torch.utils._pytree.tree_map(twin_of, value)
        twin.__dict__[name] = value
    return twin


def of_optimizer(optimizer: torch.optim.Optimizer, memo: dict[int, Any]) -> torch.optim.Optimizer:
    """The user's optimizer over the copies of its parameters, as it is before its first step; and those that it holds in turn."""
    known = memo.get(id(optimizer))
    if isinstance(known, torch.optim.Optimizer):
        return known
    twin = memo[id(optimizer)] = object.__new__(type(optimizer))
    for name, value in vars(optimizer).items():
        # A scheduler wraps `step` on the object itself: that one would step the user's optimizer.
        if name in ("step", "zero_grad", "state", "param_groups"):
            continue
        if isinstance(value, torch.optim.Optimizer):
            value = of_optimizer(value, memo)
        elif name.endswith("_hooks") and isinstance(value, dict):
            value = type(value)()
        elif isinstance(value, (dict, list)):
            value = copy.copy(value)
        twin.__dict__[name] = value
    twin.state = type(optimizer.state)(dict) if hasattr(optimizer.state, "default_factory") else {}
    # Wrappers share the groups of what they wrap.
    groups = memo.get(id(optimizer.param_groups))
    if groups is None:
        groups = memo[id(optimizer.param_groups)] = []
        for group in optimizer.param_groups:
            new = {key: value for key, value in group.items() if key != "params"}
            new["params"] = [memo[id(parameter)] if id(parameter) in memo else _fake(parameter) for parameter in group["params"]]
            groups.append(new)
    twin.param_groups = groups
    return twin


def of_batch(batch: Any, size: int, to_size: int, dtype: torch.dtype | None = None) -> Any:
    """A batch without data; tensors whose first dimension is `size` get `to_size` there."""

    def one(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.dim() == 0 or value.shape[0] != size or size == to_size:
            fake = empty_like(value, dtype)
        else:
            shape = (to_size, *value.shape[1:])
            order = sorted(range(value.dim()), key=lambda dim: (-value.stride(dim), dim))
            made = torch.empty_permuted(shape, order, dtype=value.dtype, device="meta")
            fake = empty_like(made, dtype)
        return fake.requires_grad_(value.requires_grad)

    return torch.utils._pytree.tree_map(one, batch)
