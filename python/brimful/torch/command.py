"""`brimful plan train.py:make_model` and `brimful plan config.json`, in the user's Python.

In: one JSON object, as `crates/cli/src/commands/plan/torch.rs` writes it. Out: the report on standard output, and the exit code: 0 it
fits, 1 it does not, 2 there is no report, or one of a part of the step, with one sentence on standard error.
"""

from __future__ import annotations

import json
from typing import Any

from .refusal import UNUSABLE, Refusal, imported, main, say

# What is taken when --batch is not given: what Keras's fit and the Trainer of transformers take.
DEFAULT_BATCH = 32
DEFAULT_CONFIG_BATCH = 8


def run(arguments: list[str]) -> tuple[str, int]:
    """The report and the exit code."""
    asked = json.loads(arguments[0]) if arguments else {}
    if "config" not in asked and "from" not in asked:
        raise Refusal("this module is called by 'brimful plan': call that")
    imported("torch")
    from . import api
    from .inputs import InputError

    job, notes = of_config(asked) if "config" in asked else of_code(asked)
    try:
        plan = api.plan(**job, **_common(asked))
    except (api.PlanError, InputError, ValueError, TypeError) as error:
        raise Refusal(_with_options(str(error))) from error
    for code, text in notes:
        plan.assume(code, text)
    report = _written(plan, asked)
    stopped = next((note["text"] for note in plan.notes if note["code"] == "partial_capture"), None)
    if plan.fits is None:
        # What was seen fits: whether the whole does is not known, and a script must not take it for a yes.
        say(f"no verdict: {stopped.rstrip('.')}")
        return report, UNUSABLE
    return report, 0 if plan.fits else 1


def _written(plan: Any, asked: dict) -> str:
    if asked.get("format") == "json":
        return plan.to_json() + "\n"
    if asked.get("format") == "html":
        return plan.html()
    return plan.text(asked.get("width", 80), asked.get("colour", False))


def _common(asked: dict) -> dict[str, Any]:
    return {
        "precision": asked.get("precision") or "keep",
        "device": asked.get("device"),
        "memory": asked.get("memory"),
        "mode": "inference" if asked.get("inference") else "train",
        "accumulate": asked.get("accumulate") or 1,
        "compile": bool(asked.get("compile")),
    }


def of_code(asked: dict) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What `brimful.plan` is to plan for a name in the user's code, and what was assumed."""
    from . import inputs as given
    from . import options, user_code

    module = user_code.load(asked["from"])
    model, inputs = user_code.model_of(module, asked["name"])
    batch, notes = asked.get("batch"), []
    if asked.get("inputs"):
        if batch is None:
            notes.append(("default_batch", f"No --batch was given: {DEFAULT_BATCH} is assumed."))
            batch = DEFAULT_BATCH
        inputs = options.example(asked["inputs"], batch, model)
    if inputs is None:
        raise Refusal(
            f"{asked['from']}:{asked['name']} says nothing about its inputs: give their shape without the batch, such as --input "
            "3x224x224, or let it return (model, inputs), or write a function make_inputs() beside it"
        )
    inputs = given.example(inputs, model)
    job = {
        "model": model,
        "inputs": inputs,
        "batch": batch,
        "loss": options.loss(asked.get("loss"), module, model, inputs),
        "optimizer": options.optimizer(asked.get("optimizer"), module),
    }
    return job, notes


def of_config(asked: dict) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The same for a configuration of transformers."""
    from . import options, pretrained

    batch, notes = asked.get("batch"), []
    if batch is None:
        batch = DEFAULT_CONFIG_BATCH
        notes.append(("default_batch", f"No --batch was given: {batch} is assumed, the default of transformers' Trainer."))
    training = not asked.get("inference")
    built = pretrained.build(asked["config"], training, bool(asked.get("checkpointing")))
    if asked.get("inputs"):
        inputs = options.example(asked["inputs"], batch, built.model)
    else:
        inputs = pretrained.batch_of(built, batch, asked.get("seq"), training)
    job = {
        "model": built.model,
        "inputs": inputs,
        "loss": options.loss(asked.get("loss"), None, built.model, inputs),
        "optimizer": options.optimizer(asked.get("optimizer"), None),
    }
    return job, [*notes, *built.notes]


def _with_options(text: str) -> str:
    """A sentence of `brimful.plan` in the words of the command line."""
    words = (
        ("mode='inference'", "--inference"),
        ("memory=", "--memory"),
        (" loss=", " --loss"),
        ("Give the step with step=, or plan", "Plan"),
    )
    for python, option in words:
        text = text.replace(python, option)
    return text


if __name__ == "__main__":
    main(run)
