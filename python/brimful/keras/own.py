"""Models with a `fit`, `evaluate` or `predict` of their own, as some libraries' models have that prepare their data first.

In: such a model and a call. Out: what its own method gives; where that calls `super().fit`, the call is inside the budget.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import keras

#: What `super()` leads to while a model's own method runs, by the method's name and the model.
_instead: dict[tuple[str, int], Callable[..., Any]] = {}


def has(name: str, model: Any) -> bool:
    """Whether the model's class has this method itself, and this is not a call from there."""
    method = getattr(type(model), name)
    return method is not getattr(keras.Model, name) and (name, id(model)) not in _instead and not _runs(method)


def _runs(method: Any) -> bool:
    """Whether a function is among the callers."""
    code, frame = getattr(method, "__code__", None), sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def called(name: str, model: Any, args: tuple, kwargs: dict, instead: Callable[..., Any]) -> Any:
    """Calls the model's own method; what that calls of Keras's is `instead`."""
    if not hasattr(getattr(keras.Model, name), "brimful_leads"):
        setattr(keras.Model, name, _leading(name, getattr(keras.Model, name)))
    _instead[name, id(model)] = instead
    try:
        return getattr(model, name)(*args, **kwargs)
    finally:
        del _instead[name, id(model)]


def _leading(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Keras's method; for a model whose own one runs, the call that is inside the budget."""

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _instead.get((name, id(self)), functools.partial(original, self))(*args, **kwargs)

    method.brimful_leads = True
    return method
