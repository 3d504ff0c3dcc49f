"""Runs what happens on the host for real.

In: an op on host tensors alone. Out: its result, with values: step counters, random numbers that decide whether a layer is skipped,
tables of positions. Code that reads them takes the branch that it would take. Large tensors have no data here either.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import FakeTensor

# Larger than any counter or table, small enough to compute in no time.
MAX_ELEMENTS = 65_536
FACTORIES = {
    f"aten.{name}"
    for name in "rand randn randint zeros ones empty full arange scalar_tensor tensor linspace eye randperm empty_strided".split()
}


def run(name: str, func: Any, args: tuple, kwargs: dict, device: torch.device) -> Any:
    """The result on the host, or NotImplemented where a tensor of the device, or a large one, takes part."""
    if kwargs.get("device", None) == device:
        return NotImplemented
    found = _host_elements(args, _host_elements(tuple(kwargs.values()), 0))
    if found < 0:
        return NotImplemented
    if found == 0 and (name not in FACTORIES or not _small(args)):
        return NotImplemented
    if found > MAX_ELEMENTS:
        return NotImplemented
    with torch._C._DisableTorchDispatch():
        return func(*args, **kwargs)


def _host_elements(values: Any, found: int) -> int:
    """How many elements the host tensors have together; negative if there is one without data."""
    for value in values:
        if found < 0:
            return found
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor) or type(value) is not torch.Tensor or value.device.type != "cpu":
                return -1
            found += max(1, value.numel())
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], (torch.Tensor, list, tuple)):
            found = _host_elements(value, found)
    return found


def _small(args: tuple) -> bool:
    """Whether a factory's sizes and bounds are small."""
    product = 1
    for value in args:
        for size in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(size, (int, float)) and not isinstance(size, bool):
                product *= max(1, abs(int(size)) if abs(size) < 2**62 else MAX_ELEMENTS + 1)
    return product <= MAX_ELEMENTS
