"""Every command and every piece of code in the README and docs/ runs as it stands, and prints what the page says that it prints.

How pages are read and run is in `pages.py`. The pages of causes and remedies show fragments for the reader's own program: their Python
has to compile, with `...` for what is left out, to name only what the frameworks have; their shell has to parse; and Brimful's own
commands in them are run.
"""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from pages import BUILDS, SHELL, Session, all_pages, blocks_of, missing_words, name_of, setup_of

FRAGMENTS = ("docs/causes/", "docs/remedies/")
#: Pages whose code is run by a test of their own.
ELSEWHERE = {"docs/notebook.md": "test_notebook.py", "docs/api.md": "test_api_docs.py"}
#: What pages need beside the command, and how it shows; without it they are skipped by name.
NEEDED = {
    "torch": "torch",
    "transformers": "transformers|llama",
    "torchvision": "torchvision",
    "tensorflow": "keras|tensorflow",
    "pyarrow": "parquet",
    "duckdb": r"data\.sql",
}
NOT_RUN = Path(__file__).with_name("docs_not_run.txt")
#: Names that fragments use for modules, as everybody imports them.
MODULES = {"np": "numpy", "tf": "tensorflow", "nn": "torch.nn", "F": "torch.nn.functional", "jnp": "jax.numpy"}
ROOTS = ("brimful", "jax", "keras", "torch", "numpy", "tensorflow", *MODULES)

PAGES = [page for page in all_pages() if name_of(page) not in ELSEWHERE and not name_of(page).startswith(FRAGMENTS)]
PAGES = [page for page in PAGES if any(block.kind in (*SHELL, "python") for block in blocks_of(page))]


def needs(page):
    """The libraries that a page, or what it takes for granted, names and that are not here."""
    setup = setup_of(name_of(page))
    text = page.read_text() + (setup.read_text() if setup.exists() else "")
    return [library for library, named in NEEDED.items() if re.search(named, text) and importlib.util.find_spec(library) is None]


@pytest.fixture
def session(tmp_path, python_with_torch):
    made = Session(tmp_path, python_with_torch)
    yield made
    made.close()


def run_commands(session, block, place):
    """Runs the lines of a shell block, asserts that they end as they should, and gives all they print."""
    printed = ""
    for command in block.commands:
        if BUILDS.match(command):
            continue
        code, said = session.shell(command)
        if "address space instead" in said:
            pytest.skip("no cgroup can be made here")
        expected = {int(block.ends_with)} if block.ends_with else {0, 1} if "brimful" in command else {0}
        assert code in expected, f"{place}: {command}\nended with {code}:\n{said[-3000:]}"
        assert block.ends_with or not re.search("^error: ", said, re.M), f"{place}: {command}\n{said[-3000:]}"
        printed += said
    return printed


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_does_what_it_says(page, session):
    if missing := needs(page):
        pytest.skip(f"no {missing[0]}")
    name = name_of(page)
    session.set_up(name)
    for block in blocks_of(page):
        place = f"{name}:{block.line}"
        if block.not_run or block.kind not in (*SHELL, "python"):
            continue
        if block.file:
            (session.folder / block.file).write_text(block.text)
            continue
        if block.kind == "python":
            printed, raised, failed = session.python(block.text, place)
            assert raised == block.ends_with, f"{place}\n{failed}"
        else:
            printed = run_commands(session, block, place)
        missing = missing_words(block.shown, printed)
        assert not missing, f"{place}: this is not in the output:\n{missing}\nThe output:\n{printed}"


def test_the_first_command_of_the_readme_answers(session):
    """It begins with the verdict, and needs nothing but the repository."""
    command = blocks_of(ROOT / "README.md")[0].commands[0]
    assert command.startswith("brimful plan examples/vision_cnn.json ")
    code, said = session.shell(command)
    assert code == 1 and re.match(r"Does not fit: needs [\d.]+ GiB of [\d.]+ GiB usable on Tesla T4", said), said
    assert "The largest batch that fits is" in said and "Cheapest way to fit" in said


def fragments():
    return [(page, block) for page in all_pages() if name_of(page).startswith(FRAGMENTS) for block in blocks_of(page)]


def parsed(block):
    """The syntax tree of a fragment; `, ...)` behind arguments with names is how pages leave out the rest."""
    return ast.parse(re.sub(r",\s*\.\.\.\s*\)", ")", block.text))


def test_fragments_parse():
    kinds = set()
    for page, block in fragments():
        kinds.add(block.kind)
        if block.kind == "python":
            try:
                parsed(block)
            except SyntaxError as error:
                pytest.fail(f"{name_of(page)}:{block.line}: {error}")
        elif block.kind in SHELL:
            read = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
            assert not read.stderr, f"{name_of(page)}:{block.line}: {read.stderr}"
    assert kinds <= {"python", "text", "yaml", *SHELL}


def test_commands_in_fragments_run(session):
    pytest.importorskip("torch")
    session.set_up("fragments")
    ran = 0
    for page, block in fragments():
        block.text = "".join(f"{command}\n" for command in block.commands if block.kind in SHELL and command.startswith("brimful "))
        run_commands(session, block, f"{name_of(page)}:{block.line}")
        ran += len(block.commands)
    assert ran >= 4


def dotted(node):
    """`a.b.c` as a list of names; empty if it is something else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) and node.id in ROOTS else []


#: Says which dotted names cannot be resolved, with an import where an attribute is a module that is not yet there.
RESOLVE = """
import importlib, json, sys
for name in json.load(sys.stdin):
    try:
        head, *rest = name.split(".")
        at, found = head, importlib.import_module(head)
        for part in rest:
            at += "." + part
            try:
                found = getattr(found, part)
            except AttributeError:
                found = importlib.import_module(at)
    except ImportError as error:
        print(name, error)
"""


def test_fragments_name_what_there_is():
    """A remedy that calls a function which the framework does not have helps nobody."""
    for library in ("jax", "keras", "tensorflow", "torch"):
        pytest.importorskip(library)
    found = set()
    for _, block in fragments():
        if block.kind == "python":
            chains = [dotted(node) for node in ast.walk(parsed(block)) if isinstance(node, ast.Attribute)]
            found |= {".".join([MODULES.get(names[0], names[0]), *names[1:]]) for names in chains if names}
    assert len(found) > 50
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
    asked = subprocess.run(
        [sys.executable, "-c", RESOLVE], input=json.dumps(sorted(found)), env=environment, capture_output=True, text=True, timeout=300
    )
    assert (asked.returncode, asked.stdout) == (0, ""), asked.stderr[-3000:]


def test_what_is_not_run_is_known_by_name():
    """What the pages show and no test runs, with the reason. `BRIMFUL_UPDATE_DOCS=1` writes the list anew: read the difference."""
    rows = []
    for page in PAGES:
        for block in blocks_of(page):
            if block.kind not in (*SHELL, "python"):
                continue
            if block.not_run:
                left_out = [(line, block.not_run) for line in block.text.splitlines() if line.strip()]
            else:
                builds = [command for command in block.commands if BUILDS.match(command)] if block.kind in SHELL else []
                left_out = [(command, "builds or installs") for command in builds]
            rows += [f"{name_of(page)}: {line.strip()} ({reason})\n" for line, reason in left_out]
    if os.environ.get("BRIMFUL_UPDATE_DOCS"):
        NOT_RUN.write_text("".join(rows))
    assert NOT_RUN.read_text() == "".join(rows)


def test_pages_with_a_test_of_their_own_have_one():
    for page, test in ELSEWHERE.items():
        if (ROOT / page).exists():
            assert page.rpartition("/")[2] in (Path(__file__).parent / test).read_text()


def test_links_lead_somewhere():
    for page in all_pages():
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#\s]+)", text):
            assert "://" in link or (page.parent / link).exists(), f"{name_of(page)}: {link} is not there"


def test_blocks_say_what_they_are():
    """A block of another kind would be run by nobody, except in pages with a test of their own."""
    for page in all_pages():
        if name_of(page) not in ELSEWHERE:
            kinds = {block.kind for block in blocks_of(page)}
            assert kinds <= {*SHELL, "python", "text", "yaml"}, name_of(page)


def test_what_ci_is_told_to_run_is_run_by_the_page():
    """Commands of a workflow in YAML are those of the page's other blocks, or install something."""
    for page in all_pages():
        blocks = blocks_of(page)
        run = {command for block in blocks if block.kind in SHELL for command in block.commands}
        for block in blocks:
            for command in re.findall(r"- run: (.+)", block.text) if block.kind == "yaml" else []:
                assert command in run or BUILDS.match(command), f"{name_of(page)}:{block.line}: {command}"


def test_an_output_that_is_not_printed_is_seen():
    printed = "Fits: needs 12.5 MiB of 1 GiB\nof much\nBatch\n  3"
    assert missing_words("Fits: needs 3 GiB of\n2 GiB\n…\nBatch\n", printed) == ""
    assert missing_words("Batch\n…\nFits: needs 3 GiB\n", printed).strip() == "Fits: needs 3 GiB"
    assert missing_words("Does not fit", printed)
