"""State that a loss of the user's keeps, as centres and running means that it moves at each call.

In: the loss, and the model. Out: the modules that the loss is or reaches beside the model, whose buffers a failed attempt must leave as they were; and a
context in which each of their calls is the first one, so that losses can be compared. Not found: what is reached in more than one step,
and state in plain attributes.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from .guard import equal_numbers


def modules_of(loss: Any, model: torch.nn.Module) -> list[torch.nn.Module]:
    """The loss, or what a function refers to, with the modules inside; none of the model's, and none of PyTorch's own losses."""
    known, found = set(map(id, model.modules())), []
    for reached in _reached(loss):
        for module in reached.modules() if isinstance(reached, torch.nn.Module) else ():
            if id(module) not in known and type(module).__module__ != "torch.nn.modules.loss":
                known.add(id(module))
                found.append(module)
    return found


def _reached(loss: Any) -> Iterator[Any]:
    yield loss
    if isinstance(loss, functools.partial):
        yield from (*_reached(loss.func), *loss.args, *loss.keywords.values())
    yield getattr(loss, "__self__", None)
    function = getattr(loss, "__func__", loss)
    yield from getattr(function, "__defaults__", None) or ()
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not filled yet
            yield cell.cell_contents
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    yield from (function.__globals__[name] for name in names if name in function.__globals__)


class Held:
    """The buffers of some modules as they were, also where a module puts another tensor in a buffer's place."""

    def __init__(self, modules: list[torch.nn.Module]) -> None:
        self._kept = [
            (module._buffers, name, buffer, buffer.clone())
            for module in modules
            for name, buffer in module._buffers.items()
            if buffer is not None
        ]
        #: Whether any was changed.
        self.changed = False

    def put_back(self, *_: Any) -> None:
        for owner, name, buffer, copied in self._kept:
            self.changed = self.changed or owner.get(name) is not buffer
            owner[name] = buffer
            # Where nothing changed, what backward needs stays valid.
            if not equal_numbers(buffer, copied):
                self.changed = True
                with torch.no_grad():
                    buffer.copy_(copied)


@contextlib.contextmanager
def each_call_the_first(loss: Any, model: torch.nn.Module, training: bool = False) -> Iterator[Held]:
    """Puts the loss's buffers back behind each of its calls. training: its modules' modes stay; else they are in evaluation mode."""
    modules = modules_of(loss, model)
    held = Held(modules)
    changing = [module for module in modules if module.training and not training]
    hooks = [module.register_forward_hook(held.put_back) for module in modules if any(True for _ in module.buffers())]
    try:
        for module in changing:
            module.training = False
        yield held
    finally:
        for hook in hooks:
            hook.remove()
        for module in changing:
            module.training = True
        held.put_back()
