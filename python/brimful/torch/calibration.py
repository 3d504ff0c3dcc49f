"""What was measured on the GPUs of this machine, and which plans it is for.

In: figures of `calibrate`, and the versions that they hold for. Out: one JSON file in the user's cache folder, and the entry for a GPU. A
file that is damaged, or that something else wrote, is ignored with a note: a plan never fails for its sake.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from brimful import _native

SCHEMA = 1
KEY = ("gpu", "driver", "torch", "cuda")
# Beyond this a figure is no context of CUDA's, whatever the file says.
MOST_BYTES = 1 << 36


@dataclass(frozen=True)
class Entry:
    """Figures of one GPU under one driver and one PyTorch."""

    gpu: str
    driver: str
    torch: str
    cuda: str
    bare_context_bytes: int
    context_bytes: int
    cublas_bytes: int
    cublas_lt_bytes: int
    cublas_backward_bytes: int
    stages: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(getattr(self, name) for name in KEY)


class Unreadable(ValueError):
    """The file is not what `calibrate` writes."""


def path() -> Path:
    """Where the figures are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "brimful" / "calibration.json"


def read(file: Path | None = None) -> list[Entry]:
    """All entries, the newest last; none if nothing was measured yet."""
    file = file or path()
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(str(error)) from None
    try:
        written = json.loads(text)
        if written["schema"] != SCHEMA:
            raise Unreadable(f"its schema is {written['schema']}, not {SCHEMA}")
        return [_entry(row) for row in written["entries"]]
    except Unreadable:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from None


def _entry(row: dict) -> Entry:
    stages = tuple((str(name), _size(size)) for name, size in row["stages"])
    texts = {name: str(row[name]) for name in KEY}
    sizes = {name: _size(row[name]) for name in Entry.__dataclass_fields__ if name.endswith("_bytes")}
    return Entry(**texts, **sizes, stages=stages)


def _size(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_BYTES:
        raise Unreadable(f"{value!r} is not a size")
    return value


def keep(entry: Entry, file: Path | None = None) -> Path:
    """Adds an entry, in place of one with the same key. The file is whole at any moment."""
    file = file or path()
    try:
        others = [other for other in read(file) if other.key != entry.key]
    except Unreadable:
        others = []
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".calibration-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump({"schema": SCHEMA, "entries": [asdict(each) for each in [*others, entry]]}, out, indent=2)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
    return file


def find(gpu: str, torch: str, cuda: str, driver: str | None) -> tuple[Entry | None, list[dict]]:
    """The entry for a GPU, by its driver's name or the catalogue's, and what to say. `driver` is None where the GPU is not here."""
    try:
        entries = read()
    except Unreadable as error:
        text = f"The measurements in {path()} cannot be used ({error}): run `brimful calibrate` again."
        return None, [{"code": "calibration_unreadable", "text": text}]
    same = [entry for entry in entries if _id(entry.gpu) == _id(gpu)]
    for entry in reversed(same):
        if (entry.torch, entry.cuda) == (torch, cuda) and driver in (None, entry.driver):
            held = entry.context_bytes / 2**20
            text = f"What CUDA holds beside the allocator, {held:.0f} MiB, was measured by `brimful calibrate` on this machine."
            return entry, [{"code": "calibrated", "text": text}]
    if same and driver is not None:
        old = same[-1]
        text = f"`brimful calibrate` measured this GPU with PyTorch {old.torch} and driver {old.driver}, not today's: run it again."
        return None, [{"code": "calibration_old", "text": text}]
    return None, []


def _id(gpu: str) -> str:
    """The catalogue's name of a GPU, or its own."""
    try:
        return json.loads(_native.device(gpu))["id"]
    except ValueError:
        return gpu


def driver_version() -> str:
    """The driver's version; `unknown` where nothing says it."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
        found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
        if found:
            return found.group(1)
    except OSError:
        pass
    rows = smi("driver_version")
    return rows[0][0] if rows else "unknown"


def smi(*fields: str) -> list[list[str]]:
    """What nvidia-smi says of each GPU; nothing where it is not there."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [[field.strip() for field in line.split(",")] for line in answer.stdout.splitlines() if line.strip()]
