"""Why a command of this package ends without a report: one sentence for people, and never a traceback of its own.

In: an exception. Out: what happened and where, on one line, as the command shows it. `main` wraps a command, gives the exit codes that
scripts branch on, and keeps standard output for the report: what the user's code prints goes to standard error.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from typing import Any, Callable

UNUSABLE = 2


class Refusal(Exception):
    """There is no report, and this is why."""


def main(command: Callable[[list[str]], tuple[str, int]]) -> None:
    """Runs a command, writes what it answers, and ends the process with its exit code."""
    answer = os.dup(1)
    os.dup2(2, 1)
    try:
        text, code = command(sys.argv[1:])
        with os.fdopen(answer, "w", encoding="utf-8") as out:
            out.write(text)
    except Refusal as refusal:
        code = say(str(refusal))
    except KeyboardInterrupt:
        code = say("it was interrupted")
    except BaseException as error:  # noqa: BLE001  (also SystemExit: its code would be taken for a verdict)
        code = say(described(error))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that the user's code left behind are not waited for.
    os._exit(code)


def say(text: str) -> int:
    """Says why on one line of standard error, and gives the exit code."""
    line = " ".join(text.split())
    print(f"error: {line}", file=sys.stderr)
    return UNUSABLE


def described(error: BaseException) -> str:
    """The place in the user's code, and the last line of the traceback."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}"
    said = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {said[0].strip()}" if said else type(error).__name__
    place = _place(error)
    return text if place is None else f"{place}: {text}"


def _place(error: BaseException) -> str | None:
    """The innermost line outside of libraries, or else the innermost line."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return None
    frame = next((frame for frame in reversed(frames) if not _is_library(frame.filename)), frames[-1])
    where = "" if frame.name == "<module>" else f" in {frame.name}"
    return f"{shown(frame.filename)}:{frame.lineno}{where}"


def _is_library(file: str) -> bool:
    folders = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))), sysconfig.get_paths()["stdlib"])
    return file.startswith("<") or "site-packages" in file or "dist-packages" in file or file.startswith(folders)


def shown(file: str) -> str:
    """A path as short as it can be from here."""
    try:
        near = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if near.startswith("..") else near


def imported(name: str) -> Any:
    """A library that the user's Python has, or why it cannot be used."""
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            raise Refusal(f"{sys.executable} has no {name}: install it with '{sys.executable} -m pip install {name}'") from None
        raise Refusal(f"{name} of {sys.executable} cannot be imported: {error}; install it again") from None
    except Exception as error:  # noqa: BLE001  (broken libraries raise anything)
        raise Refusal(f"{name} of {sys.executable} cannot be imported: {described(error)}; install it again") from None
