"""Proves that the budget of `brimful.data` holds: every source × shuffle × budget, ten epochs each, in a cgroup of 1.05 × the budget.

    python tools/prove_data.py [--rows 200000] [--epochs 10] [--memory 64,128,256,512] [--sources csv,npy,…] [--folder FOLDER]
    python tools/prove_data.py --extremes      # a row group of 3 GiB, a line of 2 GiB, a million files
    python tools/prove_data.py --floors        # budgets of exactly the floor that the plan says

Out: a table of peaks above what the interpreter held after its imports, as shares of the budget; what was refused, with the sentence; the exit
code is 1 if anything was killed, failed or exceeded. The job and its checks (every row once, with its digits) are those of
`tests/test_data_budget.py`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

import data_extremes  # noqa: E402
from data_sources import FORMATS, MAKERS, SHUFFLES, formats_read, make  # noqa: E402
from memory_limit import group, kills  # noqa: E402

MIB = 1 << 20
MOST = 1.05
#: What a process takes besides, however small the budget: code that is touched for the first time, Python's objects.
FLOOR_MIB = 2


def job(made, memory, limit, epochs, shuffles=SHUFFLES, batch=256):
    """What the job says of each shuffle; a failure says why."""
    given = {"paths": [str(path) for path in made.paths], "settings": made.settings, "rows": made.rows, "memory": memory}
    given |= {"shuffles": shuffles, "epochs": epochs, "limit": limit, "batch": batch}
    with group(limit) as folder:
        given["group"] = None if folder is None else str(folder)
        command = [sys.executable, str(TESTS / "data_budget_job.py"), json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        killed = folder is not None and kills(folder)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if killed or done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing said"])[-1]
        found.append({"shuffle": shuffles[len(found)], "failed": "killed by the system" if killed else last})
    return found


def told(found, memory):
    """A peak as a share of the budget, or what happened instead."""
    if "failed" in found:
        return "FAILED"
    if "refused" in found:
        return "refused"
    share = found["peak_bytes"] / memory
    return f"{share:.3f}" + ("!" if share > MOST else "")


def matrix(given, folder):
    """The table; true if all is well."""
    kinds = [kind for kind in given.sources.split(",") if FORMATS.get(kind, kind) in formats_read()]
    budgets = [int(size) for size in given.memory.split(",")]
    print(f"{given.rows:,} rows of 2,000 bytes (pictures: {given.pictures:,}), {given.epochs} epochs each; peak / budget, at most {MOST}")
    print(
        f"{'source':16} {'budget':>8} " + " ".join(f"{shuffle:>8}" for shuffle in SHUFFLES) + f" {'ledger':>8} {'CPU':>8}  limit",
        flush=True,
    )
    well, worst = True, 0.0
    for kind in kinds:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            made = make(kind, place, given.pictures if kind == "images" else given.rows)
            for mib in budgets:
                found = job(made, mib * MIB, int(MOST * mib * MIB), given.epochs)
                words = [told(one, mib * MIB) for one in found]
                well &= not any(word == "FAILED" or word.endswith("!") for word in words)
                worst = max([worst, *(float(word.rstrip("!")) for word in words if word[0].isdigit())])
                ledger = max([one.get("ledger_bytes", 0) for one in found]) / (mib * MIB)
                cpu = sum(one.get("cpu_seconds", 0) for one in found)
                row = " ".join(f"{word:>8}" for word in words)
                print(f"{made.name:16} {mib:4} MiB {row} {ledger:8.3f} {cpu:6.1f} s  {found[0].get('by', '')}", flush=True)
                for one in found:
                    if "failed" in one or "refused" in one:
                        print(f"    {one['shuffle']}: {one.get('failed') or one['refused']}", flush=True)
    print(f"the highest: {worst:.3f}")
    return well


def floors(given, folder):
    """Budgets of exactly the floor, with batches that make it large enough to be measured."""
    print(f"{'source':16} {'floor':>9} " + " ".join(f"{shuffle:>8}" for shuffle in SHUFFLES))
    well = True
    for kind in [kind for kind in given.sources.split(",") if FORMATS.get(kind, kind) in formats_read()]:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            made = make(kind, place, 20_000)
            batch = 32 * MIB // 2 // made.row_bytes
            words = []
            for shuffle in SHUFFLES:
                floor = job(made, 1 << 16, 64 * MIB, 1, [shuffle], batch)[0]["floor_bytes"]
                limit = int(MOST * floor) + FLOOR_MIB * MIB
                found = job(made, floor, limit, 1, [shuffle], batch)[0]
                words.append(told(found, floor) if "peak_bytes" in found and "refused" not in found else found.get("failed", "refused"))
                well &= "peak_bytes" in found and "refused" not in found and found["peak_bytes"] <= limit
            print(f"{made.name:16} {floor / MIB:5.1f} MiB " + " ".join(f"{word:>8}" for word in words), flush=True)
    return well


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--memory", default="64,128,256,512", help="budgets in MiB")
    parser.add_argument("--sources", default=",".join(MAKERS))
    parser.add_argument("--folder", type=Path, help="where files are made; they are removed")
    parser.add_argument("--extremes", nargs="*", help="all of them, or by name: row_group, quoted_field, …")
    parser.add_argument("--floors", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        if given.extremes is not None:
            well = data_extremes.prove(Path(folder), job, told, given.extremes, formats_read())
        else:
            well = (floors if given.floors else matrix)(given, folder)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
