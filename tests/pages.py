"""Reads the pages of the documentation and runs what they show.

In: a page of Markdown. Out: its blocks, and what each prints when it is run in a folder of its own, with one Python process for all
Python of the page. What a page takes for granted (a train.py, a model) is made by `page_setups/PAGE.py`, which runs in that process first.

`sh` and `console` are run line by line, `python` as it stands; indented blocks are one of these. A block with `<!-- file: NAME -->` before
it is written to that file instead. A `text` block right behind a block is its output. What cannot run here has `<!-- not run: REASON -->` before it, and a command that fails as it should has
`<!-- ends with CODE -->`, Python that raises `<!-- ends with ERROR -->`. Not run either are commands that build or install Brimful: whoever runs this has done that.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import forked
from conftest import BINARY, ROOT

SETUPS = Path(__file__).parent / "page_setups"
SHELL = ("sh", "bash", "console")
#: How indented blocks begin that are shell.
COMMANDS = ("$ ", "brimful ", "cargo ", "make ", "pip ", "python ")
BUILDS = re.compile(r"(make|cargo install|pip install)\b")
LONGEST_SECONDS = 300

#: Runs blocks that come as lines of JSON, all in one namespace, and answers each with a line: the error's name and the traceback, if it fails.
SESSION = """
import json, linecache, os, sys, traceback
blocks, answers = os.fdopen(int(sys.argv[1])), os.fdopen(int(sys.argv[2]), "w")
names = {"__name__": "__main__"}
for line in blocks:
    place, source = json.loads(line)
    linecache.cache[place] = (len(source), None, source.splitlines(True), place)
    failed = ["", ""]
    try:
        exec(compile(source, place, "exec"), names)
    except BaseException as error:
        failed = [type(error).__name__, traceback.format_exc()]
        del error
    sys.stdout.flush()
    sys.stderr.flush()
    print(json.dumps(failed), file=answers, flush=True)
"""


@dataclass
class Block:
    """A block of code."""

    kind: str
    text: str
    #: Of its first line in the page, from 1.
    line: int
    #: Why it cannot run here; empty if it can.
    not_run: str = ""
    #: The exit code that its commands have, or the error that it raises; empty: 0, or 1 from Brimful, which says "no" by that.
    ends_with: str = ""
    #: The file that it is.
    file: str = ""
    #: The output that the page shows for it.
    shown: str = ""

    @property
    def commands(self):
        """Its lines, as a shell takes them, with Brimful installed."""
        lines = self.text.replace("\\\n", " ").splitlines()
        lines = [line.strip().removeprefix("$ ").replace("cargo run --release --", "brimful") for line in lines]
        return [line for line in lines if line and not line.startswith("#")]


def all_pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def setup_of(page: str) -> Path:
    """The script that makes what a page takes for granted; not every page has one."""
    return SETUPS / (page.removesuffix(".md").replace("/", "_") + ".py")


def blocks_of(page: Path) -> list[Block]:
    """All blocks of a page, in order: fenced ones, and indented ones that stand between blank lines and in no list."""
    blocks, lines = [], page.read_text().splitlines()
    last, number, remark = "", 0, ""
    while number < len(lines):
        line = lines[number]
        fence = re.match(r"(\s*)```+(\w*)\s*$", line)
        if fence:
            end = next(later for later in range(number + 1, len(lines) + 1) if lines[later].strip() == "```")
            inside = [row.removeprefix(fence[1]) for row in lines[number + 1 : end]]
            found, number = Block(fence[2], "\n".join(inside) + "\n", number + 2), end + 1
        elif line.startswith("    ") and not re.match(r"\s*([-*]|\d+\.) ", last):
            end = number
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            text = "\n".join(row[4:] for row in lines[number:end]).rstrip() + "\n"
            found, number = Block("sh" if text.startswith(COMMANDS) else "python", text, number + 1), end
        else:
            if line.startswith("<!-- "):
                remark = line
            elif line.strip():
                last, remark = line, ""
                blocks.append(None)
            number += 1
            continue
        if found.kind == "text" and blocks and blocks[-1]:
            blocks[-1].shown = found.text
        remarked = re.match(r"<!-- (not run|ends with|file):? (.+?) -->", remark)
        if remarked:
            setattr(found, remarked[1].replace(" ", "_"), remarked[2])
        blocks.append(found)
        last, remark = "", ""
    return [block for block in blocks if block]


class Session:
    """A folder in which a page is run, and the Python process that runs its Python."""

    def __init__(self, folder: Path, planner: forked.Interpreter):
        """planner: what `brimful plan` runs PyTorch's models with."""
        self.planner = planner
        self.folder, self.output = folder / "work", folder / "output"
        (folder / "bin").mkdir()
        (folder / "bin" / "brimful").symlink_to(BINARY)
        self.folder.mkdir()
        for name in ("examples", "fixtures", "docs", "tools"):
            (self.folder / name).symlink_to(ROOT / name)
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "BRIMFUL_PYTHON": str(planner.path),
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "CUDA_VISIBLE_DEVICES": "-1",
            "KERAS_BACKEND": "tensorflow",
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        self.process = None

    def python(self, source: str, place: str) -> tuple[str, str, str]:
        """Runs Python in the one process of this page: what it prints, and the error and the traceback if it fails."""
        if not self.process:
            (blocks_there, blocks), (answers, answers_there) = os.pipe(), os.pipe()
            self.process = subprocess.Popen(
                [sys.executable, "-c", SESSION, str(blocks_there), str(answers_there)],
                cwd=self.folder,
                env=self.environment,
                pass_fds=(blocks_there, answers_there),
                stdin=subprocess.DEVNULL,
                stdout=self.output.open("ab"),
                stderr=subprocess.STDOUT,
            )
            os.close(blocks_there)
            os.close(answers_there)
            self.blocks, self.answers = os.fdopen(blocks, "w"), os.fdopen(answers)
        before = self.output.stat().st_size
        print(json.dumps([place, source]), file=self.blocks, flush=True)
        if not select.select([self.answers], [], [], LONGEST_SECONDS)[0]:
            self.process.kill()
            return "", "Timeout", f"Python did not come to an end in {LONGEST_SECONDS} s"
        answer = self.answers.readline()
        printed = self.output.read_bytes()[before:].decode(errors="replace")
        return printed, *(json.loads(answer) if answer else ("End", f"Python ended with {self.process.wait()}\n{printed[-3000:]}"))

    def shell(self, command: str) -> tuple[int, str]:
        """Runs a line of shell: its exit code, and what it prints."""
        command = ["bash", "-o", "pipefail", "-c", command]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST_SECONDS,
            pass_fds=[self.planner.descriptor],
        )
        code = done.returncode
        return code if code >= 0 else 128 - code, done.stdout.decode(errors="replace")

    def set_up(self, page: str) -> None:
        """Makes what the page takes for granted."""
        setup = setup_of(page)
        if setup.exists():
            _, _, failed = self.python(f"import sys; sys.path.append({str(SETUPS)!r})\n" + setup.read_text(), setup.name)
            assert not failed, failed

    def close(self) -> None:
        if self.process:
            self.blocks.close()
            self.process.wait(timeout=LONGEST_SECONDS)


def words(text: str) -> list[str]:
    """The words of an output without its figures and bars, which differ from machine to machine, and without where its lines end."""
    text = re.sub(r"[█▉▊▋▌▍▎▏]+", " ", text)
    text = re.sub(r"\d[\d.,:/]*", "#", text)
    return re.sub(r"# [KMGT]?i?B\b", "#", text).split()


def missing_words(shown: str, printed: str) -> str:
    """The first piece of a shown output that the real one has not, in this order. A line of `…` stands for anything. Empty if it has all."""
    there, at = words(printed), 0
    for piece in re.split(r"^ *…$", shown, flags=re.MULTILINE):
        wanted = words(piece)
        found = next((place for place in range(at, len(there) + 1) if there[place : place + len(wanted)] == wanted), None)
        if found is None:
            return piece
        at = found + len(wanted)
    return ""
