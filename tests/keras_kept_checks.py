"""What Keras does around a step, and must still do where the step is not its own: errors, warnings, metrics with masks, methods of a
model's own, and what is not made where nothing is trained.

In: nothing; each check makes its own data. Out: by name, functions that give what was found. All in float32.
"""

import warnings

import brimful.keras
import keras
import numpy as np
from brimful.fitting import lines
from brimful.keras import job as job_module
from brimful.keras import planning
from brimful.keras.api import ORIGINAL
from keras import layers, ops
from keras_fit_checks import BATCH, SIZE, arrays, compared, network, scalar_metric
from keras_fit_job import difference, force, parts_taken


def masked_metrics():
    """Each word's class, some words masked: the metrics of training are Keras's own, which counts masks on two backends of three."""
    words = np.random.default_rng(2).integers(1, 9, (21, 6))
    words[:, 4:] = 0

    def tagger():
        keras.utils.set_random_seed(3)
        inside = [layers.Embedding(9, 4, mask_zero=True), layers.Dense(3, activation="softmax")]
        model = keras.Sequential([layers.Input((6,)), *inside])
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"], weighted_metrics=["accuracy"])
        return model

    result = compared(lambda: (words, words % 3), tagger, batch_size=BATCH, validation_data=(words, words % 3), kinds=("train", "test"))
    force(BATCH)
    whole = brimful.keras.fit(tagger(), words, words % 3, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
    plain = ORIGINAL["fit"](tagger(), words, words % 3, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
    assert np.allclose(whole.history["accuracy"], plain.history["accuracy"]), (whole.history, plain.history)
    return result


def several_steps_are_refused():
    """PyTorch has no steps_per_execution in Keras, which says so; to go on would lose all batches but the first."""
    (x, y), said = arrays(), []
    for way in (ORIGINAL, vars(brimful.keras.api)):
        for name in ("fit", "evaluate", "predict"):
            try:
                way[name](network(steps_per_execution=3), x, *([y] if name != "predict" else []), batch_size=8, verbose=0)
            except ValueError as error:
                said.append(str(error))
    assert len(said) == 6 and len({*said}) == 1, said
    return {"said": said[0]}


def no_slots_without_training():
    """Adam's state is twice as large as the model: what only evaluates has none where Keras makes none."""
    (x, y), made = arrays(), []
    for evaluate in (ORIGINAL["evaluate"], brimful.keras.evaluate):
        model = network(optimizer="adam")
        evaluate(model, x, y, batch_size=BATCH, verbose=0)
        made.append(len(model.optimizer.variables))
    brimful.keras.fit(model, x, y, batch_size=BATCH, verbose=0)
    return {"made": made, "after": len(model.optimizer.variables)}


class Prepares(keras.Model):
    """A model that prepares its data itself, as those of libraries do."""

    prepared = 0

    def fit(self, x, *args, scale=1.0, **kwargs):
        self.prepared += 1
        return super().fit(scale * x, *args, **kwargs)


class TrainsInside(Prepares):
    """One that calls brimful itself."""

    def fit(self, *args, **kwargs):
        self.prepared += 1
        return brimful.keras.fit(self, *args, **kwargs)


def methods_of_its_own():
    """The model's own code runs, once, and the training that it asks for is inside the budget."""
    x, y = arrays()

    def made(kind):
        keras.utils.set_random_seed(3)
        inputs = keras.Input((6,))
        model = kind(inputs, layers.Dense(1)(inputs))
        model.compile("sgd", "mse")
        return model

    force(SIZE)
    plain, ours, inside = made(Prepares), made(Prepares), made(TrainsInside)
    options = {"batch_size": BATCH, "verbose": 0, "shuffle": False}
    expected, got = plain.fit(x, y, scale=3.0, **options), brimful.keras.fit(ours, x, y, scale=3.0, **options)
    inside.fit(3.0 * x, y, **options)
    again = made(Prepares).fit(x, y, scale=3.0, **options)
    weights = [
        float(abs(ops.convert_to_numpy(model.weights[0]) - ops.convert_to_numpy(plain.weights[0])).max()) for model in (ours, inside)
    ]
    return {
        "parts": [parts_taken(ours), parts_taken(inside)],
        "prepared": [plain.prepared, ours.prepared, inside.prepared],
        "weights": max(weights),
        "logs": [expected.history["loss"], got.history["loss"], again.history["loss"]],
    }


def steps_of_its_own():
    """A step, or what makes Keras's function of it, that is the user's, set on the model or by its class: it runs as often as in Keras, whole
    batches, and a line says so."""
    (x, y), ran, said = arrays(), [], []

    class Making(keras.Sequential):
        def make_train_function(self, force=False):
            ran.append("made")
            return super().make_train_function(force)

    def stepping():
        model = network()
        own = model.train_step
        model.train_step = lambda *args, **given: ran.append("stepped") or own(*args, **given)
        return model

    def making():
        keras.utils.set_random_seed(1)
        model = Making([layers.Input((6,)), layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    force(SIZE)
    found = {}
    say, lines.say = lines.say, said.append
    try:
        for make in (stepping, making):
            counts, models = [], (make(), make())
            for fit, model in zip((ORIGINAL["fit"], brimful.keras.fit), models):
                ran.clear()
                fit(model, x, y, batch_size=BATCH, epochs=1, verbose=2, shuffle=False)
                counts.append(len(ran))
            plain, ours = (model.get_weights() for model in models)
            worst = max(float(abs(left - right).max()) for left, right in zip(plain, ours))
            found[make.__name__] = {"ran": counts, "weights": worst, "said": " ".join(said)}
            said.clear()
    finally:
        lines.say = say
    return found


def metrics_of_layers():
    """A metric that a layer updates whenever it is called is named: in parts it is called more often. (Keras on JAX has no such metrics.)"""
    (x, _), said = arrays(), []

    class Measured(layers.Layer):
        def __init__(self):
            super().__init__()
            self.size = keras.metrics.Mean(name="size")

        def call(self, x):
            self.size.update_state(ops.mean(ops.abs(x)))
            return x

    keras.utils.set_random_seed(1)
    model = keras.Sequential([layers.Input((6,)), Measured(), layers.Dense(1)])
    model.compile("sgd", "mse")
    force(SIZE)
    say, lines.say = lines.say, said.append
    try:
        brimful.keras.fit(model, x, np.zeros((len(x), 1)), batch_size=BATCH, epochs=1, verbose=2, shuffle=False)
    finally:
        lines.say = say
    return {"parts": parts_taken(model), "said": " ".join(said)}


def metrics_of_the_model():
    """The same of a metric that the model updates in its own loss."""
    (x, y), said = arrays(), []

    class Measured(keras.Model):
        def __init__(self, *args):
            super().__init__(*args)
            self.losses_seen = keras.metrics.Sum(name="losses_seen")

        def compute_loss(self, *args, **kwargs):
            loss = super().compute_loss(*args, **kwargs)
            self.losses_seen.update_state(loss)
            return loss

    inputs = keras.Input((6,))
    model = Measured(inputs, layers.Dense(1)(inputs))
    model.compile("sgd", "mse", metrics=["mae"])
    force(SIZE)
    say, lines.say = lines.say, said.append
    try:
        brimful.keras.fit(model, x, y, batch_size=BATCH, epochs=1, verbose=2, shuffle=False)
    finally:
        lines.say = say
    return {"parts": parts_taken(model), "said": " ".join(said)}


def called_as_keras_calls_it():
    """A model that does not hand on whether it is training, with a layer that wants to know and one that is called twice and adds a loss: on JAX Keras
    counts only the last one's loss, and tells inner layers nothing."""

    class Doubles(layers.Layer):
        def call(self, x, training=None):
            return 2.0 * x if training else x

    class Careless(keras.Model):
        def __init__(self):
            super().__init__(activity_regularizer="l2")
            self.doubles, self.twice, self.last = Doubles(), layers.Dense(6, activity_regularizer="l2"), layers.Dense(1)

        def call(self, x, training=None):
            return self.last(self.twice(self.twice(self.doubles(x))))

    def make():
        keras.utils.set_random_seed(3)
        model = Careless()
        model.compile("sgd", "mse")
        return model

    x, y = arrays()
    result = compared(lambda: (x, y), make, batch_size=BATCH, validation_data=arrays(21), kinds=("train", "test"))
    force(BATCH)
    plain, whole = make(), make()
    ORIGINAL["fit"](plain, x, y, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
    brimful.keras.fit(whole, x, y, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
    return {**result, "weights": max(result["weights"], difference(whole.get_weights(), plain.get_weights()))}


class Seen(keras.callbacks.Callback):
    """What a callback reads on PyTorch of the gradients after each batch."""

    def on_train_batch_end(self, batch, logs=None):
        logs["gradients"] = sum(float(abs(weight.value.grad).sum()) for weight in self.model.trainable_weights)
        self.sizes = [*getattr(self, "sizes", ()), logs["gradients"]]


def gradients_stay():
    """Where Keras leaves them, and those of the whole batch."""
    (x, y), sizes, parts = arrays(), [], []
    for fit, size in ((ORIGINAL["fit"], None), (brimful.keras.fit, BATCH), (brimful.keras.fit, SIZE)):
        force(size or BATCH)
        model, seen = network(), Seen()
        fit(model, x, y, batch_size=BATCH, verbose=0, shuffle=False, callbacks=[seen])
        sizes.append(seen.sizes)
        parts.append(1 if size is None else parts_taken(model))
    return {"sizes": sizes, "parts": parts}


class Freezes(keras.callbacks.Callback):
    """Freezes the first layer, or unfreezes it, before some epochs, in the way that Keras documents."""

    def __init__(self, *trainable):
        super().__init__()
        self.trainable, self.sums = trainable, []

    def on_epoch_begin(self, epoch, logs=None):
        self.sums.append(float(abs(self.model.get_weights()[0]).sum()))
        if self.trainable[epoch] is not None:
            self.model.layers[1].trainable = self.trainable[epoch]
            self.model.make_train_function(force=True)


def frozen_by_a_callback():
    def thawing():
        model = network()
        model.optimizer.build(model.trainable_variables)
        model.layers[1].trainable = False
        return model

    (x, y), results = arrays(), []
    for make, trainable, moves in (
        (network, (None, False, True, None), [True, False, True]),
        (thawing, (None, True, None, None), [False, True, True]),
    ):
        seen = []

        def own(trainable=trainable, seen=seen):
            seen.append(Freezes(*trainable))
            return {"callbacks": seen[-1:]}

        results.append(compared(lambda: (x, y), make, before=own, batch_size=BATCH, epochs=4))
        for callback in seen:
            assert [one != other for one, other in zip(callback.sums, callback.sums[1:])] == moves, callback.sums
    return {name: (min if name == "parts" else max)(one[name] for one in results) for name in ("parts", "weights", "logs")}


def metrics_of_the_batch():
    """Metrics with one number for a batch, where its predictions are not kept: they are named, and those that add up are not."""
    (x, y), found = arrays(), [keras.losses.MeanSquaredError(name="loss_as_metric"), keras.losses.dice, scalar_metric]
    found += [keras.metrics.CosineSimilarity(axis=0, name="of_columns"), keras.metrics.F1Score(average="macro", name="f1"), "mae"]
    held = job_module.COLLECTED_BYTES, job_module.COLLECTED_SHARE
    job_module.COLLECTED_BYTES = job_module.COLLECTED_SHARE = 0
    said = []
    warn, lines.warn = lines.warn, lambda text: not said.append(text)
    try:
        model = network(metrics=False, weighted_metrics=found)
        force(SIZE)
        brimful.keras.fit(model, x, y, batch_size=BATCH, epochs=1, verbose=2, shuffle=False)
    finally:
        lines.warn = warn
        job_module.COLLECTED_BYTES, job_module.COLLECTED_SHARE = held
    return {"parts": parts_taken(model), "said": said}


def warned():
    """Keras's warning that there is nothing to train is given, and none about files that nobody writes."""
    (x, y), given = arrays(), []
    for fit in (ORIGINAL["fit"], brimful.keras.fit):
        frozen, function = network(), network(loss=lambda y_true, y_pred: ops.mean(ops.square(y_true - y_pred), -1))
        frozen.trainable = False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            for model in (frozen, function):
                fit(model, x, y, batch_size=BATCH, verbose=0)
                assert fit is ORIGINAL["fit"] or planning.description(model)
        given.append(sorted({str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)}))
    return {"given": given}


def losses_that_say_nothing():
    """A loss that is no number, or zero, does not say how it adds up: that is said, and not that it couples samples."""
    (x, y), said = arrays(BATCH), {}
    zeros = layers.Dense(3, kernel_initializer="zeros", activity_regularizer="l2")
    for name, inside, rows in (("nan", layers.Dense(3), x * np.nan), ("zero", zeros, x)):
        model = keras.Sequential([layers.Input((6,)), inside, layers.Dense(1)])
        model.compile("sgd", "mse")
        force(SIZE)
        with lines.quiet():
            brimful.keras.fit(model, rows, y, batch_size=BATCH, verbose=0)
        said[name] = model.__dict__["_brimful_job"].forbidden.text
    return said


CHECKS = [
    masked_metrics,
    no_slots_without_training,
    methods_of_its_own,
    steps_of_its_own,
    metrics_of_the_model,
    metrics_of_the_batch,
    called_as_keras_calls_it,
    warned,
    losses_that_say_nothing,
]
if keras.backend.backend() != "jax":
    # Keras on JAX cannot train with other weights than it began with.
    CHECKS += [metrics_of_layers, frozen_by_a_callback]
if keras.backend.backend() == "torch":
    CHECKS += [several_steps_are_refused, gradients_stay]
