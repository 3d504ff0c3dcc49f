"""More models of pictures, volumes and pictures with words, of the seventh table."""


def conv_vae(keras):
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((64, 64, 3))
    x = inputs
    for channels in (32, 64, 96):
        x = L.Conv2D(channels, 3, strides=2, padding="same", activation="relu")(x)
    x = L.Dense(64, activation="relu")(L.Flatten()(x))
    middle, spread = L.Dense(32)(x), L.Dense(32)(x)
    x = middle + ops.exp(0.5 * spread) * L.GaussianNoise(1.0)(ops.zeros_like(middle))
    x = L.Reshape((8, 8, 96))(L.Dense(8 * 8 * 96, activation="relu")(x))
    for channels in (96, 64, 32):
        x = L.Conv2DTranspose(channels, 3, strides=2, padding="same", activation="relu")(x)
    return keras.Model(inputs, L.Conv2DTranspose(3, 3, padding="same", activation="sigmoid")(x))


def digits(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((28, 28, 1)),
            L.Conv2D(32, 3, activation="relu"),
            L.Conv2D(64, 3, activation="relu"),
            L.MaxPooling2D(2),
            L.Dropout(0.25),
            L.Flatten(),
            L.Dense(128, activation="relu"),
            L.Dropout(0.5),
            L.Dense(10, activation="softmax"),
        ]
    )


def ghost(keras):
    """Half of the channels are made by cheap depthwise convolutions of the other half."""
    L = keras.layers
    inputs = keras.Input((64, 64, 3))
    x = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(16, 3, strides=2, padding="same")(inputs)))

    def module(x, channels):
        main = L.ReLU()(L.BatchNormalization()(L.Conv2D(channels // 2, 1, use_bias=False)(x)))
        cheap = L.DepthwiseConv2D(3, padding="same", use_bias=False)(main)
        return L.Concatenate()([main, L.ReLU()(L.BatchNormalization()(cheap))])

    for expand, channels, stride in ((48, 24, 2), (72, 24, 1), (96, 48, 2), (144, 48, 1), (192, 96, 1)):
        y = module(x, expand)
        if stride == 2:
            y = L.BatchNormalization()(L.DepthwiseConv2D(5, strides=2, padding="same", use_bias=False)(y))
        y = module(y, channels)
        x = L.Add()([x, y]) if x.shape == y.shape else y
    return keras.Model(inputs, L.Dense(64, activation="softmax")(L.Dropout(0.2)(L.GlobalAveragePooling2D()(x))))


def compact_transformer(keras):
    """Convolutions make the tokens, attention weighs them for the answer."""
    L = keras.layers
    inputs = keras.Input((32, 32, 3))
    x = inputs
    for channels in (64, 128):
        x = L.MaxPooling2D(3, strides=2, padding="same")(L.Conv2D(channels, 3, padding="same", activation="relu")(x))
    x = L.Reshape((64, 128))(x)
    for _ in range(2):
        y = L.LayerNormalization(epsilon=1e-5)(x)
        x = L.Add()([L.MultiHeadAttention(2, 128, dropout=0.1)(y, y), x])
        y = L.LayerNormalization(epsilon=1e-5)(x)
        for _ in range(2):
            y = L.Dropout(0.1)(L.Dense(128, activation="gelu")(y))
        x = L.Add()([x, y])
    x = L.LayerNormalization(epsilon=1e-5)(x)
    weights = L.Softmax(axis=1)(L.Dense(1)(x))
    return keras.Model(inputs, L.Dense(10, activation="softmax")(L.Flatten()(L.Dot(axes=1)([weights, x]))))


def colours(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((96, 96, 1))])
    for channels, stride in ((64, 2), (128, 1), (128, 2), (256, 1)):
        model.add(L.Conv2D(channels, 3, strides=stride, padding="same", activation="relu"))
    for channels in (128, 64):
        model.add(L.UpSampling2D(2))
        model.add(L.Conv2D(channels, 3, padding="same", activation="relu"))
    model.add(L.Conv2D(2, 3, padding="same", activation="tanh"))
    return model


def volume_autoencoder(keras):
    L = keras.layers
    inputs = keras.Input((32, 32, 32, 1))
    x = inputs
    for channels in (16, 32, 64):
        x = L.Conv3D(channels, 3, strides=2, padding="same")(x)
        x = L.ReLU()(L.BatchNormalization()(x))
    for channels in (32, 16, 8):
        x = L.ReLU()(L.BatchNormalization()(L.Conv3DTranspose(channels, 3, strides=2, padding="same")(x)))
    return keras.Model(inputs, L.Conv3D(1, 3, padding="same", activation="sigmoid")(x))


def gestures(keras):
    """Short films, classified."""
    L = keras.layers
    inputs = keras.Input((12, 48, 48, 3))
    x = L.MaxPooling3D((1, 2, 2))(L.Conv3D(16, 3, padding="same", activation="relu")(inputs))
    x = L.MaxPooling3D(2)(L.Conv3D(32, 3, padding="same", activation="relu")(x))
    x = L.MaxPooling3D(2)(L.Conv3D(64, 3, padding="same", activation="relu")(x))
    x = L.Dropout(0.5)(L.Dense(256, activation="relu")(L.Flatten()(x)))
    return keras.Model(inputs, L.Dense(12, activation="softmax")(x))


def captions(keras):
    """The next word of a picture's description; the picture comes as features."""
    L = keras.layers
    picture, words = keras.Input((2048,), name="picture"), keras.Input((34,), dtype="int32", name="words")
    a = L.Dense(256, activation="relu")(L.Dropout(0.5)(picture))
    b = L.LSTM(256)(L.Dropout(0.5)(L.Embedding(6000, 256, mask_zero=True)(words)))
    x = L.Dense(256, activation="relu")(L.Add()([a, b]))
    return keras.Model([picture, words], L.Dense(6000, activation="softmax")(x))


def questions(keras):
    """A question about a picture."""
    L = keras.layers
    picture, words = keras.Input((64, 64, 3), name="picture"), keras.Input((20,), dtype="int32", name="words")
    x = picture
    for channels in (32, 64, 128):
        x = L.MaxPooling2D()(L.Conv2D(channels, 3, padding="same", activation="relu")(x))
    x = L.Dense(256, activation="tanh")(L.Flatten()(x))
    y = L.Dense(256, activation="tanh")(L.LSTM(128)(L.Embedding(4000, 100)(words)))
    x = L.Dense(256, activation="relu")(L.Multiply()([x, y]))
    return keras.Model([picture, words], L.Dense(500, activation="softmax")(x))
