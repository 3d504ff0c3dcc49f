"""Models and losses that a batch in parts changes: what is said about each, and what is left as it should be.

In: nothing; each check makes its own model. Out: by name, functions that give what was said and how many parts were taken.
"""

import brimful.keras
import keras
import numpy as np
from brimful.fitting import CannotSplit
from brimful.keras import findings
from brimful.keras.api import ORIGINAL, job_of
from keras import layers, ops
from keras_fit_job import difference, force, parts_taken, said

ROWS, SIZE = 12, 4


def arrays(rows=ROWS):
    rng = np.random.default_rng(8)
    return rng.normal(size=(rows, 6)).astype("float32"), rng.normal(size=(rows, 3)).astype("float32")


def model_with(*middle, loss="mse", inputs=None, **options):
    keras.utils.set_random_seed(2)
    inputs = keras.Input((6,)) if inputs is None else inputs
    hidden = layers.Dense(5, activation="tanh")(inputs)
    for layer in middle:
        hidden = layer(hidden)
    model = keras.Model(inputs, layers.Dense(3)(hidden))
    model.compile(keras.optimizers.SGD(0.1), loss=loss, **options)
    return model


def trained(model, rows=ROWS, size=SIZE, data=None, **options):
    """One step, in parts if that is allowed: what was said, the parts, and what stands in the way."""
    force(size)
    x, y = data or arrays(rows)
    _, text = said(brimful.keras.fit, model, x, y, batch_size=rows, epochs=1, verbose=2, shuffle=False, **options)
    job = job_of(model, "auto", "exact")
    codes = [found.code for found in job.findings] + ([job.forbidden.code] if job.forbidden else [])
    return {"said": text, "parts": parts_taken(model), "codes": codes, "forbidden": job.forbidden.text if job.forbidden else ""}


def batch_norm():
    """One split step in equal parts moves the averages as much as one step of the whole batch does."""

    def make():
        return model_with(layers.BatchNormalization(momentum=0.7, name="norm"))

    plain, ours = make(), make()
    # A mean of nothing but ones keeps the averages' weight apart from what is averaged.
    start = np.full(5, 100.0, "float32")
    for model in (plain, ours):
        model.get_layer("norm").moving_mean.assign(start)
    ORIGINAL["fit"](plain, *arrays(), batch_size=ROWS, verbose=0, shuffle=False)
    result = trained(ours)
    left, right = (model.get_layer("norm").moving_mean for model in (ours, plain))
    # 0.7 of 100 is left; what the batch adds is below 0.3.
    return {**result, "moved": [float(ops.mean(left)), float(ops.mean(right))], "momentum": ours.get_layer("norm").momentum}


def frozen_batch_norm():
    """Its statistics do not come from the batch."""
    layer = layers.BatchNormalization(name="norm")
    layer.trainable = False
    return trained(model_with(layer))


def dropout():
    """The random state after a step does not depend on the parts, and the parts draw different numbers."""

    def make():
        return model_with(layers.Dropout(0.5, seed=9), layers.GaussianNoise(0.1, seed=10))

    plain, ours = make(), make()
    ORIGINAL["fit"](plain, *arrays(), batch_size=ROWS, verbose=0, shuffle=False)
    result = trained(ours)
    states = [
        [
            np.asarray(ops.convert_to_numpy(layer.seed_generator.state)).tolist()
            for layer in model.layers
            if hasattr(layer, "seed_generator")
        ]
        for model in (ours, plain)
    ]
    return {**result, "states": states}


def dropout_of_nothing():
    """Nothing is drawn: nothing to say."""
    return trained(model_with(layers.Dropout(0.0)))


def parts_draw_other_numbers():
    """What each part of one batch draws."""
    drawn = []

    class Noise(layers.Layer):
        def __init__(self):
            super().__init__()
            self.seed_generator = keras.random.SeedGenerator(4)

        def call(self, x, training=False):
            if training:
                noise = keras.random.normal(ops.shape(x), seed=self.seed_generator)
                drawn.append(ops.convert_to_numpy(noise))
                return x + noise
            return x

    result = trained(model_with(Noise(), run_eagerly=True))
    shapes = [value for value in drawn if value.shape == (SIZE, 5)]
    return {**result, "distinct": len({value.tobytes() for value in shapes}), "expected": len(shapes)}


def stateful():
    keras.utils.set_random_seed(2)
    inputs = keras.Input(batch_shape=(ROWS, 4, 3))
    model = keras.Model(inputs, layers.Dense(3)(layers.LSTM(4, stateful=True)(inputs)))
    model.compile("sgd", loss="mse")
    if keras.backend.backend() == "torch":
        # Keras itself cannot train it there: its state changes in place before the backward pass.
        found = findings.look(model)
        return {
            "said": "",
            "parts": 1,
            "codes": [one.code for one in found],
            "forbidden": next(one.text for one in found if not one.splits),
        }
    return trained(model, data=(np.ones((ROWS, 4, 3), "float32"), arrays()[1]))


class Fixed(layers.Layer):
    """Works with one number of samples only."""

    def call(self, x):
        return ops.reshape(x, (ROWS, 5))

    def compute_output_shape(self, shape):
        return shape


def fixed_batch():
    return trained(model_with(Fixed()))


def batch_written_in_the_input():
    """Keras runs such a model with other batches, too: what is said must be so."""

    def make():
        return model_with(inputs=keras.Input((6,), batch_size=ROWS))

    plain, ours = make(), make()
    ORIGINAL["fit"](plain, *arrays(), batch_size=ROWS, verbose=0, shuffle=False)
    result = trained(ours)
    return {**result, "weights": difference(ours.get_weights(), plain.get_weights())}


class Centred(layers.Layer):
    """Subtracts the mean over the batch."""

    def call(self, x):
        return x - ops.mean(x, axis=0, keepdims=True)


def batch_mean():
    return trained(model_with(Centred()))


def contrastive(y_true, y_pred):
    """Each sample against all others of its batch."""
    logits = ops.matmul(y_pred, ops.transpose(y_pred)) + 0.0 * ops.sum(y_true)
    return keras.losses.sparse_categorical_crossentropy(ops.arange(ops.shape(y_pred)[0]), logits, from_logits=True)


def in_batch_contrastive():
    return trained(model_with(loss=contrastive))


def scalar_loss_with_weights():
    """Keras multiplies one number by all weights, here the same for the samples that are tried: still no sum over parts."""
    weights = np.ones(ROWS, "float32")
    weights[8:] = 5.0
    return trained(model_with(loss=lambda y, p: ops.mean(ops.square(y - p))), sample_weight=weights)


def own_loss_with_weights():
    """The model's own loss divides by weights, here the same for the samples that are tried."""

    class Own(keras.Model):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return 2.0 * super().compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)

    keras.utils.set_random_seed(2)
    inputs = keras.Input((6,))
    model = Own(inputs, layers.Dense(3)(inputs))
    model.compile("sgd", loss=keras.losses.MeanSquaredError(reduction="mean_with_sample_weight"))
    weights = np.ones(ROWS, "float32")
    weights[8:] = 5.0
    return trained(model, sample_weight=weights)


def root_of_the_mean():
    """A loss that is no sum over samples, though it looks like a mean."""
    return trained(model_with(loss=lambda y, p: ops.sqrt(ops.mean(ops.square(y - p)))))


def masked_mean(y_true, y_pred):
    """A mean over the targets that are there: -1 is none."""
    there = ops.cast(ops.not_equal(y_true, -1.0), "float32")
    return ops.sum(ops.square(y_true - y_pred) * there) / ops.maximum(ops.sum(there), 1.0)


def labels_that_are_missing():
    """Most samples have their labels: those that have not are among the few that are tried."""
    x, y = arrays(40)
    y = (y > 0).astype("float32")
    y[29:31] = -1.0
    return trained(model_with(loss=masked_mean), rows=40, size=10, data=(x, y))


class OwnMaskedMean(keras.Model):
    """The same as the model's own loss."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return masked_mean(y, y_pred)


def masked_rows(y_true, y_pred):
    """The same with a number for each sample, which says nothing either."""
    there = ops.cast(ops.not_equal(y_true, -1.0), "float32")
    return ops.mean(ops.square(y_true - y_pred) * there, axis=-1) / ops.mean(there)


def few_samples_are_wrong():
    """In the second batch a target is missing that none of the samples that were tried could tell of: nothing is trained with that batch."""
    x, y = arrays(2 * ROWS)
    y[2 * ROWS - 2] = -1.0
    found = {}
    for name in ("a_number", "rows", "own"):
        inputs = keras.Input((6,))
        models = []
        for _ in range(2):
            keras.utils.set_random_seed(2)
            model = (OwnMaskedMean if name == "own" else keras.Model)(inputs, layers.Dense(3)(layers.Dense(5, activation="tanh")(inputs)))
            model.compile(keras.optimizers.SGD(0.1), loss=masked_rows if name == "rows" else masked_mean)
            models.append(model)
        plain, ours = models
        ORIGINAL["fit"](plain, x[:ROWS], y[:ROWS], batch_size=ROWS, verbose=0, shuffle=False)
        force(SIZE)
        text = ""
        try:
            brimful.keras.fit(ours, x, y, batch_size=ROWS, verbose=0, shuffle=False)
        except CannotSplit as error:
            text = str(error)
        found[name] = {"said": text, "weights": difference(ours.get_weights(), plain.get_weights()), "parts": parts_taken(ours)}
    return found


def dice_of_other_targets():
    """With one class for each sample Keras's Dice is a mean, as the first batch shows; some samples of the second have none, and it is trained with no more."""
    x, _ = arrays(2 * ROWS)
    y = np.eye(3, dtype="float32")[np.arange(2 * ROWS) % 3]
    y[-5:] = 0.0
    models = []
    for _ in range(2):
        keras.utils.set_random_seed(2)
        models.append(keras.Sequential([layers.Input((6,)), layers.Dense(3, activation="softmax")]))
        models[-1].compile(keras.optimizers.SGD(0.1), loss=keras.losses.Dice())
    plain, ours = models
    ORIGINAL["fit"](plain, x[:ROWS], y[:ROWS], batch_size=ROWS, verbose=0, shuffle=False)
    force(SIZE)
    text = ""
    try:
        brimful.keras.fit(ours, x, y, batch_size=ROWS, verbose=0, shuffle=False)
    except CannotSplit as error:
        text = str(error)
    return {"dice": {"said": text, "weights": difference(ours.get_weights(), plain.get_weights()), "parts": parts_taken(ours)}}


def a_number_beside_the_results():
    """An output without a row for each sample: Keras trains with it, and so does brimful where the batch fits."""
    inputs = keras.Input((6,))
    hidden = layers.Dense(5)(inputs)
    model = keras.Model(inputs, {"result": layers.Dense(3)(hidden), "size": ops.mean(ops.square(hidden))})
    model.compile("sgd", loss={"result": "mse"})
    x, y = arrays()
    return trained(model, data=(x, {"result": y}))


class Sampling(layers.Layer):
    """The noise of a variational autoencoder, which it has without training, too."""

    def __init__(self):
        super().__init__(name="sampling")
        self.seed_generator = keras.random.SeedGenerator(4)

    def call(self, x):
        noisy = x + 0.1 * keras.random.normal(ops.shape(x), seed=self.seed_generator)
        self.add_loss(0.01 * ops.mean(ops.square(noisy)))
        return noisy


def autoencoder_with_noise():
    """Noise is no reason to say that samples depend on each other."""
    model = model_with(Sampling())
    result = trained(model)
    brimful.keras.predict(model, arrays()[0], batch_size=ROWS, verbose=0)
    return {**result, "predicted": parts_taken(model, "predict")}


def noise_and_coupling():
    """Noise does not hide that they do."""
    return trained(model_with(Sampling(), Centred()))


def noise_of_the_frameworks_own():
    """Nobody can say what samples do to each other then, and nobody does."""
    if keras.backend.backend() == "torch":
        import torch

        noise = torch.randn_like
    else:
        import tensorflow as tf

        def noise(x):
            return tf.random.normal(tf.shape(x))

    return trained(model_with(layers.Lambda(lambda x: x + noise(x), output_shape=(5,))))


def must_not_split():
    """When the batch does not fit, it is said why it is not taken in parts; the job does not go on with another result."""
    model = model_with(loss=contrastive)
    job = job_of(model, "auto", "exact")
    force(ROWS)
    x, y = arrays()
    job.backend.build((x, y, None), True)
    with np.testing.assert_raises(CannotSplit) as caught:
        if keras.backend.backend() == "jax":
            job.backend.values = {
                name: [v.value for v in job.backend._programs.variables(name)] for name in ("trainable", "non_trainable", "metrics")
            }
        job._split(tuple(ops.convert_to_tensor(value) for value in (x, y)) + (None,), ROWS)
    return {"said": str(caught.exception), "parts": 1, "codes": [job.forbidden.code], "forbidden": job.forbidden.text}


def nothing_to_say():
    """What is exact is called so."""
    return trained(model_with(layers.LayerNormalization()))


CHECKS = [
    batch_norm,
    frozen_batch_norm,
    dropout,
    dropout_of_nothing,
    parts_draw_other_numbers,
    stateful,
    fixed_batch,
    batch_written_in_the_input,
    batch_mean,
    in_batch_contrastive,
    scalar_loss_with_weights,
    own_loss_with_weights,
    root_of_the_mean,
    labels_that_are_missing,
    few_samples_are_wrong,
    dice_of_other_targets,
    a_number_beside_the_results,
    autoencoder_with_noise,
    noise_and_coupling,
    must_not_split,
    nothing_to_say,
]
if keras.backend.backend() != "jax":
    CHECKS.append(noise_of_the_frameworks_own)
