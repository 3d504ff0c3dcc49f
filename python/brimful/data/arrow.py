"""A loader as a stream of Arrow's record batches, for what reads Arrow: Polars, DuckDB, pandas, Ray.

In: a loader. Out: a `pyarrow.RecordBatchReader` of its next epoch. Numbers stay where they are, with the batch that owns them; true and false
are packed into bits, which is a copy. A value that is itself an array is a list of fixed size. What is not known is NaN, as in the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .errors import library


def column_type(pa: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Arrow's type of a column."""
    kind = pa.from_numpy_dtype(dtype)
    for size in reversed(shape):
        kind = pa.list_(kind, size)
    return kind


def column(pa: Any, array: Any) -> Any:
    """An array by rows as a column."""
    values = pa.array(array.reshape(-1))
    for size in reversed(array.shape[1:]):
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


def reader(loader: Any) -> Any:
    """The next epoch."""
    import numpy

    pa = library("pyarrow", asker="as_arrow()")
    schema = pa.schema([(name, column_type(pa, numpy.dtype(kind), shape)) for name, kind, shape in loader.fields])

    def batches() -> Iterator[Any]:
        for fields in loader._raw(None):
            batch = pa.record_batch([column(pa, array) for array in fields], schema=schema)
            fields.clear()
            yield batch
            del batch

    return pa.RecordBatchReader.from_batches(schema, batches())
