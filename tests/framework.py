"""Runs real Keras jobs on TensorFlow's CPU device, with the allocator that it has on GPUs, under a limit."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

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
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "-1",
        "KERAS_BACKEND": "tensorflow",
    }
    return {**os.environ, **settings}


@dataclass
class Outcome:
    """How a job ended: with the peaks of its steps, or out of memory."""

    peaks: list = field(default_factory=list)
    parameters: int = 0
    #: What was said when memory ran out; empty if it did not.
    error: str = ""


def train(model, batch, *, limit_mib=PLENTY_MIB, steps=3, accumulate=1):
    """Trains in a subprocess. Running out of memory is an outcome; anything else that goes wrong fails the test."""
    job = {"model": model, "batch": batch, "steps": steps, "accumulate": accumulate}
    command = [sys.executable, str(HERE / "training_job.py"), json.dumps(job)]
    run = subprocess.run(command, env=environment(limit_mib), capture_output=True, text=True, timeout=300)
    lines = run.stdout.splitlines()
    if lines and lines[-1].startswith("{"):
        return Outcome(**json.loads(lines[-1]))
    # Some kernels end the process when their scratch cannot be had; the allocator has said so before.
    said = [line for line in run.stderr.splitlines() if "ran out of memory trying to allocate" in line]
    assert said, f"{job} ended with {run.returncode}, and not for want of memory:\n{run.stderr[-3000:]}"
    return Outcome(error=said[-1])
