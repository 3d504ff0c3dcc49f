"""Files of one format as rows of a data set.

In: paths and what is wanted of each row. Out: `Dataset`: its columns, plans, loaders, and work on all rows (`work`). Opening reads headers and
counts rows; nothing is decoded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from brimful import _native

from . import settings
from .loader import Loader
from .report import Plan
from .work import Work


def open(
    paths: str | os.PathLike | Iterable,
    columns: Iterable[str] | None = None,
    labels: str | Iterable[str] | None = None,
    dtype: Any = None,
    label_dtype: Any = None,
    categories: Mapping[str, Iterable] | None = None,
    hashed: Mapping[str, int] | None = None,
    types: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    nulls: Iterable[str] = (),
    keys: Iterable[str] | None = None,
    image_size: tuple[int, int] | None = None,
    image_channels: int | None = None,
    format: str | None = None,
    scratch: str | os.PathLike | None = None,
) -> Dataset:
    """Open files as one data set: a path, a pattern such as ``train/*.csv``, a folder of pictures, or a list of them.

    columns, labels: names of the columns of ``x`` and ``y``; all columns of numbers are ``x`` if none is named.
    dtype, label_dtype: the types of ``x`` and ``y``; without, ``float32`` for tables, the file's own for arrays and labels.
    categories, hashed: text columns that become numbers, by a list of their values or by a hash below a number.
    types, delimiter, header, nulls: of text tables; what is not given is found out from a sample.
    keys: arrays of an archive (``.npz``) or a group (Zarr).
    image_size, image_channels: height and width, and 1 or 3 colours, to which pictures are brought; they stand upright, as their EXIF says.
    format: where the names do not tell. scratch: a folder for files that are unpacked, and for rows of a global shuffle.
    """
    if image_size is not None:
        image_size = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    opening = {
        "format": format,
        "delimiter": delimiter,
        "header": header,
        "types": [(str(name), str(kind)) for name, kind in (types or {}).items()],
        "nulls": settings.names(nulls),
        "keys": settings.names(keys),
        "image_size": image_size,
        "image_channels": image_channels,
        "scratch": None if scratch is None else os.fspath(scratch),
    }
    given = settings.paths(paths)
    wanted = settings.wanted(columns, labels, dtype, label_dtype, categories, hashed)
    source = _native.DataSource(given, opening)
    if source.classes and wanted["columns"] is None and not wanted["labels"]:
        wanted["labels"] = ["label"]
    return Dataset(source, given, opening, wanted)


class Dataset(Work):
    """Rows of files that stay where they are. `brimful.data.open` makes it."""

    def __init__(self, source: Any, paths: list[str], opening: dict, wanted: dict) -> None:
        self._source, self._opening, self._wanted = source, opening, wanted
        self.paths = paths
        self._plan({"separate": False}, settings.batching(1, 1 << 62, rank=0, world=1, threads=1)[0])

    @property
    def rows(self) -> int:
        """All rows of all files."""
        return self._source.rows

    @property
    def columns(self) -> list[str]:
        """The names of all columns, in the order of the files."""
        return [name for name, _, _ in self._source.columns]

    @property
    def types(self) -> dict[str, str]:
        """The type of each column, with the shape where a row's value is an array: ``float32``, ``text``, ``uint8[28, 28]``."""
        return {name: f"{kind}{shape}" if shape else kind for name, kind, shape in self._source.columns}

    @property
    def classes(self) -> list[str]:
        """The names of the folders that are the classes of pictures; labels are their places in this list. Empty elsewhere."""
        return self._source.classes

    @property
    def format(self) -> str:
        """The format's name."""
        return self._source.format

    @property
    def file_bytes(self) -> int:
        """Bytes of all files."""
        return self._source.file_bytes

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        from brimful.fitting.memory import human

        shown = ", ".join(f"{name} {kind}" for name, kind in [*self.types.items()][:8])
        more = ", …" if len(self.columns) > 8 else ""
        return f"{self.format}, {self.rows:,} rows, {human(self.file_bytes)} in files: {shown}{more}"

    def _plan(self, more: dict, batching: dict) -> dict:
        return json.loads(self._source.plan({**self._wanted, **more}, batching))

    def plan(
        self,
        batch_rows: int = 256,
        memory: str | int | None = None,
        shuffle: bool | str | None = False,
        separate: bool = False,
        **others: Any,
    ) -> Plan:
        """How `batches` with these settings would use the budget; raises `BelowFloor` where it is too small. Nothing is read.

        others: what else `batches` takes about the rows: ``seed``, ``window_rows``, ``rank``, ``world``, ``remainder``, ``drop_last``,
            ``threads``, ``bad_rows``.
        """
        batching, notes = settings.batching(batch_rows, memory, shuffle, self._opening["scratch"], **others)
        found = self._plan({"separate": separate}, batching)
        return Plan({**found, "shuffle": batching["shuffle"], "notes": found["notes"] + notes})

    def batches(
        self,
        batch_rows: int = 256,
        memory: str | int | None = None,
        shuffle: bool | str | None = False,
        seed: int = 0,
        window_rows: int | None = None,
        rank: int | None = None,
        world: int | None = None,
        remainder: str = "drop",
        drop_last: bool = False,
        threads: int | None = None,
        bad_rows: str = "fail",
        to: str = "numpy",
        pin: bool = False,
        separate: bool = False,
        progress: bool = False,
    ) -> Loader:
        """Batches of so many rows, epoch by epoch, inside the budget.

        memory: bytes for everything together, also for batches that the caller still holds; ``"512MiB"``, a number, or none: a quarter
            of what the machine or the container has left.
        shuffle: ``none`` (or False), ``window`` (mixed as they come), ``block`` (or True: pieces from anywhere, mixed in windows) or
            ``global`` (every order is as likely as every other).
        seed, window_rows: of the order; the window is as large as the budget allows if nobody says.
        rank, world: this process's share; as torchrun, Ray Train or TF_CONFIG say, if nobody does.
        remainder: ``drop``: all ranks have as many rows; ``keep``: no row is left out. drop_last: no last batch that is not full.
        bad_rows: what to do with rows that cannot be read: ``fail``, ``skip`` or ``null`` (NaN or 0).
        to: ``numpy``, ``torch``, ``jax`` or ``tensorflow``; arrays lie where they were decoded. pin: for PyTorch, a copy in pinned memory.
        separate: a dictionary of columns instead of one matrix. progress: a line on standard error.
        """
        others = {"seed": seed, "window_rows": window_rows, "rank": rank, "world": world, "remainder": remainder}
        others |= {"drop_last": drop_last, "threads": threads, "bad_rows": bad_rows}
        batching, notes = settings.batching(batch_rows, memory, shuffle, self._opening["scratch"], **others)
        return Loader(self._source, {**self._wanted, "separate": bool(separate)}, batching, notes, to, pin, progress)
