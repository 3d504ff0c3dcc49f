"""What happens to real tensors while a step is captured.

In: an op some of whose tensors have data: numbers that the code writes down, counters, what a closure reaches. Out: its result, where it can
be run on the host for real, so that code that reads it takes the branch that it would take; else the arguments with planned
tensors in the place of real ones. What was there before the capture is never written to. Large tensors have no data here either.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable

import torch
from torch._subclasses import FakeTensor

# Larger than any counter or table, small enough to compute in no time.
MAX_ELEMENTS = 65_536
FACTORIES = {
    f"aten.{name}"
    for name in "rand randn randint zeros ones empty full arange scalar_tensor tensor linspace eye randperm empty_strided".split()
}


class Host:
    """The real tensors of one capture."""

    def __init__(self, device: torch.device, planned: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._device = device
        self._planned = planned
        self._born: dict[int, weakref.ref] = {}
        self._stand_ins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._written: dict[Any, tuple[int, ...]] = {}

    def made(self, result: Any, of: list = ()) -> Any:  # type: ignore[assignment]
        """Remembers that these tensors came to be during the capture, and may be written to; unless they are views of older ones."""
        before = {tensor.untyped_storage()._cdata for tensor in of if self._foreign(tensor)}
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage()._cdata not in before:
                storage = tensor.untyped_storage()
                self._born[storage._cdata] = weakref.ref(storage)
        return result

    def run(self, name: str, func: Any, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
        """The result on the host, or NotImplemented with the arguments to go on with."""
        real: list = []
        fakes = _collect(args, real) + _collect(tuple(kwargs.values()), real)
        if not real:
            if fakes or name not in FACTORIES or kwargs.get("device") == self._device or not _small(args):
                return NotImplemented, args, kwargs
        elif self._writes_to_foreign(func, args):
            # As if it were done: no shape depends on it.
            return (args[0] if func._schema.returns else None), args, kwargs
        here = not fakes and kwargs.get("device") != self._device
        if here and sum(max(1, tensor.numel()) for tensor in real) <= MAX_ELEMENTS:
            with torch._C._DisableTorchDispatch():
                return self.made(func(*args, **kwargs), real), args, kwargs
        return NotImplemented, self._replaced(args), {key: self._replaced(value) for key, value in kwargs.items()}

    def _writes_to_foreign(self, func: Any, args: tuple) -> bool:
        positions = self._written.get(func)
        if positions is None:
            arguments = enumerate(func._schema.arguments)
            positions = tuple(place for place, a in arguments if a.alias_info is not None and a.alias_info.is_write)
            self._written[func] = positions
        return any(place < len(args) and self._foreign(args[place]) for place in positions)

    def _foreign(self, value: Any) -> bool:
        if isinstance(value, (list, tuple)):
            return any(self._foreign(item) for item in value)
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            return False
        storage = value.untyped_storage()
        known = self._born.get(storage._cdata)
        return known is None or known() is None

    def _replaced(self, value: Any) -> Any:
        """Planned tensors for real ones; a single number may stay, as on a GPU."""
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor) or value.dim() == 0 or value.layout != torch.strided:
                return value
            known = self._stand_ins.get(id(value))
            if known is None or known[0] is not value:
                known = self._stand_ins[id(value)] = (value, self._planned(value))
            return known[1]
        if isinstance(value, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in value):
            return type(value)(self._replaced(item) for item in value)
        return tuple(self._replaced(item) for item in value) if type(value) is tuple else value


def _collect(values: Any, real: list) -> int:
    """Puts the tensors with data into the list, and counts the others."""
    fakes = 0
    for value in values:
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor) or value.device.type != "cpu":
                fakes += 1
            else:
                real.append(value)
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], (torch.Tensor, list, tuple, type(None))):
            fakes += _collect(value, real)
    return fakes


def _small(args: tuple) -> bool:
    """Whether a factory's sizes and bounds are small."""
    product = 1
    for value in args:
        for size in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(size, (int, float)) and not isinstance(size, bool):
                product *= max(1, abs(int(size)) if abs(size) < 2**62 else MAX_ELEMENTS + 1)
    return product <= MAX_ELEMENTS
