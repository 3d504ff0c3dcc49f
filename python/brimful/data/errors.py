"""What can go wrong between files and batches. Each error is one sentence that says where, and what to do.

The extension raises most of these. A `DataError` is a `ValueError`: what was asked for, or what a file holds, cannot be used.
"""

from __future__ import annotations

from types import ModuleType

from brimful import needed


class DataError(ValueError):
    """Data that cannot be read, or not as asked for."""


class LibraryMissing(DataError, ImportError):
    """A library that this needs and that is not installed."""


class FileUnreadable(DataError, OSError):
    """A file that is not there, or that the system refuses to read or write."""


class BelowFloor(DataError):
    """Less memory than the least that this job needs. Nothing has been read."""

    def __init__(self, text: str, floor_bytes: int, memory_bytes: int) -> None:
        super().__init__(text)
        self.floor_bytes, self.memory_bytes = floor_bytes, memory_bytes

    def __reduce__(self) -> tuple:
        return type(self), (str(self), self.floor_bytes, self.memory_bytes)


class BudgetHeldByCaller(DataError, MemoryError):
    """The caller keeps so many batches that none is left to fill."""

    def __init__(self, text: str, batches: int, memory_bytes: int) -> None:
        super().__init__(text)
        self.batches, self.memory_bytes = batches, memory_bytes

    def __reduce__(self) -> tuple:
        return type(self), (str(self), self.batches, self.memory_bytes)


def library(name: str, asker: str) -> ModuleType:
    """A module that the user's Python has, or a `LibraryMissing` that says how to get it."""
    try:
        return needed.library(name, asker)
    except ModuleNotFoundError as missing:
        raise LibraryMissing(str(missing)) from None
