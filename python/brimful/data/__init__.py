"""From files larger than memory to batches, inside a hard budget.

    ds = brimful.data.open("train/*.csv", labels="y")
    print(ds.plan(256, memory="256MiB", shuffle="block"))
    for x, y in ds.batches(256, memory="256MiB", shuffle=True):
        ...

In: files. Out: batches as arrays of NumPy, PyTorch, JAX or TensorFlow, which lie where they were decoded; files that were worked on piece by
piece. The budget covers reading, decoding, mixing and the batches that the caller still holds. Not counted: the interpreter, frameworks, and
what the caller makes of a batch.

Needs NumPy; everything else is imported when it is asked for.
"""

from __future__ import annotations

try:
    import numpy  # noqa: F401
except ImportError as missing:
    raise ImportError("brimful.data needs numpy, which is not installed: pip install numpy") from missing

from .dataset import Dataset, open
from .engines import sql
from .errors import BelowFloor, BudgetHeldByCaller, DataError, FileUnreadable, LibraryMissing
from .lazy import Array, array
from .loader import Loader

__all__ = [
    "Array",
    "BelowFloor",
    "BudgetHeldByCaller",
    "DataError",
    "Dataset",
    "FileUnreadable",
    "LibraryMissing",
    "Loader",
    "array",
    "open",
    "sql",
]
