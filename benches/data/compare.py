"""One shuffled epoch of 256-row float32 batches, brimful beside the usual readers, in one run.

    python benches/data/compare.py FOLDER [--only csv] [--repeat 3] [--memory 48MiB]

FOLDER is what make.py made. Each reader runs in a process of its own, one after the other in turns, so that what else the machine does falls on
all of them. Libraries are loaded before the clock starts, and without a shell's PYTHONDONTWRITEBYTECODE, so that none is compiled anew in each run.
CPU time is that of the process and its children; memory is the most that it ever held (VmHWM): both with Python and the library.
The others shuffle as their users do: a window of 65,536 rows (tf.data's and torch's own where they have one).
"""

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

BATCH, WINDOW = 256, 65_536
NUMBERS = [f"f{column}" for column in range(64)] + [f"i{column}" for column in range(26)]


def windows(pieces):
    """Batches from matrices: rows are mixed within windows of about WINDOW rows."""
    import numpy as np

    random = np.random.default_rng(0)
    waiting, count = [], 0

    def mixed():
        rows = np.concatenate(waiting)
        rows = rows[random.permutation(len(rows))]
        for first in range(0, len(rows), BATCH):
            yield rows[first : first + BATCH]

    for matrix in pieces:
        waiting.append(matrix)
        count += len(matrix)
        if count >= WINDOW:
            yield from mixed()
            waiting, count = [], 0
    if waiting:
        yield from mixed()


def brimful(path, memory, shuffle="block"):
    import brimful.data

    columns = None if str(path).endswith(".npy") else NUMBERS
    for batch in brimful.data.open(str(path), columns=columns, dtype="float32").batches(BATCH, memory=memory, shuffle=shuffle):
        yield batch


def csv_pandas(path):
    import pandas

    chunks = pandas.read_csv(path, usecols=NUMBERS, chunksize=16_384)
    yield from windows(chunk[NUMBERS].to_numpy("float32") for chunk in chunks)


def csv_polars(path):
    import polars

    frame = polars.scan_csv(path).select(NUMBERS)
    yield from windows(part.to_numpy().astype("float32") for part in frame.collect_batches(chunk_size=16_384))


def csv_duckdb(path):
    yield from _duckdb(f"read_csv('{path}')", "500MB")


def parquet_duckdb(path):
    # With less it stops: it wants one block of 590 MiB for each thread that reads a row group.
    yield from _duckdb(f"'{path}'", "2GB")


def _duckdb(source, limit):
    import duckdb

    connection = duckdb.connect(config={"memory_limit": limit, "preserve_insertion_order": False})
    reader = connection.sql(f"select {', '.join(NUMBERS)} from {source}").to_arrow_reader(16_384)
    yield from windows(_matrix(part) for part in reader)


def _matrix(batch):
    import numpy as np

    return np.stack([column.to_numpy(zero_copy_only=False).astype("float32") for column in batch.columns], axis=1)


def csv_pyarrow(path):
    import pyarrow.csv

    options = pyarrow.csv.ConvertOptions(include_columns=NUMBERS)
    yield from windows(_matrix(part) for part in pyarrow.csv.open_csv(path, convert_options=options))


def csv_tensorflow(path):
    import tensorflow as tf

    kinds = [tf.constant([], tf.float32)] * len(NUMBERS)
    rows = tf.data.experimental.CsvDataset(str(path), kinds, header=True, select_cols=list(range(len(NUMBERS))))
    batches = rows.shuffle(WINDOW).batch(BATCH).map(lambda *columns: tf.stack(columns, axis=1)).prefetch(2)
    for batch in batches:
        yield batch.numpy()


def csv_torch(path):
    yield from _torch_stream(csv_pandas, path)


def parquet_torch(path):
    yield from _torch_stream(parquet_pyarrow, path)


def _torch_stream(pieces, path):
    import torch

    class Rows(torch.utils.data.IterableDataset):
        def __iter__(self):
            return (torch.from_numpy(batch) for batch in pieces(path))

    for batch in torch.utils.data.DataLoader(Rows(), batch_size=None, num_workers=1):
        yield batch.numpy()


def parquet_pyarrow(path):
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path, pre_buffer=False)
    yield from windows(_matrix(part) for part in file.iter_batches(16_384, columns=NUMBERS))


def parquet_polars(path):
    import polars

    frame = polars.scan_parquet(path).select(NUMBERS)
    yield from windows(part.to_numpy().astype("float32") for part in frame.collect_batches(chunk_size=16_384))


def parquet_pandas(path):
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    groups = (file.read_row_group(group, NUMBERS).to_pandas() for group in range(file.num_row_groups))
    yield from windows(frame.to_numpy("float32") for frame in groups)


def parquet_tensorflow(path):
    yield from _tensorflow_stream(parquet_pyarrow, path)


def _tensorflow_stream(pieces, path):
    import tensorflow as tf

    spec = tf.TensorSpec((None, len(NUMBERS)), tf.float32)
    for batch in tf.data.Dataset.from_generator(lambda: pieces(path), output_signature=spec).prefetch(2):
        yield batch.numpy()


def npy_memmap(path):
    """A memory map with a global permutation."""
    import numpy as np

    matrix = np.load(path, mmap_mode="r")
    order = np.random.default_rng(0).permutation(len(matrix))
    for first in range(0, len(order), BATCH):
        yield matrix[order[first : first + BATCH]]


def npy_torch(path):
    import numpy as np
    import torch

    class Rows(torch.utils.data.Dataset):
        def __init__(self):
            self.matrix = np.load(path, mmap_mode="r")

        def __len__(self):
            return len(self.matrix)

        def __getitems__(self, rows):
            return torch.from_numpy(self.matrix[rows])

    loader = torch.utils.data.DataLoader(Rows(), BATCH, shuffle=True, collate_fn=lambda batch: batch, num_workers=1)
    for batch in loader:
        yield batch.numpy()


def npy_tensorflow(path):
    yield from _tensorflow_stream(npy_memmap, path)


READERS = {
    "csv": {
        "brimful": brimful,
        "pandas chunks": csv_pandas,
        "polars": csv_polars,
        "duckdb": csv_duckdb,
        "pyarrow": csv_pyarrow,
        "tf.data": csv_tensorflow,
        "torch DataLoader": csv_torch,
    },
    "parquet": {
        "brimful": brimful,
        "pandas row groups": parquet_pandas,
        "polars": parquet_polars,
        "duckdb": parquet_duckdb,
        "pyarrow": parquet_pyarrow,
        "tf.data": parquet_tensorflow,
        "torch DataLoader": parquet_torch,
    },
    "npy": {
        "brimful": brimful,
        "brimful, global": lambda path, memory: brimful(path, memory, "global"),
        "memory map, global": npy_memmap,
        "tf.data": npy_tensorflow,
        "torch DataLoader": npy_torch,
    },
}


#: What a reader imports, by the first word of its name; NumPy besides.
LIBRARIES = {
    "brimful": "brimful.data",
    "pandas": "pandas",
    "polars": "polars",
    "duckdb": "duckdb",
    "pyarrow": "pyarrow.parquet",
    "memory": "numpy",
    "tf.data": "tensorflow",
    "torch": "torch",
}


def one(kind, name, path, memory):
    """Runs one reader in this process and prints what it took."""
    reader = READERS[kind][name]
    for library in ("numpy", LIBRARIES[name.replace(",", " ").split()[0]]):
        importlib.import_module(library)
    batches = reader(path, memory) if name.startswith("brimful") else reader(path)
    began, rows, total = time.perf_counter(), 0, 0.0
    for batch in batches:
        rows += len(batch)
        total += float(batch[:, 0].sum(dtype="float64"))
        del batch
    seconds = time.perf_counter() - began
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(use.ru_utime + use.ru_stime for use in uses)
    peak = uses[0].ru_maxrss * 1024 + (uses[1].ru_maxrss * 1024 if "torch" in name else 0)
    print(json.dumps({"rows": rows, "sum": round(total, 1), "seconds": seconds, "cpu": cpu, "peak": peak}))


def warm(path):
    """Brings a file into the page cache: otherwise whoever comes first waits for the disk for all others."""
    with open(path, "rb") as file:
        while file.read(1 << 22):
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=READERS)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--memory", default="40MiB")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "NAME"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        kind, name = given.one
        return one(kind, name, given.folder / f"rows.{kind}", given.memory)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for kind in [given.only] if given.only else READERS:
        found = {name: [] for name in READERS[kind]}
        warm(given.folder / f"rows.{kind}")
        for _ in range(given.repeat):
            for name in found:
                command = [sys.executable, __file__, str(given.folder), "--memory", given.memory, "--one", kind, name]
                run = subprocess.run(command, capture_output=True, text=True, env=environment)
                if run.returncode:
                    print(f"{kind}, {name}: failed: {run.stderr.strip()[-1000:]}")
                else:
                    found[name].append(json.loads(run.stdout.splitlines()[-1]))
        print(f"\n{kind}: one shuffled epoch of {BATCH}-row float32 batches ({given.repeat} runs, medians)")
        print(f"{'':22} {'rows/s':>11} {'CPU s':>8} {'peak MiB':>9} {'rows':>9} {'sum':>14}")
        for name, runs in found.items():
            if runs:
                middle = {key: sorted(run[key] for run in runs)[len(runs) // 2] for key in runs[0]}
                speed, rows = middle["rows"] / middle["seconds"], middle["rows"]
                peak = max(run["peak"] for run in runs) / 2**20
                print(f"{name:22} {speed:11,.0f} {middle['cpu']:8.2f} {peak:9.0f} {rows:9} {middle['sum']:14.1f}", flush=True)


if __name__ == "__main__":
    main()
