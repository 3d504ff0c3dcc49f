"""Where the rows of a piece of work go.

In: a name or two, and what a function made of each batch. Out: a `.npy` file, two of them for features and labels, or a Parquet file. The
files have their names when all rows are written, and not before.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

from .errors import DataError
from .writers import NpyWriter, ParquetWriter, replaced


@contextlib.contextmanager
def output(out: Any, columns: list[str], labels: list[str]) -> Iterator[Any]:
    """What rows are put into; `columns` and `labels` are the names that a table gets where arrays have as many columns."""
    paths = [Path(out)] if isinstance(out, (str, os.PathLike)) else [Path(path) for path in out]
    ends = {path.suffix.lower() for path in paths}
    if ends not in ({".npy"}, {".parquet"}) or len(paths) > 2 or (len(paths) == 2 and ends != {".npy"}):
        raise DataError(f"out is {out!r}: write a name that ends in .npy or .parquet, or two .npy names for features and labels")
    table = ends == {".parquet"}
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(replaced(path)) for path in paths]
        writers = [ParquetWriter(part) if table else NpyWriter(part) for part in parts]
        try:
            yield _Table(writers[0], columns, labels) if table else _Arrays(writers)
            for writer in writers:
                writer.close()
        except BaseException:
            for writer in writers:
                writer.abandon()
            raise


class _Arrays:
    def __init__(self, writers: list[NpyWriter]) -> None:
        self.writers = writers

    def put(self, rows: Any) -> None:
        """The rows of one batch."""
        given = rows if isinstance(rows, tuple) else (rows,)
        if isinstance(rows, dict):
            raise DataError("columns by name cannot be written to .npy: write to .parquet, or give an array")
        if len(given) != len(self.writers):
            raise DataError(
                f"{len(given)} arrays, and {len(self.writers)} .npy file{'s' * (len(self.writers) > 1)} to write: with labels, "
                'write out=("x.npy", "y.npy") or a .parquet name; or return the features alone'
            )
        if len({len(array) for array in given}) > 1:
            raise DataError(f"features of {len(given[0])} rows with labels of {len(given[1])}")
        for writer, array in zip(self.writers, given):
            writer.write(numpy.asarray(array))


class _Table:
    def __init__(self, writer: ParquetWriter, columns: list[str], labels: list[str]) -> None:
        self.writer, self.columns, self.labels = writer, columns, labels

    def put(self, rows: Any) -> None:
        """The rows of one batch."""
        features, labels = rows if isinstance(rows, tuple) else (rows, None)
        made = dict(features) if isinstance(features, dict) else _columns(features, self.columns, "x")
        if labels is not None:
            made.update(_columns(labels, self.labels, "y"))
        self.writer.write({str(name): numpy.asarray(array) for name, array in made.items()})


def _columns(array: Any, names: list[str], else_name: str) -> dict[str, Any]:
    array = numpy.asarray(array)
    if array.ndim == 1:
        return {names[0] if len(names) == 1 else else_name: array}
    if array.ndim == 2:
        given = names if len(names) == array.shape[1] else [f"{else_name}{number}" for number in range(array.shape[1])]
        return {name: array[:, number] for number, name in enumerate(given)}
    return {else_name: array}
