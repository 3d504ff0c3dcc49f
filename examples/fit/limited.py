"""Runs a script with little memory, so that it fails on any machine as it would on a small GPU.

    python limited.py MIB SCRIPT

TensorFlow gets, on the CPU, the allocator that it has on GPUs, with so many MiB; PyTorch, whose CPU allocator knows no limit, so many MiB of
address space on top of what importing it takes. With TensorFlow only its tensors count, and not what NumPy has.
"""

import os
import re
import runpy
import sys
from pathlib import Path

MIB = 1 << 20


def uses_torch(script: Path) -> bool:
    """Whether a script is written in PyTorch; all others here are Keras on TensorFlow."""
    return bool(re.search(r"^import torch", script.read_text(), re.MULTILINE))


def limit(script: Path, memory_mib: int) -> None:
    """Sets the limit for the framework that a script uses. It has not been imported yet."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    if uses_torch(script):
        limit_torch(memory_mib)
        return
    os.environ.update(
        KERAS_BACKEND="tensorflow",
        TF_CPU_ALLOCATOR_USE_BFC="true",
        TF_CPU_BFC_MEM_LIMIT_IN_MB=str(memory_mib),
        # Its kernels have memory of their own beside the allocator.
        TF_ENABLE_ONEDNN_OPTS="0",
        # Warnings are wanted: a process that dies has told before that it ran out of memory.
        TF_CPP_MIN_LOG_LEVEL="1",
    )


def limit_torch(memory_mib: int) -> None:
    import resource

    # Each thread takes address space, too.
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    import torch  # noqa: F401

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    allowed_bytes = pages * resource.getpagesize() + memory_mib * MIB
    resource.setrlimit(resource.RLIMIT_AS, (allowed_bytes, allowed_bytes))


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        sys.exit("usage: python limited.py MIB SCRIPT")
    if not Path(sys.argv[2]).is_file():
        sys.exit(f"error: {sys.argv[2]}: no such script")
    limit(Path(sys.argv[2]), int(sys.argv[1]))
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
