"""Models of the eighth table: pictures, texts, series and tables."""


def next_blocks(keras):
    """Large depthwise kernels and LayerNormalization, as in ConvNeXt."""
    L = keras.layers
    inputs = keras.Input((64, 64, 3))
    x = L.LayerNormalization()(L.Conv2D(48, 4, strides=4)(inputs))
    for channels, count in ((48, 2), (96, 3), (192, 2)):
        for _ in range(count):
            y = L.LayerNormalization()(L.DepthwiseConv2D(7, padding="same")(x))
            x = L.Add()([x, L.Dense(channels)(L.Dense(4 * channels, activation="gelu")(y))])
        if channels < 192:
            x = L.Conv2D(2 * channels, 2, strides=2)(L.LayerNormalization()(x))
    return keras.Model(inputs, L.Dense(20, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def excited(keras):
    """Residual blocks whose channels are weighed, with swish."""
    L = keras.layers
    inputs = keras.Input((48, 48, 3))
    x = L.Activation("swish")(L.Conv2D(32, 3, padding="same")(inputs))
    for channels in (32, 64, 128):
        short = L.Conv2D(channels, 1, strides=2)(x)
        y = L.Conv2D(channels, 3, strides=2, padding="same", activation="swish")(x)
        y = L.BatchNormalization()(L.Conv2D(channels, 3, padding="same")(y))
        weights = L.Dense(channels // 4, activation="swish")(L.GlobalAveragePooling2D()(y))
        weights = L.Reshape((1, 1, channels))(L.Dense(channels, activation="sigmoid")(weights))
        x = L.Activation("swish")(L.Add()([L.Multiply()([y, weights]), short]))
    return keras.Model(inputs, L.Dense(15, activation="softmax")(L.GlobalMaxPooling2D()(x)))


def fully_convolutional(keras):
    """Segmentation with three scales that are added up, as in FCN-8s."""
    L = keras.layers
    inputs = keras.Input((128, 128, 3))
    x, scales = inputs, []
    for channels in (32, 64, 128, 256):
        x = L.Conv2D(channels, 3, padding="same", activation="relu")(x)
        x = L.MaxPooling2D()(L.Conv2D(channels, 3, padding="same", activation="relu")(x))
        scales.append(x)
    x = L.Conv2D(12, 1)(L.Dropout(0.5)(L.Conv2D(512, 5, padding="same", activation="relu")(x)))
    for scale in (scales[2], scales[1]):
        x = L.Add()([L.Conv2DTranspose(12, 4, strides=2, padding="same")(x), L.Conv2D(12, 1)(scale)])
    return keras.Model(inputs, L.Softmax()(L.Conv2DTranspose(12, 8, strides=4, padding="same")(x)))


def radar(keras):
    """The next picture of a series, by stacked ConvLSTM2D."""
    L = keras.layers
    model = keras.Sequential([L.Input((8, 32, 32, 1))])
    for size in (5, 3):
        model.add(L.ConvLSTM2D(24, size, padding="same", return_sequences=True, activation="relu"))
        model.add(L.BatchNormalization())
    model.add(L.Conv3D(1, 3, padding="same", activation="sigmoid"))
    return model


def augmented(keras):
    """A classifier that turns and scales its pictures itself."""
    L = keras.layers
    model = keras.Sequential([L.Input((72, 72, 3)), L.Rescaling(1 / 255), L.RandomFlip(), L.RandomContrast(0.2)])
    for channels in (32, 64, 64, 128):
        model.add(L.SeparableConv2D(channels, 3, padding="same", use_bias=False))
        model.add(L.BatchNormalization())
        model.add(L.ReLU())
        model.add(L.AveragePooling2D(2))
        model.add(L.SpatialDropout2D(0.1))
    for layer in (L.Flatten(), L.Dense(128, activation="elu"), L.Dense(8, activation="softmax")):
        model.add(layer)
    return model


def depth_map(keras):
    """A depth for each pixel, with bilinear enlargement."""
    L = keras.layers
    inputs = keras.Input((96, 128, 3))
    x, skips = inputs, []
    for channels in (16, 32, 64, 128):
        x = L.LeakyReLU()(L.BatchNormalization()(L.Conv2D(channels, 3, padding="same")(x)))
        skips.append(x)
        x = L.MaxPooling2D()(x)
    x = L.Conv2D(256, 3, padding="same", activation="leaky_relu")(x)
    for channels, skip in zip((128, 64, 32, 16), reversed(skips)):
        x = L.Concatenate()([L.UpSampling2D(interpolation="bilinear")(x), skip])
        x = L.LeakyReLU()(L.BatchNormalization()(L.Conv2D(channels, 3, padding="same")(x)))
    return keras.Model(inputs, L.Conv2D(1, 1, activation="tanh")(x))


def news_gru(keras):
    """Headlines, by two directions of GRU with dropout between."""
    L = keras.layers
    model = keras.Sequential([L.Input((80,), dtype="int32"), L.Embedding(12000, 96), L.SpatialDropout1D(0.2)])
    model.add(L.Bidirectional(L.GRU(96, return_sequences=True, dropout=0.1)))
    model.add(L.Bidirectional(L.GRU(48)))
    model.add(L.Dense(46, activation="softmax"))
    return model


def many_filters(keras):
    """Sentences by filters of several widths, over one embedding."""
    L = keras.layers
    words = keras.Input((120,), dtype="int32")
    x = L.Embedding(20000, 128)(words)
    pooled = [L.GlobalMaxPooling1D()(L.Conv1D(100, width, activation="relu")(x)) for width in (2, 3, 4, 5)]
    x = L.Dropout(0.5)(L.Concatenate()(pooled))
    return keras.Model(words, L.Dense(5, activation="softmax")(x))


def encoder_lm(keras):
    """Four post-norm encoder blocks over words and their places, and a distribution over words."""
    L, ops = keras.layers, keras.ops
    words = keras.Input((96,), dtype="int32")
    places = L.Embedding(96, 160)(ops.expand_dims(ops.arange(96), 0))
    x = L.Dropout(0.1)(L.Embedding(5000, 160)(words) + places)
    for _ in range(4):
        x = L.LayerNormalization()(x + L.MultiHeadAttention(4, 40, dropout=0.1)(x, x))
        x = L.LayerNormalization()(x + L.Dropout(0.1)(L.Dense(160)(L.Dense(640, activation="gelu")(x))))
    return keras.Model(words, L.Dense(5000)(x))


def grouped_attention(keras):
    """Decoder blocks whose heads share keys and values."""
    L = keras.layers
    words = keras.Input((64,), dtype="int32")
    x = L.Embedding(4000, 128)(words)
    for _ in range(3):
        y = L.RMSNormalization()(x)
        x = x + L.GroupQueryAttention(32, 4, 2)(y, y, use_causal_mask=True)
        y = L.RMSNormalization()(x)
        x = x + L.Dense(128)(L.Dense(384, activation="silu")(y) * L.Dense(384)(y))
    return keras.Model(words, L.Dense(4000, activation="softmax")(x))


def wave_autoencoder(keras):
    """Signals through a bottleneck and back, by Conv1DTranspose."""
    L = keras.layers
    model = keras.Sequential([L.Input((1024, 2))])
    for channels in (32, 64, 96):
        model.add(L.Conv1D(channels, 9, strides=2, padding="same", activation="relu"))
        model.add(L.BatchNormalization())
    for channels in (64, 32):
        model.add(L.Conv1DTranspose(channels, 9, strides=2, padding="same", activation="relu"))
    model.add(L.Conv1DTranspose(2, 9, strides=2, padding="same"))
    return model


def stacked_gru(keras):
    """A forecast of several steps by encoder and decoder."""
    L = keras.layers
    inputs = keras.Input((168, 8))
    x, state = L.GRU(128, return_state=True)(inputs)
    x = L.GRU(128, return_sequences=True)(L.RepeatVector(24)(x), initial_state=state)
    return keras.Model(inputs, L.TimeDistributed(L.Dense(1))(x))


def noisy_table(keras):
    """Numbers and categories, with noise and dropout."""
    L = keras.layers
    numbers, kinds = keras.Input((60,), name="numbers"), keras.Input((12,), dtype="int32", name="kinds")
    x = L.Concatenate()([L.GaussianNoise(0.1)(L.BatchNormalization()(numbers)), L.Flatten()(L.Embedding(500, 16)(kinds))])
    for units in (512, 512, 256):
        x = L.Dropout(0.3)(L.Activation("mish")(L.BatchNormalization()(L.Dense(units)(x))))
    return keras.Model([numbers, kinds], L.Dense(1, activation="sigmoid")(x))


def multi_task(keras):
    """One trunk, a class, a number and a yes or no."""
    L = keras.layers
    inputs = keras.Input((56, 56, 3))
    x = inputs
    for channels in (32, 64, 128):
        x = L.MaxPooling2D()(L.PReLU(shared_axes=[1, 2])(L.Conv2D(channels, 3, padding="same")(x)))
    x = L.Dense(256, activation="relu")(L.Flatten()(x))
    heads = [L.Dense(9, activation="softmax")(x), L.Dense(1)(x), L.Dense(1, activation="sigmoid")(x)]
    return keras.Model(inputs, heads)


def locally_normalized(keras):
    """GroupNormalization with weight standardisation left out, and a strided stem."""
    L = keras.layers
    inputs = keras.Input((64, 64, 3))
    x = L.MaxPooling2D(3, strides=2, padding="same")(L.Conv2D(64, 7, strides=2, padding="same")(inputs))
    for channels in (64, 128, 256):
        y = L.Activation("relu")(L.GroupNormalization(16)(x))
        short = L.Conv2D(channels, 1)(y)
        y = L.Conv2D(channels, 3, padding="same")(y)
        y = L.Conv2D(channels, 3, padding="same")(L.Activation("relu")(L.GroupNormalization(16)(y)))
        x = L.Add()([short, y])
    return keras.Model(inputs, L.Dense(30, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def video_blocks(keras):
    """Clips by factorised convolutions: over space, then over time."""
    L = keras.layers
    inputs = keras.Input((8, 56, 56, 3))
    x = inputs
    for channels in (24, 48, 96):
        x = L.ReLU()(L.BatchNormalization()(L.Conv3D(channels, (1, 3, 3), strides=(1, 2, 2), padding="same")(x)))
        x = L.ReLU()(L.BatchNormalization()(L.Conv3D(channels, (3, 1, 1), padding="same")(x)))
    return keras.Model(inputs, L.Dense(25, activation="softmax")(L.GlobalAveragePooling3D()(x)))
