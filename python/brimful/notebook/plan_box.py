"""A plan as a notebook shows it: the verdict, what fills the device, the heaviest layers, what helps.

In: a report, as `--format json` writes it. Out: a box of HTML (`drawing`). The words and the order are those of the text; sizes leave CUDA's
context out, as there. Not here: the step event by event, which `plan.html()` has.
"""

from __future__ import annotations

from typing import Any

from . import drawing
from .drawing import escape, human

#: The parts in the order of the report, which is also that of their colours, and what each is.
PARTS = (
    ("parameters", "the weights"),
    ("gradients", "how to change each weight"),
    ("optimizer_state", "what it remembers per weight"),
    ("saved_activations", "kept for the backward pass"),
    ("inputs", "the batch and its labels"),
    ("temporaries", "needed for a moment"),
    ("workspace", "scratch of kernels"),
    ("allocator_slack", "rounding and gaps"),
)
_TONES = {"fits": "good", "tight": "warning", "does_not_fit": "bad"}
_EFFECTS = {"exact": "same result", "numerics": "same model, other rounding", "changed": "changes what is trained"}
_FRAMEWORKS = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX"}
_PHASES = {
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "setup": "before the first step",
    "optimizer": "while the optimizer updates the weights",
}
_LAYERS, _REMEDIES = 5, 6
#: Said with the verdict.
_SAID_ABOVE = "not_measured"


def box(report: dict[str, Any]) -> str:
    """The whole of it."""
    context = report["breakdown"]["context"]
    usable = report["device"]["usable_bytes"]
    limit = None if usable is None else max(0, usable - context)
    tone = "warning" if limit is None or _partial(report) and report["verdict"] == "fits" else _TONES.get(report["verdict"], "")
    return drawing.box(
        tone,
        drawing.headline(verdict(report, limit)),
        drawing.paragraph(_job(report), quiet=True),
        _fill(report, limit),
        drawing.paragraph(_when(report)),
        drawing.paragraph(_batch(report, limit)),
        _help(report),
        _notes(report),
    )


def verdict(report: dict[str, Any], limit: int | None) -> str:
    """The first sentence."""
    context, peak = report["breakdown"]["context"], report["peak"]
    needed, most = peak["device_bytes"] - context, peak["high_bytes"] - context
    name = "a CPU" if report["device"]["name"] == "cpu" else report["device"]["name"]
    if limit is None:
        return f"Needs {human(needed)} on {name}. No limit is known."
    of = f"of {human(limit)} usable on {name}"
    if report["verdict"] == "fits":
        return f"Fits: needs {human(needed)} {of}."
    if report["verdict"] == "tight" and most > limit:
        return f"Tight: needs {human(needed)}, perhaps {human(most)}, {of}."
    if report["verdict"] == "tight":
        return f"Tight: needs {human(needed)} {of}; only {human(limit - most)} to spare."
    if needed <= limit:
        return f"Does not fit: needs {human(needed)} {of}, but finds it in pieces that are too small."
    over = f", {human(needed - limit)} too much" if human(needed) == human(limit) else ""
    return f"Does not fit: needs {human(needed)} {of}{over}."


def _job(report: dict[str, Any]) -> str:
    model, job = report["model"], report["job"]
    part = f"{_part(report)}{'s' * (model['layers'] != 1)}"
    doing = "Inference" if job["mode"] == "inference" else "Training"
    optimizer = f"{job['optimizer']}, " if job["optimizer"] and job["mode"] != "inference" else ""
    asked = f"{doing} with {_FRAMEWORKS.get(job['framework'], job['framework'])}: batch {job['batch']}, {optimizer}{job['precision']}."
    measured = "" if report["device"]["measured"] else " Not checked against a real run on this device."
    return f"{model['name'] or 'The model'}: {_count(model['parameters'])} parameters in {model['layers']} {part}. {asked}{measured}"


def _fill(report: dict[str, Any], limit: int | None) -> str:
    breakdown = report["breakdown"]
    parts = [(index, name, why, breakdown.get(name, 0)) for index, (name, why) in enumerate(PARTS) if breakdown.get(name, 0) > 0]
    total = max(1, sum(size for *_, size in parts))
    label = f"{human(total)} needed" + (f" of {human(limit)} usable" if limit is not None else "")
    drawn = drawing.bar([(name.replace("_", " "), size, index) for index, name, _, size in parts], label, limit)
    rows = [
        (drawing.dot(index) + escape(name.replace("_", " ")), human(size), _share(size, total), f'<span class="brimful-quiet">{why}</span>')
        for index, name, why, size in parts
    ]
    rows.append(("together", human(total), "", ""))
    beside = f"CUDA itself holds {human(breakdown['context'])} beside that." if breakdown["context"] else ""
    fills = drawing.title("What fills it") + drawing.table((), rows, numbers=(1, 2)) + drawing.paragraph(beside, quiet=True)
    heavy = [(escape(layer["layer"]), escape(layer["class"]), human(layer["bytes"])) for layer in report["layers"][:_LAYERS]]
    heaviest = drawing.title(f"Heaviest {_part(report)}s") + drawing.table((), heavy, numbers=(2,)) if heavy else ""
    lines = [(escape(line["source"]), human(line["bytes"])) for line in report["lines"][:_LAYERS]]
    if lines:
        heaviest += drawing.title("Heaviest lines") + drawing.table((), lines, numbers=(1,))
    return drawn + drawing.beside(fills, heaviest)


def _when(report: dict[str, Any]) -> str:
    moment = report["peak"]["at"]
    if not moment:
        return ""
    place = f"in {_part(report)} {moment['layer']} ({moment['op']})" if moment["layer"] else f"in {moment['op']}"
    source = f", at {moment['source']}" if moment["source"] else ""
    return f"The peak comes {_PHASES.get(moment['phase'], 'in ' + moment['phase'])}, {place}{source}."


def _batch(report: dict[str, Any], limit: int | None) -> str:
    if limit is None or any(note["code"] == "batch_fixed" for note in report["notes"]):
        return ""
    most, batch = report["max_batch"], report["job"]["batch"]
    if most is None:
        return "Not even a batch of one fits."
    if most == batch:
        return f"{most} is the largest batch that fits."
    if most > batch:
        return f"The batch could grow to {most}."
    # One that is tight may fit, too.
    return f"The largest batch {'with room to spare' if report['verdict'] == 'tight' else 'that fits'} is {most}."


def _help(report: dict[str, Any]) -> str:
    # Who has room to spare asks for no remedy.
    if report["verdict"] == "fits" or not report["remedies"]:
        return ""
    context, framework = report["breakdown"]["context"], "torch" if report["job"]["framework"] == "torch" else "keras"
    pieces = []
    cheapest = report["cheapest_fit"]
    changes = cheapest["changes"] if cheapest else []
    if changes:
        titles = ", and ".join(change["title"] for change in changes)
        outcome = f"{human(cheapest['peak_bytes'] - context)}; {_EFFECTS[cheapest['same_result']]}; {_time(cheapest['time_cost'])}."
        pieces += [drawing.title("Cheapest way to fit"), drawing.paragraph(f"{titles}. {outcome}")]
        pieces += [drawing.code(change["apply"][framework]) for change in changes if change["apply"].get(framework)]
    ordered = sorted(report["remedies"], key=lambda remedy: not remedy["fits"])
    # "And one more" takes as much room as the one.
    count = len(ordered) if len(ordered) <= _REMEDIES + 1 else _REMEDIES
    rows = []
    for remedy in ordered[:count]:
        applied = remedy["apply"].get(framework)
        rows.append(
            (
                escape(remedy["title"]) + (drawing.folded("Code", drawing.code(applied)) if applied else ""),
                human(remedy["peak_bytes"] - context),
                "✓" if remedy["fits"] else "✗",
                "" if remedy["max_batch"] is None else str(remedy["max_batch"]),
                escape(f"{_EFFECTS[remedy['same_result']]}; {_time(remedy['time_cost'])}"),
            )
        )
    pieces += [drawing.title("What helps"), drawing.table(("change", "then needs", "fits", "largest batch", "result; time"), rows, (1, 3))]
    if len(ordered) > count:
        pieces.append(drawing.paragraph(f"and {len(ordered) - count} more, in plan.remedies", quiet=True))
    return "".join(pieces)


def _notes(report: dict[str, Any]) -> str:
    notes = [note for note in report["assumptions"] + report["notes"] if note["code"] != _SAID_ABOVE]
    texts = [f"{note['layer']}: {note['text']}" if note["layer"] else note["text"] for note in notes]
    # What was not seen to the end must not be folded away.
    if _partial(report):
        return drawing.title("Notes") + drawing.points(texts)
    return drawing.folded(f"Notes ({len(texts)})", drawing.points(texts, quiet=True)) if texts else ""


def _partial(report: dict[str, Any]) -> bool:
    return any(note["code"] == "partial_capture" for note in report["notes"])


def _part(report: dict[str, Any]) -> str:
    return "module" if report["job"]["framework"] == "torch" else "layer"


def _share(part: int, total: int) -> str:
    return "<0.1 %".replace("<", "&lt;") if part * 2000 < total else f"{100 * part / total:.1f} %"


def _count(number: int) -> str:
    for least, word in ((10**9, "billion"), (10**6, "million")):
        if number >= least:
            return f"{number / least:.1f} {word}"
    return f"{number / 1000:.0f} thousand" if number >= 10_000 else str(number)


def _time(cost: float) -> str:
    percent = round((cost - 1) * 20) * 5 if cost == cost and abs(cost) < 1e9 else None
    if percent is None:
        return "unknown time"
    if percent >= 100:
        return f"about {cost:.1f} times as long"
    return f"about {percent} % slower" if percent > 0 else f"about {-percent} % faster" if percent < 0 else "as fast"
