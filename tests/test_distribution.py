"""What pip installs: the files, what is said about them, and the command; and that the archive of the source is whole."""

import os
import re
import subprocess
import sys
import tarfile
from importlib import metadata
from pathlib import Path

import pytest
from conftest import ROOT

EXTRAS = {
    "data": {"numpy"},
    "jax": {"jax"},
    "keras": {"keras"},
    "notebook": {"ipython", "ipykernel"},
    "ray": {"ray"},
    "sql": {"duckdb", "pyarrow"},
    "tensorflow": {"keras", "tensorflow"},
    "torch": {"torch"},
}


@pytest.fixture(scope="module")
def installed():
    """The package as `make package` installed it."""
    distribution = metadata.distribution("brimful")
    if '"editable": true' in (distribution.read_text("direct_url.json") or ""):
        pytest.skip("an editable package has no files of its own")
    return distribution


@pytest.fixture(scope="module")
def files(installed):
    """Its files, without what Python makes of them."""
    return {str(file) for file in installed.files if "__pycache__" not in file.parts}


def test_it_has_the_modules_the_types_and_nothing_else(files):
    # `cp … _native.abi3.so` puts one here while somebody works on it.
    ours = {path for path in (ROOT / "python").rglob("*") if path.is_file() and path.suffix not in (".pyc", ".so")}
    expected = {str(path.relative_to(ROOT / "python")) for path in ours}
    assert {"brimful/py.typed", "brimful/_native.pyi", "brimful/_bootstrap/sitecustomize.py"} <= expected
    package = {file for file in files if file.startswith("brimful/")}
    assert package == expected | {"brimful/_native.abi3.so"}
    # The rest is about it, and the command.
    rest = {Path(file).parts for file in files - package}
    assert all(parts[0].endswith(".dist-info") or parts[-2:] == ("bin", "brimful") for parts in rest), rest


def test_one_extension_serves_every_python(installed):
    tags = re.findall(r"^Tag: (.+)$", installed.read_text("WHEEL"), re.MULTILINE)
    assert tags and all(tag.startswith("cp39-abi3-") for tag in tags), tags
    assert installed.metadata["Requires-Python"] == ">=3.9"


def test_its_licences_come_with_it(installed, files):
    assert installed.metadata["License-Expression"] == "MIT OR Apache-2.0"
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        assert any(file.endswith(f".dist-info/licenses/{name}") for file in files), name
        assert name in installed.metadata.get_all("License-File")


def test_it_needs_nothing_and_each_framework_is_an_extra(installed):
    found = {extra: set() for extra in installed.metadata.get_all("Provides-Extra")}
    for requirement in installed.requires:
        name, extra = re.fullmatch(r"([\w.-]+).*; extra == ['\"](\w+)['\"]", requirement).groups()
        found[extra].add(name)
    assert found == EXTRAS


def test_the_script_and_the_module_are_the_same_command(installed):
    script = Path(sys.executable).with_name("brimful")
    for arguments in (["--version"], ["devices"], ["plan", "nothing.keras"]):
        runs = [
            subprocess.run([*start, *arguments], capture_output=True, text=True, timeout=120, cwd=ROOT)
            for start in ([script], [sys.executable, "-m", "brimful"])
        ]
        assert len({(run.returncode, run.stdout, run.stderr) for run in runs}) == 1, runs


def test_the_archive_of_the_source_has_all_that_is_compiled_in(tmp_path):
    """A wheel can be built of it: every file that a crate reads while it is compiled is there, and the licences."""
    maturin = Path(sys.executable).with_name("maturin")
    command = [maturin, "sdist", "--out", tmp_path]
    environment = {**os.environ, "CARGO_NET_OFFLINE": "true"}
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, env=environment)
    assert made.returncode == 0, made.stderr
    with tarfile.open(next(tmp_path.glob("brimful-*.tar.gz"))) as archive:
        held = {name.split("/", 1)[1] for name in archive.getnames()}
    read = set()
    for source in (ROOT / "crates").glob("*/src/**/*.rs"):
        # Tests of a crate are not part of what is installed.
        code = source.read_text().split("#[cfg(test)]")[0]
        for name in re.findall(r'include(?:_str|_bytes)?!\(\s*"([^"]+)"', code):
            read.add(os.path.relpath((source.parent / name).resolve(), ROOT))
    assert any(name.startswith("docs/causes/") for name in read)
    assert read | {"LICENSE-MIT", "LICENSE-APACHE", "Cargo.lock", "README.md"} <= held, read - held
