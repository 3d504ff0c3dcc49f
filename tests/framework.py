"""Runs real Keras jobs on TensorFlow's CPU device, with the allocator that it has on GPUs, under a limit."""

import functools
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import forked

HERE = Path(__file__).parent
MIB = 1 << 20
#: More than any of these jobs needs; the allocator takes memory only as the job asks for it.
PLENTY_MIB = 6000


def environment(limit_mib=PLENTY_MIB):
    """TensorFlow's BFC allocator on the CPU with so much memory and no GPU; Keras on TensorFlow."""
    settings = {
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(limit_mib),
        "TF_ENABLE_ONEDNN_OPTS": "0",
        # Warnings are wanted: a process that dies has told before that it ran out of memory.
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "KERAS_BACKEND": "tensorflow",
    }
    return {**os.environ, **settings}


def run_script(name, *args, limit_mib=PLENTY_MIB):
    """Runs a script of this folder in a process of its own."""
    return forked.run(HERE / name, *args, env=environment(limit_mib), timeout=300)


@dataclass
class Outcome:
    """How a job ended: with the peaks of its steps, or out of memory."""

    peaks: list = field(default_factory=list)
    #: What was said when memory ran out; empty if it did not.
    error: str = ""


@functools.cache
def train(model, batch, *, limit_mib=PLENTY_MIB, steps=3, accumulate=1):
    """Trains in a subprocess, each job once. Running out of memory is an outcome; any other end fails."""
    job = {"model": model, "batch": batch, "steps": steps, "accumulate": accumulate}
    run = run_script("training_job.py", json.dumps(job), limit_mib=limit_mib)
    lines = run.stdout.splitlines()
    if lines and lines[-1].startswith("{"):
        return Outcome(**json.loads(lines[-1]))
    # Some kernels end the process when their scratch cannot be had; the allocator has said so before.
    said = [line for line in run.stderr.splitlines() if "ran out of memory trying to allocate" in line]
    assert said, f"{job} ended with {run.returncode}, and not for want of memory:\n{run.stderr[-3000:]}"
    return Outcome(error=said[-1])
