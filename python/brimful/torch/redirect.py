"""Sends what the user's code asks of a GPU to the planned device.

In: calls of PyTorch functions on the way to the dispatcher. Out: the same calls with `cuda` devices replaced, and calls that need a
driver left out. Code that was written for a GPU runs as it stands on a machine without one.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import torch
from torch._subclasses import FakeTensor
from torch.overrides import TorchFunctionMode

from .recorder import DEVICE

# These make a tensor from Python data, on the host whatever index the device has.
_FROM_DATA = {torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor}
_STAYS = {torch.Tensor.cuda, torch.Tensor.pin_memory}


def _is_gpu(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.startswith("cuda") and value[4:5] in ("", ":")


class Redirect(TorchFunctionMode):
    """Active while a step is captured."""

    def __init__(self, is_input: Callable[[torch.Tensor], bool]) -> None:
        super().__init__()
        self._is_input = is_input
        self._leaves: dict[int, tuple[torch.Tensor, Any]] = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for value in args:
            if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor) and value.requires_grad and value.is_leaf:
                self._leaves.setdefault(id(value), (value, value.grad))
        if func is torch.Tensor.to and self._is_input(args[0]) and _is_host(args[1] if len(args) > 1 else kwargs.get("device")):
            # Where there is no GPU, scripts name the CPU: what is meant is the device that the model is on.
            args = (args[0], DEVICE, *args[2:]) if len(args) > 1 else args
            kwargs = {**kwargs, "device": DEVICE} if "device" in kwargs else kwargs
        if func in _STAYS:
            return args[0] if args[0].device == DEVICE else args[0].to(DEVICE)
        if any(isinstance(value, (str, torch.device)) and _is_gpu(value) for value in args):
            args = tuple(DEVICE if _is_gpu(value) else value for value in args)
        device = kwargs.get("device")
        if device is not None and _is_gpu(device):
            device = DEVICE
            kwargs = {**kwargs, "device": DEVICE}
        if device == DEVICE and func in _FROM_DATA:
            made = func(*args, **{**kwargs, "device": torch.device("cpu")})
            return torch.empty_strided(made.shape, made.stride(), dtype=made.dtype, device=DEVICE)
        return func(*args, **kwargs)

    def restore(self) -> None:
        """Gives tensors that a closure reached their own gradients back."""
        for leaf, gradient in self._leaves.values():
            leaf.grad = gradient


def _is_host(device: Any) -> bool:
    return (isinstance(device, str) and device == "cpu") or (isinstance(device, torch.device) and device == torch.device("cpu"))


@contextlib.contextmanager
def installed(is_input: Callable[[torch.Tensor], bool]) -> Iterator[None]:
    """Redirects functions, and makes the driver's calls do nothing."""
    silent = ("synchronize", "empty_cache", "reset_peak_memory_stats", "ipc_collect")
    before = {name: getattr(torch.cuda, name) for name in silent}
    move = torch.nn.Module.cuda
    mode = Redirect(is_input)
    try:
        for name in silent:
            setattr(torch.cuda, name, lambda *args, **kwargs: None)
        torch.nn.Module.cuda = lambda module, device=None: module  # type: ignore[method-assign]
        with mode:
            yield
    finally:
        mode.restore()
        torch.nn.Module.cuda = move  # type: ignore[method-assign]
        for name, function in before.items():
            setattr(torch.cuda, name, function)
