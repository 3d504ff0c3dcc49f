"""docs/api.md is what `make api` writes, and has every public name of the package."""

import ast
import importlib
import importlib.util

import pytest
from conftest import ROOT
from pages import blocks_of


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("make_api_docs", ROOT / "tools" / "make_api_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(tool):
    assert tool.PAGE.read_text() == tool.page(), "docs/api.md is out of date: run `make api` and read the difference"


def test_every_public_name_is_in_it(tool):
    page = tool.PAGE.read_text()
    for package in tool.PACKAGES:
        if package == "brimful.data":
            pytest.importorskip("numpy")
        for name in importlib.import_module(package).__all__:
            assert name.startswith("__") or f"### `{package}.{name}`" in page, f"{package}.{name} has no docstring, or is not found"


def parses(text):
    try:
        return bool(ast.parse(text))
    except SyntaxError:
        return False


def test_signatures_and_examples_are_python(tool):
    """Examples in docstrings are fragments, like those of remedies: they have to parse."""
    blocks = blocks_of(tool.PAGE)
    assert len(blocks) > 20 and {block.kind for block in blocks} == {"py"}
    for block in blocks:
        text = block.text.strip()
        assert parses(text) or parses(f"{text}: ...") or parses(f"def {text.lstrip('.')}: ..."), text
