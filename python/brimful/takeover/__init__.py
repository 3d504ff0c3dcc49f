"""Training in an unchanged script is taken over, without an import of its own (`brimful fit -- python train.py`).

    takeover.install(memory="3GiB", allow="exact")

In: a budget and what may change. Out: Keras 3's `Model.fit`, `evaluate` and `predict` go through `brimful.keras` (`methods`) as soon as
the script imports Keras; loops of the user's own run as they are and are named in the closing lines (`loops`, `closing`). No
framework is imported here, and a process that uses none says nothing. Not taken over: Keras 2, TensorFlow 1, JAX without Keras.
"""

from __future__ import annotations

import atexit
import os

from brimful.hooks import call_after_import

from . import closing, loops, methods

__all__ = ["install"]

#: The process that the user's command started first: only this one says that nothing was seen.
_FIRST = "BRIMFUL_FIT_PROCESS"
_installed = False


def install(memory: str | int = "auto", allow: str = "exact") -> None:
    """Takes over what is imported from now on, and what is already. A second call changes nothing."""
    global _installed
    if _installed:
        return
    _installed = True
    process = str(os.getpid())
    first = os.environ.setdefault(_FIRST, process) == process
    taken = methods.Methods(memory, allow)
    call_after_import({**taken.hooks(), **loops.hooks()})
    atexit.register(closing.say, os.getpid(), first)
