"""Memory as a notebook shows it: a bar for each, against its limit; for a cell, its peak and what it left behind.

In: readings, or spans of a cell. Out: `Shown`: HTML for notebooks and the same as text for a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import drawing
from .cell import Span
from .drawing import human
from .readings import Reading

#: The share of a limit from which on it is near.
_NEAR = 0.9
#: A change that is told; allocators and the interpreter move by less all the time.
_TOLD_BYTES = 1 << 20
#: The colours of what is this notebook's and of what is others', and their letters in a terminal.
_OWN, _OTHERS = (0, "█"), (7, "▒")
_NOTHING = "No memory can be read here: neither /proc nor psutil nor a GPU's driver answers."


class Shown:
    """Something to display: HTML where that is known, text elsewhere."""

    def __init__(self, html: str, text: str) -> None:
        self._html, self._text = html, text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self._html, "text/plain": self._text}

    def __repr__(self) -> str:
        return self._text


def moment(seen: Sequence[Reading]) -> Shown:
    """Memory now."""
    if not seen:
        return Shown(drawing.box("", drawing.paragraph(_NOTHING)), _NOTHING)
    pieces = [_bar(reading) for reading in seen]
    text = "\n".join(f"{reading.name}\n  {_text_bar(reading)}  {_words(reading)}{_own_words(reading)}" for reading in seen)
    return Shown(drawing.box(_tone(seen), *pieces), text)


def span(spans: Sequence[Span]) -> Shown:
    """Memory over a cell."""
    if not spans:
        return moment(())
    rows, texts = [], []
    for one in spans:
        before = human(one.before.mine_bytes) if one.before else "–"
        figures = (before, human(one.peak_bytes), human(one.after.mine_bytes), left(one.left_bytes))
        name = one.after.name + (" (this notebook)" if one.after.own_bytes is not None else "")
        rows.append((drawing.escape(name), *map(drawing.escape, figures)))
        texts.append(
            f"{name}\n  {_text_bar(one.after)}  before {figures[0]}, peak {figures[1]}, after {figures[2]}; left behind: {figures[3]}"
        )
    bars = [_bar(one.after, one) for one in spans]
    table = drawing.table(("this cell", "before", "peak", "after", "left behind"), rows, numbers=(1, 2, 3, 4))
    return Shown(drawing.box(_tone([one.after for one in spans]), *bars, table), "\n".join(texts))


def left(size_bytes: int) -> str:
    """A change in words."""
    if abs(size_bytes) < _TOLD_BYTES:
        return "nothing"
    return human(size_bytes) if size_bytes > 0 else f"{human(-size_bytes)} less"


def _tone(seen: Sequence[Reading]) -> str:
    # What an allocator holds of its pool may be all of it without harm; the device and the host are what ends a job.
    shares = [reading.used_bytes / reading.limit_bytes for reading in seen if reading.limit_bytes]
    return "warning" if shares and max(shares) >= _NEAR else ""


def _parts(reading: Reading) -> list[tuple[str, int, tuple[int, str]]]:
    if reading.own_bytes is None:
        return [("in use", reading.used_bytes, _OWN)]
    # Pages that processes share are counted by each of them.
    own = min(reading.own_bytes, reading.used_bytes)
    return [("this notebook", own, _OWN), ("others", reading.used_bytes - own, _OTHERS)]


def _words(reading: Reading) -> str:
    of = f" of {human(reading.limit_bytes)} ({reading.limit_name})" if reading.limit_bytes else ""
    return f"{human(reading.used_bytes)}{of}"


def _own_words(reading: Reading) -> str:
    return f"; this notebook {human(reading.own_bytes)}" if reading.own_bytes is not None else ""


def _bar(reading: Reading, over: Span | None = None) -> str:
    parts = [(name, size, sign[0]) for name, size, sign in _parts(reading)]
    words = _words(reading)
    line = f"<p><strong>{drawing.escape(reading.name)}</strong>: {drawing.escape(words)}</p>"
    if over is not None and over.peak_bytes - reading.mine_bytes >= _TOLD_BYTES:
        # What was held at the peak and is free again.
        parts.insert(1, ("more at the peak of this cell", over.peak_bytes - reading.mine_bytes, 1))
    named = drawing.key(parts) if len(parts) > 1 else ""
    return line + drawing.bar(parts, f"{reading.name}: {words}{_own_words(reading)}", reading.limit_bytes) + named


def _text_bar(reading: Reading) -> str:
    return drawing.text_bar([(sign[1], size) for _, size, sign in _parts(reading)], reading.limit_bytes)
