"""Models of the tenth table that use what ordinary layers can do, but are seldom asked for: pictures and films."""


def channels_before(keras):
    """Pictures whose channels come first, wherever layers can be trained on them so; convolutions have them last."""
    L = keras.layers
    first = {"data_format": "channels_first"}
    inputs = keras.Input((3, 96, 96))
    x = L.AveragePooling2D(3, strides=2, padding="same", **first)(L.ZeroPadding2D(2, **first)(inputs))
    for channels in (48, 96):
        x = L.Conv2D(channels, 3, padding="same", use_bias=False)(L.Permute((2, 3, 1))(x))
        x = L.BatchNormalization(axis=1)(L.Permute((3, 1, 2))(x))
        x = L.ReLU(max_value=6.0, negative_slope=0.01)(x)
        x = L.MaxPooling2D(3, strides=2, padding="same", **first)(L.SpatialDropout2D(0.2, **first)(x))
    x = L.Concatenate(axis=1)([L.UpSampling2D(2, **first)(x), L.UpSampling2D(2, interpolation="bilinear", **first)(x)])
    x = L.GlobalAveragePooling2D(**first)(L.Cropping2D(1, **first)(x))
    return keras.Model(inputs, L.Dense(20, activation="softmax")(x))


def odd_convolutions(keras):
    """Groups, gaps, several filters for each channel, and pools whose steps are not their sizes."""
    L = keras.layers
    x = inputs = keras.Input((80, 80, 3))
    x = L.Conv2D(32, (5, 3), strides=(2, 1), padding="same", activation="softsign")(x)
    x = L.MaxPooling2D((2, 3), strides=(1, 2))(x)
    x = L.DepthwiseConv2D(3, depth_multiplier=3, dilation_rate=2, padding="same", activation="relu")(x)
    x = L.AveragePooling2D(3, strides=2, padding="same")(x)
    x = L.Conv2D(96, 3, groups=8, padding="same", activation="tanh_shrink")(x)
    x = L.SeparableConv2D(64, 5, depth_multiplier=2, dilation_rate=(2, 2), padding="same", activation="celu")(x)
    x = L.MaxPooling2D(4, strides=3)(x)
    x = L.Conv2D(128, 2, dilation_rate=(1, 2), padding="valid", activation="log_sigmoid")(x)
    x = L.Concatenate()([L.GlobalMaxPooling2D()(x), L.GlobalAveragePooling2D()(x)])
    return keras.Model(inputs, L.Dense(12, activation="softmax")(x))


def every_norm(keras):
    """Each block is normalized in another way."""
    L = keras.layers
    norms = [
        L.LayerNormalization(axis=[1, 2, 3]),
        L.GroupNormalization(groups=4, axis=-1, scale=False),
        L.BatchNormalization(axis=2),
        L.UnitNormalization(axis=(1, 2)),
        L.RMSNormalization(axis=-1),
        L.LayerNormalization(axis=-1, center=False),
    ]
    x = inputs = keras.Input((56, 56, 3))
    x = L.Conv2D(48, 3, padding="same")(x)
    for index, norm in enumerate(norms):
        convolution = L.Conv2D(48, 3, padding="same", use_bias=False)
        if index % 3 == 1:
            convolution = L.SpectralNormalization(convolution, power_iterations=2)
        x = L.PReLU(shared_axes=[1] if index % 2 else None)(norm(convolution(x)))
        x = L.AveragePooling2D(2)(x) if index in (1, 3) else x
    return keras.Model(inputs, L.Dense(10, activation="softmax")(L.Flatten()(x)))


def own_place(keras):
    """Every place has filters of its own: patches are cut out and multiplied by weights for each place."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((40, 40, 3))
    patches = ops.image.extract_patches(inputs, size=(5, 5), strides=(3, 3), padding="valid")
    x = L.EinsumDense("bhwp,hwpf->bhwf", (12, 12, 32), bias_axes="hwf", activation="relu")(patches)
    patches = ops.image.extract_patches(x, size=3, strides=1, dilation_rate=2, padding="same")
    x = L.EinsumDense("bhwp,hwpf->bhwf", (12, 12, 24), activation="relu")(patches)
    x = L.Dense(200, activation="relu")(L.Flatten(data_format="channels_first")(x))
    return keras.Model(inputs, L.Dense(40, activation="softmax")(x))


def prepared_pictures(keras):
    """Pictures of any brightness are cut, moved and resized within the model."""
    L = keras.layers
    inputs = keras.Input((112, 144, 3))
    x = L.CenterCrop(104, 128)(inputs)
    x = L.Resizing(72, 72, interpolation="bilinear")(x)
    x = L.Normalization(axis=-1, mean=[0.5, 0.45, 0.4], variance=[0.08, 0.07, 0.06])(x)
    x = L.RandomBrightness(0.2, value_range=(0.0, 1.0))(L.RandomTranslation(0.1, 0.1, fill_mode="nearest")(x))
    x = L.RandomCrop(64, 64)(x)
    for channels in (24, 48, 96):
        x = L.Conv2D(channels, 3, padding="same", activation="relu", kernel_constraint="max_norm")(x)
        x = L.MaxPooling2D()(L.Dropout(0.2, noise_shape=(None, 1, 1, channels))(x))
    return keras.Model(inputs, L.Dense(16, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def every_frame(keras):
    """A film's frames through layers that are applied to each, then through a recurrent convolution that keeps its state."""
    L = keras.layers
    x = inputs = keras.Input((10, 48, 48, 3))
    for channels in (16, 32):
        x = L.TimeDistributed(L.Conv2D(channels, 3, padding="same", activation="relu"))(x)
        x = L.TimeDistributed(L.MaxPooling2D(2))(L.TimeDistributed(L.BatchNormalization())(x))
    x, hidden, cell = L.ConvLSTM2D(32, 3, strides=2, padding="same", return_state=True, recurrent_activation="hard_sigmoid")(x)
    x = L.Concatenate()([L.GlobalMaxPooling2D()(x), L.GlobalAveragePooling2D()(hidden), L.Flatten()(cell)])
    return keras.Model(inputs, L.Dense(6, activation="softmax")(x))


def moving_volumes(keras):
    """Volumes that change in time, through ConvLSTM3D, made larger again and cut to size."""
    L = keras.layers
    inputs = keras.Input((4, 12, 16, 16, 1))
    x = L.ConvLSTM3D(12, 3, padding="same", go_backwards=True, dropout=0.1)(inputs)
    x = L.ZeroPadding3D((0, 1, 1))(x)
    x = L.Conv3DTranspose(16, (1, 3, 3), strides=(1, 2, 2), padding="same", activation="relu")(x)
    x = L.Cropping3D((0, 2, 2))(x)
    x = L.Conv3D(16, 3, groups=2, padding="same", activation="swish")(L.UpSampling3D((2, 1, 1))(x))
    x = L.AveragePooling3D((3, 2, 2), strides=(1, 2, 2), padding="same")(x)
    return keras.Model(inputs, L.Conv3D(2, 1, activation="sigmoid")(x))
