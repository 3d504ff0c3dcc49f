"""Arrays and tables written piece by piece; nothing has its final name before it is whole.

In: pieces of rows. Out: a `.npy` file, or a Parquet file by pyarrow. A file is written beside its place under a name of its own, and moved there
when it is done; when something fails it is removed.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

from . import arrow
from .errors import DataError, FileUnreadable, library

#: Room for the shape, which is known at the end.
HEADER_BYTES = 256


@contextlib.contextmanager
def replaced(path: str | os.PathLike) -> Iterator[Path]:
    """A file to write beside the place, which moves there at the end of the block."""
    final = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".partial", dir=final.parent)
    except OSError as error:
        raise FileUnreadable(f"{final}: {error.strerror}") from error
    os.close(handle)
    part = Path(name)
    try:
        # As any new file: less what the user's mask takes away.
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        yield part
        os.replace(part, final)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise FileUnreadable(f"{final}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


class NpyWriter:
    """One array, by rows."""

    def __init__(self, path: Path) -> None:
        self.file = open(path, "wb", buffering=0)
        self.rows, self.like = 0, None

    def write(self, rows: Any) -> None:
        """Rows that follow."""
        rows = numpy.ascontiguousarray(rows)
        if self.like is None:
            if rows.dtype.hasobject:
                raise DataError("only numbers can be written to .npy: the rows are Python objects")
            self.like = numpy.empty((0, *rows.shape[1:]), rows.dtype)
            self._all(bytes(HEADER_BYTES))
        if rows.dtype != self.like.dtype or rows.shape[1:] != self.like.shape[1:]:
            raise DataError(
                f"rows of {rows.dtype}{list(rows.shape[1:])} cannot follow rows of {self.like.dtype}{list(self.like.shape[1:])} in one array"
            )
        if rows.size:
            self._all(memoryview(rows).cast("B"))
        self.rows += len(rows)

    def _all(self, data: Any) -> None:
        view = memoryview(data)
        while len(view):
            view = view[self.file.write(view) :]

    def abandon(self) -> None:
        """Nobody wants it any more."""
        self.file.close()

    def close(self) -> None:
        """Writes the header, in which the number of rows is known now."""
        if self.like is None:
            raise DataError("nothing was given to write: there is no row")
        shape = (self.rows, *self.like.shape[1:])
        described = {"descr": numpy.lib.format.dtype_to_descr(self.like.dtype), "fortran_order": False, "shape": shape}
        text = repr(described).encode("latin1")
        room = HEADER_BYTES - 10
        if len(text) >= room:
            raise DataError(f"an array of {len(shape)} axes is more than a .npy header of ours has room for")
        self.file.seek(0)
        self._all(b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n")
        self.file.close()


class ParquetWriter:
    """A table: each piece is a row group."""

    def __init__(self, path: Path) -> None:
        self.path, self.writer = path, None
        self.pa = library("pyarrow", asker="writing Parquet")

    def write(self, columns: dict[str, Any]) -> None:
        """Rows that follow, by column."""
        import pyarrow.parquet

        made = {name: arrow.column(self.pa, numpy.ascontiguousarray(array)) for name, array in columns.items()}
        table = self.pa.table(made)
        if self.writer is None:
            self.writer = pyarrow.parquet.ParquetWriter(self.path, table.schema)
        elif table.schema != self.writer.schema:
            raise DataError(f"columns {table.schema.names} with their types cannot follow {self.writer.schema.names} in one table")
        if len(table):
            self.writer.write_table(table)

    def abandon(self) -> None:
        """Nobody wants it any more."""
        if self.writer is not None:
            with contextlib.suppress(Exception):
                self.writer.close()

    def close(self) -> None:
        """Writes the end of the file."""
        if self.writer is None:
            raise DataError("nothing was given to write: there is no row")
        self.writer.close()
