"""Calls a function as soon as a module has been imported by whoever imports it.

In: names of modules, each with a function that takes the module. Out: nothing; the functions are called once each, right after the
module's own code has run. A function that fails is named on stderr and changes nothing for the importer. One finder serves all who
ask: two would ask each other without end.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # Every process of a job imports this: `typing` and its like would take longer than all the rest.
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Hook = Callable[[ModuleType], None]


def call_after_import(hooks: Mapping[str, Hook], otherwise: str = "is not taken over") -> None:
    """Calls each function after the import of its module, at once where that has been; says `otherwise` where it cannot."""
    for name, hook in hooks.items():
        module = sys.modules.get(name)
        if module is None:
            _finder.waiting.setdefault(name, []).append((hook, otherwise))
        else:
            _call(hook, module, otherwise)
    if _finder.waiting and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def without_this_frame(error: BaseException) -> None:
    """Takes the caller's frame out of the traceback, for a bare `raise` that follows: users look for their own lines in it."""
    error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next


class _Finder:
    """Finds nothing itself: it asks the others, and has the loader that they give call the functions at its end."""

    def __init__(self) -> None:
        #: Those that wait for a module, and what to say if they fail.
        self.waiting: dict[str, list[tuple[Hook, str]]] = {}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in self.waiting:
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next((spec for spec in (finder.find_spec(fullname, path, target) for finder in others) if spec is not None), None)
        if spec is not None and spec.loader is not None:
            _follow(spec)
        return spec


_finder = _Finder()


def _follow(spec: ModuleSpec) -> None:
    loader = spec.loader
    exec_module = loader.exec_module

    def exec_and_call(module: ModuleType) -> None:
        try:
            exec_module(module)
        except BaseException as error:
            without_this_frame(error)
            raise
        # A spec is also asked for to see whether there is such a module: only an import ends the waiting.
        for hook, otherwise in _finder.waiting.pop(spec.name, ()):
            _call(hook, module, otherwise)

    try:
        # On this one loader only; its class and what else it can do stay.
        loader.exec_module = exec_and_call
    except AttributeError:
        _say(f"brimful: {spec.name} {_finder.waiting.pop(spec.name)[0][1]}: its loader cannot be followed")


def _call(hook: Hook, module: ModuleType, otherwise: str) -> None:
    try:
        hook(module)
    except Exception as error:
        _say(f"brimful: {module.__name__} {otherwise}: {type(error).__name__}: {' '.join(str(error).split())}")


def _say(line: str) -> None:
    try:
        print(line, file=sys.stderr)
    except (OSError, ValueError):
        pass  # A job may have closed its streams.
