"""Files at the edge, for `prove_data.py`: a row group of 3 GiB, lines of 2 GiB, a million files.

In: a folder, the job of `prove_data.py`. Out: for each whether it was finished or refused, with the peak; never may it be killed or exceed.
"""

import os
import shutil

import numpy as np
from data_sources import DIGITS, KINDS, NAMES, TAILS, Made, picture, table

MIB = 1 << 20
GROUP_BYTES = 3 << 30
LINE_BYTES = 2 << 30
FILES = 1_000_000


def row_group(folder, rows=GROUP_BYTES // (4 * (DIGITS + 1)) + 1):
    """One row group of 3 GiB: whole numbers of four bytes, plainly."""
    import pyarrow as pa
    import pyarrow.parquet

    numbers = np.arange(rows)
    columns = {"id": pa.array(numbers.astype("int32"))}
    kinds = (numbers % KINDS).astype("uint8")
    columns |= {name: pa.array(TAILS[:, column][kinds]) for column, name in enumerate(NAMES[1:])}
    path = folder / "one_group.parquet"
    pyarrow.parquet.write_table(
        pa.table(columns), path, row_group_size=rows, compression="none", use_dictionary=False, write_statistics=False
    )
    return Made("one row group of 3 GiB", [path], rows, {"dtype": "float32"}, 4 * (DIGITS + 1))


def _line(folder, name, opening, repeated, closing):
    path = folder / name
    with open(path, "wb") as file:
        file.write(opening)
        block = repeated * (MIB // len(repeated))
        for _ in range(LINE_BYTES // MIB):
            file.write(block)
        file.write(closing)
    return path


def quoted_field(folder):
    """Two short records around one with a text of 2 GiB."""
    path = _line(folder, "quoted.csv", b'id,text\n0,"short"\n1,"', b"one\nline\n", b'"\n2,"short"\n')
    return Made("one record of 2 GiB", [path], 3)


def many_columns(folder):
    """A header, then one record of a billion values where two belong."""
    return Made("a line of 2 GiB", [_line(folder, "wide.csv", b"a,b\n1,2\n", b"1,", b"1\n3,4\n")], 3)


def no_line_end(folder):
    """2 GiB without any line end."""
    return Made("2 GiB, no line end", [_line(folder, "endless.csv", b"", b"7", b"")], 1)


def json_line(folder):
    """Short JSON objects, then one of 2 GiB on one line."""
    return Made(
        "a JSON line of 2 GiB", [_line(folder, "long.jsonl", b'{"id":0}\n' * 100_000 + b'{"id":1,"text":"', b"x", b'"}\n')], 100_001
    )


def _many(folder, content, end):
    for number in range(FILES):
        if number % 1000 == 0:
            place = folder / f"{number // 1000:04d}"
            place.mkdir(parents=True)
        handle = os.open(f"{place}/{number:07d}.{end}", os.O_WRONLY | os.O_CREAT)
        os.write(handle, content(number))
        os.close(handle)


def tiny_arrays(folder):
    """A million arrays of one row."""
    np.save(folder / "one.npy", table(np.array([0]))[:, :9])
    header = (folder / "one.npy").read_bytes()[:128]
    (folder / "one.npy").unlink()
    _many(folder / "tiny", lambda number: header + table(np.array([number]))[:, :9].tobytes(), "npy")
    return Made("a million arrays", [folder / "tiny/*/*.npy"], FILES, {}, 36)


def tiny_pictures(folder):
    """A million pictures."""
    _many(folder / "pictures", picture, "png")
    return Made("a million pictures", [folder / "pictures"], FILES, {"labels": "label"}, 192)


#: What is made, in which format, with which budgets in MiB, and in which orders.
CASES = (
    (quoted_field, "csv", (64, 512), ("none", "global")),
    (many_columns, "csv", (64, 512), ("none",)),
    (no_line_end, "csv", (64, 512), ("none",)),
    (json_line, "jsonl", (64, 512), ("none",)),
    (row_group, "parquet", (64, 128, 512), ("none", "block")),
    (tiny_arrays, "npy", (64, 512), ("none", "global")),
    (tiny_pictures, "images", (64, 512), ("none", "global")),
)


def prove(folder, job, told, chosen=(), formats=()):
    """Makes and reads all; true if nothing was killed, failed or exceeded."""
    well = True
    for maker, kind, budgets, shuffles in CASES:
        if kind not in formats or (chosen and maker.__name__ not in chosen):
            continue
        place = folder / maker.__name__
        place.mkdir()
        made = maker(place)
        for mib in budgets:
            for found in job(made, mib * MIB, int(1.05 * mib * MIB), 1, shuffles):
                word = told(found, mib * MIB)
                well &= word == "refused" or word[-1].isdigit()
                said = found.get("failed") or found.get("refused") or f"every row once, {found['seconds']:.0f} s"
                peak = f"{found.get('peak_bytes', 0) / MIB:6.1f} MiB"
                print(f"{made.name:24} {mib:4} MiB {found['shuffle']:7} {word:>8} {peak}  {said}", flush=True)
        shutil.rmtree(place)
    return well
