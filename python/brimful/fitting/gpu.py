"""What NVIDIA's GPUs are called, have and hold, where the framework does not say.

In: NVIDIA's management library, if there is one. Out: names and bytes. Absent without complaint.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def gpu_limit_bytes(configured_bytes: int | None, index: int = 0) -> int | None:
    """A limit that was configured, or else the device's memory; what is left of it where others use it, too."""
    total = next((known.total_bytes for known in gpus() if known.index == index), None)
    if total is None:
        return configured_bytes
    return min(configured_bytes, total) if configured_bytes else total


@dataclass(frozen=True)
class Gpu:
    """A GPU as its driver sees it."""

    index: int
    name: str
    total_bytes: int
    used_bytes: int


def gpus(visible: str | None = None) -> list[Gpu]:
    """The machine's GPUs; `visible` is `CUDA_VISIBLE_DEVICES`, whose numbers choose among them up to the first that there is not, as for CUDA."""
    try:
        library, count = _library(), ctypes.c_uint()
        if library.nvmlInit_v2() != 0 or library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return []
        found = [_gpu(library, index) for index in _visible(visible, count.value)]
    except (OSError, AttributeError):
        return []
    return [known for known in found if known is not None]


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libnvidia-ml.so.1")


def _visible(visible: str | None, count: int) -> list[int]:
    """The numbers of those that are visible. Names in place of numbers leave all of them."""
    if visible is None:
        return list(range(count))
    chosen: list[int] = []
    for word in filter(None, (part.strip() for part in visible.split(","))):
        if not word.lstrip("-").isdigit():
            return list(range(count))
        if not 0 <= int(word) < count:
            break
        chosen.append(int(word))
    return chosen


def _gpu(library: ctypes.CDLL, index: int) -> Gpu | None:
    device, memory, name = ctypes.c_void_p(), _Memory(), ctypes.create_string_buffer(96)
    ok = (
        library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0
        and library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0
    )
    if not ok:
        return None
    named = library.nvmlDeviceGetName(device, name, ctypes.c_uint(len(name))) == 0
    return Gpu(index, name.value.decode(errors="replace") if named else "NVIDIA", memory.total, memory.used)
