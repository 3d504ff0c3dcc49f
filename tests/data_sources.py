"""Files of every source that `brimful.data` reads, each with the same rows, made cheaply.

In: a folder, a number of rows. Out: `Made`: what to open, and with which settings. A row is its number and then digits, which follow from the
number: `tail(number)`. So a reader can be checked row by row, with what it has seen in one byte per row. Text of a digit is two bytes and a number
eight: small files become far more than a small budget.
"""

import gzip
import json
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

#: Digits of a row, besides its number.
DIGITS = 249
#: Rows whose numbers leave the same rest have the same digits.
KINDS = 97
TAILS = np.random.default_rng(7).integers(0, 10, (KINDS, DIGITS), dtype="uint8")
NAMES = ["id", *(f"d{number}" for number in range(DIGITS))]
PIECE_ROWS = 2000
SHUFFLES = ("none", "window", "block", "global")
PICTURE = 8


@dataclass(frozen=True)
class Made:
    """A source: what `brimful.data.open` takes, how many rows, and the bytes of a row in memory."""

    name: str
    paths: list
    rows: int
    settings: dict = field(default_factory=dict)
    row_bytes: int = 8 * (DIGITS + 1)


def pieces(rows):
    """Numbers of rows, some at a time."""
    for first in range(0, rows, PIECE_ROWS):
        yield np.arange(first, min(rows, first + PIECE_ROWS))


def table(numbers, dtype="float32"):
    """Rows as a matrix: the number, then the digits."""
    return np.concatenate([numbers[:, None].astype(dtype), TAILS[numbers % KINDS].astype(dtype)], axis=1)


def _lines(rows, tails, opening=""):
    for numbers in pieces(rows):
        yield "".join(f"{opening}{number}{tails[number % KINDS]}" for number in numbers).encode()


def _text(path, rows, how=None):
    tails = ["," + ",".join(map(str, tail)) + "\n" for tail in TAILS]
    with open(path, "wb") if how is None else how(path) as file:
        file.write((",".join(NAMES) + "\n").encode())
        for piece in _lines(rows, tails):
            file.write(piece)


def csv(folder, rows):
    """A text table in several files."""
    _text(folder / "rows.csv", rows)
    return Made("csv", [folder / "rows.csv"], rows, {"dtype": "float64"})


def csv_gz(folder, rows):
    """A text table, compressed."""
    _text(folder / "rows.csv.gz", rows, lambda path: gzip.open(path, "wb", compresslevel=1))
    return Made("csv.gz", [folder / "rows.csv.gz"], rows, {"dtype": "float64", "scratch": str(folder)})


def csv_zst(folder, rows):
    """The same, by Zstandard."""
    import pyarrow

    _text(folder / "rows.csv.zst", rows, lambda path: pyarrow.CompressedOutputStream(str(path), "zstd"))
    return Made("csv.zst", [folder / "rows.csv.zst"], rows, {"dtype": "float64", "scratch": str(folder)})


def jsonl(folder, rows):
    """A JSON object on each line."""
    tails = ["".join(f',"{name}":{digit}' for name, digit in zip(NAMES[1:], tail)) + "}\n" for tail in TAILS]
    with open(folder / "rows.jsonl", "wb") as file:
        for piece in _lines(rows, tails, '{"id":'):
            file.write(piece)
    return Made("jsonl", [folder / "rows.jsonl"], rows, {"dtype": "float64"})


def npy(folder, rows):
    """One array."""
    array = np.lib.format.open_memmap(folder / "rows.npy", "w+", "float32", (rows, DIGITS + 1))
    for numbers in pieces(rows):
        array[numbers[0] : numbers[-1] + 1] = table(numbers)
    return Made("npy", [folder / "rows.npy"], rows, {"dtype": "float64"})


def npz(folder, rows):
    """An archive of stored arrays."""
    np.savez(folder / "rows.npz", x=table(np.arange(rows)))
    return Made("npz", [folder / "rows.npz"], rows, {"dtype": "float64"})


def npz_packed(folder, rows):
    """An archive of compressed arrays."""
    np.savez_compressed(folder / "packed.npz", x=table(np.arange(rows)))
    return Made("npz, compressed", [folder / "packed.npz"], rows, {"dtype": "float64", "scratch": str(folder)})


def _arrow_table(numbers):
    import pyarrow as pa

    return pa.table(dict(zip(NAMES, table(numbers).T)))


def parquet(folder, rows):
    """Two files of row groups."""
    import pyarrow.parquet

    paths = [folder / "a.parquet", folder / "b.parquet"]
    for path, numbers in zip(paths, np.array_split(np.arange(rows), 2)):
        pyarrow.parquet.write_table(_arrow_table(numbers), path, row_group_size=10_000)
    return Made("parquet", paths, rows, {"dtype": "float64"})


def arrow(folder, rows):
    """Arrow's own file, in record batches."""
    import pyarrow as pa

    with pa.OSFile(str(folder / "rows.arrow"), "wb") as file:
        writer = None
        for numbers in pieces(rows):
            made = _arrow_table(numbers)
            writer = writer or pa.ipc.new_file(file, made.schema)
            writer.write_table(made)
        writer.close()
    return Made("arrow", [folder / "rows.arrow"], rows, {"dtype": "float64"})


def zarr(folder, rows, chunk_rows=1000):
    """An array in chunks, compressed by zlib."""
    place = folder / "rows.zarr"
    place.mkdir()
    about = {
        "zarr_format": 2,
        "shape": [rows, DIGITS + 1],
        "chunks": [chunk_rows, DIGITS + 1],
        "dtype": "<f4",
        "order": "C",
        "filters": None,
    }
    (place / ".zarray").write_text(json.dumps({**about, "fill_value": 0, "compressor": {"id": "zlib", "level": 1}}))
    for chunk, first in enumerate(range(0, rows, chunk_rows)):
        piece = np.zeros((chunk_rows, DIGITS + 1), "float32")
        numbers = np.arange(first, min(rows, first + chunk_rows))
        piece[: len(numbers)] = table(numbers)
        (place / f"{chunk}.0").write_bytes(zlib.compress(piece.tobytes(), 1))
    return Made("zarr", [place], rows, {"dtype": "float64"})


def picture(number):
    """A PNG whose one colour is the row's number."""
    pixel = bytes([number >> 16, number >> 8 & 255, number & 255])
    raw = (b"\0" + pixel * PICTURE) * PICTURE

    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", PICTURE, PICTURE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(raw, 1)) + part(b"IEND", b"")


def images(folder, rows):
    """A folder of small pictures in two classes."""
    for name in "ab":
        (folder / "pictures" / name).mkdir(parents=True)
    for number in range(rows):
        (folder / "pictures" / "ab"[number % 2] / f"{number:07d}.png").write_bytes(picture(number))
    return Made("images", [folder / "pictures"], rows, {"dtype": "float64", "labels": "label"}, 8 * 3 * PICTURE**2)


MAKERS = {made.__name__: made for made in (csv, csv_gz, csv_zst, jsonl, npy, npz, npz_packed, parquet, arrow, zarr, images)}
#: As `--format` and the extension name them.
FORMATS = {"csv_gz": "csv", "csv_zst": "csv", "npz_packed": "npz"}


def formats_read():
    """The names of the sources of this build."""
    import re

    import brimful.data

    try:
        brimful.data.open(__file__, format="no such format")
    except brimful.data.DataError as error:
        known = re.search(r"there are (.*)", str(error))
        return known[1].split(", ") if known else []
    return []


def make(kind, folder, rows):
    """Files of one source in a folder of their own."""
    place = Path(folder) / kind
    place.mkdir(parents=True)
    return MAKERS[kind](place, rows)
