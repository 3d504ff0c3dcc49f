"""Models of rows of numbers and categories, of the fifth table."""


def dense_autoencoder(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((784,)), L.GaussianNoise(0.1)])
    for units in (1024, 512, 64, 512, 1024):
        model.add(L.Dense(units, activation="relu"))
        model.add(L.Dropout(0.2))
    model.add(L.Dense(784, activation="sigmoid"))
    return model


def deep_and_cross(keras):
    L = keras.layers
    numbers = keras.Input((13,), name="numbers")
    inputs, parts = [numbers], [numbers]
    for index, size in enumerate((40000, 20000, 10000, 5000, 1000, 500)):
        category = keras.Input((1,), dtype="int32", name=f"category_{index}")
        inputs.append(category)
        parts.append(L.Flatten()(L.Embedding(size, 32)(category)))
    first = x = L.Concatenate()(parts)
    for _ in range(3):
        x = L.Add()([L.Multiply()([first, L.Dense(first.shape[-1])(x)]), x])
    deep = first
    for units in (512, 512, 256):
        deep = L.Dropout(0.1)(L.BatchNormalization()(L.Dense(units, activation="relu")(deep)))
    return keras.Model(inputs, L.Dense(1, activation="sigmoid")(L.Concatenate()([x, deep])))


def variational(keras):
    """The parts of a variational autoencoder that need no code of one's own."""
    L = keras.layers
    inputs = keras.Input((64, 64, 3))
    x = inputs
    for channels in (32, 64, 128):
        x = L.Conv2D(channels, 3, strides=2, padding="same", activation="relu")(x)
    x = L.Flatten()(x)
    mean, deviation = L.Dense(128)(x), L.Dense(128, activation="exponential", kernel_initializer="zeros")(x)
    noise = L.GaussianNoise(1.0)(L.Rescaling(0.0)(mean))
    x = L.Add()([mean, L.Multiply()([deviation, noise])])
    x = L.Reshape((8, 8, 128))(L.Dense(8 * 8 * 128, activation="relu")(x))
    for channels in (128, 64, 32):
        x = L.Conv2DTranspose(channels, 3, strides=2, padding="same", activation="relu")(x)
    return keras.Model(inputs, L.Conv2DTranspose(3, 3, padding="same", activation="sigmoid")(x))


def house_prices(keras):
    L = keras.layers
    inputs = keras.Input((120,))
    x = L.Normalization(mean=0.5, variance=0.1)(inputs)
    for _ in range(4):
        y = L.Dense(768, activation="silu")(L.LayerNormalization()(L.Dense(768)(x)))
        x = L.Add()([y, L.Dense(768)(x)]) if x.shape[-1] != 768 else L.Add()([x, y])
    return keras.Model(inputs, L.Dense(1)(L.Dropout(0.1)(x)))


def self_normalizing(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((500,))])
    for units in (1024, 1024, 512, 512):
        model.add(L.Dense(units, activation="selu", kernel_initializer="lecun_normal", kernel_regularizer="l2"))
        model.add(L.AlphaDropout(0.1))
    model.add(L.Dense(30, activation="softmax"))
    return model
