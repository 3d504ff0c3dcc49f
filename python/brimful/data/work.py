"""Work on all rows of a data set, piece by piece, inside a budget.

In: a data set and a function of a batch. Out: a file, opened as a data set of its own. Rows stay in the order of the files. Half of the budget is
the loader's; what the function makes of a batch lives in the other half, and batches are small enough for that: a function that makes more
than eight times its batch is outside the promise. What needs joins, sorts or groups is `brimful.data.sql`'s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy

from . import settings
from .errors import BelowFloor, DataError
from .moments import Moments
from .output import output

#: Batches of this share of the budget: two at a time with the loader, and what a function makes of one.
BATCH_SHARE = 32
MOST_ROWS = 1 << 16


class Standardized(NamedTuple):
    """A data set whose columns have mean 0 and deviation 1, and what they had."""

    dataset: Any
    mean: Any
    std: Any


class Work:
    """What can be done with all rows of a `Dataset`."""

    def map(self, fn: Callable, out: Any, memory: str | int | None = None, separate: bool = False, bad_rows: str = "fail") -> Any:
        """Write what ``fn`` makes of each batch: ``fn(x)``, or ``fn(x, y)`` with labels, gives an array, ``(x, y)``, or columns by name.

        out: ``"new.npy"``, ``("x.npy", "y.npy")`` or ``"new.parquet"``. separate: ``fn`` gets a dictionary of columns. The result is
        opened as a data set.
        """
        return self._written(out, memory, separate, bad_rows, lambda batch: _called(fn, batch))

    def filter(self, fn: Callable, out: Any, memory: str | int | None = None, separate: bool = False, bad_rows: str = "fail") -> Any:
        """Write the rows for which ``fn`` says True: it gets a batch and gives one True or False for each row."""
        self._places(out)

        def kept(batch: Any) -> Any:
            mask = numpy.asarray(_called(fn, batch))
            rows = _rows(batch)
            if mask.shape != (rows,) or mask.dtype != bool:
                raise DataError(f"the filter gave {mask.dtype}{list(mask.shape)} for {rows} rows: it must give one True or False for each")
            return _chosen(batch, mask)

        return self._written(out, memory, separate, bad_rows, kept)

    def sample(
        self, out: Any, rows: int | None = None, fraction: float | None = None, seed: int = 0, memory: str | int | None = None
    ) -> Any:
        """Write exactly so many rows, or this fraction, chosen at random without repetition; they stay in the order of the files."""
        self._places(out)
        if (rows is None) == (fraction is None):
            raise DataError("give either rows or a fraction")
        if fraction is not None and not 0 <= fraction <= 1:
            raise DataError(f"the fraction is {fraction}: write a number from 0 to 1")
        wanted = round(self.rows * fraction) if rows is None else int(rows)
        if not 0 <= wanted <= self.rows:
            raise DataError(f"{wanted} rows of {self.rows} cannot be chosen")
        random = numpy.random.default_rng(seed)
        left = [self.rows, wanted]

        def chosen(batch: Any) -> Any:
            count = _rows(batch)
            taken = _share(random, *left, count)
            left[0], left[1] = left[0] - count, left[1] - taken
            return _chosen(batch, numpy.sort(random.choice(count, taken, replace=False)))

        return self._written(out, memory, False, "fail", chosen)

    def standardize(self, out: Any, memory: str | int | None = None) -> Standardized:
        """Write all columns with mean 0 and deviation 1, in two passes; labels stay. What is not known (NaN) is not counted, and stays.

        A column whose values are all the same becomes 0.
        """
        self._places(out)
        moments = Moments()
        for batch in self._passed(memory, False, "fail"):
            moments.add(batch[0] if isinstance(batch, tuple) else batch)
            del batch
        mean, std = moments.mean(), moments.std()
        divisor = numpy.where(std > 0, std, 1.0)

        def scaled(batch: Any) -> Any:
            x, *labels = batch if isinstance(batch, tuple) else (batch,)
            kind = x.dtype if x.dtype.kind == "f" else numpy.dtype("float32")
            made = numpy.subtract(x, mean, dtype="float64")
            made /= divisor
            return (made.astype(kind), *labels) if labels else made.astype(kind)

        return Standardized(self._written(out, memory, False, "fail", scaled), mean, std)

    def to_ray(self) -> Any:
        """The same files as a data set of Ray Data, with the chosen columns, for when one machine is outgrown."""
        from .engines import ray_dataset

        return ray_dataset(self)

    def _passed(self, memory: str | int | None, separate: bool, bad_rows: str) -> Iterator[Any]:
        """All rows in the order of the files."""
        budget, _ = settings.memory_bytes(memory)
        row_bytes = self.plan(1, 1 << 62, separate=separate, rank=0, world=1)["row_bytes"]
        rows = max(1, min(MOST_ROWS, budget // BATCH_SHARE // max(1, row_bytes)))
        own = {"rank": 0, "world": 1, "separate": separate, "bad_rows": bad_rows}
        try:
            loader = self.batches(rows, budget // 2, **own)
        except BelowFloor:
            # One batch may take more than half of a small budget; less than the floor is refused with the budget as given.
            loader = self.batches(rows, budget, **own)
        with loader:
            yield from loader

    def _places(self, out: Any) -> None:
        """Labels that go on need a place: said before anything is read."""
        if self._wanted["labels"] and isinstance(out, (str, os.PathLike)) and os.fspath(out).lower().endswith(".npy"):
            raise DataError(f'{out} has no place for the labels: write out=("x.npy", "y.npy") or a .parquet name, or open without labels')

    def _written(self, out: Any, memory: str | int | None, separate: bool, bad_rows: str, made: Callable) -> Any:
        from .dataset import open

        with output(out, self._names(), self._wanted["labels"]) as sink:
            for batch in self._passed(memory, separate, bad_rows):
                sink.put(made(batch))
                del batch
        written = open(out if isinstance(out, (str, os.PathLike)) else [*out][0])
        labels = self._wanted["labels"]
        return open(written.paths, labels=labels) if labels and {*labels} < {*written.columns} else written

    def _names(self) -> list[str]:
        """Names of the columns of x, one for each of its numbers."""
        chosen, labels = self._wanted["columns"], self._wanted["labels"]
        made = []
        converted = {*self._wanted["categories"], *self._wanted["hashed"]}
        found = {name: (kind, shape) for name, kind, shape in self._source.columns}
        for name in found if chosen is None else chosen:
            kind, shape = found[name]
            if chosen is None and (name in labels or (kind == "text" and name not in converted)):
                continue
            made += [f"{name}_{place}" for place in range(int(numpy.prod(shape)))] if shape else [name]
        return made


def _called(fn: Callable, batch: Any) -> Any:
    return fn(*batch) if isinstance(batch, tuple) else fn(batch)


def _rows(batch: Any) -> int:
    first = batch[0] if isinstance(batch, tuple) else batch
    return len(next(iter(first.values())) if isinstance(first, dict) else first)


def _chosen(batch: Any, which: Any) -> Any:
    if isinstance(batch, tuple):
        return tuple(_chosen(part, which) for part in batch)
    return {name: array[which] for name, array in batch.items()} if isinstance(batch, dict) else batch[which]


def _share(random: Any, rows: int, wanted: int, count: int) -> int:
    """How many of the next rows are among those wanted, when all choices are as likely."""
    if rows < 10**9:
        return int(random.hypergeometric(wanted, rows - wanted, count))
    # NumPy draws from no larger urn: one row after the other.
    taken = 0
    for place in range(count):
        taken += int(random.integers(rows - place)) < wanted - taken
    return taken
