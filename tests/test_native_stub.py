"""`_native.pyi` says what the extension has: names, parameters and their defaults, properties."""

import ast
import inspect
from pathlib import Path

import pytest
from brimful import _native

STUB = Path(_native.__file__).parent / "_native.pyi"
TREE = ast.parse(STUB.read_text())


def stub_class(name):
    return next(node for node in TREE.body if isinstance(node, ast.ClassDef) and node.name == name)


def is_property(node):
    return any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)


def stub_parameters(node):
    """Names and defaults, without `self` and `cls`."""
    names = [arg.arg for arg in node.args.args]
    defaults = [inspect.Parameter.empty] * (len(names) - len(node.args.defaults))
    defaults += [ast.literal_eval(default) for default in node.args.defaults]
    return [(name, default) for name, default in zip(names, defaults) if name not in ("self", "cls")]


def real_parameters(function):
    signature = inspect.signature(function)
    return [(name, p.default) for name, p in signature.parameters.items() if name not in ("self", "cls")]


def test_the_module_has_what_the_stub_names():
    declared = {node.name for node in TREE.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    declared |= {node.target.id for node in TREE.body if isinstance(node, ast.AnnAssign)}
    typing_only = {node.name for node in TREE.body if isinstance(node, ast.ClassDef) and is_typed_dict(node)}
    real = {name for name in dir(_native) if not name.startswith("__")} | {"__version__"}
    assert declared - typing_only == real


def is_typed_dict(node):
    return any(isinstance(base, ast.Name) and base.id == "TypedDict" for base in node.bases)


def test_functions_take_what_the_stub_says():
    functions = [node for node in TREE.body if isinstance(node, ast.FunctionDef)]
    assert functions
    for node in functions:
        assert stub_parameters(node) == real_parameters(getattr(_native, node.name)), node.name


def test_the_class_has_what_the_stub_says():
    members = {node.name: node for node in stub_class("Capture").body if isinstance(node, ast.FunctionDef)}
    real = {name for name in dir(_native.Capture) if not name.startswith("__")}
    assert set(members) - {"__new__"} == real
    for name, node in members.items():
        attribute = getattr(_native.Capture, name)
        if name == "__new__":
            assert stub_parameters(node) == real_parameters(_native.Capture)
        elif is_property(node):
            assert inspect.isdatadescriptor(attribute), name
        else:
            assert stub_parameters(node) == real_parameters(attribute), name


def test_the_class_cannot_be_derived_from_as_the_stub_says():
    assert any(isinstance(mark, ast.Name) and mark.id == "final" for mark in stub_class("Capture").decorator_list)
    with pytest.raises(TypeError):
        type("Derived", (_native.Capture,), {})


def test_peaks_have_the_keys_of_the_stub(recorded):
    keys = {node.target.id for node in stub_class("Peaks").body if isinstance(node, ast.AnnAssign)}
    assert set(recorded.peaks(8)) == keys


def test_everything_has_a_docstring():
    for member in (_native.main, _native.Capture, _native.Capture.plan, _native.Capture.text, _native.Capture.peaks):
        assert member.__doc__
