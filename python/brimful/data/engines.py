"""What other engines do better, under the same budget.

In: SQL over files, or a data set. Out: a result that streams (`Query`), by DuckDB, an extra; a data set of Ray Data, an extra. Nothing here is a
query engine of its own. DuckDB counts its buffers and not its results: it gets the budget divided by 1.6, the most by which it was seen to
exceed a limit.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

from brimful.fitting.memory import human

from . import settings
from .errors import DataError, library
from .writers import replaced

#: DuckDB's peak was up to 1.63 times its limit where results were streamed.
DERATED = 1.6
#: DuckDB wants about this much for each of its threads.
THREAD_BYTES = 128 << 20
#: Rows of a batch of the result: at most so many, and at most this share of the budget.
MOST_ROWS = 65536
BATCH_SHARE = 64


def sql(query: str, memory: str | int | None = None, scratch: str | os.PathLike | None = None, threads: int | None = None) -> Query:
    """Ask files in SQL: ``sql("select city, avg(price) from 'sales/*.parquet' group by city", memory="1GiB")``.

    Joins, sorts and groups that do not fit go to the scratch folder. Rows come in any order unless the query says ``order by``.
    """
    duckdb = library("duckdb", asker="brimful.data.sql")
    budget, _ = settings.memory_bytes(memory)
    return Query(duckdb, query, budget, scratch, threads)


class Query:
    """The result of a query, which is computed while it is read."""

    def __init__(self, duckdb: Any, query: str, budget: int, scratch: Any, threads: int | None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="brimful-sql-", dir=None if scratch is None else os.fspath(scratch))
        cores = os.cpu_count() or 1
        config = {
            "memory_limit": f"{max(1, int(budget / DERATED)) // 1024}KiB",
            "temp_directory": self._folder.name,
            "threads": str(threads or max(1, min(cores, budget // THREAD_BYTES))),
            "preserve_insertion_order": "false",
        }
        self.memory_bytes = budget
        self._duckdb, self._text = duckdb, query
        self._connection = duckdb.connect(config=config)
        # It would come between what the caller prints.
        self._connection.execute("set enable_progress_bar = false")
        try:
            kinds = [statement.type for statement in self._connection.extract_statements(query)]
            # Described now, so that mistakes are said at once; `execute` would keep a second copy of the result.
            self._relation = self._connection.sql(query) if kinds == [duckdb.StatementType.SELECT] else None
        except duckdb.Error as error:
            self.close()
            raise self._said(error) from error
        if self._relation is None:
            self.close()
            raise DataError("this is not one statement that gives rows: write one query that begins with select")

    @property
    def columns(self) -> list[str]:
        """The names of the result's columns."""
        return [*self._relation.columns]

    def __repr__(self) -> str:
        return f"query of {len(self.columns)} columns: {', '.join(self.columns)}"

    def as_arrow(self, batch_rows: int | None = None) -> Any:
        """A `pyarrow.RecordBatchReader` of the result."""
        library("pyarrow", asker="as_arrow()")
        fits = self.memory_bytes // BATCH_SHARE // (8 * max(1, len(self.columns)))
        return self._relation.to_arrow_reader(batch_rows or max(1, min(MOST_ROWS, fits)))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.as_arrow().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.batches()

    def batches(self, batch_rows: int | None = None) -> Iterator[dict[str, Any]]:
        """The result as dictionaries of NumPy arrays, so many rows at a time, or as many as fit the budget well."""
        try:
            for batch in self.as_arrow(batch_rows):
                yield {name: column.to_numpy(zero_copy_only=False) for name, column in zip(batch.schema.names, batch.columns)}
                del batch
        except self._duckdb.Error as error:
            raise self._said(error) from error

    def _said(self, error: Exception) -> DataError:
        """DuckDB's error; what it advises in many lines when memory runs out is done already, but for one thing."""
        if isinstance(error, self._duckdb.OutOfMemoryException):
            return DataError(
                f"DuckDB cannot do this query with {human(self.memory_bytes)}, even on the disk: give more memory, or ask for less"
            )
        return DataError(f"DuckDB: {error}")

    def save(self, path: str | os.PathLike) -> Any:
        """Write the result as Parquet, and open it as a data set."""
        from .dataset import open

        if not os.fspath(path).lower().endswith(".parquet"):
            raise DataError(f"{path}: a result is written to a name that ends in .parquet")
        with replaced(path) as part:
            try:
                self._relation.write_parquet(str(part))
            except self._duckdb.Error as error:
                raise self._said(error) from error
        return open(path)

    def close(self) -> None:
        """Ends the connection and removes what it left in the scratch folder."""
        self._relation = None
        self._connection.close()
        self._folder.cleanup()

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def ray_dataset(dataset: Any) -> Any:
    """Ray Data over the same files."""
    import glob

    data = library("ray.data", asker="to_ray()")
    kind, wanted = dataset.format, dataset._wanted
    paths = [found for path in dataset.paths for found in ([path] if os.path.exists(path) else sorted(glob.glob(path)))]
    chosen = None if wanted["columns"] is None else [*wanted["columns"], *wanted["labels"]]
    if kind == "parquet":
        return data.read_parquet(paths, columns=chosen)
    if kind == "images":
        size = dataset._opening["image_size"]
        return data.read_images(paths, size=None if size is None else tuple(size))
    readers = {"csv": data.read_csv, "npy": data.read_numpy, "jsonl": data.read_json}
    if kind not in readers:
        raise DataError(f"Ray Data has no reader for {kind}: write the files as Parquet first (brimful data convert)")
    options = {}
    if kind == "csv" and dataset._opening["delimiter"]:
        from pyarrow import csv

        options["parse_options"] = csv.ParseOptions(delimiter=dataset._opening["delimiter"])
    made = readers[kind](paths, **options)
    return made if chosen is None or kind == "npy" else made.select_columns(chosen)
