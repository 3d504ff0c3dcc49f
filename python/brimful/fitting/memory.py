"""Sizes in words and numbers, how much this machine's RAM still has for this process, and what limits it.

In: what a user wrote; the system's files. Out: bytes. Not counted: swap, and what other processes will take later.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

#: What limits a process that nothing else does.
MACHINE = "the machine's RAM"

UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    UNITS[_letter] = UNITS[f"{_letter}ib"] = 1 << (10 * _power)
    UNITS[f"{_letter}b"] = 1000**_power

_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]*)\s*$")


def parse(size: str | int) -> int:
    """Bytes from ``3GiB``, ``500MB`` or a number of bytes."""
    if isinstance(size, (int, float)) and not isinstance(size, bool):
        wanted = int(size)
    else:
        match = _SIZE.match(str(size))
        if match is None or match[2].lower() not in UNITS:
            raise ValueError(f"memory is '{size}': write a size such as 3GiB or 500MB, or auto")
        wanted = int(float(match[1]) * UNITS[match[2].lower()])
    if wanted < 1:
        raise ValueError(f"memory is '{size}': it must be more than nothing")
    return wanted


def human(size_bytes: float) -> str:
    """Bytes as a person reads them."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if abs(size_bytes) >= 1 << power:
            value = size_bytes / (1 << power)
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{size_bytes:.0f} B"


def host_room_bytes(root: Path = Path("/")) -> int:
    """RAM that this process can still take: what the machine has left, its control groups and its own limit allow."""
    rooms = [limit - used for _, limit, used in host_limits(root)]
    address_space = address_space_room_bytes(root)
    if address_space is not None:
        rooms.append(address_space)
    return max(0, min(rooms)) if rooms else 0


def host_limits(root: Path = Path("/")) -> list[tuple[str, int, int]]:
    """What bounds this process's RAM: a name, the limit, and what is in use of it by anybody. The page cache counts as free."""
    return [*_machine(root), *_control_groups(root)]


def tensorflow_pool_bytes() -> int | None:
    """What TensorFlow's pool on the CPU may hold; None where the environment asks for none."""
    if os.environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() not in ("1", "true"):
        return None
    # The allocator's own default is 64 GiB.
    return int(os.environ.get("TF_CPU_BFC_MEM_LIMIT_IN_MB") or 1 << 16) << 20


def _machine(root: Path) -> list[tuple[str, int, int]]:
    figures = dict(re.findall(r"^(MemTotal|MemAvailable):\s+(\d+) kB", read(root / "proc/meminfo") or "", re.MULTILINE))
    if "MemAvailable" not in figures:
        return []
    available = int(figures["MemAvailable"]) << 10
    total = int(figures.get("MemTotal", figures["MemAvailable"])) << 10
    return [(MACHINE, total, total - available)]


def _control_groups(root: Path) -> list[tuple[str, int, int]]:
    """The limits of the groups above this process."""
    found = []
    for line in (read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, limit, used = root / "sys/fs/cgroup", "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit, used = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # In a container the path is the host's, and its files are those at the top.
        folder = base / path.strip("/")
        for level in [folder, *folder.parents]:
            most, now = _number(level / limit), _number(level / used)
            if most is not None and now is not None and most < 1 << 60:
                cache = re.search(r"^(?:total_)?inactive_file (\d+)", read(level / "memory.stat") or "", re.MULTILINE)
                found.append(("the limit of its cgroup", most, now - (int(cache[1]) if cache else 0)))
            if level == base:
                break
    return found


def address_space_room_bytes(root: Path = Path("/")) -> int | None:
    """What `ulimit -v` leaves; None where it sets no limit."""
    try:
        import resource
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    match = re.search(r"^VmSize:\s+(\d+) kB", read(root / "proc/self/status") or "", re.MULTILINE)
    return limit - (int(match[1]) << 10 if match else 0)


def read(path: Path) -> str | None:
    """A file's text; None where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return None


def _number(path: Path) -> int | None:
    text = (read(path) or "").strip()
    return int(text) if text.isdigit() else None
