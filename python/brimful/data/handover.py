"""Arrays of a batch as a framework's own, where they lie.

In: NumPy arrays that borrow a batch. Out: the same memory as a tensor: PyTorch by NumPy, JAX and TensorFlow by DLPack. Batches begin at a page
and their arrays at 64 bytes, so nobody needs a copy but a device that is not the host; slices of them need not be aligned, which is why only whole batches go over. Pinned memory
is PyTorch's own, and so a copy; it is counted, and taken out of the budget.
"""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy

from brimful.fitting.memory import human

from .errors import BelowFloor, BudgetHeldByCaller, DataError, library

FRAMEWORKS = ("numpy", "torch", "jax", "tensorflow")
#: What pinned copies may take of the budget.
PINNED_SHARE = 4


def converter(to: str, pins: Pins) -> Callable[[Any], Any]:
    """From a NumPy array to the framework's."""
    if to not in FRAMEWORKS:
        raise DataError(f"to is {to!r}: write one of {', '.join(FRAMEWORKS)}")
    framework = library(to, asker=f'to="{to}"')
    if to == "torch":
        return pins.copy if pins.wanted else framework.from_numpy
    if to == "jax":
        return _jax
    if to == "tensorflow":
        return _tensorflow(framework)
    return lambda array: array


def _jax(array: Any) -> Any:
    import jax

    if jax.default_backend() != "cpu":
        # An array that lies in the host's memory would make JAX compute there: this one is on its way to the device.
        return jax.device_put(array)
    if array.dtype.itemsize == 8 and not jax.config.jax_enable_x64:
        # JAX has no such numbers then, and makes smaller ones: a copy.
        return jax.numpy.asarray(array)
    return jax.dlpack.from_dlpack(array)


def _tensorflow(tf: Any) -> Callable[[Any], Any]:
    def convert(array: Any) -> Any:
        with tf.device("CPU:0"):
            if array.size == 0 or array.dtype == bool:
                return tf.convert_to_tensor(array)
            return tf.experimental.dlpack.from_dlpack(array.__dlpack__())

    return convert


class Pins:
    """Copies in memory that a GPU reads by itself; PyTorch keeps the memory and uses it again."""

    def __init__(self, to: str, wanted: bool, batching: dict) -> None:
        self.wanted, self.peak_bytes, self.live_bytes = bool(wanted), 0, 0
        self.most_bytes = batching["memory_bytes"] // PINNED_SHARE if wanted else 0
        self.batch_bytes = 0
        self.notes: list[str] = []
        if not wanted:
            return
        if to != "torch":
            raise DataError('pin=True is PyTorch\'s: write to="torch" too')
        torch = library("torch", asker='to="torch"')
        if not torch.cuda.is_available():
            raise DataError("pin=True needs a GPU that PyTorch sees: pinned memory is what a GPU reads by itself")
        self.notes.append(f"up to {human(self.most_bytes)} of the budget are PyTorch's pinned memory: each batch is copied there once")

    def of(self, fields: list[tuple[str, str, tuple[int, ...]]], batch_rows: int) -> None:
        """Says what a batch will take; two must fit."""
        sizes = [numpy.dtype(kind).itemsize * math.prod(shape) * batch_rows for _, kind, shape in fields]
        self.batch_bytes = sum(map(_rounded, sizes))
        if self.wanted and 2 * self.batch_bytes > self.most_bytes:
            floor, given = 2 * self.batch_bytes * PINNED_SHARE, self.most_bytes * PINNED_SHARE
            text = (
                f"{human(given)} is less than the {human(floor)} that this needs at least: a quarter of the budget is for two pinned "
                f"batches of {human(self.batch_bytes)}. Give more memory, or take smaller batches"
            )
            raise BelowFloor(text, floor, given)

    def below(self, error: BelowFloor) -> BelowFloor:
        """A refusal, in the numbers of the whole budget."""
        if not self.wanted:
            return error
        floor = -(-error.floor_bytes * PINNED_SHARE // (PINNED_SHARE - 1))
        given = error.memory_bytes + self.most_bytes
        text = f"{human(given)} is less than the {human(floor)} that this needs at least, a quarter of it for pinned copies ({error})"
        return BelowFloor(text, floor, given)

    def room(self) -> None:
        """Whether the next batch fits, before it is read: nothing is lost by asking again later."""
        if not self.wanted or self.live_bytes + self.batch_bytes <= self.most_bytes:
            return
        gc.collect()
        if self.live_bytes + self.batch_bytes > self.most_bytes:
            text = (
                f"pinned batches of {human(self.live_bytes)} are still held by the caller, and {human(self.most_bytes)} of the budget are "
                "for them: let go of each batch before the next, or give more memory"
            )
            raise BudgetHeldByCaller(text, self.live_bytes // self.batch_bytes, self.most_bytes)

    def copy(self, array: Any) -> Any:
        """The array in pinned memory."""
        import torch

        pinned = torch.from_numpy(array).pin_memory()
        held_bytes = _rounded(array.nbytes)
        self.live_bytes += held_bytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        weakref.finalize(pinned, self._gone, held_bytes)
        return pinned

    def _gone(self, held_bytes: int) -> None:
        self.live_bytes -= held_bytes


def _rounded(size_bytes: int) -> int:
    """PyTorch takes a power of two."""
    return 1 << max(0, size_bytes - 1).bit_length()
