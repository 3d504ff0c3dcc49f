"""The promise itself: what the plan says fits trains; what it says does not, runs out of memory for real."""

import math
import re

import pytest
from framework import MIB, train
from keras_models import CASES

#: One where weights and the optimizer's state weigh most, one of large activations, one of attention.
NAMES = ["dense", "convolutions", "attention"]


def mib_above(report):
    """A limit that is clearly above the upper end of the prediction."""
    return math.ceil(1.3 * report["peak"]["high_bytes"] / MIB) + 8


def mib_below(report):
    """A limit that is clearly below what the job asks for without any rounding."""
    return math.floor(0.6 * report["peak"]["floor_bytes"] / MIB)


@pytest.mark.parametrize("name", NAMES)
def test_what_fits_trains(name, plan):
    """Above the prediction: the plan says `fits` with exit code 0, and TensorFlow trains under that limit."""
    limit = mib_above(plan(name)[1])
    code, report = plan(name, "--memory", f"{limit}MiB")
    assert (code, report["verdict"]) == (0, "fits")
    outcome = train(name, CASES[name].batch, limit_mib=limit)
    assert not outcome.error, outcome.error


@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_fit_runs_out_of_memory(name, plan):
    """Below the floor: the plan says `does_not_fit`, exit 1; TensorFlow raises ResourceExhaustedError."""
    limit = mib_below(plan(name)[1])
    code, report = plan(name, "--memory", f"{limit}MiB")
    assert (code, report["verdict"]) == (1, "does_not_fit")
    outcome = train(name, CASES[name].batch, limit_mib=limit)
    assert outcome.error, f"it trained in {limit} MiB, with peaks of {outcome.peaks}"
    print(outcome.error)


@pytest.mark.parametrize("name", ["convolutions", "lstm", "attention"])
def test_the_largest_batch_trains(name, plan):
    """Where the batch that was asked for does not fit, `max_batch` is smaller and trains in that limit."""
    limit = mib_below(plan(name)[1])
    _, report = plan(name, "--memory", f"{limit}MiB")
    largest = report["max_batch"]
    assert largest and largest < CASES[name].batch
    assert plan(name, "--memory", f"{limit}MiB", batch=largest)[0] == 0
    outcome = train(name, largest, limit_mib=limit)
    assert not outcome.error, outcome.error


@pytest.mark.parametrize("remedy", ["micro_batches", "smaller_batch"])
def test_a_remedy_makes_it_train(remedy, plan):
    """Where the batch fails for real, the settings in the code that the plan proposes train in the limit."""
    name = "convolutions"
    limit = mib_below(plan(name)[1])
    _, report = plan(name, "--memory", f"{limit}MiB")
    offered = next(offer for offer in report["remedies"] if offer["id"] == remedy)
    assert offered["fits"], offered
    code = offered["apply"]["keras"]
    batch = int(re.search(r"batch_size=(\d+)", code)[1])
    parts = re.search(r"gradient_accumulation_steps=(\d+)", code)
    parts = int(parts[1]) if parts else 1
    if remedy == "micro_batches":
        assert parts > 1 and parts * batch == CASES[name].batch, "the update is still that of the whole batch"
    assert train(name, CASES[name].batch, limit_mib=limit).error
    # The weights are updated with the last part of a batch: past two updates.
    outcome = train(name, batch, limit_mib=limit, accumulate=parts, steps=2 * parts + 1)
    assert not outcome.error, outcome.error
