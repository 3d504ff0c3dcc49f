"""How much memory is in use now: the host's, each GPU's, and what the allocators of the loaded frameworks hold.

In: the system's files, NVIDIA's management library, frameworks that somebody else has imported and set up. Out: `Reading`s; what cannot be read is left out.
No framework is imported or set up here, and no device is waited for. Not counted: swap, and what others will take later.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brimful.fitting import gpu, memory

#: Frameworks in the words of a person.
_TITLES = {"torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}


@dataclass(frozen=True)
class Reading:
    """One memory at one moment."""

    name: str
    #: All that is in use, whoever uses it.
    used_bytes: int
    limit_bytes: int | None = None
    #: What sets the limit.
    limit_name: str = ""
    #: What this notebook's processes use of it, where that is known.
    own_bytes: int | None = None
    #: The most so far, as the system or the allocator counted it.
    counted_peak_bytes: int | None = None

    @property
    def mine_bytes(self) -> int:
        """What a cell changes: this notebook's share, or all of it."""
        return self.used_bytes if self.own_bytes is None else self.own_bytes


def now(root: Path = Path("/")) -> list[Reading]:
    """Every memory that can be read."""
    return [*host(root), *gpus(), *frameworks()]


def host(root: Path = Path("/")) -> Iterator[Reading]:
    """The host's memory against the limit that leaves least."""
    limits = memory.host_limits(root)
    if limits:
        name, limit, used = min(limits, key=lambda known: known[1] - known[2])
        own, peak = _processes_bytes(root)
        yield Reading("Host memory", max(used, 0), limit, name, own, peak)
        return
    try:
        import psutil  # Where there is no /proc; a notebook's kernel comes with it.
    except ImportError:
        return
    machine = psutil.virtual_memory()
    yield Reading("Host memory", machine.total - machine.available, machine.total, memory.MACHINE, psutil.Process().memory_info().rss)


def gpus() -> Iterator[Reading]:
    """Every GPU that this process may see, as its driver says."""
    for found in gpu.gpus(os.environ.get("CUDA_VISIBLE_DEVICES")):
        yield Reading(f"GPU {found.index}, {found.name}", found.used_bytes, found.total_bytes, "the device's memory")


def frameworks() -> Iterator[Reading]:
    """What the allocators of loaded frameworks hold."""
    for name, read in _READERS.items():
        module = sys.modules.get(name)
        # Another thread may be in the middle of importing it.
        if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
            continue
        try:
            figures = list(read(module))
        except Exception:  # noqa: BLE001 -- whatever a framework raises that is not set up, or being set up
            continue
        for figure in figures:
            if figure["allocated"] is not None:
                limit = figure["limit"] or _tensorflow_limit(module, figure["device"]) if name == "tensorflow" else figure["limit"]
                title = f"{_TITLES[name]} on {figure['device']}"
                yield Reading(title, figure["allocated"], limit, "what its allocator may hold", None, figure["peak"])


def reset_peaks() -> None:
    """Lets the allocators of PyTorch and TensorFlow count their peaks anew; JAX's cannot."""
    for reading in frameworks():
        framework, _, device = reading.name.partition(" on ")
        try:
            if framework == "TensorFlow":
                sys.modules["tensorflow"].config.experimental.reset_memory_stats(device)
            elif framework == "PyTorch" and device.startswith("cuda"):
                sys.modules["torch"].cuda.reset_peak_memory_stats(device)
        except Exception:  # noqa: BLE001 -- the figures are then those of the whole run
            continue


def _torch(_: Any) -> Iterator[dict[str, Any]]:
    from brimful.agent.torch_loops import readings

    return readings()


def _tensorflow(module: Any) -> Iterator[dict[str, Any]]:
    from brimful.agent.tensorflow_steps import Readings

    return Readings(module)()


def _jax(_: Any) -> Iterator[dict[str, Any]]:
    from brimful.agent.jax_steps import readings

    return readings()


_READERS: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {"tensorflow": _tensorflow, "torch": _torch, "jax": _jax}


def _tensorflow_limit(tensorflow: Any, device: str) -> int | None:
    if device.startswith("CPU"):
        return memory.tensorflow_pool_bytes()
    if not device.startswith("GPU"):
        return None
    index = int(device.partition(":")[2] or 0)
    physical = tensorflow.config.list_physical_devices("GPU")
    configured = tensorflow.config.get_logical_device_configuration(physical[index]) if index < len(physical) else None
    limit = configured[0].memory_limit if configured else None
    return gpu.gpu_limit_bytes(int(limit) << 20 if limit else None, index)


def _processes_bytes(root: Path) -> tuple[int | None, int | None]:
    """What this process and those below it hold, and the most that this one ever held."""
    me = str(os.getpid())
    own, peak = _status_bytes(root, me)
    if own is None:
        return None, None
    seen, waiting = {me}, [me]
    while waiting:
        parent = waiting.pop()
        for task in _listed(root / "proc" / parent / "task"):
            for child in (memory.read(task / "children") or "").split():
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
                    own += _status_bytes(root, child)[0] or 0
    # The system counts the peak of one process; with others beside it, that is not theirs.
    return own, peak if len(seen) == 1 else None


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _status_bytes(root: Path, process: str) -> tuple[int | None, int | None]:
    fields = dict(line.split(":", 1) for line in (memory.read(root / "proc" / process / "status") or "").splitlines() if ":" in line)
    figures = (fields.get(name, "").split() for name in ("VmRSS", "VmHWM"))
    now_bytes, peak_bytes = (int(words[0]) << 10 if words else None for words in figures)
    return now_bytes, peak_bytes
