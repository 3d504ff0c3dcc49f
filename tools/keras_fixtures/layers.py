"""Every layer of a family, one after the other: vectors, and one, two and three dimensions."""

import keras
from keras import layers as L

from .registry import fixture


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
def patches_and_blocks():
    i = keras.Input((16, 16, 3))
    deep = keras.ops.image.extract_patches(i, size=4)
    wide = keras.ops.image.extract_patches(i, size=(3, 5), strides=1, dilation_rate=2, padding="same")
    large = keras.ops.nn.depth_to_space(deep, 2)
    return keras.Model(i, [wide, large, keras.ops.nn.space_to_depth(large, 4)])
