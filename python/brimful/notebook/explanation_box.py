"""An explanation as a notebook shows it: what ran out and why, in figures, the line that says so, and what to change.

In: an explanation's fields (`to_dict`) and its first sentence. Out: a box of HTML (`drawing`). The words are those of the text. What a reader needs only
now and then (further lines, figures of the process, the last remedies) is folded.
"""

from __future__ import annotations

from typing import Any

from . import drawing
from .drawing import escape, human

#: The figures in the order in which they are read, with their names.
_SIZES = (
    ("requested_bytes", "asked for"),
    ("capacity_bytes", "capacity"),
    ("allowed_bytes", "allowed of it"),
    ("allocated_bytes", "in use"),
    ("reserved_bytes", "reserved"),
    ("free_bytes", "free"),
    ("free_at_start_bytes", "free at start"),
    ("largest_free_bytes", "largest free piece"),
    ("largest_in_use_bytes", "largest tensor"),
    ("argument_bytes", "program: given"),
    ("temporary_bytes", "program: computes"),
    ("process_bytes", "this process"),
)
_WORDS = (("device", "device"), ("op", "operation"), ("process", "process"), ("step", "step"), ("epoch", "epoch"), ("rank", "rank"))
_EFFECTS = {"exact": "", "numerics": " (other rounding)", "changed": " (changes the result)"}
#: Remedies with their code in sight, letters of a quoted line, further lines.
_REMEDIES, _LETTERS, _LINES = 3, 400, 5


def box(answer: dict[str, Any], first_sentence: str, *footer: str) -> str:
    """The whole of it; `footer`: more HTML at its end."""
    cause = answer["cause"]
    is_memory = cause is None or cause["code"] != "not_memory"
    tone = "bad" if cause and is_memory else "warning" if answer["evidence"] else "good"
    return drawing.box(
        tone,
        drawing.headline(first_sentence),
        drawing.points(cause["because"]) if cause and is_memory else "",
        _bar(answer["numbers"]) if answer["resource"] else "",
        _figures(answer["numbers"]) if answer["resource"] else "",
        _lines(answer["evidence"]),
        _open(answer),
        _remedies(answer["remedies"]),
        drawing.paragraph(f"More: brimful explain --cause {cause['code']}", quiet=True) if cause else "",
        *footer,
    )


def _bar(numbers: dict[str, Any]) -> str:
    """What was in use and what was asked for, where both and a limit are known."""
    used, asked = numbers.get("allocated_bytes"), numbers.get("requested_bytes")
    limit = numbers.get("allowed_bytes") or numbers.get("capacity_bytes")
    if used is None or asked is None or not limit:
        return ""
    label = f"in use {human(used)}, asked for {human(asked)}, of {human(limit)}"
    return drawing.bar([("in use", used, 0), ("asked for", asked, 1)], label, limit)


def _figures(numbers: dict[str, Any]) -> str:
    colours = {"allocated_bytes": 0, "requested_bytes": 1} if _bar(numbers) else {}
    rows = []
    for field, name in _SIZES:
        if numbers.get(field) is not None:
            dot = drawing.dot(colours[field]) if field in colours else ""
            rows.append((dot + escape(name), escape(human(numbers[field]))))
        if field == "requested_bytes" and numbers.get("shape"):
            rows.append(("tensor", escape(_tensor(numbers))))
    rows += [(escape(name), escape(numbers[field])) for field, name in _WORDS if numbers.get(field) is not None]
    half = (len(rows) + 1) // 2 if len(rows) > 4 else len(rows)
    return drawing.beside(drawing.table((), rows[:half]), drawing.table((), rows[half:]))


def _tensor(numbers: dict[str, Any]) -> str:
    sizes = " × ".join(str(size) for size in numbers["shape"])
    dtype = f" {numbers['dtype']}" if numbers.get("dtype") else ""
    size = f" = {human(numbers['tensor_bytes'])}" if numbers.get("tensor_bytes") else ""
    return f"[{sizes}]{dtype}{size}"


def _lines(evidence: list[dict[str, Any]]) -> str:
    quoted = [line["text"] if len(line["text"]) <= _LETTERS else line["text"][:_LETTERS] + "…" for line in evidence]
    if not quoted:
        return ""
    more = drawing.folded("More lines", *(drawing.said(line) for line in quoted[1 : _LINES + 1]))
    return drawing.title("The line that says so") + drawing.said(quoted[0]) + more


def _open(answer: dict[str, Any]) -> str:
    """What else it could be, and what would decide."""
    pieces = []
    if answer["alternatives"]:
        pieces.append(drawing.title("It could also be" if answer["cause"] else "It could be"))
        pieces.append(drawing.points(f"{other['title']}: {other['because'][0]}" for other in answer["alternatives"]))
    if answer["missing"]:
        pieces.append(drawing.title("What would decide"))
        pieces.append(drawing.points(f"{fact['fact']}: {fact['how']}" for fact in answer["missing"]))
    return "".join(pieces)


def _remedies(remedies: list[dict[str, Any]]) -> str:
    def item(remedy: dict[str, Any]) -> str:
        applied = "".join(drawing.code(snippet["code"]) for snippet in remedy["apply"])
        return f"<li>{escape(remedy['title'] + _EFFECTS.get(remedy['same_result'], ''))}{applied}</li>"

    if not remedies:
        return ""
    shown = "".join(item(remedy) for remedy in remedies[:_REMEDIES])
    rest = "".join(item(remedy) for remedy in remedies[_REMEDIES:])
    more = drawing.folded(f"{len(remedies) - _REMEDIES} more", f'<ol start="{_REMEDIES + 1}">{rest}</ol>') if rest else ""
    return f"{drawing.title('What to do')}<ol>{shown}</ol>{more}"
