"""From what the caller wrote to what the extension takes.

In: arguments of `open` and `batches`. Out: dictionaries with every key, and notes about what was found out rather than said: the budget and
the rank. Wrong arguments are refused here, with their names.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from brimful import _native
from brimful.fitting import memory as sizes

from .errors import DataError

SHUFFLES = ("none", "window", "block", "global")
#: How long a batch is waited for that another thread may still let go of: before garbage is collected, and how often again after it.
PATIENCE_MS = 100
PATIENCE_TIMES = 20
#: Settings of rows that have a value where nobody gives one.
UNSAID = {
    "seed": 0,
    "window_rows": None,
    "rank": None,
    "world": None,
    "remainder": "drop",
    "drop_last": False,
    "threads": None,
    "bad_rows": "fail",
}


def memory_bytes(memory: str | int | None) -> tuple[int, str]:
    """The budget, and where it comes from if nobody gave it."""
    if memory is None or memory == "auto":
        found, reason = _native.data_memory()
        return found, f"no memory was given: {sizes.human(found)}, {reason}"
    try:
        return sizes.parse(memory), ""
    except ValueError as wrong:
        raise DataError(str(wrong)) from None


def whole(value: Any, least: int) -> bool:
    """Whether this is a whole number, and not a smaller one."""
    return not isinstance(value, bool) and hasattr(value, "__index__") and value >= least


def names(value: str | Iterable[str] | None) -> list[str]:
    """One name or several."""
    return [] if value is None else [value] if isinstance(value, str) else [str(name) for name in value]


def paths(value: Any) -> list[str]:
    """One path or several, as text."""
    try:
        given = [value] if isinstance(value, (str, os.PathLike)) else list(value)
        return [str(os.fspath(path)) for path in given]
    except TypeError:
        raise DataError(f"{value!r} is no path: give a path, a pattern, or a list of them") from None


def dtype_name(value: Any) -> str | None:
    """NumPy's, PyTorch's and TensorFlow's types by NumPy's name."""
    if value is None or isinstance(value, str):
        return value
    import numpy

    name = getattr(value, "name", None)
    if isinstance(value, type) or not isinstance(name, str):
        text = str(value)
        name = text.split(".", 1)[1] if text.startswith("torch.") else numpy.dtype(value).name
    return name


def shuffle_name(value: bool | str | None) -> str:
    """`True` is `block`: well mixed, and as fast as reading in order."""
    name = {True: "block", False: "none", None: "none"}.get(value, value)
    if name not in SHUFFLES:
        raise DataError(f"shuffle is {value!r}: write True, False or one of {', '.join(SHUFFLES)}")
    return name


def ranks(rank: int | None, world: int | None) -> tuple[int, int, str]:
    """Which share of the rows: as given, or as torchrun, Ray Train or TensorFlow's cluster say; and a note in that case."""
    if (rank is None) != (world is None):
        raise DataError("rank and world belong together: give both, or neither")
    if rank is not None and world is not None:
        return int(rank), int(world), ""
    for found, whose in ((_torchrun(), "RANK and WORLD_SIZE"), (_ray(), "Ray Train"), (_tf_config(), "TF_CONFIG")):
        if found is not None and found[1] > 1:
            return *found, f"rank {found[0]} of {found[1]}, as {whose} say{'s' if whose != 'RANK and WORLD_SIZE' else ''}"
    return 0, 1, ""


def _torchrun() -> tuple[int, int] | None:
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return None


def _ray() -> tuple[int, int] | None:
    train = sys.modules.get("ray.train")
    try:
        context = train.get_context()
        return int(context.get_world_rank()), int(context.get_world_size())
    except Exception:
        # Ray is not there, or this is no worker of its.
        return None


def _tf_config() -> tuple[int, int] | None:
    try:
        config = json.loads(os.environ["TF_CONFIG"])
        cluster, task = config["cluster"], config["task"]
        chiefs, workers = len(cluster.get("chief", ())), len(cluster.get("worker", ()))
        place = {"chief": 0, "worker": chiefs}[task["type"]]
        return place + int(task["index"]), chiefs + workers
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def batching(
    batch_rows: int, memory: str | int | None, shuffle: bool | str | None = False, scratch: str | os.PathLike | None = None, **others: Any
) -> tuple[dict, list[str]]:
    """The settings of batches as the extension takes them, and notes. `Dataset.batches` says what they mean; others: those of `UNSAID`."""
    if unknown := sorted(others.keys() - UNSAID):
        raise TypeError(f"there is no setting {unknown[0]!r} of rows; there are {', '.join(UNSAID)}")
    given = {**UNSAID, **others, "batch_rows": batch_rows}
    if given["remainder"] not in ("drop", "keep"):
        raise DataError(f"remainder is {given['remainder']!r}: write drop (all ranks have as many rows) or keep (no row is left out)")
    if given["bad_rows"] not in ("fail", "skip", "null"):
        raise DataError(f"bad_rows is {given['bad_rows']!r}: write fail, skip or null")
    for name, least in (("batch_rows", 1), ("seed", 0), ("window_rows", 1), ("threads", 1)):
        if given[name] is None and name in ("window_rows", "threads"):
            continue
        if not whole(given[name], least):
            raise DataError(f"{name} is {given[name]!r}: write a whole number, {least} or more")
        given[name] = int(given[name])
    budget, about_memory = memory_bytes(memory)
    given["rank"], given["world"], about_rank = ranks(given["rank"], given["world"])
    made = {
        **given,
        "memory_bytes": budget,
        "shuffle": shuffle_name(shuffle),
        "keep_remainder": given["remainder"] == "keep",
        "drop_last": bool(given["drop_last"]),
        "patience_ms": PATIENCE_MS,
        "scratch": None if scratch is None else os.fspath(scratch),
    }
    return made, [note for note in (about_memory, about_rank) if note]


def wanted(
    columns: Iterable[str] | None,
    labels: str | Iterable[str] | None,
    dtype: Any,
    label_dtype: Any,
    categories: Mapping[str, Iterable] | None,
    hashed: Mapping[str, int] | None,
) -> dict:
    """Which columns become which arrays."""
    return {
        "columns": None if columns is None else names(columns),
        "labels": names(labels),
        "dtype": dtype_name(dtype),
        "label_dtype": dtype_name(label_dtype),
        "separate": False,
        "categories": {name: [str(text) for text in texts] for name, texts in (categories or {}).items()},
        "hashed": dict(hashed or {}),
    }
