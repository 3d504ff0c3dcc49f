"""Kills runs at random moments, the job or Brimful itself, and opens what was recorded.

    tools/kill_runs.py [--runs 100] [--seed 1] [--brimful target/release/brimful]

In: the command. Out: one line: how many recordings opened, and how much of the end was missing at most. The moment of the kill is this script's own
clock; a recording's last sample is compared with it. Ends with 1 if a recording does not open, or more than a second is missing.
"""

import argparse
import csv
import io
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

JOB = "x = []\nimport time\nwhile True:\n    x.append(bytearray(1 << 18))\n    time.sleep(0.01)"


def kill_one(brimful, chance):
    """One run: who was killed, how many seconds after the start, and how many seconds are missing; none if it does not open."""
    victim, after_s = chance.choice(["job", "brimful"]), chance.uniform(0.2, 4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.run"
        environment = {**os.environ, "BRIMFUL_PYTHON": "/nowhere/python"}
        command = [brimful, "run", "-q", "-o", str(path), "--", sys.executable, "-c", JOB]
        run = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not path.exists() or not path.stat().st_size:
            time.sleep(0.005)
        begin = time.monotonic()
        time.sleep(after_s)
        job = int(Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[0])
        lived_s = time.monotonic() - begin
        os.kill(job if victim == "job" else run.pid, signal.SIGKILL)
        run.wait()
        if victim == "brimful":
            os.kill(job, signal.SIGKILL)
        report = subprocess.run([brimful, "report", str(path), "--format", "csv"], capture_output=True, text=True)
        if report.returncode != 0:
            return victim, after_s, None
        # One that was killed before its first half second may have no sample yet.
        last_ms = max((float(row["at_ms"]) for row in csv.DictReader(io.StringIO(report.stdout))), default=0)
        return victim, after_s, lived_s - last_ms / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brimful", default="target/release/brimful")
    args = parser.parse_args()
    with ThreadPoolExecutor(4) as pool:
        chances = [random.Random(args.seed * 1000 + number) for number in range(args.runs)]
        results = list(pool.map(lambda chance: kill_one(args.brimful, chance), chances))
    opened = [missing for _, _, missing in results if missing is not None]
    of = {who: [missing for victim, _, missing in results if victim == who and missing is not None] for who in ("job", "brimful")}
    worst = {who: max(missing, default=0.0) for who, missing in of.items()}
    print(
        f"{len(opened)} of {len(results)} recordings open; missing at most {worst['brimful']:.2f} s after a kill of brimful"
        f" ({len(of['brimful'])} runs), {worst['job']:.2f} s after a kill of the job ({len(of['job'])} runs)"
    )
    return 0 if len(opened) == len(results) and max(worst.values()) <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
