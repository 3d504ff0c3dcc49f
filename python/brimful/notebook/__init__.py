"""Brimful in a notebook.

    %load_ext brimful      an out-of-memory is explained in the cell that raised it
    %brimful               host and device memory now, against their limits
    %%brimful              the peak of a cell, and what it leaves behind
    %brimful free          lets go of what the last error holds

In: IPython's shell, in Jupyter, Colab, VS Code or a terminal. Out: boxes (`drawing`), text in a terminal; plans and explanations draw themselves by the
same pieces (`plan_box`, `explanation_box`), with or without this extension. IPython is imported only when the extension is loaded. Not done: errors of
threads and of background tasks, which no cell raises; a kernel that is killed (docs/guides has the killed job).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .session import Session

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

#: One for each shell; a shell lives as long as its process.
_sessions: dict[Any, Session] = {}


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext brimful` calls. A second call changes nothing."""
    if not hasattr(shell, "events"):
        raise ValueError("there is no IPython shell: %load_ext brimful is for notebooks and IPython; elsewhere call brimful.explain(error)")
    if shell in _sessions:
        return
    from IPython.core.error import UsageError
    from IPython.core.inputtransformer2 import cell_magic
    from IPython.display import display

    from .session import Session

    _sessions[shell] = Session(shell, display, cell_magic, UsageError)


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext brimful` calls. Without the extension it changes nothing."""
    session = _sessions.pop(shell, None) if hasattr(shell, "events") else None
    if session is not None:
        session.close()
