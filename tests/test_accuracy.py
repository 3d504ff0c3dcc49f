"""The accuracy that the documentation claims is what the command finds, and it is good enough."""

import re

import pytest
from conftest import ROOT

MARK = "<!-- accuracy:begin (output of `brimful accuracy`; `make accuracy-doc` writes it) -->\n"


@pytest.fixture(scope="module")
def tables(brimful):
    """What `brimful accuracy` prints."""
    answer = brimful("accuracy")
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def summary(tables, file):
    """The figures below a file's table: percentages, and numbers of rows."""
    section = tables.split(f"## {file}\n")[1].split("\n## ")[0]
    line = re.search(
        r"(?P<rows>\d+) rows above 32 MiB: median error (?P<median>[\d.]+) %, "
        r"90th percentile (?P<most>[\d.]+) %, worst [\d.]+ %; "
        r"\d+ predicted too low, (?P<far_too_low>\d+) of them by more than 10 %",
        section,
    )
    assert line, section
    return {name: float(figure) for name, figure in line.groupdict().items()}


def test_the_documentation_is_up_to_date(tables):
    """`docs/accuracy.md` ends with what the command prints."""
    written = (ROOT / "docs" / "accuracy.md").read_text()
    assert written.count(MARK) == 1
    assert written.split(MARK)[1] == tables, "docs/accuracy.md is out of date: run `make accuracy-doc`"


def test_the_jobs_that_the_rules_were_made_with_are_met(tables):
    """Median at most 5 %, nine of ten within 12 %, at most one in twenty too low by more than 10 %."""
    figures = summary(tables, "tensorflow_cpu_bfc.jsonl")
    assert figures["median"] <= 5 and figures["most"] <= 12
    assert figures["far_too_low"] <= figures["rows"] / 20


def test_other_jobs_are_met_too(tables):
    """Median at most 5 %, nine of ten within 12 %, at most one in twenty too low by more than 10 %."""
    for name in ("more", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"):
        file = f"tensorflow_cpu_bfc_{name}.jsonl"
        figures = summary(tables, file)
        assert figures["median"] <= 5 and figures["most"] <= 12, file
        assert figures["far_too_low"] <= figures["rows"] / 20, file


def test_the_readme_gives_the_same_summary():
    """The README's accuracy lines are those of docs/accuracy.md."""
    accuracy = (ROOT / "docs" / "accuracy.md").read_text()
    lines = [line for line in accuracy.splitlines() if " rows above " in line]
    readme = (ROOT / "README.md").read_text()
    assert lines, "docs/accuracy.md has no summary"
    for line in lines:
        assert f"- {line}" in readme, "the README's accuracy lines are old: run `make accuracy-doc`"
