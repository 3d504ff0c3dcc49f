"""Trains small Keras jobs twice, with Keras itself and with brimful in parts, and writes how far they are apart: one line of JSON each.

    KERAS_BACKEND=jax python keras_fit_job.py gradients,checks float64-0 float32-0

In: groups of checks, and the names of cases. Out: lines {"name": ..., ...}, or {"name": ..., "error": the traceback} where one failed.
"""

import contextlib
import faulthandler
import io
import json
import os
import sys
import tempfile
import traceback

import brimful.keras
import keras
import keras_cases as cases
import numpy as np
from brimful.fitting import sizing
from brimful.keras import planning
from keras.src.backend.common import dtypes

# Keras multiplies matrices of float64 in float32, except on TensorFlow: its rounding would hide what is to be seen in float64.
dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"

#: Where the lines go: what frameworks print does not come between.
OUT = sys.stdout


def force(size):
    """So many samples at a time from now on, in place of what the plan would propose; nothing is known from before."""
    os.environ["BRIMFUL_CACHE"] = tempfile.mkdtemp(dir=os.environ.get("BRIMFUL_TEST_FOLDER"))
    planning.propose = lambda model, rows, *_: planning.Proposal(min(size, rows))


def parts_taken(model, kind="train"):
    """The most parts that a batch was taken in."""
    return model.__dict__["_brimful_job"].kinds[kind].most_parts


def pairs_of(left, right):
    """Two lists of arrays, and the largest number of the second."""
    left, right = ([np.asarray(value, "float64") for value in side] for side in (left, right))
    assert [value.shape for value in left] == [value.shape for value in right]
    largest = max((float(abs(value).max()) for value in right if value.size), default=0.0)
    return list(zip(left, right)), largest


def difference(left, right):
    """The largest difference between two lists of arrays, relative to the largest number."""
    pairs, largest = pairs_of(left, right)
    assert largest > 0 and all(np.isfinite(ours).all() for ours, _ in pairs)
    return max(float(abs(ours - theirs).max()) for ours, theirs in pairs if ours.size) / largest


def by_array(left, right):
    """The same for each array by itself; one that is next to nothing is held against a ten-thousandth of the largest."""
    pairs, largest = pairs_of(left, right)
    return max(float(abs(ours - theirs).max()) / max(float(abs(theirs).max()), 1e-4 * largest) for ours, theirs in pairs if ours.size)


def logs_difference(left, right):
    """The largest difference between two histories, relative to each number; the names must be the same."""
    assert set(left) == set(right), (sorted(left), sorted(right))
    worst = 0.0
    for name in right:
        ours, theirs = np.asarray(left[name], "float64"), np.asarray(right[name], "float64")
        assert ours.shape == theirs.shape, (name, ours, theirs)
        worst = max(worst, float((abs(ours - theirs) / np.maximum(abs(theirs), 1e-3)).max()))
    return worst


def said(function, *args, **kwargs):
    """What a call gives, and what it says on standard error."""
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        answer = function(*args, **kwargs)
    return answer, text.getvalue()


def line(name, **values):
    print(json.dumps({"name": name, **values}), file=OUT, flush=True)


def check(name, function, *args):
    """Runs one check; what it gives is a line, and so is its failure."""
    try:
        line(name, **(function(*args) or {}))
    except Exception:  # noqa: BLE001 -- the test shows it, the other checks go on
        line(name, error=traceback.format_exc()[-2500:])


# Random cases.


def gradients(spec):
    """One job, by Keras and in parts."""
    x, y, sample_weight, class_weight = cases.data(spec)
    plain, ours = cases.build(spec), cases.build(spec)
    options = {"batch_size": spec["rows"], "shuffle": False, "epochs": 1, "sample_weight": sample_weight, "class_weight": class_weight}
    start = plain.get_weights()
    expected = plain.fit(x, y, verbose=0, **options)
    force(spec["size"])
    got, text = said(brimful.keras.fit, ours, x, y, verbose=2, **options)
    trained = [variable for variable in plain.weights], [variable for variable in ours.weights]
    state = [
        [np.asarray(keras.ops.convert_to_numpy(value)) for value in side.optimizer.variables if "float" in str(value.dtype)]
        for side in (plain, ours)
    ]
    theirs, mine = ([np.asarray(keras.ops.convert_to_numpy(value)) for value in side] for side in trained)
    return {
        "spec": spec,
        "parts": parts_taken(ours),
        "moved": difference(start, theirs),
        "weights": difference(mine, theirs),
        "by_array": by_array(mine, theirs),
        "optimizer": difference(state[1], state[0]),
        "logs": logs_difference({"loss": got.history["loss"]}, {"loss": expected.history["loss"]}),
        "all_logs": logs_difference(got.history, expected.history),
        "said": text,
    }


def averaged(spec):
    """How far a plain mean of the parts' gradients is from the gradient of the batch."""
    x, y, sample_weight, _ = cases.data(spec)
    model = cases.build({**spec, "eager": True})
    start = model.get_weights()
    # Copies: on PyTorch Keras multiplies the weights by the mask in place.
    model.train_on_batch(x, y, sample_weight=None if sample_weight is None else keras.tree.map_structure(np.copy, sample_weight))
    whole = model.get_weights()
    pieces = []
    for begin, end in sizing.parts(spec["rows"], spec["size"]):
        model.set_weights(start)
        part = keras.tree.map_structure(lambda leaf: None if leaf is None else leaf[begin:end].copy(), (x, y, sample_weight))  # noqa: B023
        model.train_on_batch(part[0], part[1], sample_weight=part[2])
        pieces.append(model.get_weights())
    mean = [sum(values) / len(pieces) for values in zip(*pieces)]
    return {"weights": difference(mean, whole), "parts": len(pieces), "spec": spec}


def use(kind):
    """Numbers of this type everywhere."""
    keras.config.set_floatx(kind)
    keras.config.set_dtype_policy(kind)


def run_gradients(*names):
    """Cases by name, such as float64-7; those in float64 that leave the gradient as it is also averaged."""
    for name in names:
        kind, seed = name.split("-")
        keras.backend.clear_session()
        use(kind)
        check(name, gradients, cases.draw(int(seed)))
    use("float64")
    for name in names:
        spec = cases.draw(int(name.split("-")[1]))
        if name.startswith("float64") and spec["optimizer"] == "gradient" and spec["weights"] != "classes":
            check(f"averaged-{spec['seed']}", averaged, spec)
    use("float32")


if __name__ == "__main__":
    faulthandler.enable()
    sys.stdout = sys.stderr
    group, *arguments = sys.argv[1:]
    if "gradients" in group:
        run_gradients(*arguments)
    if "checks" in group:
        # Their functions come from this file, as a module.
        import keras_coupled_checks
        import keras_fit_checks
        import keras_kept_checks

        for one in (*keras_fit_checks.CHECKS, *keras_coupled_checks.CHECKS, *keras_kept_checks.CHECKS):
            check(one.__name__, one)
