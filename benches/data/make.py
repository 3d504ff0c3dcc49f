"""Makes the files of the comparison: the same rows as CSV, Parquet and .npy.

    python benches/data/make.py FOLDER [--rows 2200000]

64 columns of float64, 26 of whole numbers, 10 of text: 2.0 GB of CSV with 2.2 million rows. The .npy file has the 90 columns of numbers as
float32. Rows are made a piece at a time, from a fixed seed: the same files everywhere, in little memory.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

FLOATS, INTS, TEXTS = 64, 26, 10
PIECE_ROWS = 50_000
WORDS = np.array([f"word{number:03d}" for number in range(500)])


def piece(number, rows):
    """Columns of some rows, by name."""
    random = np.random.default_rng([7, number])
    columns = {f"f{column}": random.standard_normal(rows).round(8) for column in range(FLOATS)}
    columns |= {f"i{column}": random.integers(0, 10 ** (1 + column % 6), rows) for column in range(INTS)}
    columns |= {f"t{column}": WORDS[random.integers(0, len(WORDS), rows)] for column in range(TEXTS)}
    return columns


def numbers(columns):
    """The columns of numbers as one matrix."""
    chosen = [values for name, values in columns.items() if name[0] in "fi"]
    return np.stack([values.astype("float32") for values in chosen], axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=2_200_000)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    schema = pa.Table.from_pydict(piece(0, 1)).schema
    matrix = np.lib.format.open_memmap(given.folder / "rows.npy", "w+", "float32", (given.rows, FLOATS + INTS))
    csv = pa.csv.CSVWriter(given.folder / "rows.csv", schema, write_options=pa.csv.WriteOptions(quoting_style="needed"))
    # Row groups of pyarrow's own size are gathered by the writer.
    table, waiting = pa.parquet.ParquetWriter(given.folder / "rows.parquet", schema), []
    for number, first in enumerate(range(0, given.rows, PIECE_ROWS)):
        columns = piece(number, min(PIECE_ROWS, given.rows - first))
        matrix[first : first + PIECE_ROWS] = numbers(columns)
        made = pa.Table.from_pydict(columns, schema)
        csv.write_table(made)
        waiting.append(made)
        if sum(part.num_rows for part in waiting) >= 1 << 20:
            table.write_table(pa.concat_tables(waiting), row_group_size=1 << 20)
            waiting = []
    if waiting:
        table.write_table(pa.concat_tables(waiting), row_group_size=1 << 20)
    csv.close()
    table.close()
    for path in sorted(given.folder.glob("rows.*")):
        print(f"{path}: {path.stat().st_size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
