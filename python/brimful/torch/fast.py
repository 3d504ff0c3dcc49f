"""Runs most ops on fake tensors without the bookkeeping of FakeTensorMode, which takes most of a capture's time.

In: an op and its arguments. Out: its result, or NotImplemented where PyTorch's own way must be taken: host tensors among the
arguments, constants, ops for which FakeTensorMode has an implementation of its own. Ops that write in place and give nothing back are
not run at all while the optimizer steps: no shape depends on them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import FakeTensor, FakeTensorMode, fake_impls
from torch._subclasses.fake_tensor import in_kernel_invocation_manager

SLOW, FAST, IN_PLACE, CONSTRUCTOR = range(4)
COPIES = {torch.ops.aten._to_copy.default, torch.ops.aten.clone.default}


class FastPath:
    """For one capture, on one device."""

    def __init__(self, mode: FakeTensorMode, device: torch.device) -> None:
        self._mode = mode
        self._device = device
        self._ways: dict[Any, int] = {}

    def run(self, func: Any, args: tuple, kwargs: dict, optimizing: bool) -> Any:
        way = self._ways.get(func)
        if way is None:
            way = self._ways[func] = _way(func)
        if way == IN_PLACE and optimizing:
            return args[0] if func._schema.returns else None
        if way == CONSTRUCTOR and not self._here(args, kwargs.get("device")):
            return NotImplemented
        if way == SLOW or not self._plain(args) or (kwargs and not self._plain(tuple(kwargs.values()))):
            return NotImplemented
        if func in COPIES:
            # A copy of nothing is an empty tensor, and cannot be tempted to read a value.
            kwargs = {name: value for name, value in kwargs.items() if name in ("dtype", "memory_format")}
            func = torch.ops.aten.empty_like.default
        if "device" in kwargs:
            kwargs = {**kwargs, "device": torch.device("meta")}
        try:
            with in_kernel_invocation_manager(self._mode):
                result = func(*args, **kwargs)
        except NotImplementedError:
            self._ways[func] = SLOW
            return NotImplemented
        return self._wrapped(result)

    def empty(self, shape: Any, dtype: torch.dtype, like: torch.memory_format) -> torch.Tensor:
        """A fake tensor on the device."""
        with torch._C._DisableTorchDispatch():
            made = torch.empty(shape, dtype=dtype, device="meta", memory_format=like)
        return FakeTensor(self._mode, made, self._device)

    def _here(self, args: tuple, device: Any) -> bool:
        """Whether a new tensor comes to be on the device: it is told so, or it is like one that is there."""
        return device == self._device or (device is None and bool(args) and isinstance(args[0], FakeTensor))

    def _plain(self, values: Any) -> bool:
        """Whether every tensor is a fake one on the device, without a known value."""
        device = self._device
        for value in values:
            if isinstance(value, torch.Tensor):
                if type(value) is not FakeTensor or value.fake_device != device or value.constant is not None:
                    return False
            elif isinstance(value, (list, tuple)):
                if value and isinstance(value[0], (torch.Tensor, type(None))) and not self._plain(value):
                    return False
            elif isinstance(value, torch.device) and value != device:
                return False
        return True

    def _wrapped(self, result: Any) -> Any:
        if isinstance(result, torch.Tensor):
            return result if type(result) is FakeTensor else FakeTensor(self._mode, result, self._device)
        if isinstance(result, (tuple, list)):
            return type(result)(self._wrapped(item) for item in result)
        return result


def _way(func: Any) -> int:
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return SLOW
    arguments = func._schema.arguments
    written = [a.alias_info is not None and a.alias_info.is_write for a in arguments]
    if written and written[0] and (not func._schema.returns or len(func._schema.returns) == 1):
        if torch.Tag.inplace_view not in func.tags and not func._schema.name.endswith(("resize_", "set_")):
            return IN_PLACE
    if any(argument.name == "device" for argument in arguments):
        return CONSTRUCTOR
    if func in fake_impls.op_implementations_dict or any(check(func) for check, _ in fake_impls.op_implementations_checks):
        return SLOW
    return FAST
