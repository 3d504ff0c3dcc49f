"""Keras 3's `Model.fit`, `evaluate` and `predict`, taken over by `brimful.keras`.

In: a call that a script makes. Out: what `brimful.keras` gives for it. The originals are left in `brimful.keras.api.ORIGINAL`, which runs
Keras's own loop with them. A call inside another (the validation of a fit, a callback's predict) is Keras's own: the outer one is
inside the budget already. A subclass that overrides `fit` keeps it, and is taken over where it calls `super().fit`.
"""

from __future__ import annotations

import functools
import sys
from contextvars import ContextVar

from . import seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

NAMES = ("fit", "evaluate", "predict")
_MODEL = "keras.src.models.model"
_API = "brimful.keras.api"

#: Each thread has its own.
_inside: ContextVar[bool] = ContextVar("inside", default=False)


def inside() -> bool:
    """Whether this thread is in a call that was taken over, or in the original that one runs."""
    return _inside.get()


class Methods:
    """What is replaced, and by what."""

    def __init__(self, memory: str | int, allow: str) -> None:
        self.budget = {"memory": memory, "allow": allow}
        self.originals: dict[str, Callable[..., Any]] = {}

    def hooks(self) -> dict[str, Callable[[ModuleType], None]]:
        """The functions to call when Keras's module is there, and when ours is: whichever comes last knows both."""
        return {_MODEL: self._replace, _API: self._hand_over}

    def _replace(self, module: ModuleType) -> None:
        seen.framework("keras")
        model = module.Model
        for name in NAMES:
            original = getattr(model, name)
            self.originals[name] = _marked(original)
            setattr(model, name, self._taken(name, original))
        api = sys.modules.get(_API)
        # While it is itself being imported it has nothing yet; it is called for at the end of that.
        if hasattr(api, "ORIGINAL"):
            self._hand_over(api)

    def _hand_over(self, api: ModuleType) -> None:
        api.ORIGINAL.update(self.originals)

    def _taken(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def taken(model: Any, *args: Any, **kwargs: Any) -> Any:
            if inside():
                return original(model, *args, **kwargs)
            seen.taken()
            try:
                from brimful.keras import api
            except ImportError as error:
                seen.tell_once(f"{name} runs as it is: {error}")
                return self.originals[name](model, *args, **kwargs)
            return _marked(getattr(api, name))(model, *args, **self.budget, **kwargs)

        return taken


def _marked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; what it calls is inside it."""

    @functools.wraps(function)
    def marked(*args: Any, **kwargs: Any) -> Any:
        token = _inside.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            _inside.reset(token)

    return marked
