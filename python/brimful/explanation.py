"""From a dead job to its cause: an exception, a log's text or a log's file.

In: what failed. Out: an `Explanation`. Nothing here imports a framework: an exception is read as the interpreter would print it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import traceback
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from brimful import _native

#: Bytes of a file read at a time.
_PIECE = 1 << 20
#: A text longer than this is a log, not the name of one.
_LONGEST_PATH = 1000
#: One word that ends like this is a file.
_SUFFIXES = (".log", ".txt", ".out", ".err", ".ipynb", ".json")
#: Files of IPython and its kernel.
_SHELL = re.compile(r"[\\/](?:IPython[\\/](?:core|terminal)|ipykernel)[\\/]")


class Explanation:
    """What ran out, why, the lines that say so, and what to change.

    >>> explanation = brimful.explain("train.log")
    >>> explanation.resource, explanation.cause
    ('gpu_memory', 'batch_too_large')
    """

    def __init__(self, native: _native.Explanation):
        self._native = native

    @cached_property
    def _answer(self) -> dict[str, Any]:
        return json.loads(self._native.json())

    @property
    def resource(self) -> str | None:
        """What ran out, such as `gpu_memory`; None where nothing did, or nothing says so."""
        return self._answer["resource"]

    @property
    def cause(self) -> str | None:
        """The cause's code, such as `fragmentation`; None where the log does not support one."""
        return self._answer["cause"] and self._answer["cause"]["code"]

    @property
    def confidence(self) -> str | None:
        """`certain` or `likely`."""
        return self._answer["cause"] and self._answer["cause"]["confidence"]

    @property
    def because(self) -> list[str]:
        """Why, one sentence each."""
        return self._answer["cause"]["because"] if self._answer["cause"] else []

    @property
    def numbers(self) -> dict[str, Any]:
        """The figures: `requested_bytes`, `shape`, `capacity_bytes`, … as far as they are said."""
        return self._answer["numbers"]

    @property
    def evidence(self) -> list[dict[str, Any]]:
        """The lines, with their numbers."""
        return self._answer["evidence"]

    @property
    def missing(self) -> list[dict[str, str]]:
        """Facts that would decide, and how to get them."""
        return self._answer["missing"]

    @property
    def remedies(self) -> list[dict[str, Any]]:
        """What to do, the cheapest first, with code."""
        return self._answer["remedies"]

    @property
    def first_sentence(self) -> str:
        """The answer: what ran out, and the cause where one is known."""
        # The text's first paragraph, whatever its width.
        return " ".join(self._native.text(200, False).split("\n\n")[0].split())

    def to_dict(self) -> dict[str, Any]:
        """All of it, as `brimful explain --format json` prints it (docs/explain.md)."""
        return json.loads(self._native.json())

    def to_text(self, width: int | None = None, colour: bool = False) -> str:
        """For people; as wide as the terminal unless a width is given."""
        return self._native.text(width or shutil.get_terminal_size((80, 24)).columns, colour)

    def __bool__(self) -> bool:
        return self.cause is not None

    def __str__(self) -> str:
        return self.to_text(80)

    def __repr__(self) -> str:
        # Shown by a notebook's cell and by the interpreter: the answer itself, not its type.
        return self.to_text()

    def _repr_html_(self) -> str:
        from brimful.notebook import explanation_box

        return explanation_box.box(self._answer, self.first_sentence)


def explain(what: BaseException | str | bytes | os.PathLike[str] | None = None) -> Explanation:
    """Explains a failure.

    `what` is an exception (with what caused it), the text of a log, or the path of one; without it, the exception that is being handled, or
    the last one that the interpreter showed.
    """
    if what is None:
        what = sys.exception() if sys.version_info >= (3, 11) else sys.exc_info()[1]
        what = what or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if what is None:
            raise ValueError("no exception is being handled: pass one, the text of a log, or its path")
    explainer = _native.Explainer()
    for piece in _pieces(what):
        explainer.push(piece)
    return Explanation(explainer.finish())


def _pieces(what: BaseException | str | bytes | os.PathLike[str]) -> Iterator[bytes]:
    if isinstance(what, BaseException):
        yield _printed(what).encode("utf-8", "replace")
    elif isinstance(what, bytes):
        yield what
    elif isinstance(what, str) and not _names_a_file(what):
        yield what.encode("utf-8", "replace")
    elif isinstance(what, (str, os.PathLike)):
        with open(what, "rb") as log:
            while piece := log.read(_PIECE):
                yield piece
    else:
        raise TypeError(f"an exception, a log's text or its path is expected, not {type(what).__name__}")


def _printed(error: BaseException) -> str:
    """What the interpreter would print, without the frames of a notebook's shell: its own `eval` is no evaluation of the job's."""
    shown = traceback.TracebackException(type(error), error, error.__traceback__)
    waiting = [shown]
    while waiting:
        one = waiting.pop()
        if one is not None:
            one.stack = traceback.StackSummary.from_list([frame for frame in one.stack if not _SHELL.search(frame.filename)])
            waiting += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
    return "".join(shown.format())


def _names_a_file(text: str) -> bool:
    if len(text) > _LONGEST_PATH or "\n" in text or "\0" in text:
        return False
    # A name that was mistyped is opened, too, so that the error is the usual one.
    return Path(text).is_file() or (" " not in text and text.lower().endswith(_SUFFIXES))
