"""Predict, explain and prevent running out of memory in machine-learning jobs.

    plan = brimful.plan(model, inputs, batch=128, device="t4")
    brimful.explain(error)

Importing this package imports no framework; what needs one imports it when it is first used.
"""

from importlib import import_module

from brimful._native import __version__
from brimful.explanation import Explanation, explain

__all__ = ["Explanation", "__version__", "explain", "plan"]

#: Names that live in a module which needs a framework.
_LAZY = {"plan": "brimful.torch"}


def __getattr__(name):
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'brimful' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_LAZY})
