"""Random Keras jobs: models, losses, weights and optimizers, drawn from a seed.

In: a seed. Out: a description that can be printed, a compiled model, and a batch for it. The same seed gives the same weights and data,
on every backend. Nothing here knows brimful.
"""

import math

import keras
import numpy as np
from keras import layers, ops

BODIES = ("dense", "conv", "lstm", "tokens", "attention", "two_inputs")
REDUCTIONS = ("sum_over_batch_size", "sum", "mean_with_sample_weight")
OPTIMIZERS = ("gradient", "gradient", "clipnorm", "global_clipnorm", "clipvalue", "loss_scale", "adamw", "ema")
CLASS_LOSSES = ("sparse", "sparse_ignore", "smoothed")
REAL_LOSSES = ("mse", "huber", "cosine", "mean_function", "sum_function", "rows_function", "nested")
#: Losses that come as one number: sample weights multiply it as a whole, so no sum over parts is the same.
SCALAR_LOSSES = ("mean_function", "sum_function", "nested")
WEIGHTS = ("none", "samples", "each_output", "classes")
STEPS, WORDS, CLASSES = 5, 11, 4


class Gradients(keras.optimizers.Optimizer):
    """Leaves the gradient that it was given, after clipping, in place of the weights: nothing is rounded away in a difference."""

    def __init__(self, **options):
        super().__init__(learning_rate=1.0, **options)

    def update_step(self, gradient, variable, learning_rate):
        self.assign(variable, ops.zeros(variable.shape, variable.dtype))
        self.assign_add(variable, gradient)


class AddsLoss(layers.Layer):
    """Adds a loss of its own: a mean over the samples, or a sum."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.supports_masking = True

    def call(self, x):
        square = ops.square(x)
        self.add_loss(0.05 * (ops.mean(square) if self.kind == "mean" else ops.sum(square)))
        return x


class OwnLoss(keras.Model):
    """A model that computes its loss in its own way."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        plain = super().compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)
        return plain + 0.1 * ops.mean(ops.square(keras.tree.flatten(y_pred)[0]))


def draw(seed):
    """What a case is made of, as plain values."""
    rng = np.random.default_rng(1000 + seed)
    body = BODIES[seed % len(BODIES)]
    temporal = body in ("lstm", "tokens", "attention") and bool(rng.random() < 0.6)
    masked = body in ("tokens", "attention")
    rows = int(rng.integers(2, 41))
    size = int(rng.choice([1, rows - 1, rng.integers(1, rows), rng.integers(1, rows)]))
    if size == 1:
        # As many parts as rows: a few show as much as many.
        rows = min(rows, 9)
    optimizer = OPTIMIZERS[(seed + seed // len(BODIES)) % len(OPTIMIZERS)]
    weights = str(rng.choice(WEIGHTS))
    outputs = []
    for _ in range(1 if weights == "classes" else int(rng.integers(1, 4))):
        losses = ("sparse",) if weights == "classes" else CLASS_LOSSES + REAL_LOSSES
        if weights != "none":
            losses = tuple(loss for loss in losses if loss not in SCALAR_LOSSES)
        loss = str(rng.choice(losses))
        if loss == "cosine" and masked:
            # A row without tokens has no direction: Keras's own gradient of it is not a number.
            loss = "huber"
        outputs.append({"loss": loss, "reduction": str(rng.choice(REDUCTIONS))})
    scalars = any(output["loss"] in SCALAR_LOSSES for output in outputs)
    own_loss = bool(rng.random() < 0.25) and not masked and weights == "none"
    if own_loss:
        # Taken as a whole: it must be one mean.
        outputs = [{"loss": output["loss"], "reduction": "sum_over_batch_size"} for output in outputs]
        outputs = [output for output in outputs if output["loss"] not in ("sum_function", "sparse_ignore")] or [
            {"loss": "mse", "reduction": "sum_over_batch_size"}
        ]
    if weights == "classes" and temporal:
        weights = "samples"
    extras = [name for name in ("kernel", "bias", "activity", "mean_layer", "sum_layer", "frozen") if rng.random() < 0.25]
    if own_loss:
        extras = [name for name in extras if name not in ("activity", "sum_layer")]
    return {
        "seed": seed,
        "body": body,
        "temporal": temporal,
        "masked": masked,
        "rows": rows,
        "size": size,
        "outputs": outputs,
        "weights": weights,
        "loss_weights": bool(rng.random() < 0.5),
        "optimizer": optimizer,
        "extras": extras,
        "own_loss": own_loss,
        "eager": seed % 4 != 3,
        "empty_rows": masked and temporal and not scalars and bool(rng.random() < 0.5),
        "dictionary": len(outputs) > 1 and bool(rng.random() < 0.5),
    }


# Losses.


def mean_function(y_true, y_pred):
    return ops.mean(ops.square(y_true - y_pred))


def sum_function(y_true, y_pred):
    return 0.1 * ops.sum(ops.abs(y_true - y_pred))


def rows_function(y_true, y_pred):
    return ops.sum(ops.square(y_true - y_pred), axis=-1)


def nested(y_true, y_pred):
    """A function of two losses that each divide on their own."""
    return keras.losses.MeanSquaredError()(y_true, y_pred) + 0.3 * keras.losses.Huber()(y_true, y_pred)


FUNCTIONS = {"mean_function": mean_function, "sum_function": sum_function, "rows_function": rows_function, "nested": nested}


def make_loss(output):
    reduction = output["reduction"]
    known = {
        "sparse": lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction),
        "sparse_ignore": lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0, reduction=reduction),
        "smoothed": lambda: keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1, reduction=reduction),
        "mse": lambda: keras.losses.MeanSquaredError(reduction=reduction),
        "huber": lambda: keras.losses.Huber(delta=0.7, reduction=reduction),
        "cosine": lambda: keras.losses.CosineSimilarity(reduction=reduction),
    }
    return known[output["loss"]]() if output["loss"] in known else FUNCTIONS[output["loss"]]


def make_optimizer(name):
    """The optimizer, and the steps after which two trainings are compared."""
    return {
        "gradient": lambda: Gradients(),
        "clipnorm": lambda: Gradients(clipnorm=0.05),
        "global_clipnorm": lambda: Gradients(global_clipnorm=0.1),
        "clipvalue": lambda: Gradients(clipvalue=0.02),
        "loss_scale": lambda: keras.optimizers.LossScaleOptimizer(Gradients(), initial_scale=2.0**10),
        # A large epsilon: else the first step is the sign of the gradient, and of its rounding where it is nothing.
        "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1, epsilon=0.1),
        "ema": lambda: keras.optimizers.SGD(0.02, momentum=0.9, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=2),
    }[name]()


def batches_of(spec):
    """How many batches the training has: what an optimizer keeps shows from the second on."""
    return 3 if spec["optimizer"] in ("adamw", "ema") else 1


# Models.


def _body(spec, dense):
    body = spec["body"]
    if body == "dense":
        x = keras.Input((6,))
        return [x], layers.LayerNormalization()(dense(8, activation="tanh")(x))
    if body == "two_inputs":
        left, right = keras.Input((6,)), keras.Input((3,))
        return [left, right], layers.Concatenate()([dense(5, activation="relu")(left), layers.UnitNormalization()(right)])
    if body == "conv":
        x = keras.Input((6, 6, 2))
        hidden = layers.MaxPooling2D()(layers.Conv2D(4, 3, padding="same", activation="relu")(x))
        return [x], dense(6, activation="silu")(layers.Flatten()(layers.GroupNormalization(2)(hidden)))
    if body == "lstm":
        x = keras.Input((STEPS, 3))
        return [x], layers.LSTM(5, return_sequences=spec["temporal"])(x)
    x = keras.Input((STEPS,), dtype="int32")
    hidden = layers.Embedding(WORDS, 6, mask_zero=True)(x)
    if body == "tokens":
        return [x], layers.GRU(5, return_sequences=spec["temporal"])(hidden)
    hidden = layers.LayerNormalization()(hidden + layers.MultiHeadAttention(2, 3)(hidden, hidden))
    return [x], hidden if spec["temporal"] else layers.GlobalAveragePooling1D()(hidden)


def build(spec):
    """The model, compiled; the same weights each time."""
    keras.utils.set_random_seed(spec["seed"])
    extras = spec["extras"]

    def dense(width, **options):
        return layers.Dense(
            width,
            kernel_regularizer=keras.regularizers.L2(0.01) if "kernel" in extras else None,
            bias_regularizer=keras.regularizers.L1(0.02) if "bias" in extras else None,
            activity_regularizer=keras.regularizers.L2(0.01) if "activity" in extras else None,
            bias_initializer="glorot_uniform" if "bias" in extras else "zeros",
            **options,
        )

    inputs, hidden = _body(spec, dense)
    hidden = dense(6, activation="tanh", trainable="frozen" not in extras)(hidden)
    for kind in ("mean", "sum"):
        if f"{kind}_layer" in extras:
            hidden = AddsLoss(kind)(hidden)
    heads = {f"head{index}": dense(CLASSES, name=f"head{index}")(hidden) for index in range(len(spec["outputs"]))}
    outputs = heads if spec["dictionary"] else list(heads.values())
    if len(heads) == 1:
        outputs = heads["head0"]
    model = (OwnLoss if spec["own_loss"] else keras.Model)(inputs if len(inputs) > 1 else inputs[0], outputs)
    losses = {name: make_loss(output) for name, output in zip(heads, spec["outputs"])}
    weights = {name: 0.5 + index for index, name in enumerate(heads)} if spec["loss_weights"] else None
    if len(heads) == 1:
        losses, weights = losses["head0"], [0.7] if weights else None
    elif not spec["dictionary"]:
        losses, weights = list(losses.values()), list(weights.values()) if weights else None
    # Without compiling JAX compiles each operation by itself, which takes far longer.
    eagerly = spec["eager"] and keras.backend.backend() != "jax"
    model.compile(make_optimizer(spec["optimizer"]), loss=losses, loss_weights=weights, run_eagerly=eagerly)
    return model


# Data.


def data(spec):
    """Inputs, targets, sample weights and class weights of all batches; the last batch is smaller where there are several."""
    rng = np.random.default_rng(spec["seed"])
    kind = keras.backend.floatx()
    rows = spec["rows"] * (batches_of(spec) - 1) + math.ceil(spec["rows"] * (0.7 if batches_of(spec) > 1 else 1))
    shape = (rows, STEPS) if spec["temporal"] else (rows,)
    x = _inputs(spec, rng, rows, kind)
    targets, weights = {}, {}
    for index, output in enumerate(spec["outputs"]):
        name = f"head{index}"
        if output["loss"].startswith("sparse"):
            targets[name] = rng.integers(0, CLASSES, shape).astype("int32")
        elif output["loss"] == "smoothed":
            targets[name] = np.eye(CLASSES, dtype=kind)[rng.integers(0, CLASSES, shape)]
        else:
            targets[name] = rng.normal(size=(*shape, CLASSES)).astype(kind)
        weights[name] = rng.uniform(0.0, 2.0, shape).astype(kind) * (rng.random(shape) < 0.8)
        weights[name] = weights[name].astype(kind)
    single = len(targets) == 1
    packed = _packed(spec, targets)
    sample_weight = None
    if spec["weights"] == "samples":
        sample_weight = weights["head0"] if single else _packed(spec, dict.fromkeys(targets, weights["head0"]))
    elif spec["weights"] == "each_output":
        sample_weight = _packed(spec, weights)
    class_weight = {index: 0.25 + index for index in range(CLASSES)} if spec["weights"] == "classes" else None
    return x, packed, sample_weight, class_weight


def _packed(spec, named):
    if len(named) == 1:
        return named["head0"]
    return named if spec["dictionary"] else list(named.values())


def _inputs(spec, rng, rows, kind):
    body = spec["body"]
    if body in ("tokens", "attention"):
        tokens = rng.integers(1, WORDS, (rows, STEPS)).astype("int32")
        lengths = rng.integers(0 if spec["empty_rows"] else 1, STEPS + 1, rows)
        lengths[0] = STEPS
        return np.where(np.arange(STEPS) < lengths[:, None], tokens, 0).astype("int32")
    if body == "two_inputs":
        return [rng.normal(size=(rows, 6)).astype(kind), rng.normal(size=(rows, 3)).astype(kind)]
    shape = {"dense": (6,), "conv": (6, 6, 2), "lstm": (STEPS, 3)}[body]
    return rng.normal(size=(rows, *shape)).astype(kind)
