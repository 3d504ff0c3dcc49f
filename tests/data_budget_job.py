"""Reads a source in every shuffle for some epochs, under a limit of the system, and says what it took.

    python data_budget_job.py '{"paths": […], "settings": {…}, "rows": N, "memory": bytes, "shuffles": […], "epochs": N, "limit": bytes, "group": …}'

Out: a line of JSON for each shuffle: `peak_bytes` above what the interpreter held after its imports, or `refused` with the sentence. The limit
begins after the imports: a cgroup (`group`) counts only what a process takes after it came in; without one, the data segment is limited.
"""

import contextlib
import json
import os
import resource
import sys
import time
from pathlib import Path

import brimful.data
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from data_sources import DIGITS, KINDS, TAILS

#: Stacks of threads are reserved in the data segment, though hardly used.
STACKS_BYTES = 8 * (2 << 20) + (8 << 20)


def status(name):
    """A figure of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0


def forget_peak():
    """The most so far becomes what is held now, where the system does that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def limit(given):
    """Sets the limit, and says which."""
    if given.get("group"):
        (Path(given["group"]) / "cgroup.procs").write_text(str(os.getpid()))
        return "cgroup"
    most = status("VmData") + given["limit"] + STACKS_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    return "RLIMIT_DATA"


class Seen:
    """Which rows came, checked by their digits."""

    def __init__(self, rows):
        self.times = np.ones(rows, "uint8")
        self.weights = np.arange(1.0, DIGITS + 1)
        #: Of so many digits: rows may have fewer.
        self.sums = {digits: TAILS[:, :digits] @ self.weights[:digits] for digits in (0, 1, 8, DIGITS)}

    def begin(self):
        """Nothing was seen."""
        self.times[:] = 0

    def batch(self, rows):
        """Rows of a batch: pictures whose colour is the number, or tables."""
        if rows.ndim == 4:
            pixels = rows[:, 0, 0, :].astype("int64")
            numbers = pixels[:, 0] << 16 | pixels[:, 1] << 8 | pixels[:, 2]
            assert (rows == rows[:, :1, :1, :]).all(), "a picture has two colours"
        else:
            numbers = rows[:, 0].astype("int64")
            digits = rows.shape[1] - 1
            assert (rows[:, 1:] @ self.weights[:digits] == self.sums[digits][numbers % KINDS]).all(), "a row has other digits"
        np.add.at(self.times, numbers, 1)

    def each_once(self):
        """Whether every row came once."""
        return bool((self.times == 1).all())


def read(given, shuffle, seen):
    """Some epochs of one shuffle."""
    try:
        dataset = brimful.data.open(given["paths"], **given["settings"])
        loader = dataset.batches(given.get("batch", 256), memory=given["memory"], shuffle=shuffle, seed=3)
    except brimful.data.DataError as refused:
        return {"refused": str(refused), "floor_bytes": getattr(refused, "floor_bytes", None)}
    for _ in range(given["epochs"]):
        seen.begin()
        for batch in loader:
            seen.batch(batch[0] if isinstance(batch, tuple) else batch)
            del batch
        assert seen.each_once(), f"{(seen.times == 0).sum()} rows are missing, {(seen.times > 1).sum()} came more than once"
    stats = loader.stats()
    return {"ledger_bytes": stats.peak_bytes, "floor_bytes": loader.plan.floor_bytes, "threads": loader.plan.threads}


def main():
    given = json.loads(sys.argv[1])
    seen = Seen(given["rows"])
    forget_peak()
    before, mapped = status("VmHWM"), status("RssFile")
    by = limit(given)
    for shuffle in given["shuffles"]:
        forget_peak()
        began, cpu = time.perf_counter(), time.process_time()
        found = read(given, shuffle, seen)
        took = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
        peak = {
            "peak_bytes": status("VmHWM") - before,
            "before_bytes": before,
            # Code that runs for the first time: how much of it is mapped at once is the kernel's affair.
            "mapped_bytes": status("RssFile") - mapped,
            "by": by,
            "threads_left": len(os.listdir("/proc/self/task")),
        }
        print(json.dumps({"shuffle": shuffle, **peak, **took, **found}), flush=True)


main()
