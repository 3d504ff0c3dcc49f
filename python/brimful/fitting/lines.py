"""What the user reads while training inside a budget: one line at the start, one for each change, one at the end.

In: what happens. Out: lines on standard error, so that a progress bar on standard output stays whole.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator

from .memory import human
from .sizing import parts

_silent = 0


def say(text: str) -> bool:
    """One line, unless nothing is to be said; whether it was."""
    if not _silent:
        print(f"brimful: {text}", file=sys.stderr, flush=True)
    return not _silent


def warn(text: str) -> bool:
    """What must be known in any case: a warning where nothing is to be said."""
    if not say(text):
        warnings.warn(f"brimful: {text}", stacklevel=_level_of_the_user())
    return True


def pass_on(text: str) -> None:
    """A warning of the framework's own, which it would give where this package computes in its place."""
    warnings.warn(text, stacklevel=_level_of_the_user())


def _level_of_the_user() -> int:
    """How far up the line is that called this package, itself or through Keras: the warning shows it, and none of ours."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("brimful", "keras"):
        frame, level = frame.f_back, level + 1
    return level


@contextlib.contextmanager
def quiet(silent: bool = True) -> Iterator[None]:
    """Says nothing inside."""
    global _silent
    _silent += silent
    try:
        yield
    finally:
        _silent -= silent


def taken(rows: int, size: int) -> str:
    """How a batch is taken: ``4 × 32``, or ``3 × 43 or less`` where the parts are not equal."""
    pieces = [end - begin for begin, end in parts(rows, size)]
    unequal = " or less" if min(pieces) != max(pieces) else ""
    return f"{len(pieces)} × {max(pieces)}{unequal}"


def started(rows: int, size: int, predicted_bytes: int | None, room_bytes: int | None, result: str) -> str:
    """The line at the start."""
    words = [f"asked {rows}, running {taken(rows, size)}"]
    if predicted_bytes and room_bytes:
        words.append(f"predicted {human(predicted_bytes)} of {human(room_bytes)}")
    elif room_bytes:
        words.append(f"{human(room_bytes)} free")
    words.append(result)
    return ", ".join(words)
