"""What this process was seen to do: which frameworks it imports, what was taken over, which loops ran as they are.

In: calls from the hooks. Out: facts for the closing lines. Only the first loop of each kind is kept; looking at a step costs
nothing after that.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

#: Packages whose frames are never the user's, and are passed over without a look at the file.
_FRAMEWORKS = {"keras", "tensorflow", "tf_keras", "torch", "jax", "jaxlib"}
_STANDARD_LIBRARY = os.path.dirname(os.path.realpath(os.__file__)) + os.sep


class Facts:
    """What was seen so far."""

    def __init__(self) -> None:
        self.frameworks: set[str] = set()
        #: A method was taken over, or a step of Brimful's own ran.
        self.taken = False
        #: Loops that ran as they are: their kind, and where.
        self.loops: dict[str, str] = {}
        self.told: set[str] = set()


facts = Facts()


def framework(name: str) -> None:
    """A framework was imported."""
    facts.frameworks.add(name)


def taken() -> None:
    """A call was taken over."""
    facts.taken = True


def tell_once(text: str) -> None:
    """One line on stderr, the first time."""
    if text not in facts.told:
        facts.told.add(text)
        print(f"brimful: {text}", file=sys.stderr, flush=True)


def step(kind: str) -> None:
    """An update of weights that nobody took over; called from the hook, in the thread that makes it."""
    if kind in facts.loops:
        return
    place = _users_line(sys._getframe(1))
    if place is not None:
        facts.loops[kind] = place


def _users_line(frame: FrameType | None) -> str | None:
    """The innermost line of a file of the user's, else of an installed package; none if a step of Brimful's own is what runs."""
    installed = None
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        file = frame.f_code.co_filename
        if package == "brimful":
            if not str(frame.f_globals["__name__"]).startswith("brimful.takeover"):
                taken()
                return None
        elif package not in _FRAMEWORKS and not _is_generated(file):
            place = f"{_shown(file)}:{frame.f_lineno}"
            if "site-packages" in file or "dist-packages" in file:
                installed = installed or place
            elif not os.path.realpath(file).startswith(_STANDARD_LIBRARY):
                return place
        frame = frame.f_back
    return installed


def _is_generated(file: str) -> bool:
    # What TensorFlow writes from the user's function has lines of its own; the call of it is the user's.
    return os.path.basename(file).startswith("__autograph_generated_file") or file.startswith("<frozen")


def _shown(file: str) -> str:
    """Short where the file is below the current folder."""
    try:
        short = os.path.relpath(file)
    except (OSError, ValueError):
        return file
    return file if short.startswith(os.pardir) or file.startswith("<") else short
