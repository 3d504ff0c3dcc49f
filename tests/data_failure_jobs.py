"""Readers that something happens to, each in a process of its own: `python data_failure_jobs.py WHAT PATH [FOLDER]`.

Out: `ready` when it is time for what happens, then one line: the error's class and its sentence, and the threads that are left.
"""

import os
import signal
import sys

import brimful.data

MIB = 1 << 20


def waiting(path, _):
    """Waits for a batch of all rows."""
    dataset = brimful.data.open(path, dtype="uint8", types={"id": "int64"})
    loader = dataset.batches(dataset.rows, memory="1GiB", threads=1)
    epoch = iter(loader)
    print("ready", flush=True)
    next(epoch)


def opening(path, _):
    """Counts the records of a file that would take minutes."""
    print("ready", flush=True)
    brimful.data.open(path)


def truncated(path, _):
    """Reads on while the file is cut in the middle of it."""
    loader = brimful.data.open(path, dtype="float64").batches(16, memory=4 * MIB, threads=2)
    for number, _batch in enumerate(loader):
        if number == 3:
            os.truncate(path, os.path.getsize(path) // 2)


def gone(path, _):
    """Reads a second epoch of a file that was replaced by a shorter one."""
    loader = brimful.data.open(path, dtype="float64").batches(16, memory=4 * MIB, threads=2)
    for _batch in loader:
        pass
    os.truncate(path, os.path.getsize(path) // 2)
    for _batch in loader:
        pass


def shuffled(path, folder):
    """Writes rows for a global shuffle where there is little room."""
    dataset = brimful.data.open(path, dtype="float64", scratch=folder)
    for _batch in dataset.batches(256, memory=16 * MIB, shuffle="global"):
        pass


def unpacked(path, folder):
    """Unpacks a table where there is little room."""
    brimful.data.open(path, scratch=folder)


def mapped(path, folder):
    """Writes an array where there is little room."""
    brimful.data.open(path, dtype="float64").map(lambda rows: rows * 2, out=f"{folder}/out.npy", memory=16 * MIB)


def lazily(path, folder):
    """Computes an array into a file where there is little room."""
    (brimful.data.array(path) * 2.0).save(f"{folder}/out.npy", memory=16 * MIB)


def halfway(path, folder):
    """Writes an array, and waits for ever in the middle of it."""

    def doubled(rows):
        print("ready", flush=True)
        signal.pause()
        return rows * 2

    brimful.data.open(path, dtype="float64").map(doubled, out=f"{folder}/out.npy", memory=16 * MIB)


def main():
    before = len(os.listdir("/proc/self/task"))
    what, path, folder = [*sys.argv[1:], None][:3]
    try:
        globals()[what](path, folder)
        said = "nothing happened"
    except (brimful.data.DataError, KeyboardInterrupt) as error:
        said = f"{type(error).__name__}: {error}"
    print(f"{said}\nthreads left: {len(os.listdir('/proc/self/task')) - before}", flush=True)


main()
