"""The examples in `examples/data`, small: with brimful each gives what it gives plainly, and the README of each shows it."""

import difflib
import importlib.util
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pages
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples" / "data"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "KERAS_BACKEND": "tensorflow"}
#: What the plain version needs besides what every test has.
NEEDS = {"whole_array": (), "chunked_csv": ("pandas",), "mapped_array": (), "lazy_array": ("dask",), "prefetching": ()}


def run(script, *arguments):
    """What a script prints."""
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **QUIET})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def shown_by_readme(case):
    """The commands in the README of a case, in order, each with what is shown behind it."""
    blocks = [block for block in pages.blocks_of(EXAMPLES / case / "README.md") if block.kind == "sh"]
    return {command.partition(" #")[0].strip(): block.shown for block in blocks for command in block.commands}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("examples") / "files"
    run("make_files.py", made, "--rows", 3000)
    return made


@pytest.mark.parametrize("case", NEEDS)
def test_an_example_gives_the_plain_result(folder, case):
    shown = shown_by_readme(case)
    assert shown["python plain.py ../files"] == shown["python with_brimful.py ../files"] != ""
    printed = run(f"{case}/with_brimful.py", folder)
    assert not pages.missing_words(shown["python with_brimful.py ../files"], printed)
    name, value = printed.split()
    missing = [module for module in NEEDS[case] if importlib.util.find_spec(module) is None]
    if missing:
        pytest.skip(f"the plain version needs {', '.join(missing)}")
    plain_name, plain_value = run(f"{case}/plain.py", folder).split()
    assert plain_name == name
    # Sums and losses in another order, or of numbers rounded to float32 before and not after.
    assert float(value) == pytest.approx(float(plain_value), rel=1e-3 if name == "loss" else 1e-9)


def test_the_lazy_array_is_written_whole(folder):
    run("lazy_array/with_brimful.py", folder)
    given, doubled = (np.load(folder / name, mmap_mode="r") for name in ("square.npy", "doubled_brimful.npy"))
    assert (np.asarray(given) * 2 == doubled).all()


@pytest.mark.parametrize("case", NEEDS)
def test_a_readme_shows_its_commands_the_plan_and_the_changed_lines(folder, case, brimful_command):
    shown = shown_by_readme(case)
    plans = [command for command in shown if command.startswith("brimful data plan ../files/")]
    make = "python ../make_files.py ../files --rows 100000"
    assert list(shown) == [f"cd examples/data/{case}", make, "python plain.py ../files", *plans, "python with_brimful.py ../files"]
    here = folder.parent / case
    here.mkdir()
    for command in plans:
        answer = brimful_command(*shlex.split(command)[1:], cwd=here)
        assert answer.returncode == 0, answer.stderr
        assert shown[command] and not pages.missing_words(shown[command], answer.stdout), answer.stdout
    scripts = [(EXAMPLES / case / name).read_text().splitlines() for name in ("plain.py", "with_brimful.py")]
    changed = [line for line in difflib.unified_diff(*scripts, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))]
    (block,) = [block for block in pages.blocks_of(EXAMPLES / case / "README.md") if block.kind == "diff"]
    assert [line for line in block.text.splitlines() if line[0] != " "] == [line for line in changed if line[1:].strip()]


def test_every_example_has_a_case():
    assert set(NEEDS) == {plain.parent.name for plain in EXAMPLES.glob("*/plain.py")}
