"""What an NVIDIA GPU has for this process, where the framework does not say.

In: NVIDIA's management library, if there is one. Out: bytes. Absent without complaint.
"""

from __future__ import annotations

import ctypes


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def gpu_limit_bytes(configured_bytes: int | None, index: int = 0) -> int | None:
    """A limit that was configured, or else the device's memory; what is left of it where others use it, too."""
    memory = _memory(index)
    if memory is None:
        return configured_bytes
    return min(configured_bytes, memory.total) if configured_bytes else memory.total


def _memory(index: int) -> _Memory | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        device, memory = ctypes.c_void_p(), _Memory()
        ok = (
            library.nvmlInit_v2() == 0
            and library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0
            and library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0
        )
        return memory if ok else None
    except (OSError, AttributeError):
        return None
