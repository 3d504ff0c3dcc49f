"""Makes the Keras fixtures of the import tests, with Keras's own answers beside them.

    python tools/make_keras_fixtures.py                  # fixtures/models/keras_extra/
    python tools/make_keras_fixtures.py --applications DIR   # every keras.applications model, for a local check

Each NAME.json (or NAME.keras) is a model; expected.json says for each what Keras computes: parameters, weights, the
order in which layers run, and the shapes and types of their results. Made with Keras 3.15.1 on TensorFlow 2.21.
"""

import argparse
import inspect
import io
import json
import os
import pathlib
import zipfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
from keras import layers as L
from keras import ops

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "models"
MODELS = {}


def fixture(make):
    """Registers a function that makes a model."""
    MODELS[make.__name__] = make
    return make


# Models as such.


@fixture
def nested():
    inner = keras.Sequential([L.Input((16,)), L.Dense(8, activation="relu"), L.Dense(8)], name="encoder")
    i = keras.Input((16,))
    j = keras.Input((16,), name="other")
    deep = keras.Model(i0 := keras.Input((8,)), L.Dense(4, name="head")(i0), name="deep")
    x = L.Add()([inner(i), inner(j)])
    return keras.Model([i, j], [deep(x), x])


@fixture
def shared():
    i = keras.Input((10, 6))
    dense, drop = L.Dense(6, activation="tanh"), L.Dropout(0.5)
    x = drop(dense(drop(dense(i))))
    y = dense(L.Reshape((10, 6))(L.Flatten()(x)))
    return keras.Model(i, L.Concatenate()([x, y]))


@fixture
def several_inputs_and_outputs():
    inputs = {"b": keras.Input((4,), name="b"), "a": keras.Input((6,), name="a"), "c": keras.Input((3,), dtype="int32", name="c")}
    e = L.Flatten()(L.Embedding(11, 5)(inputs["c"]))
    x = L.Concatenate()([L.Dense(7)(inputs["a"]), L.Dense(5)(inputs["b"]), e])
    return keras.Model(inputs, {"z": L.Dense(2, name="last")(x), "y": L.Dense(3, activation="softmax", name="first")(x)})


@fixture
def dictionary_call():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    inner = keras.Model(
        {"p": (p := keras.Input((4,), name="p")), "q": (q := keras.Input((4,), name="q"))}, L.Subtract()([p, q]), name="inner"
    )
    return keras.Model([a, b], L.Dense(2)(inner({"q": L.Dense(4)(a), "p": b})))


@fixture
def sequential_without_input():
    m = keras.Sequential([L.Dense(12, activation="relu"), L.Dense(3)])
    m.build((None, 20))
    return m


@fixture
def sequential_of_models():
    i = keras.Input((8, 8, 3), name="image")
    base = keras.Model(i, L.GlobalAveragePooling2D()(L.Conv2D(4, 3)(i)), name="base")
    return keras.Sequential([base, keras.Sequential([L.Dense(6), L.ReLU()], name="middle"), L.Dense(2)])


@fixture
def adapted():
    """Low-rank adaptations: frozen kernels, two trained factors each."""
    i = keras.Input((6,), dtype="int32")
    layers = L.Embedding(20, 8), L.Dense(7), L.EinsumDense("abc,cd->abd", output_shape=(6, 5), bias_axes="d"), L.Conv1D(4, 3)
    x = i
    for layer in layers:
        x = layer(x)
        layer.enable_lora(2)
    return keras.Model(i, x)


@fixture
def frozen():
    base = keras.Sequential([L.Input((8, 8, 3)), L.Conv2D(4, 3), L.BatchNormalization(), L.ReLU(6.0)], name="base")
    base.trainable = False
    i = keras.Input((8, 8, 3))
    x = base(i)
    x = L.Conv2D(4, 3, trainable=False)(x)
    return keras.Model(i, L.Dense(2)(L.GlobalMaxPooling2D()(x)))


@fixture
def order():
    """Branches of unequal depth: what runs when decides what is alive."""
    i = keras.Input((32, 32, 3))
    a = L.Conv2D(4, 1, name="a")(i)
    b = L.Conv2D(4, 3, padding="same", name="b2")(L.Conv2D(4, 1, name="b1")(i))
    c = L.Conv2D(4, 1, name="c3")(L.Conv2D(4, 1, name="c2")(L.MaxPooling2D(3, 1, "same", name="c1")(i)))
    d = L.Concatenate(name="join")([c, a, b])
    e = L.Conv2D(2, 1, name="side")(a)
    f = L.Add(name="sum")([L.Conv2D(2, 1, name="main")(d), e])
    return keras.Model(i, [f, L.GlobalAveragePooling2D(name="aux")(b)])


@fixture
def regularized():
    i = keras.Input((12,))
    x = L.Dense(8, kernel_regularizer="l2", bias_regularizer="l1", activity_regularizer="l2")(i)
    x = L.ActivityRegularization(l2=0.1)(x)
    return keras.Model(i, L.Dense(2, kernel_regularizer=keras.regularizers.L1L2(0.1, 0.2))(x))


def policy_model(policy):
    keras.config.set_dtype_policy(policy)
    try:
        i = keras.Input((16, 16, 3))
        x = L.Rescaling(1 / 255)(i)
        x = L.Conv2D(8, 3, activation="relu")(x)
        x = L.BatchNormalization()(x)
        x = L.LayerNormalization()(x)
        x = L.GlobalAveragePooling2D()(x)
        t = keras.Input((10,), dtype="int32")
        e = L.GRU(8, recurrent_initializer="glorot_uniform")(L.Embedding(50, 8)(t))
        x = L.Concatenate()([x, e])
        x = keras.Sequential([L.Dense(8), L.Dropout(0.1)], name="tail")(x)
        return keras.Model([i, t], L.Dense(4, activation="softmax", dtype="float32")(x))
    finally:
        keras.config.set_dtype_policy("float32")


@fixture
def mixed_float16():
    return policy_model("mixed_float16")


@fixture
def mixed_bfloat16():
    return policy_model("mixed_bfloat16")


@fixture
def bfloat16():
    return policy_model("bfloat16")


@fixture
def variable_length():
    i = keras.Input((None, 8))
    x = L.TimeDistributed(L.Dense(6))(i)
    x = L.LSTM(5, return_sequences=True)(x)
    return keras.Model(i, L.Dense(2)(x))


# Families of layers.


@fixture
def every_vector_layer():
    i = keras.Input((12,))
    x = L.Dense(12, activation="gelu")(i)
    for layer in (
        L.Activation("relu"),
        L.Activation("swish"),
        L.Activation("mish"),
        L.ReLU(6.0),
        L.ReLU(),
        L.ReLU(negative_slope=0.1),
        L.ReLU(3.0, 0.1, 0.2),
        L.LeakyReLU(),
        L.PReLU(),
        L.ELU(),
        L.Softmax(),
        L.Activation("hard_sigmoid"),
        L.Activation("log_softmax"),
        L.Dense(12, use_bias=False),
        L.Identity(),
        L.Dropout(0.3),
        L.Dropout(0.0),
        L.AlphaDropout(0.2),
        L.GaussianDropout(0.2),
        L.GaussianNoise(0.1),
        L.BatchNormalization(scale=False),
        L.BatchNormalization(center=False),
        L.LayerNormalization(),
        L.LayerNormalization(center=False),
        L.RMSNormalization(),
        L.UnitNormalization(),
        L.GroupNormalization(4),
        L.GroupNormalization(-1),
        L.Rescaling(2.0),
        L.Normalization(),
        L.SpectralNormalization(L.Dense(12)),
        L.BatchNormalization(renorm=True),
    ):
        x = layer(x)
    y = L.RepeatVector(3)(x)
    y = L.Permute((2, 1))(y)
    y = L.Reshape((6, -1))(y)
    d = L.Dot(axes=(2, 2), normalize=True)([y, y])
    m = L.Multiply()([x, L.Maximum()([x, i]), L.Minimum()([x, i]), L.Average()([x, i])])
    return keras.Model(i, [d, L.Dot(1)([m, x]), L.Subtract()([m, x])])


@fixture
def every_1d_layer():
    i = keras.Input((40, 6))
    x = L.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu")(i)
    for layer in (
        L.Conv1D(8, 3, strides=2, groups=2),
        L.Conv1DTranspose(8, 4, strides=2),
        L.Conv1DTranspose(8, 3, strides=2, padding="same", output_padding=1),
        L.DepthwiseConv1D(3, depth_multiplier=2),
        L.SeparableConv1D(8, 3),
        L.MaxPooling1D(2, 1),
        L.AveragePooling1D(2, padding="same"),
        L.UpSampling1D(3),
        L.ZeroPadding1D((1, 3)),
        L.Cropping1D((2, 1)),
        L.SpatialDropout1D(0.2),
        L.PReLU(shared_axes=[1]),
        L.GroupNormalization(2),
        L.Masking(),
        L.AdaptiveAveragePooling1D(16),
        L.AdaptiveMaxPooling1D(8),
        L.EinsumDense("abc,cd->abd", output_shape=(8, 10), bias_axes="d"),
        L.EinsumDense("...x,xy->...y", output_shape=6, activation="relu"),
        L.EinsumDense("ab...,bc->ac...", output_shape=(9,), bias_axes="c"),
    ):
        x = layer(x)
    return keras.Model(i, [L.GlobalAveragePooling1D()(x), L.GlobalMaxPooling1D(keepdims=True)(x)])


@fixture
def every_2d_layer():
    i = keras.Input((24, 20, 6))
    x = L.Conv2D(8, (3, 5), padding="same", activation="elu")(i)
    for layer in (
        L.Conv2D(8, 3, dilation_rate=2, use_bias=False),
        L.Conv2DTranspose(8, 3, strides=2),
        L.Conv2DTranspose(8, 3, strides=(2, 1), padding="same"),
        L.DepthwiseConv2D(3, strides=2, padding="same", depth_multiplier=2),
        L.SeparableConv2D(8, 3, strides=2, depth_multiplier=2, activation="relu"),
        L.MaxPooling2D((2, 1)),
        L.AveragePooling2D(3, 1, padding="same"),
        L.UpSampling2D((2, 3)),
        L.UpSampling2D(2, interpolation="bilinear"),
        L.ZeroPadding2D(((1, 2), (3, 4))),
        L.ZeroPadding2D(2),
        L.Cropping2D(((1, 0), (2, 1))),
        L.SpatialDropout2D(0.2),
        L.BatchNormalization(axis=1),
        L.LayerNormalization(axis=[1, 2]),
        L.PReLU(shared_axes=[1, 2]),
        L.AdaptiveAveragePooling2D((7, 6)),
        L.AdaptiveMaxPooling2D(5),
        L.Resizing(9, 11),
        L.CenterCrop(8, 8),
        L.RandomCrop(7, 7),
        L.SpectralNormalization(L.Conv2D(6, 3)),
    ):
        x = layer(x)
    return keras.Model(i, [L.GlobalAveragePooling2D(keepdims=True)(x), L.GlobalMaxPooling2D()(x), L.Flatten()(x)])


@fixture
def every_3d_layer():
    i = keras.Input((8, 9, 10, 4))
    x = L.Conv3D(4, 3, padding="same")(i)
    for layer in (
        L.Conv3D(4, (1, 2, 3), strides=(1, 2, 1)),
        L.Conv3DTranspose(4, 2, strides=2),
        L.MaxPooling3D(2),
        L.AveragePooling3D((1, 2, 2)),
        L.UpSampling3D(2),
        L.ZeroPadding3D(1),
        L.Cropping3D(((1, 0), (0, 1), (1, 1))),
        L.SpatialDropout3D(0.2),
        L.AdaptiveAveragePooling3D(4),
        L.AdaptiveMaxPooling3D((2, 3, 2)),
    ):
        x = layer(x)
    return keras.Model(i, [L.GlobalAveragePooling3D()(x), L.GlobalMaxPooling3D()(x)])


@fixture
def channels_first():
    i = keras.Input((3, 20, 16))
    f = "channels_first"
    x = L.Conv2D(8, 3, data_format=f)(i)
    x = L.BatchNormalization(axis=1)(x)
    x = L.MaxPooling2D(data_format=f)(x)
    x = L.DepthwiseConv2D(3, data_format=f)(x)
    x = L.SeparableConv2D(4, 2, data_format=f)(x)
    x = L.Conv2DTranspose(4, 3, strides=2, data_format=f)(x)
    x = L.UpSampling2D(data_format=f)(x)
    x = L.ZeroPadding2D((1, 2), data_format=f)(x)
    x = L.Cropping2D(2, data_format=f)(x)
    x = L.SpatialDropout2D(0.1, data_format=f)(x)
    return keras.Model(i, [L.GlobalAveragePooling2D(data_format=f)(x), L.Flatten(data_format=f)(x)])


@fixture
def recurrent():
    i = keras.Input((12,))
    e = L.Embedding(30, 8, mask_zero=True)(i)
    a = L.LSTM(7, return_sequences=True, dropout=0.2)(e)
    b = L.GRU(6, return_sequences=True, reset_after=False, recurrent_dropout=0.1)(a)
    c, s = L.SimpleRNN(5, return_state=True)(b)
    d = L.RNN([L.LSTMCell(4), L.GRUCell(3)], return_sequences=True)(a)
    f = L.RNN(L.SimpleRNNCell(6), go_backwards=True)(d)
    g, h, k = L.LSTM(5, return_state=True, unroll=True)(b, initial_state=[c, s])
    return keras.Model(i, [c, s, d, f, g, h, k])


@fixture
def bidirectional():
    i = keras.Input((9, 4))
    a = L.Bidirectional(L.LSTM(5, return_sequences=True))(i)
    b = L.Bidirectional(L.GRU(5, return_sequences=True), merge_mode="sum")(a)
    c = L.Bidirectional(L.LSTM(3), merge_mode="ave")(b)
    d = L.Bidirectional(L.SimpleRNN(3), merge_mode=None)(b)
    e = L.Bidirectional(L.LSTM(3, return_state=True), merge_mode="mul", backward_layer=L.LSTM(3, return_state=True, go_backwards=True))(b)
    return keras.Model(i, [c, *d, *e])


@fixture
def time_distributed():
    i = keras.Input((4, 12, 12, 3))
    x = L.TimeDistributed(L.Conv2D(4, 3, activation="relu"))(i)
    x = L.TimeDistributed(keras.Sequential([L.Input((10, 10, 4)), L.MaxPooling2D(2), L.BatchNormalization(), L.Flatten()], name="each"))(x)
    x = L.TimeDistributed(L.Dense(6))(x)
    return keras.Model(i, L.LSTM(3)(x))


@fixture
def conv_lstm():
    i = keras.Input((5, 12, 10, 3))
    x = L.ConvLSTM2D(4, 3, padding="same", return_sequences=True)(i)
    x, h, c = L.ConvLSTM2D(3, 3, return_state=True)(x)
    j = keras.Input((5, 12, 3))
    y = L.ConvLSTM1D(4, 3, use_bias=False)(j)
    k = keras.Input((3, 6, 6, 6, 2))
    z = L.ConvLSTM3D(2, 2, strides=2)(k)
    return keras.Model([i, j, k], [x, h, c, y, z])


@fixture
def attention():
    q, v = keras.Input((10, 16)), keras.Input((14, 12))
    k = keras.Input((14, 9))
    a = L.MultiHeadAttention(2, 8, value_dim=6, dropout=0.1)(q, v, k)
    # Keras states the scores' shape as if the key were as long as the query: here it is.
    b, s = L.MultiHeadAttention(4, 5, output_shape=20, use_bias=False)(q, q, return_attention_scores=True)
    c = L.MultiHeadAttention(2, 4)(q, q, use_causal_mask=True)
    g = L.MultiHeadAttention(2, 4, use_gate=True)(q, q)
    v2 = L.Dense(16)(v)
    d = L.GroupQueryAttention(4, 6, 2)(q, v2)
    e = L.Attention(use_scale=True, dropout=0.2)([q, v2])
    f = L.AdditiveAttention()([q, v2])
    h = L.Attention(score_mode="concat")([q, v2, L.Dense(16)(k)])
    m = keras.Input((10, 14), dtype="bool")
    w = L.MultiHeadAttention(2, 4)(q, v, attention_mask=m)
    image = keras.Input((4, 5, 8))
    r = L.MultiHeadAttention(2, 4, attention_axes=(2,))(image, image)
    return keras.Model([q, v, k, m, image], [a, b, s, c, g, d, e, f, h, w, r])


@fixture
def tied_weights():
    i = keras.Input((6,), dtype="int32")
    table = L.ReversibleEmbedding(40, 8)
    x = L.Dense(8)(table(i))
    untied = L.ReversibleEmbedding(20, 8, tie_weights=False, logit_soft_cap=5.0)
    y = L.Dense(8)(untied(i))
    return keras.Model(i, [table(x, reverse=True), untied(y, reverse=True)])


@fixture
def augmentation():
    i = keras.Input((32, 32, 3))
    results = []
    for name in (
        "ContrastLimitedAdaptiveHistogramEqualization",
        "CutMix",
        "MixUp",
        "AutoContrast",
        "Equalization",
        "RandomBrightness",
        "RandomColorDegeneration",
        "RandomColorJitter",
        "RandomContrast",
        "RandomElasticTransform",
        "RandomErasing",
        "RandomFlip",
        "RandomGaussianBlur",
        "RandomGrayscale",
        "RandomHue",
        "RandomInvert",
        "RandomPerspective",
        "RandomPosterization",
        "RandomRotation",
        "RandomSaturation",
        "RandomSharpness",
        "RandomShear",
        "RandomTranslation",
        "RandomZoom",
        "Solarization",
        "AugMix",
        "RandAugment",
    ):
        defaults = {
            "RandomBrightness": dict(factor=0.1),
            "RandomColorDegeneration": dict(factor=0.1),
            "RandomContrast": dict(factor=0.1),
            "RandomHue": dict(factor=0.1),
            "RandomPosterization": dict(factor=4),
            "RandomRotation": dict(factor=0.1),
            "RandomSaturation": dict(factor=0.1),
            "RandomSharpness": dict(factor=0.1),
            "RandomTranslation": dict(height_factor=0.1, width_factor=0.1),
            "RandomZoom": dict(height_factor=0.1),
        }
        # Side by side: some cannot follow each other in a functional model.
        results.append(getattr(L, name)(**defaults.get(name, {}))(i))
    return keras.Model(i, L.Pipeline([L.RandomFlip(), L.Rescaling(0.5)])(L.Concatenate()(results)))


@fixture
def encodings():
    i, f = keras.Input((1,), dtype="int64"), keras.Input((3,))
    words = keras.Input((1,), dtype="string")
    a = L.CategoryEncoding(7, output_mode="one_hot")(i)
    b = L.CategoryEncoding(7)(keras.ops.cast(f, "int32"))
    c = L.Discretization([0.0, 0.5, 1.0])(f)
    d = L.Hashing(9)(words)
    e = L.HashedCrossing(5)((words, words))
    g = L.StringLookup(vocabulary=["x", "y"], output_mode="one_hot")(words)
    h = L.IntegerLookup(vocabulary=[1, 2, 3])(i)
    t = L.TextVectorization(vocabulary=["x", "y", "z"], output_sequence_length=8)(words)
    sound = keras.Input((4000,))
    m = L.MelSpectrogram(fft_length=512, sequence_stride=128, num_mel_bins=20)(sound)
    wave = keras.Input((2000, 1))
    s = L.STFTSpectrogram(frame_length=128, frame_step=64)(wave)
    return keras.Model([i, f, words, sound, wave], [a, b, c, d, e, g, h, t, m, s])


@fixture
def functions():
    i, j = keras.Input((8, 6)), keras.Input((8, 6))
    x = ops.concatenate([i[:, 0:4:2] + 1.0, i[:, -2:]], axis=1)
    y = ops.reshape(x, (-1, 2, 12))
    z = ops.mean(i, axis=1, keepdims=True) * j
    e = ops.einsum("bij,bkj->bik", z, j)
    w = 2 * ops.sum(e, axis=[1, 2])
    s = ops.stack(ops.split(i, [3, 5], axis=1)[:1] * 2, axis=1)
    t = ops.matmul(i, ops.transpose(j, (0, 2, 1)))
    p = ops.pad(t, [[0, 0], [1, 1], [2, 2]])
    c = ops.where(i > 0.0, ops.relu(i), ops.exp(j))
    n = ops.reshape(i, (ops.shape(i)[0], -1))
    g = ops.take(i, [0, 1], axis=1)
    q = ops.squeeze(ops.expand_dims(i[:, 0], 1), 1)
    h = ops.softmax(ops.max(i, axis=-1)) ** 2.0 - ops.sqrt(ops.abs(j[..., 0]))
    r = ops.cast(ops.repeat(ops.tile(i, (1, 2, 1)), 2, axis=2), "float16")
    u = ops.swapaxes(ops.moveaxis(i, 1, 2), 1, 2)
    k = ops.gelu(ops.clip(u, 0, 1)) + ops.var(j, axis=1, keepdims=True)
    o = ops.one_hot(ops.argmax(i, axis=-1), 6)
    d = ops.image.resize(ops.expand_dims(i, -1), (16, 12))
    v, index = ops.top_k(i, 3)
    return keras.Model(
        [i, j], [y, w, s, p, c, n, g, q, h, r, k, o, d, v, index, ops.logical_and(i > 0, j < 0), -i / j, ops.cumsum(i), i[:, None, ..., 2]]
    )


class Widen(L.Layer):
    """A custom layer with a weight and another output shape than its input's."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 2 * shape[-1]))

    def call(self, x):
        return ops.matmul(x, self.kernel)


class Cell(L.Layer):
    """A custom recurrent cell."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.units))

    def call(self, x, states):
        y = ops.matmul(x, self.kernel) + states[0]
        return y, [y]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def custom():
    def squash(x):
        return ops.tanh(x) * 2

    i = keras.Input((10, 6))
    x = Widen()(i)
    x = L.Lambda(lambda x: x[:, ::2])(x)
    x = L.Dense(8, activation=squash)(x)
    x = L.RNN(Cell(5), return_sequences=True)(x)
    return keras.Model(i, ops.nan_to_num(ops.median(x, axis=1)))


def custom_sequential():
    return keras.Sequential([L.Input((10, 6)), Widen(), L.Flatten(), L.Dense(2)])


def quantized():
    m = keras.Sequential([L.Input((16,)), L.Dense(8), L.Dense(4)])
    m.quantize("int8")
    return m


# Models that Keras's own answers do not describe: the tests say what is expected of them.
ODD = [custom, custom_sequential, quantized]


def compiled(**kwargs):
    m = keras.Sequential([L.Input((4,)), L.Dense(3), L.Dense(2)])
    m.compile(**kwargs)
    # A step builds the metrics and the optimizer: both are then written out.
    m.train_on_batch(keras.ops.ones((2, 4)), keras.ops.ones((2, 2)))
    return m


ARCHIVES = {
    "compiled_adam": lambda: compiled(
        optimizer="adam", loss="mse", metrics=["mae", keras.metrics.RootMeanSquaredError()], jit_compile=False
    ),
    "compiled_sgd": lambda: compiled(
        optimizer=keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01, global_clipnorm=1.0),
        loss=keras.losses.MeanSquaredError(),
    ),
    "compiled_scaled": lambda: compiled(
        optimizer=keras.optimizers.LossScaleOptimizer(
            keras.optimizers.Adam(amsgrad=True, use_ema=True, gradient_accumulation_steps=4, clipnorm=1.0)
        ),
        loss=["mse"],
    ),
}


def graph(model):
    """The functional graph inside a model."""
    return model._functional if isinstance(model, keras.Sequential) else model


def answers(model):
    """What Keras says about a model."""
    function = graph(model)
    weights = {id(w) for w in model.weights}
    trainable = {id(w) for w in model.trainable_variables}
    runs = []
    for depth in sorted(function._nodes_by_depth, reverse=True):
        for node in function._nodes_by_depth[depth]:
            if node.operation and not node.is_input:
                runs.append([node.operation.name, [[list(t.shape), str(t.dtype)] for t in node.outputs]])
    return {
        "class": type(model).__name__,
        "params": model.count_params(),
        "trainable": int(sum(keras.ops.size(w) for w in model.trainable_variables)),
        "seeds": sum(1 for v in model.variables if id(v) not in weights and v.name == "seed_generator_state"),
        "weights": sorted(f"{tuple(w.shape)} {w.dtype} {'trainable' if id(w) in trainable else 'fixed'}" for w in model.weights),
        "outputs": [[list(t.shape), str(t.dtype)] for t in function.outputs],
        "runs": runs,
    }


def write_archive(model, path):
    """A .keras archive without the weights' bytes, which nothing reads: fixtures stay small."""
    whole = io.BytesIO()
    scratch = path.with_suffix(".whole.keras")
    model.save(scratch)
    with zipfile.ZipFile(scratch) as source, zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as target:
        for name in ("metadata.json", "config.json"):
            target.writestr(zipfile.ZipInfo(name), source.read(name), zipfile.ZIP_DEFLATED)
    scratch.unlink()
    path.write_bytes(whole.getvalue())


def fixtures():
    out = FIXTURES / "keras_extra"
    out.mkdir(exist_ok=True)
    expected = {}
    for name, make in MODELS.items():
        keras.utils.clear_session()
        model = make()
        (out / f"{name}.json").write_text(model.to_json())
        expected[name] = answers(model)
        print(name, expected[name]["params"])
    for make in ODD:
        keras.utils.clear_session()
        (out / f"{make.__name__}.json").write_text(make().to_json())
    for name, make in ARCHIVES.items():
        keras.utils.clear_session()
        write_archive(make(), out / f"{name}.keras")
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in expected.items())
    (out / "expected.json").write_text("{\n" + lines + "\n}\n")
    names = sorted(name for name in dir(L) if inspect.isclass(getattr(L, name)))
    head = f"# Every class of keras.layers in Keras {keras.__version__}, by tools/make_keras_fixtures.py.\n"
    (FIXTURES / "keras_layers_3.15.txt").write_text(head + "\n".join(names) + "\n")


def applications(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    expected = {}
    for name in sorted(dir(keras.applications)):
        make = getattr(keras.applications, name)
        if not inspect.isfunction(make):
            continue
        keras.utils.clear_session()
        model = make(weights=None)
        (folder / f"{name}.json").write_text(model.to_json())
        expected[name] = answers(model)
        print(name, expected[name]["params"], flush=True)
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications")
    arguments = parser.parse_args()
    if arguments.applications:
        applications(arguments.applications)
    else:
        fixtures()
