"""Explains an out-of-memory below the traceback of the cell that raised it.

In: the shell's events around a cell. Out: a box, where something ran out; nothing for any other error. The error is read where the shell keeps its own, so that
handlers that a user has set stay as they are. Nothing of an error is kept here: neither it nor its frames, which hold the tensors of the failed step.
The shell itself keeps them for its debugger, until `free` lets go.
"""

from __future__ import annotations

import gc
import sys
import traceback
from typing import Any

from brimful.explanation import explain
from brimful.fitting.failure import forget

from . import drawing, explanation_box
from .memory_box import Shown

#: What a person or the program asked for is no failure.
_WANTED = (KeyboardInterrupt, SystemExit, GeneratorExit)
#: Errors of a chain or a group that are looked at.
_MOST = 200
#: What trains a script as it stands, and the same for a model at hand.
_FIT_A_SCRIPT = "brimful fit -- python"
_FIT_A_MODEL = "brimful.keras.fit(model, x, y, batch_size=...)   # in place of model.fit; import brimful.keras"
FREE = "%brimful free"
_KEPT = "IPython keeps the failed cell's traceback for %debug, and with it the arrays and tensors of its functions."


def shown(error: BaseException | None, notebook: bool) -> Shown | None:
    """The box for an error of a cell; None where nothing ran out."""
    if error is None or isinstance(error, _WANTED) or explain(_messages(error)).resource is None:
        return None
    explanation = explain(error)
    if explanation.resource is None:
        return None
    answer, text = _for_a_cell(explanation.to_dict(), explanation.to_text(100 if notebook else None))
    footer = f'<p class="brimful-quiet">{drawing.escape(_KEPT)} <code>{FREE}</code> lets go of them.</p>'
    html = explanation_box.box(answer, explanation.first_sentence, footer)
    return Shown(html, f"{text.rstrip()}\n\n{_KEPT} {FREE} lets go of them.")


def _for_a_cell(answer: dict[str, Any], text: str) -> tuple[dict[str, Any], str]:
    """The answer and its text, with what a cell can call in place of commands for a script."""
    for remedy in answer["remedies"]:
        for snippet in remedy["apply"]:
            if snippet["code"].startswith(_FIT_A_SCRIPT):
                text = text.replace(snippet["code"], _FIT_A_MODEL)
                snippet["code"] = _FIT_A_MODEL
    return answer, text


def _messages(error: BaseException) -> str:
    """What the error, its causes and its group say, without lines of source: those may speak of memory for reasons of their own."""
    said: list[str] = []
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting and len(seen) < _MOST:
        one = waiting.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        said += traceback.format_exception_only(type(one), one)
        waiting.append(one.__cause__)
        if not one.__suppress_context__:
            waiting.append(one.__context__)
        members = getattr(one, "exceptions", None)
        waiting += members if isinstance(members, (list, tuple)) else ()
    return "".join(said) + "\n"


class Seen:
    """Which error was looked at last, by its number: its object would hold all that it knows."""

    def __init__(self) -> None:
        self._number = id(_last())

    def begin(self) -> None:
        """A cell begins."""
        self._number = id(_last())

    def new(self, result: Any) -> BaseException | None:
        """The error of the cell that has just ended, once."""
        # Some magics show an error themselves and end well: it is then the last one that was shown.
        last = _last()
        failed = getattr(result, "error_in_exec", None)
        error = failed if failed is not None else last if id(last) != self._number else None
        self._number = id(last)
        return error


def free(shell: Any) -> None:
    """Lets go of everything that the last error holds, wherever the shell keeps it."""
    result = getattr(shell, "last_execution_result", None)
    for error in (_last(), getattr(result, "error_in_exec", None)):
        if error is not None:
            forget(error)
    if result is not None:
        result.error_in_exec = None
    for name in ("last_value", "last_traceback", "last_type", "last_exc"):
        if getattr(sys, name, None) is not None:
            setattr(sys, name, None)
    shower = getattr(shell, "InteractiveTB", None)
    if getattr(shower, "tb", None) is not None:
        shower.tb = None
    del result
    gc.collect()
    torch = sys.modules.get("torch")
    # PyTorch keeps what was freed for itself until it is told to give it back.
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _last() -> BaseException | None:
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
