"""What `%load_ext brimful` puts into a shell, and takes out again: two events, one magic, one line that turns `%%brimful` into it.

In: the shell. Out: boxes in its cells. Nothing that goes wrong here reaches the user's code: it is one line on stderr.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from . import drawing, failures, memory_box, readings
from .cell import Watcher

#: A first line that watches the whole cell; what follows the word is for the magic to judge.
_CELL = re.compile(r"%%brimful(?:[ \t]+(.*))?$")
_USAGE = (
    "write %brimful for memory now, %%brimful as a cell's first line for its peak, or %brimful free to let go of the last error's tensors"
)


class Session:
    """One shell's."""

    def __init__(self, shell: Any, display: Callable[[Any], object], cell_magic: Callable[[list], list], usage_error: type) -> None:
        self._shell, self._display, self._cell_magic, self._usage_error = shell, display, cell_magic, usage_error
        # A kernel has frontends, a terminal has none.
        self._is_notebook = hasattr(shell, "kernel")
        self._seen = failures.Seen()
        self._watcher: Watcher | None = None
        #: The cells that run now, the innermost last: some magics run a cell within a cell. And the one that is watched.
        self._running: list[Any] = []
        self._watched: Any = None
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)
        shell.input_transformers_cleanup.append(self._transform)
        shell.register_magic_function(self.brimful, "line_cell", "brimful")

    def close(self) -> None:
        """Takes everything out again."""
        self._stop()
        self._shell.events.unregister("pre_run_cell", self._begin)
        self._shell.events.unregister("post_run_cell", self._end)
        self._shell.input_transformers_cleanup.remove(self._transform)
        for kind in ("line", "cell"):
            self._shell.magics_manager.magics[kind].pop("brimful", None)

    def brimful(self, line: str, cell: str | None = None) -> None:
        """Memory in a notebook.

        %brimful         host and device memory now, against their limits
        %%brimful        as a cell's first line: the peak of the cell, and what it leaves behind. PyTorch's and TensorFlow's
                         own counters of the peak start anew
        %brimful free    lets go of the last error, whose traceback holds the tensors of the failed step; %debug cannot
                         look at it after that
        """
        asked = line.split()
        if cell is not None:
            # Only other programs come here: in a cell, `%%brimful` is a line of its own.
            self._watch(asked)
            self._shell.run_cell(cell)
        elif asked[:1] == ["cell"]:
            self._watch(asked[1:])
        elif not asked:
            self._display(memory_box.moment(readings.now()))
        elif asked == ["free"]:
            self._free()
        else:
            raise self._usage_error(f"%brimful does not know '{line.strip()}': {_USAGE}")

    def _watch(self, more: list[str]) -> None:
        if more:
            raise self._usage_error(f"%%brimful does not know '{' '.join(more)}': {_USAGE}")
        self._stop()
        self._watched = self._running[-1] if self._running else None
        self._watcher = Watcher()

    def _stop(self) -> list:
        watcher, self._watcher = self._watcher, None
        return watcher.stop() if watcher is not None else []

    def _free(self) -> None:
        before = {reading.name: reading for reading in readings.now()}
        failures.free(self._shell)
        changes = []
        for reading in readings.now():
            known = before.get(reading.name)
            freed = known.mine_bytes - reading.mine_bytes if known else 0
            if memory_box.left(freed) != "nothing" and freed > 0:
                changes.append(f"{reading.name}: {drawing.human(freed)}")
        said = f"Freed: {'; '.join(changes)}." if changes else "The last error is let go of; it held no memory that can be seen."
        self._display(memory_box.Shown(drawing.box("", drawing.paragraph(said)), said))

    def _transform(self, lines: list[str]) -> list[str]:
        """The cell runs as it stands, with `await`, other magics and its own traceback; only its first line is replaced."""
        found = _CELL.match(lines[0].rstrip("\r\n")) if lines else None
        if found is None:
            return lines
        asked = f"cell {found[1] or ''}".strip()
        return [f"get_ipython().run_line_magic('brimful', {asked!r})\n", *self._cell_magic(lines[1:])]

    def _begin(self, info: Any = None) -> None:
        self._seen.begin()
        self._running.append(info)

    def _end(self, result: Any = None) -> None:
        try:
            if self._watcher is not None and self._has_ended(result):
                self._display(memory_box.span(self._stop()))
            shown = failures.shown(self._seen.new(result), self._is_notebook)
            if shown is not None:
                self._display(shown)
        except Exception as error:  # noqa: BLE001 -- the cell's own outcome must stand
            print(f"brimful: nothing can be shown: {str(error) or type(error).__name__}", file=sys.stderr)
        finally:
            self._leave(getattr(result, "info", None))

    def _has_ended(self, result: Any) -> bool:
        """Whether it is the watched cell that has ended, and not one within it."""
        info = getattr(result, "info", None)
        return info is None or info is self._watched or all(info is not running for running in self._running[1:])

    def _leave(self, info: Any) -> None:
        # An empty cell ends without having begun, and a cancelled one has no result.
        while self._running and (info is None or any(info is running for running in self._running)):
            if self._running.pop() is info:
                return
