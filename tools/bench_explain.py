#!/usr/bin/env python3
"""Times `brimful explain` on logs of a gigabyte: CPU time and peak memory.

In: the built command. Out: one line for each kind of log. The promise is 3 s and 64 MiB for a training log; the others are built to be slow:
a phrase in every line, one line without an end, escaped line breaks, bytes of no text at all.

    python tools/bench_explain.py [--gib 1] [COMMAND]
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAILURE = (ROOT / "fixtures" / "logs" / "gpu_torch_optimizer.log").read_bytes()


def training():
    rng = random.Random(1)
    for step in range(20000):
        yield f"2026-11-15 10:{step % 60:02d}:00,{step % 1000:03d} - INFO - trainer - epoch {step // 1000} step {step} ".encode()
        yield f"loss {rng.random():.6f} lr {rng.random():.2e} grad_norm {rng.random():.3f} tokens/s {rng.randint(1000, 9000)}\n".encode()
        if step % 50 == 0:
            yield f"{step % 157}/157 [=======>......] - ETA: 3s - loss: {rng.random():.4f}\r".encode()
        if step % 200 == 0:
            yield b"W tensorflow/core/framework/cpu_allocator_impl.cc:83] Allocation of 1234567 exceeds 10% of free system memory.\n"


def failures():
    yield FAILURE * 200


def every_line():
    for step in range(20000):
        yield f"step {step}: CUDA out of memory. Tried to allocate {step}.00 MiB, retrying with exit code 137\n".encode()


def figures():
    for step in range(20000):
        yield f"step {step} memory allocated {500 + step % 7} MiB reserved {900 + step % 5} MiB\n".encode()


def one_line():
    yield b"x" * 1_000_000 + b"CUDA out of memory. Tried to allocate 2.00 GiB "


def escaped():
    yield b'{"log":"' + FAILURE.replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"}\n'


def noise():
    yield os.urandom(4 << 20)


KINDS = (training, failures, every_line, figures, one_line, escaped, noise)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("command", nargs="?", default=str(ROOT / "target" / "release" / "brimful"))
    options = parser.parse_args()
    print(f"{'log':12} {'CPU s':>7} {'peak MiB':>9}  answer")
    slow = False
    for kind in KINDS:
        with tempfile.NamedTemporaryFile(suffix=".log") as log:
            block = b"".join(kind())
            for _ in range(max(1, int(options.gib * 2**30) // len(block))):
                log.write(block)
            log.write(b"\n" + FAILURE)
            log.flush()
            seconds, peak, answer = timed([options.command, "explain", log.name, "--format", "json"])
        print(f"{kind.__name__:12} {seconds:7.2f} {peak / 2**20:9.1f}  {answer}", flush=True)
        slow |= kind is training and (seconds > 3 * options.gib or peak > 64 << 20)
    return 1 if slow else 0


def timed(command):
    """The CPU time and the peak of one child, whoever else ran before."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "import resource, subprocess, sys; p = subprocess.run(sys.argv[1:], capture_output=True); sys.stdout.buffer.write(p.stdout); "
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = next((line.split('"')[3] for line in run.stdout.splitlines() if '"code":' in line), "no cause")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(run.stderr.split()[-1]) * 1024, answer


if __name__ == "__main__":
    sys.exit(main())
