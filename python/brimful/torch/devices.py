"""From the device that is planned for to what the rules for kernels need to know about it.

In: a name of the catalogue, or None for this machine's GPU. Out: what the request says about the device, and a `Gpu`; with the figures
of `brimful calibrate` where there are some for this GPU and this PyTorch. Without a GPU and without a name, kernels are taken to be those
of the H200, on which they were measured.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import torch

from brimful import _native

from . import calibration
from .scratch import Gpu

# Multiprocessors, by name of the catalogue (NVIDIA's data sheets); others by the largest chip of their generation.
_MULTIPROCESSORS = {
    "t4": 40, "colab-t4": 40, "kaggle-t4-x2": 40, "p100": 56, "v100": 80, "a10": 72, "a10g": 80, "a100": 108, "a100-80gb": 108, "a40": 84,
    "l4": 58, "l40": 142, "l40s": 142, "h100": 132, "h200": 132, "gh200": 132, "b200": 148, "rtx-2080-ti": 68, "rtx-3060": 28,
    "rtx-3070": 46, "rtx-3080": 68, "rtx-3090": 82, "rtx-4060": 24, "rtx-4070": 46, "rtx-4080": 76, "rtx-4090": 128, "rtx-5090": 170,
}  # fmt: skip
_BY_GENERATION = {6: 56, 7: 80, 8: 108, 9: 132, 10: 148, 12: 170}
_THREADS = {(7, 5): 1024, (8, 6): 1536, (8, 7): 1536, (8, 9): 1536, (12, 0): 1536}
MEASURED = Gpu((9, 0), 132)
# What a process holds beside the allocator, in MiB: always, with cuBLAS, with cuDNN. What NVML showed for measured jobs, less what they
# had reserved (`fixtures/measured/torch_h200.jsonl`); to within 4 MiB for all of them.
_CONTEXTS_MIB = {"h200": (614, 128, 16)}
# From this version on a handle does not keep its workspace, unless it is told to (ATen/cuda/CUDAContextLight.h).
_CUBLAS_GIVEN_BACK = (2, 15)


def context(where: dict, cublas: bool, cudnn: bool) -> dict:
    """The context of a device on which it was measured library by library, unless this machine's own figure is known."""
    parts = _CONTEXTS_MIB.get(where.get("device")) if isinstance(where.get("device"), str) else None
    if parts is None or "context_bytes" in where:
        return {}
    return {"context_bytes": (parts[0] + parts[1] * cublas + parts[2] * cudnn) << 20}


def _keeps_cublas() -> bool:
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    return version < _CUBLAS_GIVEN_BACK or os.environ.get("TORCH_CUBLAS_WORKSPACE_CACHE") == "1"


def resolve(name: str | None) -> tuple[dict, Gpu, list[dict]]:
    """What the request says about the device, the GPU for the rules, and what was assumed."""
    if name is not None:
        found = json.loads(_native.device(name))
        gpu = _gpu(found)
        entry, notes = _calibrated(found["id"], here=False)
        return {"device": found["id"], **_context(entry)}, _with_workspaces(gpu, entry), notes
    if torch.cuda.is_available():
        return _this_machine()
    text = (
        "No device was given: kernels of an H200 are assumed, on which they were measured, and nothing limits the job but a given memory."
    )
    return {}, _with_workspaces(MEASURED, None), [{"code": "no_device", "text": text}]


def _this_machine() -> tuple[dict, Gpu, list[dict]]:
    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info(0)
    device: dict[str, Any] = {
        "name": properties.name,
        "capacity_bytes": total,
        "compute_capability": f"{properties.major}.{properties.minor}",
    }
    gpu = Gpu((properties.major, properties.minor), properties.multi_processor_count, properties.max_threads_per_multi_processor)
    entry, notes = _calibrated(properties.name, here=True)
    # To ask was to get a context: that one is this process's own, and is in the plan already.
    own = entry.bare_context_bytes if entry is not None else _bare_context_bytes(properties.name)
    held = max(0, total - free - torch.cuda.memory_reserved(0) - own)
    return {"device": device, "held_by_others_bytes": held, **_context(entry)}, _with_workspaces(gpu, entry), notes


def _calibrated(gpu: str, here: bool) -> tuple[calibration.Entry | None, list[dict]]:
    """What `brimful calibrate` measured on this GPU with this PyTorch; for another machine's plan whatever the driver was."""
    driver = calibration.driver_version() if here else None
    return calibration.find(gpu, torch.__version__, str(torch.version.cuda), driver)


def _context(entry: calibration.Entry | None) -> dict:
    return {} if entry is None else {"context_bytes": entry.context_bytes}


def _with_workspaces(gpu: Gpu, entry: calibration.Entry | None) -> Gpu:
    gpu = replace(gpu, keeps_cublas=_keeps_cublas())
    return gpu if entry is None else replace(gpu, cublas_bytes=entry.cublas_bytes, cublas_lt_bytes=entry.cublas_lt_bytes)


def _bare_context_bytes(name: str) -> int:
    try:
        return json.loads(_native.device(name))["bare_context_bytes"]
    except ValueError:  # not in the catalogue
        return 0


def _gpu(found: dict) -> Gpu:
    capability = found.get("compute_capability")
    if capability is None:
        raise ValueError(f"{found['name']} is not a CUDA device: PyTorch plans are for CUDA devices; `brimful devices` lists them")
    major, minor = (int(part) for part in capability.split("."))
    count = _MULTIPROCESSORS.get(found["id"], _BY_GENERATION.get(major, 132))
    return Gpu((major, minor), count, _THREADS.get((major, minor), 2048))
