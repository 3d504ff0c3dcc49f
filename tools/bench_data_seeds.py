"""The examples in `examples/data`, each plainly and with brimful, one after the other: peak memory and time of each.

    python tools/bench_data_seeds.py [--rows 100000] [--folder FOLDER] [--times 1]

Out: a table. Peak: the most that the process held (VmHWM), with its imports and without: what the same imports take alone is measured too, and
subtracted. Time: of the whole process, and its CPU time. Each file is read once before, so that all of them find it in the page cache.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples" / "data"
CASES = ("whole_array", "chunked_csv", "mapped_array", "lazy_array", "prefetching")
FILES = {"whole_array": "rows.npz", "chunked_csv": "table.csv", "lazy_array": "square.npy"}
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "KERAS_BACKEND": "tensorflow"}
MIB = 1 << 20


def measured(code, *arguments):
    """Runs Python code in a process; gives its exit code, the last line it printed, its peak, seconds, and seconds of CPU."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen([sys.executable, *code, *arguments], stdout=said, stderr=said, text=True, env={**os.environ, **QUIET})
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        said.seek(0)
        # The last line is the result, or the error; what frameworks say stands before it.
        last = ([""] + said.read().splitlines())[-1]
    return child.returncode, last, usage.ru_maxrss << 10, seconds, usage.ru_utime + usage.ru_stime


def imports(script):
    """The lines of a script that only import."""
    return "\n".join(line for line in script.read_text().splitlines() if re.match(r"import |from ", line))


def warm(path):
    """Reads a file once."""
    with open(path, "rb", buffering=0) as file:
        while file.read(MIB):
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--times", type=int, default=1, help="runs of each; the median time and the highest peak are shown")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        if not (folder / "square.npy").exists():
            subprocess.run([sys.executable, str(EXAMPLES / "make_files.py"), str(folder), "--rows", str(given.rows)], check=True)
        print(f"{'case':13} {'':13} {'peak':>9} {'imports':>9} {'its own':>9} {'time':>8} {'CPU':>8}  result")
        for case in CASES:
            for how in ("plain", "with_brimful"):
                script = EXAMPLES / case / f"{how}.py"
                alone = measured(["-c", imports(script)])[2]
                warm(folder / FILES.get(case, "rows.npy"))
                runs = [measured([str(script)], str(folder)) for _ in range(given.times)]
                if any(run[0] for run in runs):
                    print(f"{case:13} {how:13} failed: {next(run[1] for run in runs if run[0])}", flush=True)
                    continue
                peak = max(run[2] for run in runs)
                seconds, cpu = (statistics.median(run[at] for run in runs) for at in (3, 4))
                sizes = f"{peak / MIB:5.0f} MiB {alone / MIB:5.0f} MiB {(peak - alone) / MIB:5.0f} MiB"
                print(f"{case:13} {how:13} {sizes} {seconds:6.2f} s {cpu:6.2f} s  {runs[0][1]}", flush=True)


if __name__ == "__main__":
    main()
