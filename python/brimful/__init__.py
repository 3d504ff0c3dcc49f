"""Predict, explain and prevent running out of memory in machine-learning jobs.

    plan = brimful.plan(model, inputs, batch=128, device="t4")     # PyTorch; a Keras model needs no inputs
    brimful.explain(error)
    with brimful.watch(): ...
    %load_ext brimful                                               # in a notebook
    for x, y in brimful.data.open("train/*.csv", labels="y").batches(256, memory="256MiB"): ...

Importing this package imports no framework; what needs one imports it when it is first used.
"""

from importlib import import_module

from brimful._native import __version__
from brimful.explanation import Explanation, explain

__all__ = ["Explanation", "__version__", "explain", "plan", "watch"]

#: Names that live in a module which needs a framework, or more time to import than most have a use for.
_LAZY = {
    "load_ipython_extension": "brimful.notebook",
    "plan": "brimful.planned",
    "unload_ipython_extension": "brimful.notebook",
    "watch": "brimful.watching",
}
#: Parts of the package that are there without an import of their own.
_PARTS = {"data": "brimful.data"}


def __getattr__(name):
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name in _PARTS:
        return import_module(_PARTS[name])
    raise AttributeError(f"module 'brimful' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_LAZY, *_PARTS})
