"""Functions of frameworks, followed from outside.

In: a class or module, the name of a function in it, what to do before and after. Out: the same function by the same name. What it raises
passes with the traceback that it would have had.
"""

from __future__ import annotations

import functools
from _thread import get_ident
from time import monotonic_ns

from brimful.hooks import without_this_frame

from .progress import progress, safely

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """The function of this name becomes what `make` gives for it, under its name and with its signature."""
    original = getattr(owner, name, None)
    if original is not None:
        setattr(owner, name, functools.wraps(original)(make(original)))


def in_phase(owner: Any, name: str, phase: str, counts_itself: bool = False) -> None:
    """Calls of this function are a phase; `counts_itself`: its steps are counted by what runs in it."""

    def make(original: Any) -> Any:
        def followed(*args: Any, **kwargs: Any) -> Any:
            safely(progress.begin, phase)
            progress.counted_elsewhere += counts_itself
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                without_this_frame(error)
                raise
            finally:
                progress.counted_elsewhere -= counts_itself
                safely(progress.end, phase)

        return followed

    replace(owner, name, make)


def as_waiting(owner: Any, name: str, counts: Callable[[], bool] | None = None) -> None:
    """The time in this function is time spent waiting for data, in the thread that trains and where `counts` says so."""

    def make(original: Any) -> Any:
        def followed(self: Any) -> Any:
            began_ns = 0
            if not progress.is_waiting and get_ident() == progress.thread and (counts is None or counts()):
                progress.is_waiting = True
                began_ns = monotonic_ns()
            try:
                return original(self)
            except BaseException as error:
                without_this_frame(error)
                raise
            finally:
                if began_ns:
                    progress.is_waiting = False
                    progress.waited(monotonic_ns() - began_ns)

        return followed

    replace(owner, name, make)
