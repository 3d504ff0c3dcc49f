"""Arithmetic with arrays larger than memory.

In: `.npy` files (or arrays of an archive or a group) of the same shape, numbers, and small arrays that fit one row. Out: `Array`, which computes
nothing by itself: `save` writes it, `sum`, `mean`, `std`, `var`, `min` and `max` reduce it, piece by piece along the first axis, in one
pass, inside a budget. Results are NumPy's but for the order of additions. Not here: what mixes rows (sorts, products of matrices).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from . import settings
from .errors import DataError
from .moments import Moments
from .output import output

MOST_ROWS = 1 << 20


def array(path: str | os.PathLike, key: str | None = None, memory: str | int | None = None) -> Array:
    """An array in a file, to compute with. key: which one of an archive or a group. memory: the budget of what is computed from it."""
    from .dataset import open

    plain = open(path, keys=None if key is None else [key])
    columns = plain._source.columns
    if len(columns) != 1 or columns[0][1] == "text":
        raise DataError(f"{path}: {len(columns)} columns, and arithmetic needs one array: choose it by key, or use brimful.data.open")
    _, kind, shape = columns[0]
    dataset = open(path, keys=None if key is None else [key], dtype=kind)
    return Array(None, [], (dataset.rows, *shape), numpy.dtype(kind), dataset, memory)


class Array(numpy.lib.mixins.NDArrayOperatorsMixin):
    """An array that is computed when it is saved or reduced."""

    def __init__(
        self, function: Callable | None, inputs: list, shape: tuple[int, ...], dtype: Any, dataset: Any = None, memory: Any = None
    ) -> None:
        self._function, self._inputs, self._dataset, self._memory = function, inputs, dataset, memory
        self.shape, self.dtype = tuple(shape), dtype

    @property
    def ndim(self) -> int:
        """How many axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many numbers."""
        return int(numpy.prod(self.shape, dtype=object))

    @property
    def nbytes(self) -> int:
        """What it would take in memory."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        from brimful.fitting.memory import human

        return f"array of {self.dtype}{list(self.shape)}, {human(self.nbytes)}, not computed"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise DataError(f"this array is not held in memory ({self!r}): save it, reduce it, or read it with brimful.data.open")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or ufunc.nout != 1 or ufunc.signature is not None or kwargs:
            return NotImplemented
        return self._made(ufunc, list(inputs))

    def astype(self, dtype: Any) -> Array:
        """The same numbers as another type."""
        wanted = numpy.dtype(dtype)
        return self._made(lambda block: block.astype(wanted), [self])

    def _made(self, function: Callable, inputs: list) -> Array:
        arrays = [value for value in inputs if isinstance(value, Array)]
        for other in arrays:
            if other.shape != self.shape:
                raise DataError(f"arrays of different shapes: {list(self.shape)} and {list(other.shape)}")
        inputs = [value if isinstance(value, Array) else self._fits_a_row(value) for value in inputs]
        tiny = [numpy.ones((1, *self.shape[1:]), value.dtype) if isinstance(value, Array) else value for value in inputs]
        with numpy.errstate(all="ignore"):
            like = function(*tiny)
        return Array(function, inputs, self.shape, like.dtype, None, next((a._memory for a in arrays if a._memory is not None), None))

    def _fits_a_row(self, value: Any) -> Any:
        if isinstance(value, (bool, int, float)) or numpy.isscalar(value):
            return value
        value = numpy.asarray(value)
        row = (1, *self.shape[1:])
        try:
            if value.dtype != object and numpy.broadcast_shapes(value.shape, row) == row:
                return value
        except ValueError:
            pass
        raise DataError(
            f"an array of shape {list(value.shape)} in memory does not fit one row of {list(self.shape[1:])}: save it as .npy and use "
            "brimful.data.array"
        )

    # Computing.

    def _nodes(self) -> list[Array]:
        """Everything this is computed from, inputs first, each once."""
        found: dict[int, Array] = {}
        stack: list[tuple[Array, bool]] = [(self, False)]
        while stack:
            node, entered = stack.pop()
            if entered:
                found.setdefault(id(node), node)
            elif id(node) not in found:
                stack.append((node, True))
                stack += [(value, False) for value in node._inputs if isinstance(value, Array)]
        return [*found.values()]

    def _blocks(self, memory: str | int | None, more: int = 1) -> Iterator[Any]:
        """The rows, piece by piece. Half of the budget reads, half computes: every value of a piece at once, and `more` like the last."""
        budget, _ = settings.memory_bytes(self._memory if memory is None else memory)
        nodes = self._nodes()
        files = [node for node in nodes if node._dataset is not None]
        row = max(1, int(numpy.prod(self.shape[1:], dtype=object)))
        held = row * (sum(node.dtype.itemsize for node in nodes) + more * max(8, self.dtype.itemsize))
        rows = max(1, min(MOST_ROWS, budget // 2 // held, budget // (16 * len(files)) // (row * 8)))
        own = {"rank": 0, "world": 1}
        loaders = [node._dataset.batches(rows, budget // 2 // len(files), **own) for node in files]
        try:
            for pieces in zip(*loaders):
                count = len(pieces[0])
                # A file's piece keeps its shape; a list of numbers comes as a matrix of one column.
                values = {id(node): piece.reshape((count, *self.shape[1:])) for node, piece in zip(files, pieces)}
                del pieces
                for node in nodes:
                    if node._function is not None:
                        given = [values[id(value)] if isinstance(value, Array) else value for value in node._inputs]
                        values[id(node)] = node._function(*given)
                        del given
                block = values.pop(id(self))
                values.clear()
                yield block
                del block
        finally:
            for loader in loaders:
                loader.close()

    def save(self, path: str | os.PathLike, memory: str | int | None = None) -> Array:
        """Write it as ``.npy``, and give the file as an array to compute with."""
        if not os.fspath(path).lower().endswith(".npy"):
            raise DataError(f"{path}: an array is written to a name that ends in .npy")
        with output(path, [], []) as sink:
            for block in self._blocks(memory):
                sink.put(block)
                del block
        return array(path, memory=self._memory)

    def _reduced(self, axis: Any, memory: Any, other: dict, start: Callable, join: Callable) -> Any:
        _check(axis, other)
        answer = None
        for block in self._blocks(memory, more=2):
            made = start(block, axis)
            answer = made if answer is None else join(answer, made)
            del block
        if answer is None:
            raise DataError("an array without rows has no such value")
        return answer

    def sum(self, axis: int | None = None, memory: str | int | None = None, **other: Any) -> Any:
        """All numbers, or each column, added up: floats in double precision, whole numbers exactly in 64 bits."""
        kind = "float64" if self.dtype.kind == "f" else "uint64" if self.dtype.kind == "u" else "int64"
        return self._reduced(axis, memory, other, lambda block, axis: block.sum(axis=axis, dtype=kind), numpy.add)

    def min(self, axis: int | None = None, memory: str | int | None = None, **other: Any) -> Any:
        """The least number, of all or of each column."""
        return self._reduced(axis, memory, other, lambda block, axis: block.min(axis=axis), numpy.minimum)

    def max(self, axis: int | None = None, memory: str | int | None = None, **other: Any) -> Any:
        """The greatest number, of all or of each column."""
        return self._reduced(axis, memory, other, lambda block, axis: block.max(axis=axis), numpy.maximum)

    def _moments(self, axis: int | None, memory: Any, other: dict) -> Moments:
        _check(axis, other)
        moments = Moments(skip_unknown=False)
        for block in self._blocks(memory, more=3):
            moments.add(block.reshape(-1) if axis is None else block)
            del block
        return moments

    def mean(self, axis: int | None = None, memory: str | int | None = None, **other: Any) -> Any:
        """The mean, of all or of each column."""
        return self._moments(axis, memory, other).mean()[()]

    def var(self, axis: int | None = None, memory: str | int | None = None, ddof: float = 0, **other: Any) -> Any:
        """The variance, of all or of each column, in one pass."""
        return self._moments(axis, memory, other).var(ddof)[()]

    def std(self, axis: int | None = None, memory: str | int | None = None, ddof: float = 0, **other: Any) -> Any:
        """The standard deviation, of all or of each column, in one pass."""
        return self._moments(axis, memory, other).std(ddof)[()]


def _check(axis: Any, other: dict) -> None:
    if axis not in (None, 0) or isinstance(axis, bool):
        raise DataError(f"axis is {axis!r}: arrays in files are reduced as a whole (None) or along their rows (0)")
    given = [name for name, value in other.items() if value is not None and not (name == "keepdims" and value is False)]
    if given:
        raise DataError(f"{', '.join(given)}: arrays in files are reduced without this")
