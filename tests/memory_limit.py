"""A cgroup of its own for a process, with a limit and no swap, where this machine lets us make one.

In: bytes. Out: the folder of the group, or none. A process enters by writing its number to `cgroup.procs`; what it held before is not counted.
"""

import contextlib
import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def _ours():
    """The folder of this process's own group that limits memory, and the names of its files: limit, swap, kills."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"
        if number == "0" and (ROOT / "cgroup.controllers").exists():
            return ROOT / path.lstrip("/"), "memory.max", "memory.swap.max", "memory.events"
    return None


@contextlib.contextmanager
def group(limit_bytes):
    """A group with this limit for the time of the block; none where it cannot be made."""
    folder = None
    try:
        ours, limit, swap, _ = _ours()
        folder = ours / f"brimful-test-{os.getpid()}-{limit_bytes}"
        folder.mkdir()
        (folder / limit).write_text(str(limit_bytes))
        with contextlib.suppress(OSError):
            (folder / swap).write_text("0" if limit == "memory.max" else str(limit_bytes))
    except (OSError, TypeError):
        if folder is not None and folder.exists():
            folder.rmdir()
        folder = None
    try:
        yield folder
    finally:
        if folder is not None:
            folder.rmdir()


def kills(folder):
    """How often the system killed a process of the group."""
    words = (folder / _ours()[3]).read_text().split()
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0
