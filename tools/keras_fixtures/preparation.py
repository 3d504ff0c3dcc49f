"""What prepares data, and functions in place of layers."""

import keras
from keras import layers as L
from keras import ops

from .registry import fixture


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
