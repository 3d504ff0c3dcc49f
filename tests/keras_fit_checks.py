"""Whole trainings through `fit`, `evaluate` and `predict`, by Keras and in parts: what each way of feeding and logging gives.

In: nothing; each check makes its own data. Out: by name, functions that give how far the two are apart. All in float32.
"""

import brimful.keras
import keras
import numpy as np
from brimful.fitting import sizing
from brimful.keras import job as job_module
from brimful.keras.api import ORIGINAL
from keras import layers, ops
from keras_fit_job import difference, force, logs_difference, parts_taken, said

ROWS, BATCH, SIZE = 43, 16, 5


def arrays(rows=ROWS):
    rng = np.random.default_rng(5)
    return rng.normal(size=(rows, 6)).astype("float32"), rng.integers(0, 2, (rows, 1)).astype("float32")


def scalar_metric(y_true, y_pred):
    """A metric of a batch as one number."""
    return ops.mean(ops.abs(y_true - y_pred))


def network(metrics=True, **options):
    """A classifier with two classes and some metrics."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((6,))
    hidden = layers.Dense(8, activation="tanh", kernel_regularizer="l2")(inputs)
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(hidden))
    chosen = ["accuracy", keras.metrics.AUC(name="auc"), scalar_metric] if metrics else None
    options = {"loss": "binary_crossentropy", "optimizer": keras.optimizers.SGD(0.1, momentum=0.9), "metrics": chosen, **options}
    model.compile(**options)
    return model


def compared(data, make=network, before=None, kinds=("train",), **options):
    """Trains two models on what `data` gives for each; how far their logs and weights are apart, and the parts taken."""
    options = {"epochs": 2, "verbose": 0, "shuffle": False, **options}
    plain, ours = make(), make()
    force(SIZE)
    # Callbacks keep what they saw: each training has its own.
    expected = ORIGINAL["fit"](plain, *data(), **{**options, **(before() if before else {})})
    got = brimful.keras.fit(ours, *data(), **{**options, **(before() if before else {})})
    return {
        "parts": min(parts_taken(ours, kind) for kind in kinds),
        "weights": difference(ours.get_weights(), plain.get_weights()),
        "logs": logs_difference(got.history, expected.history),
        "epochs": [got.epoch, expected.epoch],
        "names": sorted(got.history),
    }


def validation_and_metrics():
    x, y = arrays()
    result = compared(lambda: (x, y), batch_size=BATCH, validation_data=arrays(21), validation_batch_size=9, kinds=("train", "test"))
    assert {"loss", "accuracy", "auc", "scalar_metric", "val_loss", "val_auc", "val_scalar_metric"} <= set(result["names"])
    return result


def validation_with_weights_of_its_own():
    """Weights only in the validation, with a loss that divides by them."""
    x, y = arrays()
    validation = (*arrays(21), np.random.default_rng(1).uniform(0, 2, 21).astype("float32"))
    make = lambda: network(loss=keras.losses.BinaryCrossentropy(reduction="mean_with_sample_weight"))  # noqa: E731
    return compared(lambda: (x, y), make, batch_size=BATCH, validation_data=validation, validation_batch_size=21, kinds=("train", "test"))


def metrics_part_by_part():
    """Predictions that are too large to keep: metrics that add up are counted part by part."""
    x, y = arrays()
    held = job_module.COLLECTED_BYTES, job_module.COLLECTED_SHARE
    job_module.COLLECTED_BYTES = job_module.COLLECTED_SHARE = 0
    try:
        make = lambda: network(metrics=False, weighted_metrics=["accuracy", keras.metrics.AUC(name="auc"), "mse"])  # noqa: E731
        weights = np.linspace(0.1, 2, ROWS, dtype="float32")
        return compared(lambda: (x, y), make, batch_size=BATCH, sample_weight=weights, validation_data=arrays(21))
    finally:
        job_module.COLLECTED_BYTES, job_module.COLLECTED_SHARE = held


def validation_split():
    x, y = arrays()
    return compared(lambda: (x, y), batch_size=BATCH, validation_split=0.3, shuffle=False)


def several_outputs():
    """A tracker for each loss, and weighted metrics."""

    def make():
        keras.utils.set_random_seed(4)
        inputs = keras.Input((6,))
        hidden = layers.Dense(8, activation="relu")(inputs)
        model = keras.Model(inputs, {name: layers.Dense(1, name=name)(hidden) for name in ("a", "b")})
        model.compile("sgd", loss={"a": "mse", "b": "mae"}, loss_weights={"a": 0.3, "b": 2.0}, weighted_metrics={"a": [], "b": ["mse"]})
        return model

    x, y = arrays()
    weights = np.linspace(0, 2, ROWS, dtype="float32")
    result = compared(lambda: (x, {"a": y, "b": 1 - y}), make, batch_size=BATCH, sample_weight={"a": weights, "b": 2 - weights})
    assert {"loss", "a_loss", "b_loss"} <= set(result["names"]), result["names"]
    return result


def losses_of_ones_own():
    """Losses that come as one number, a mean and a sum, beside Keras's own."""

    def make():
        keras.utils.set_random_seed(4)
        inputs = keras.Input((6,))
        hidden = layers.Dense(8, activation="relu")(inputs)
        model = keras.Model(inputs, [layers.Dense(1, name=name)(hidden) for name in ("a", "b", "c")])
        functions = [lambda y, p: ops.mean(ops.square(y - p)), "mae", lambda y, p: 0.01 * ops.sum(ops.square(y - p))]
        model.compile("sgd", loss=functions, loss_weights=[1.0, 0.5, 2.0])
        return model

    x, y = arrays()
    return compared(lambda: (x, [y, -y, 2 * y]), make, batch_size=BATCH, validation_split=0.3, kinds=("train", "test"))


def losses_of_ones_own_with_masks():
    """A number for each word, of which those that are masked do not count."""
    words = np.random.default_rng(2).integers(1, 9, (ROWS, 6))
    words[:, 4:] = 0
    words[::3, 2:] = 0

    def make():
        keras.utils.set_random_seed(3)
        inside = [layers.Embedding(9, 4, mask_zero=True), layers.Dense(9)]
        model = keras.Sequential([layers.Input((6,)), *inside])
        loss = lambda y, p: 2.0 * keras.losses.sparse_categorical_crossentropy(y, p, from_logits=True)  # noqa: E731
        model.compile("sgd", loss, metrics=["accuracy"])
        return model

    return compared(lambda: (words, words), make, batch_size=BATCH, validation_split=0.3, kinds=("train", "test"))


def words_folded_into_the_batch():
    """A result with a row for each word, and losses of one's own of it, which are asked again for other samples: of all of a sample's words."""
    words = np.random.default_rng(2).integers(1, 9, (ROWS, 6))

    def make(loss):
        keras.utils.set_random_seed(3)
        inputs = keras.Input((6,))
        model = keras.Model(inputs, ops.reshape(layers.Dense(9)(layers.Embedding(9, 4)(inputs)), (-1, 9)))
        model.compile("sgd", loss)
        return model

    def rows(y, p):
        return 2.0 * keras.losses.sparse_categorical_crossentropy(ops.reshape(y, (-1,)), p, from_logits=True)

    options = {"batch_size": BATCH, "validation_data": (words[:21], words[:21]), "kinds": ("train", "test")}
    one, other = (
        compared(lambda: (words, words), lambda loss=loss: make(loss), **options) for loss in (rows, lambda y, p: ops.mean(rows(y, p)))
    )
    return {name: (min if name == "parts" else max)(one[name], other[name]) for name in ("parts", "weights", "logs")}


def own_loss_of_several_outputs():
    """A model that computes its loss in its own way, out of Keras's: sums, each with a tracker."""

    class Scaled(keras.Model):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return 0.01 * super().compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)

    def make():
        keras.utils.set_random_seed(4)
        inputs = keras.Input((6,))
        hidden = layers.Dense(8, activation="relu")(inputs)
        model = Scaled(inputs, [layers.Dense(1, name=name)(hidden) for name in ("a", "b")])
        model.compile("sgd", loss=[keras.losses.MeanSquaredError(reduction="sum") for _ in range(2)])
        return model

    x, y = arrays()
    return compared(lambda: (x, [y, -y]), make, batch_size=BATCH, validation_split=0.3, kinds=("train", "test"))


def only_losses_of_layers():
    """No targets: the loss is what the model adds itself."""

    class Reconstructs(layers.Layer):
        def call(self, x, rebuilt):
            self.add_loss(ops.mean(ops.square(x - rebuilt)))
            return rebuilt

    def make():
        keras.utils.set_random_seed(6)
        inputs = keras.Input((6,))
        model = keras.Model(inputs, Reconstructs()(inputs, layers.Dense(6)(layers.Dense(2)(inputs))))
        model.compile("adam")
        return model

    return compared(lambda: (arrays()[0],), make, batch_size=BATCH)


def callbacks():
    """A schedule, early stopping and a later first epoch."""
    x, y = arrays()

    def own():
        schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
        return {"callbacks": [schedule, keras.callbacks.EarlyStopping("loss", min_delta=0.5, patience=1)]}

    result = compared(lambda: (x, y), before=own, batch_size=BATCH, epochs=7, initial_epoch=2)
    assert result["epochs"][0] == result["epochs"][1] and 1 < len(result["epochs"][0]) < 5, result["epochs"]
    return result


def shuffled():
    """Keras's own shuffling, from the same seed."""
    x, y = arrays()
    return compared(lambda: (x, y), before=lambda: keras.utils.set_random_seed(11) or {}, batch_size=BATCH, shuffle=True)


def generator():
    x, y = arrays(48)

    def data():
        return ((x[begin : begin + BATCH], y[begin : begin + BATCH]) for _ in range(9) for begin in range(0, 48, BATCH))

    return compared(lambda: (data(),), steps_per_epoch=3)


def dataset_of_keras():
    class Rows(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            x, y = arrays()
            return x[index * BATCH : (index + 1) * BATCH], y[index * BATCH : (index + 1) * BATCH]

    return compared(lambda: (Rows(),))


def dataset_of_tensorflow():
    import tensorflow as tf

    return compared(lambda: (tf.data.Dataset.from_tensor_slices(arrays()).batch(BATCH),))


def loader_of_torch():
    import torch

    rows = torch.utils.data.TensorDataset(*map(torch.as_tensor, arrays()))
    return compared(lambda: (torch.utils.data.DataLoader(rows, batch_size=BATCH),))


def several_steps_at_once():
    x, y = arrays()
    return compared(lambda: (x, y), lambda: network(steps_per_execution=3), batch_size=8, shuffle=False, validation_data=arrays(21))


def evaluate_and_predict():
    x, y = arrays()
    plain, ours = network(), network()
    force(SIZE)
    expected = ORIGINAL["evaluate"](plain, x, y, batch_size=BATCH, verbose=0, return_dict=True)
    got = brimful.keras.evaluate(ours, x, y, batch_size=BATCH, verbose=0, return_dict=True)
    tested = parts_taken(ours, "test")
    rows = ORIGINAL["predict"](plain, x, batch_size=BATCH, verbose=0)
    mine = brimful.keras.predict(ours, x, batch_size=BATCH, verbose=0)
    assert rows.shape == mine.shape
    parts = min(tested, parts_taken(ours, "predict"))
    return {"parts": parts, "weights": difference([mine], [rows]), "logs": logs_difference(got, expected)}


def loop_of_ones_own():
    """`Step` beside `train_on_batch`."""
    x, y = arrays()
    plain, ours = network(metrics=False), network(metrics=False)
    force(SIZE)
    step = brimful.keras.Step(ours, keras.losses.BinaryCrossentropy(), keras.optimizers.SGD(0.1, momentum=0.9), quiet=True)
    convert = ops.convert_to_tensor
    pairs = [
        (step(convert(x[at : at + 16]), convert(y[at : at + 16])), plain.train_on_batch(x[at : at + 16], y[at : at + 16])) for at in (0, 16)
    ]
    first, second = zip(*pairs)
    # Keras's own number is a mean over the batches so far.
    logs = abs(first[0] - float(second[0])) / float(second[0])
    return {"parts": step._job.kinds["train"].most_parts, "weights": difference(ours.get_weights(), plain.get_weights()), "logs": logs}


def larger_parts_are_said_when_they_begin():
    """The third step finds that there is room: in a training of three there is no step to say it of."""
    x, y = arrays(3 * BATCH)
    force(BATCH // 2)
    patience, measured = sizing.PATIENCE_STEPS, sizing.MicroBatch._measured
    # After as many steps, and not as soon as what this machine measures allows it.
    sizing.PATIENCE_STEPS, sizing.MicroBatch._measured = 3, lambda *_: None
    try:
        short, long = network(), network()
        texts = [said(brimful.keras.fit, short, x, y, batch_size=BATCH, verbose=2)[1]]
        texts += [said(brimful.keras.fit, long, x, y, batch_size=BATCH, epochs=2, verbose=2)[1]]
    finally:
        sizing.PATIENCE_STEPS, sizing.MicroBatch._measured = patience, measured
    first, second = ([line for line in text.splitlines() if line.startswith("brimful: ")] for text in texts)
    assert len(first) == 2 and "running 2 × 8" in first[0] and first[1].startswith("brimful: 3 steps of 16, at the end 2 × 8, "), first
    assert len(second) == 3 and second[1] == "brimful: there is room: 1 × 16 from step 4 on, after 2 × 8", second
    assert second[2].startswith("brimful: 6 steps of 16, at the end 1 × 16, "), second
    return {"parts": min(parts_taken(short), parts_taken(long)), "weights": 0.0, "logs": 0.0}


def nothing_is_left():
    """After `fit` the model is Keras's again, and says nothing when it is asked to be silent."""
    x, y = arrays()
    model = network()
    force(SIZE)
    _, text = said(brimful.keras.fit, model, x, y, batch_size=BATCH, verbose=0)
    assert "brimful" not in text, text
    left = [name for name in vars(model) if name.startswith("make_")]
    assert not left and model.fit(x, y, verbose=0).history["loss"]
    assert keras.losses.Loss.__call__.__name__ == "__call__"
    return {"parts": parts_taken(model), "weights": 0.0, "logs": 0.0}


CHECKS = [
    validation_and_metrics,
    validation_with_weights_of_its_own,
    metrics_part_by_part,
    validation_split,
    several_outputs,
    losses_of_ones_own,
    losses_of_ones_own_with_masks,
    words_folded_into_the_batch,
    own_loss_of_several_outputs,
    only_losses_of_layers,
    callbacks,
    shuffled,
    generator,
    dataset_of_keras,
    dataset_of_tensorflow,
    loader_of_torch,
    evaluate_and_predict,
    loop_of_ones_own,
    larger_parts_are_said_when_they_begin,
    nothing_is_left,
]
#: PyTorch has no steps_per_execution in Keras.
if keras.backend.backend() != "torch":
    CHECKS.append(several_steps_at_once)
