"""Makes the files of these examples in a folder.

    python make_files.py FOLDER [--rows 100000]

With 100,000 rows: an array of 100,000 × 1,000 (alone, and with labels in an archive), a table of as many rows × 40, and a square array of
10,000 × 10,000; 0.8 GB each, 0.08 GB the table. Fewer rows make all of them smaller. They are made a piece at a time.
"""

import argparse
import math
import zipfile
from pathlib import Path

import numpy as np

COLUMNS, TABLE_COLUMNS = 1000, 40
PIECE_ROWS = 1000


def array(path, rows, columns):
    """Numbers below 1, as NumPy saves them."""
    random = np.random.default_rng(0)
    made = np.lib.format.open_memmap(path, "w+", "float64", (rows, columns))
    for first in range(0, rows, PIECE_ROWS):
        piece = made[first : first + PIECE_ROWS]
        piece[:] = random.random(piece.shape)
    made.flush()


def archive(path, x_path, rows):
    """The array with labels, as `np.savez` packs them."""
    labels = path.with_suffix(".labels")
    with open(labels, "wb") as file:
        np.save(file, np.random.default_rng(1).integers(0, 2, rows))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as packed:
        packed.write(x_path, "x.npy")
        packed.write(labels, "y.npy")
    labels.unlink()


def table(path, rows):
    """A text table of numbers with names."""
    random = np.random.default_rng(2)
    with open(path, "w") as file:
        file.write(",".join(f"c{column}" for column in range(TABLE_COLUMNS)) + "\n")
        for first in range(0, rows, PIECE_ROWS):
            piece = random.random((min(PIECE_ROWS, rows - first), TABLE_COLUMNS))
            np.savetxt(file, piece, fmt="%.16g", delimiter=",")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    side = math.isqrt(given.rows * COLUMNS)
    array(given.folder / "rows.npy", given.rows, COLUMNS)
    archive(given.folder / "rows.npz", given.folder / "rows.npy", given.rows)
    table(given.folder / "table.csv", given.rows)
    array(given.folder / "square.npy", side, side)


if __name__ == "__main__":
    main()
