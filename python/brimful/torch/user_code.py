"""The model that `FILE.py:NAME` or `package.module:NAME` names.

In: a Python file or a module, and a name in it: a model, its class, or a function without arguments that returns a model or (model,
inputs). Out: the model, its example inputs where the code has them, and the module itself, whose functions `--loss` and `--optimizer` can
name. Inputs come from what the function returns, else from `make_inputs()` of the module, else from its `example_inputs`. The file is
run as an import runs it, so that `if __name__ == "__main__":` is left out.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from types import ModuleType
from typing import Any

import torch

from .refusal import Refusal, described, shown


def load(source: str) -> ModuleType:
    """Runs a file, or imports a module."""
    if not source.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        return _import(source)
    path = os.path.abspath(source)
    if not os.path.isfile(path):
        raise Refusal(f"{source}: there is no such file")
    # Files beside it can be imported, as `python FILE.py` lets them.
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    if not name.isidentifier() or name in sys.modules:
        name = f"_brimful_{abs(hash(path))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refusal(f"{source} cannot be run as Python: name a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _guarded(f"{source} cannot be run", lambda: spec.loader.exec_module(module))
    return module


def _import(name: str) -> ModuleType:
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise Refusal(f"there is no module {name} in {os.getcwd()} or in {sys.executable}: name a file, such as train.py:make_model")
    return _guarded(f"{name} cannot be imported", lambda: importlib.import_module(name))


def _guarded(what: str, run: Any) -> Any:
    """Runs the user's code; whatever it raises is told with its place."""
    try:
        return run()
    except (Refusal, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001  (the code is not ours)
        raise Refusal(f"{what}: {described(error)}") from None


def find(module: ModuleType, name: str) -> Any:
    """What a name stands for in a module, `Class.method` included."""
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise Refusal(f"{_file(module)} has no '{name}'{_instead(module, name)}")
        value = getattr(value, part)
    return value


def _instead(module: ModuleType, name: str) -> str:
    own = [
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and (isinstance(value, torch.nn.Module) or getattr(value, "__module__", None) == module.__name__)
    ]
    close = difflib.get_close_matches(name, own, n=3) or own[:5]
    return f": it has {', '.join(close)}" if close else ": it has no functions and no classes of its own"


def _file(module: ModuleType) -> str:
    return shown(getattr(module, "__file__", None) or module.__name__)


def model_of(module: ModuleType, name: str) -> tuple[torch.nn.Module, Any]:
    """The model that a name stands for, and its example inputs or None."""
    value = find(module, name)
    inputs = None
    if not isinstance(value, torch.nn.Module):
        if not callable(value):
            raise Refusal(f"{name} in {_file(module)} is a {type(value).__name__}: name a model, its class, or a function that returns it")
        value = _call(module, name, value)
        if isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[0], torch.nn.Module):
            value, inputs = value
    if not isinstance(value, torch.nn.Module):
        raise Refusal(f"{name} in {_file(module)} returns a {type(value).__name__}: let it return a torch.nn.Module, or (model, inputs)")
    return value, inputs if inputs is not None else _module_inputs(module)


def _module_inputs(module: ModuleType) -> Any:
    if callable(getattr(module, "make_inputs", None)):
        return _call(module, "make_inputs", module.make_inputs)
    return getattr(module, "example_inputs", None)


def _call(module: ModuleType, name: str, function: Any) -> Any:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if needed:
        raise Refusal(f"{name} in {_file(module)} needs arguments ({', '.join(needed)}): write a function without any that calls it")
    return _guarded(f"{name}() failed", function)
