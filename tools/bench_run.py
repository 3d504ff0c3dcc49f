"""What watching costs: Brimful beside psutil polling and memray, in one run.

    pip install psutil memray
    tools/bench_run.py [--seconds 20] [--rounds 7] [--brimful target/release/brimful]

In: the command. Out: two tables. The first: CPU time and memory of the watcher itself, at ten looks a second, for a tree of 20 processes that do nothing. The
second: how much longer a job takes that keeps one CPU busy and allocates all the time, alone and watched by each, round by round, as ratios of medians.
Brimful is measured as `brimful run`, recording; without Python's agent the job is the same program for all.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHILDREN = 19
TREE = f"""
import subprocess, sys, time
children = [subprocess.Popen([sys.executable, "-c", "x = bytearray(8 << 20); import time; time.sleep(10 ** 6)"]) for _ in range({CHILDREN})]
try:
    time.sleep(float(sys.argv[1]))
finally:
    [child.kill() for child in children]
"""
POLL = """
import sys, time, psutil
process = psutil.Process(int(sys.argv[1]))
peak = 0
try:
    while True:
        tree = [process, *process.children(recursive=True)]
        peak = max(peak, sum(member.memory_info().rss for member in tree))
        time.sleep(0.1)
except psutil.Error:
    pass
"""
BUSY = """
total = 0
for turn in range(30000):
    rows = [[float(i * turn % 97) for i in range(60)] for _ in range(20)]
    total += sum(sum(row) for row in rows)
    table = {str(i): i * turn for i in range(900)}
    total += len(table)
print(total)
"""
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mib(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def watcher_cost(brimful, seconds, folder):
    """For each watcher its share of one core, in percent, and its memory, in MiB."""
    environment = {**os.environ, "BRIMFUL_PYTHON": "/nowhere/python"}
    tree = [sys.executable, "-c", TREE, str(seconds + 5)]
    run = subprocess.Popen([brimful, "run", "-q", "-o", f"{folder}/a.run", "--", *tree], env=environment)
    time.sleep(3)
    [job] = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    poll = subprocess.Popen([sys.executable, "-c", POLL, job])
    time.sleep(1)
    before = {"brimful run": cpu_seconds(run.pid), "psutil": cpu_seconds(poll.pid)}
    begin = time.monotonic()
    time.sleep(seconds - 2)
    lasted = time.monotonic() - begin
    pids = {"brimful run": run.pid, "psutil": poll.pid}
    cost = {name: (100 * (cpu_seconds(pid) - before[name]) / lasted, peak_mib(pid)) for name, pid in pids.items()}
    run.terminate()
    run.wait()
    poll.wait()
    size = Path(f"{folder}/a.run").stat().st_size
    return cost, size / (seconds + 2) * 3600 / 1e6


def timed(command, **options):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def with_psutil():
    begin = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    job = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.DEVNULL)
    poll = subprocess.Popen([sys.executable, "-c", POLL, str(job.pid)])
    job.wait()
    wall = time.perf_counter() - begin
    poll.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--brimful", default="target/release/brimful")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cost, mb_per_hour = watcher_cost(args.brimful, args.seconds, folder)
        print(f"watching {CHILDREN + 1} idle processes ten times a second, {args.seconds:.0f} s")
        for name, (percent, mib) in cost.items():
            print(f"  {name:12} {percent:5.2f} % of a core  {mib:6.1f} MiB")
        print(f"  recording    {mb_per_hour:.2f} MB an hour")
        environment = {**os.environ, "BRIMFUL_PYTHON": "/nowhere/python"}
        job = [sys.executable, "-c", BUSY]
        ways = {
            "alone": lambda: timed(job),
            "brimful run": lambda: timed([args.brimful, "run", "-q", "-o", f"{folder}/b.run", "--", *job], env=environment),
            "psutil": with_psutil,
            "memray": lambda: timed([sys.executable, "-m", "memray", "run", "-f", "-o", f"{folder}/m.bin", "-c", BUSY]),
        }
        results = {name: [] for name in ways}
        for _ in range(args.rounds):
            for name, way in ways.items():
                results[name].append(way())
    print(f"a busy job, medians of {args.rounds} rounds")
    alone = results["alone"]
    for name, times in results.items():
        wall = statistics.median(one[0] / base[0] for one, base in zip(times, alone, strict=True))
        cpu = statistics.median(one[1] / base[1] for one, base in zip(times, alone, strict=True))
        print(f"  {name:12} wall x {wall:.3f}  CPU x {cpu:.3f}  ({statistics.median(t[0] for t in times):.2f} s)")


if __name__ == "__main__":
    main()
