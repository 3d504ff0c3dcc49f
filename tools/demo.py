"""The story of one failing job: planned, run, explained and trained to the end, with real TensorFlow and the real commands.

Comes in: `examples/demo/train.py`, a Python with Keras, TensorFlow and Brimful in it. Goes out: each command as a shell runs it, with
its own output cut down to what matters, on standard output. The exit code is 0 if every chapter came out as told, else 1. The
device is TensorFlow's allocator for GPUs with 600 MiB of the host's memory: it fails as it does on a GPU, without one.

    python tools/demo.py [--epochs 3] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "examples" / "demo" / "train.py"
LIMIT_MIB = 600
#: More than the job asks for; the allocator takes memory only as it is needed.
PLENTY_MIB = 6000
#: Losses are sums in another order: they differ by rounding, which training makes larger.
LOSS_TOLERANCE = 1e-3
#: Matches no line.
NOTHING = "(?!)"


class WentWrong(Exception):
    """A chapter did not come out as told."""


def environment(folder: Path, limit_mib: int) -> dict:
    """TensorFlow's allocator of GPUs on the CPU, with so much memory; nothing learnt in earlier runs; this Python's commands first."""
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(limit_mib),
        "TF_ENABLE_ONEDNN_OPTS": "0",
        # One operation after the other: otherwise it is chance which gaps the pool has, and where it fails.
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "CUDA_VISIBLE_DEVICES": "-1",
        "KERAS_BACKEND": "tensorflow",
        "BRIMFUL_CACHE": str(folder / "cache"),
    }


def run(command: str, folder: Path, limit_mib: int, lines: str = NOTHING, paragraphs: str = NOTHING) -> tuple[int, str]:
    """Runs a command line in bash. Shows the lines that match, and whole paragraphs whose first line does, as they come; `…` for others."""
    say(f"\n$ {command}")
    job = subprocess.Popen(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment(folder, limit_mib),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    said, in_paragraph, left_out = [], False, False
    for line in job.stdout:
        said.append(line)
        begins = not in_paragraph and re.match(paragraphs, line) is not None
        in_paragraph = bool(line.strip()) and (in_paragraph or begins)
        if in_paragraph or re.match(lines, line):
            say(f"\n  {line.rstrip()}" if begins and len(said) > 1 else f"  {line.rstrip()[:118]}")
            left_out = False
        elif line.strip() and not left_out:
            say("  …")
            left_out = True
    return job.wait(), "".join(said)


def say(text: str) -> None:
    print(text, flush=True)


def check(right: bool, expected: str, said: str) -> None:
    if not right:
        raise WentWrong(f"expected: {expected}; the command's last lines were:\n{said[-3000:]}")


def plan(folder: Path) -> None:
    say(f"train.py trains an image classifier with batches of 128. It has {LIMIT_MIB} MiB: TensorFlow's allocator of GPUs, on the CPU.")
    say(f"\n1. Before anything runs: does the batch fit {LIMIT_MIB} MiB?")
    code, said = run("python train.py --save cnn.keras", folder, LIMIT_MIB, lines="Traceback|.*Error")
    check(code == 0 and (folder / "cnn.keras").exists(), "the model is saved", said)
    code, said = run(
        f"brimful plan cnn.keras --batch 128 --device cpu --memory {LIMIT_MIB}MiB",
        folder,
        LIMIT_MIB,
        lines="  [A-Z]+┃| +┃",
        paragraphs="Does not fit|Fits|What fills|Batch|Cheapest|    model.compile|error",
    )
    check(code == 1 and said.startswith("Does not fit: needs "), "the plan says that it does not fit, with exit code 1", said)


def die(folder: Path, training: str) -> None:
    say("\n2. It is run all the same, with Brimful watching. TensorFlow waits ten seconds for memory, then gives up.")
    code, said = run(
        f"brimful run -o plain.brimful -- {training} 2>&1 | tee plain.log",
        folder,
        LIMIT_MIB,
        lines="Epoch|Traceback|tensorflow.*ResourceExhausted|OOM when|brimful: ",
        paragraphs="\\w+ memory ran out",
    )
    check(code != 0, "the plain job fails", said)
    check("ran out of memory trying to allocate" in said, "the plain job runs out of memory", said)


def explain(folder: Path) -> None:
    say("\n3. Why? From the job's log, and its model:")
    code, said = run(
        "brimful explain plain.log --plan cnn.keras",
        folder,
        LIMIT_MIB,
        paragraphs="\\w+ memory ran out|Why|Figures|The plan|What to do|error",
    )
    check(code == 0, "a cause is found, with exit code 0", said)
    check(
        "the batch, or its activations, are too large" in said.split("\n\n")[0].replace("\n", " "), "the batch is named as the cause", said
    )
    check("the largest batch that would have fitted is" in said.replace("\n    ", " "), "the largest batch is named", said)


def fit(folder: Path, training: str) -> None:
    say("\n4. The same script, the same batch, the same memory, not a line changed:")
    shown = "Epoch|\\d+/\\d+ - |brimful: |Traceback|.*Error"
    code, said = run(f"brimful fit -- {training} --losses fit.csv", folder, LIMIT_MIB, lines=shown)
    check(code == 0 and "each sample counted once" in said, "it trains to the end", said)


def compare(folder: Path, training: str, epochs: int) -> None:
    say("\n5. And is it the same training? Once more, plainly, with all the memory it asks for:")
    code, said = run(f"{training} --losses unlimited.csv", folder, PLENTY_MIB, lines="Epoch|\\d+/\\d+ - |Traceback|.*Error")
    check(code == 0, "the plain job trains without a limit", said)
    fitted, plain = losses(folder / "fit.csv"), losses(folder / "unlimited.csv")
    rows = {
        "epoch": [f"{epoch + 1}" for epoch in range(epochs)],
        f"loss in {LIMIT_MIB} MiB, with brimful fit": [f"{loss:.6f}" for loss in fitted],
        "loss without a limit, plainly": [f"{loss:.6f}" for loss in plain],
    }
    say("")
    for name, figures in rows.items():
        say(f"  {name:34}" + "".join(f"{figure:>12}" for figure in figures))
    same = len(fitted) == len(plain) == epochs and all(abs(a - b) <= LOSS_TOLERANCE * abs(b) for a, b in zip(fitted, plain))
    check(same, f"the losses of {epochs} epochs agree to {LOSS_TOLERANCE:.1%}", f"{fitted}\n{plain}")


def losses(file: Path) -> list[float]:
    with file.open(newline="") as rows:
        return [float(row["loss"]) for row in csv.DictReader(rows)]


def tell(folder: Path, epochs: int) -> None:
    """The whole story. Ends with `WentWrong` at the first chapter that does not come out as told."""
    shutil.copy(SCRIPT, folder / "train.py")
    training = "python train.py" if epochs == 3 else f"python train.py --epochs {epochs}"
    plan(folder)
    die(folder, training)
    explain(folder)
    fit(folder, training)
    compare(folder, training, epochs)


def main() -> int:
    parser = argparse.ArgumentParser(description="A failing CNN, planned, run, explained and trained to the end.")
    parser.add_argument("--epochs", type=int, default=3, help="epochs to train; default 3")
    parser.add_argument("--folder", type=Path, help="where its files go and stay; default: a folder that is removed")
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="brimful-demo-") as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            tell(folder.resolve(), args.epochs)
        except WentWrong as wrong:
            print(f"\nThe demo went wrong: {wrong}", file=sys.stderr)
            return 1
    say(f"\nDone in {time.monotonic() - began:.0f} s: it did not fit, and it trained all the same, to the same losses.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
