"""`fit`, `evaluate` and `predict` of a Keras model, inside a memory budget.

In: what Keras's own methods take, and `memory` and `allow`. Out: what they give. Keras's own loop runs, with its callbacks, logs,
validation and schedules; what it calls for each batch is `job`'s. A model with a training step of its own runs as it is.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import keras

from brimful.fitting import lines

from . import arrays, loading, own
from .job import Job

#: Keras's own methods; who replaces them in `keras.Model` puts the originals here.
ORIGINAL = {name: getattr(keras.Model, name) for name in ("fit", "evaluate", "predict")}

#: Models whose loop runs now: what it calls in turn is already taken over.
_running: set[int] = set()


def fit(model: Any, *args: Any, memory: str | int = "auto", allow: str = "exact", **kwargs: Any) -> Any:
    """Train a model as ``model.fit`` does, inside a memory budget and with the same result.

    Takes everything that ``model.fit`` takes. The batches, the optimizer's steps, schedules, callbacks, logs and metrics are those of the
    batch asked for; inside a step the batch is taken in parts that fit.

    memory: ``auto`` for what the device has free now, or a limit such as ``"3GiB"``.
    allow: ``exact`` for what leaves the gradients the same, ``numerics`` for mixed precision, too, if nothing else makes it fit.
    """
    return _asked("fit", model, args, memory, allow, kwargs, verbose_index=4)


def evaluate(model: Any, *args: Any, memory: str | int = "auto", allow: str = "exact", **kwargs: Any) -> Any:
    """Test a model as ``model.evaluate`` does, inside a memory budget."""
    return _asked("evaluate", model, args, memory, allow, kwargs, verbose_index=3)


def predict(model: Any, *args: Any, memory: str | int = "auto", allow: str = "exact", **kwargs: Any) -> Any:
    """Predict as ``model.predict`` does, inside a memory budget."""
    return _asked("predict", model, args, memory, allow, kwargs, verbose_index=2)


def _asked(name: str, model: Any, args: tuple, memory: Any, allow: str, kwargs: dict, verbose_index: int) -> Any:
    if own.has(name, model):
        return own.called(name, model, args, kwargs, lambda *args, **given: _asked(name, model, args, memory, allow, given, verbose_index))
    if id(model) in _running or (name != "predict" and not model.compiled):
        return ORIGINAL[name](model, *args, **kwargs)
    silent = kwargs.get("verbose", args[verbose_index] if len(args) > verbose_index else "auto") == 0
    with _taken_over(name, model, memory, allow, silent) as job:
        loading.counted(job, args, kwargs)
        job.still = arrays.undisturbed(name, args, kwargs)
        args, kwargs = arrays.streamed(name, job, args, kwargs)
        answer = ORIGINAL[name](model, *args, **kwargs)
        job.finished()
    return answer


def job_of(model: Any, memory: str | int, allow: str) -> Job:
    """The job of a model: kept while the model is compiled as it was, so that nothing is traced twice."""
    job = model.__dict__.get("_brimful_job")
    if job is None or not job.still_fits(model) or (job.wanted, job.allow) != (memory, allow):
        job = Job(model, memory, allow)
        # Beside what Keras tracks and saves.
        model.__dict__["_brimful_job"] = job
    return job


def _taken(job: Job, kind: str, called: str) -> bool:
    """Whether steps of this kind are Keras's own. Those of the user's run as they are: what they do with a batch nobody else can know."""
    own = job.own(kind)
    if own is None or own == "predict_step":
        return True
    if kind == "train" and called == "fit":
        lines.say(
            f"{type(job.model).__name__} has a {own} of its own, which runs as it is. In a loop of your own, two lines keep it inside the "
            "memory: step = brimful.keras.Step(model, loss, optimizer) and loss = step(x, y)"
        )
    return False


def _made(job: Job, name: str, force: bool = False) -> Any:
    """Keras's function for a batch. force: of the model as it is now, as a callback asks for that freezes layers."""
    if force:
        job.look_again()
    return job.model.__dict__[name]


@contextlib.contextmanager
def _taken_over(name: str, model: Any, memory: str | int, allow: str, silent: bool) -> Iterator[Job]:
    """Keras's loop calls the job for each batch, until the end of this block."""
    with lines.quiet(silent):
        job = job_of(model, memory, allow)
        # What is free is asked anew; what was found out about the model stays.
        job.kinds.clear()
        functions = {
            function_name: function
            for function_name, function in job.backend.functions(job).items()
            if _taken(job, function_name.removesuffix("_function"), name)
        }
    job.taken = set(functions)
    before = {name: model.__dict__.get(name) for name in functions}
    _running.add(id(model))
    for name, function in functions.items():
        model.__dict__[name] = function
        # Keras makes its function when it has none: it is asked for one, and has ours.
        model.__dict__[f"make_{name}"] = functools.partial(_made, job, name)
    try:
        with lines.quiet(silent):
            yield job
    finally:
        _running.discard(id(model))
        # The user's arrays are the user's to let go of.
        job.rows, job.still = {}, False
        job.backend.rest()
        for name in functions:
            model.__dict__.pop(f"make_{name}", None)
            model.__dict__[name] = before[name]
