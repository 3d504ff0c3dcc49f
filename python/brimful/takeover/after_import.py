"""Calls a function as soon as a module has been imported by whoever imports it.

In: names of modules, each with a function that takes the module. Out: nothing; the functions are called once each, right after the
module's own code has run. A function that fails is named on stderr and changes nothing for the importer.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # Every process of a job imports this: `typing` and its like would take longer than all the rest.
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Hook = Callable[[ModuleType], None]


def call_after_import(hooks: Mapping[str, Hook]) -> None:
    """Calls each function after the import of its module, at once where that has been."""
    waiting = {}
    for name, hook in hooks.items():
        module = sys.modules.get(name)
        if module is None:
            waiting[name] = hook
        else:
            _call(hook, module)
    sys.meta_path.insert(0, _Finder(waiting))


class _Finder:
    """Finds nothing itself: it asks the others, and has the loader that they give call the hook at its end."""

    def __init__(self, hooks: dict[str, Hook]) -> None:
        self.hooks = hooks

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in self.hooks:
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next((spec for spec in (finder.find_spec(fullname, path, target) for finder in others) if spec is not None), None)
        if spec is not None and spec.loader is not None:
            _follow(spec, self.hooks[fullname])
        return spec


def _follow(spec: ModuleSpec, hook: Hook) -> None:
    loader = spec.loader
    exec_module = loader.exec_module

    def exec_and_call(module: ModuleType) -> None:
        exec_module(module)
        _call(hook, module)

    try:
        # On this one loader only; its class and what else it can do stay.
        loader.exec_module = exec_and_call
    except AttributeError:
        print(f"brimful: {spec.name} is not taken over: its loader cannot be followed", file=sys.stderr)


def _call(hook: Hook, module: ModuleType) -> None:
    try:
        hook(module)
    except Exception as error:
        print(f"brimful: {module.__name__} is not taken over: {type(error).__name__}: {error}", file=sys.stderr)
