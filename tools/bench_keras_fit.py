"""What training inside the budget costs, beside Keras's own fit, both sides in one process and in turns.

    KERAS_BACKEND=tensorflow python tools/bench_keras_fit.py [ROUNDS [STEPS [CASE…]]]

`unsplit`: brimful.keras.fit against model.fit, with a batch that fits as the plan says. `in 4`: a batch in four parts against model.fit
with batches of the size of a part. Printed are the ratio of the least wall times, and medians of the ratios of wall time and of CPU time;
the targets are 1.02 and 1.10. STEPS of the batch asked for make an epoch, and a call of `fit`: on a GPU, where steps are short, more of
them are a fairer picture of training (the default is 4 for images, 8 for the table). CASE is `convolutions`, `dense` (both by default), or
one that keeps a large GPU busy: `stacked` (VGG16), or `residual` (ResNet50), whose BatchNorm makes it another one in parts, so that it is
only taken whole. A case is fed from arrays in their order; `dense:shuffled`, `dense:generator` and `dense:callback` (arrays, with a callback
that is called for each batch) are fed in other ways.
"""

import os
import statistics
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["BRIMFUL_CACHE"] = tempfile.mkdtemp()

import brimful.keras
import keras
import numpy as np
from brimful.fitting import sizing
from brimful.keras import planning

# With so much room the parts would grow.
sizing.PATIENCE_STEPS = 1 << 30
sizing.MicroBatch._measured = lambda *args: None


def convolutions():
    """Images, where the activations weigh."""
    layers = [keras.Input((64, 64, 3)), keras.layers.Conv2D(32, 3, activation="relu"), keras.layers.MaxPooling2D(2)]
    layers += [keras.layers.Conv2D(64, 3, activation="relu"), keras.layers.MaxPooling2D(2), keras.layers.Flatten()]
    return keras.Sequential([*layers, keras.layers.Dense(10, activation="softmax")]), (64, 64, 3), 128, 4


def dense():
    """A table, where the weights weigh: the update is a good part of the step."""
    layers = [keras.Input((1000,)), *(keras.layers.Dense(1024, activation="relu") for _ in range(3))]
    return keras.Sequential([*layers, keras.layers.Dense(10, activation="softmax")]), (1000,), 1024, 8


def residual():
    """ResNet50, on images that people train it with."""
    return keras.applications.ResNet50(weights=None, classes=10), (224, 224, 3), 128, 8


def stacked():
    """VGG16: as busy, without BatchNorm, so that it can be taken in parts."""
    return keras.applications.VGG16(weights=None, classes=10), (224, 224, 3), 128, 8


def compiled(make, steps):
    keras.utils.set_random_seed(0)
    model, shape, batch, usual_steps = make()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    rows = batch * (steps or usual_steps)
    x = np.random.default_rng(0).random((rows, *shape), dtype="float32")
    return model, x, np.random.randint(0, 10, rows), batch


def seconds(train):
    """Wall and CPU time of one epoch."""
    wall, cpu = time.perf_counter(), time.process_time()
    train()
    return time.perf_counter() - wall, time.process_time() - cpu


class EachBatch(keras.callbacks.Callback):
    """Is called for each batch, and looks at nothing."""

    def on_train_batch_end(self, batch, logs=None):
        pass


def fed(feed, x, y, batch):
    """What `fit` is given for batches of this size, fed in this way."""
    if feed == "generator":
        steps = len(x) // batch
        pieces = ((x[begin : begin + batch], y[begin : begin + batch]) for begin in range(0, len(x), batch))
        return (pieces,), {"steps_per_epoch": steps}
    options = {"batch_size": batch, "shuffle": feed == "shuffled"}
    return (x, y), {**options, "callbacks": [EachBatch()]} if feed == "callback" else options


def compare(make, parts, rounds, steps, feed):
    """Ratios of both times, brimful's to Keras's own."""
    plain, x, y, batch = compiled(make, steps)
    fitted, *_ = compiled(make, steps)

    def own():
        given, options = fed(feed, x, y, batch // parts)
        plain.fit(*given, epochs=1, verbose=0, **options)

    def ours():
        given, options = fed(feed, x, y, batch)
        brimful.keras.fit(fitted, *given, epochs=1, verbose=0, **options)

    proposed = planning.propose
    if parts > 1:
        planning.propose = lambda *args, **kwargs: planning.Proposal(batch // parts)
    try:
        for warm in (own, ours, own, ours):
            warm()
        pairs = [(seconds(own), seconds(ours)) for _ in range(rounds)]
    finally:
        planning.propose = proposed
    assert fitted.__dict__["_brimful_job"].kinds["train"].most_parts == parts
    step_ms = statistics.median(before[0] for before, _ in pairs) * 1000 / (len(x) / (batch // parts))
    # An epoch of either side takes one of two times on a machine of few cores; the least of each side compares like with like.
    least = min(after[0] for _, after in pairs) / min(before[0] for before, _ in pairs)
    return [least, *(statistics.median(after[index] / before[index] for before, after in pairs) for index in (0, 1))], step_ms


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else None
    print(f"Keras {keras.__version__} on {keras.backend.backend()}, {rounds} rounds")
    cases = {make.__name__: make for make in (convolutions, dense, stacked, residual)}
    for case in sys.argv[3:] or ("convolutions", "dense"):
        made, _, feed = case.partition(":")
        make = cases[made]
        for parts, name in ((1, "unsplit"), (4, "in 4"))[: 1 if make is residual else 2]:
            (least, wall, cpu), step_ms = compare(make, parts, rounds, steps, feed)
            print(
                f"{case:15} {name:8} least {least:.3f}  wall {wall:.3f}  cpu {cpu:.3f}  (a plain step takes {step_ms:.1f} ms)",
                flush=True,
            )


if __name__ == "__main__":
    main()
