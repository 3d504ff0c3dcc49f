"""Models of time series, sound and tables, of the seventh table."""


def power_demand(keras):
    L = keras.layers
    inputs = keras.Input((48, 16))
    x = L.GRU(128, return_sequences=True)(inputs)
    x = L.GRU(96, return_sequences=True)(x)
    return keras.Model(inputs, L.Dense(24)(L.Dropout(0.2)(L.GRU(64)(x))))


def traffic(keras):
    """Convolutions and a recurrent layer for what changes, a dense one for what does not."""
    L = keras.layers
    inputs = keras.Input((168, 30))
    x = L.Dropout(0.2)(L.Conv1D(64, 6, activation="relu")(inputs))
    x = L.Dropout(0.2)(L.GRU(64)(x))
    straight = L.Dense(30)(L.Flatten()(inputs[:, -24:]))
    return keras.Model(inputs, L.Add()([L.Dense(30)(x), straight]))


def basis_expansion(keras):
    """N-BEATS: each block explains a part of the past and is subtracted from it."""
    L = keras.layers
    inputs = keras.Input((120,))
    rest, forecast = inputs, None
    for _ in range(6):
        x = rest
        for _ in range(4):
            x = L.Dense(256, activation="relu")(x)
        rest = L.Subtract()([rest, L.Dense(120, use_bias=False)(x)])
        part = L.Dense(24, use_bias=False)(x)
        forecast = part if forecast is None else L.Add()([forecast, part])
    return keras.Model(inputs, forecast)


def patched_series(keras):
    L = keras.layers
    inputs = keras.Input((336, 1))
    x = L.Dense(96)(L.Reshape((42, 8))(inputs))
    for _ in range(3):
        x = L.BatchNormalization()(L.Add()([x, L.Dropout(0.2)(L.MultiHeadAttention(8, 12, dropout=0.1)(x, x))]))
        y = L.Dense(96)(L.Dropout(0.2)(L.Dense(192, activation="gelu")(x)))
        x = L.BatchNormalization()(L.Add()([x, L.Dropout(0.2)(y)]))
    return keras.Model(inputs, L.Dense(96)(L.Flatten()(x)))


def raw_speech(keras):
    L = keras.layers
    inputs = keras.Input((8000, 1))
    x = inputs
    for channels, size, stride in ((64, 80, 4), (64, 3, 1), (128, 3, 1), (256, 3, 1)):
        x = L.ReLU()(L.BatchNormalization()(L.Conv1D(channels, size, strides=stride, padding="same")(x)))
        x = L.MaxPooling1D(4)(x)
    return keras.Model(inputs, L.Dense(35, activation="softmax")(L.GlobalAveragePooling1D()(x)))


def text_lines(keras):
    """Columns of a picture of writing are read by a recurrent network."""
    L = keras.layers
    inputs = keras.Input((128, 32, 1))
    x = inputs
    for channels in (32, 64):
        x = L.MaxPooling2D()(L.Conv2D(channels, 3, padding="same", activation="relu", kernel_initializer="he_normal")(x))
    x = L.Dropout(0.2)(L.Dense(64, activation="relu")(L.Reshape((32, 512))(x)))
    x = L.Bidirectional(L.LSTM(128, return_sequences=True, dropout=0.25))(x)
    x = L.Bidirectional(L.LSTM(64, return_sequences=True, dropout=0.25))(x)
    return keras.Model(inputs, L.Dense(79, activation="softmax")(x))


def stacked_simple(keras):
    L = keras.layers
    inputs = keras.Input((80, 12))
    x = L.SimpleRNN(128, return_sequences=True)(inputs)
    return keras.Model(inputs, L.Dense(1)(L.SimpleRNN(128)(x)))


def churn(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((90,))])
    for units in (512, 256, 128):
        model.add(L.Dense(units, use_bias=False))
        model.add(L.BatchNormalization())
        model.add(L.Activation("relu"))
        model.add(L.Dropout(0.3))
    model.add(L.Dense(1, activation="sigmoid"))
    return model


def table_resnet(keras):
    L = keras.layers
    inputs = keras.Input((120,))
    x = L.Dense(384)(inputs)
    for _ in range(4):
        y = L.Dropout(0.2)(L.Dense(768, activation="relu")(L.BatchNormalization()(x)))
        x = L.Add()([x, L.Dropout(0.1)(L.Dense(384)(y))])
    return keras.Model(inputs, L.Dense(1)(L.Activation("relu")(L.BatchNormalization()(x))))


def film_ratings(keras):
    """Users and films: a product of their vectors beside a dense network."""
    L = keras.layers
    user, film = keras.Input((1,), dtype="int32", name="user"), keras.Input((1,), dtype="int32", name="film")
    a, b = (L.Flatten()(L.Embedding(count, 48)(tensor)) for count, tensor in ((30000, user), (8000, film)))
    c, d = (L.Flatten()(L.Embedding(count, 48)(tensor)) for count, tensor in ((30000, user), (8000, film)))
    x = L.Concatenate()([a, b])
    for units in (256, 128, 64):
        x = L.Dropout(0.1)(L.Dense(units, activation="relu")(x))
    return keras.Model([user, film], L.Dense(1, activation="sigmoid")(L.Concatenate()([x, L.Multiply()([c, d])])))


def advertising(keras):
    """Many categories, each with its table, and every pair of their vectors multiplied."""
    L = keras.layers
    numbers = keras.Input((13,), name="numbers")
    columns = [keras.Input((1,), dtype="int32", name=f"column{index}") for index in range(12)]
    dense = L.Dense(32, activation="relu")(L.Dense(256, activation="relu")(numbers))
    vectors = [L.Embedding(2000, 32)(column) for column in columns]
    stacked = L.Concatenate(axis=1)([L.Reshape((1, 32))(dense), *vectors])
    pairs = L.Flatten()(L.Dot(axes=2)([stacked, stacked]))
    x = L.Dense(256, activation="relu")(L.Concatenate()([pairs, dense]))
    return keras.Model([numbers, *columns], L.Dense(1, activation="sigmoid")(L.Dense(128, activation="relu")(x)))


def sparse_code(keras):
    L = keras.layers
    inputs = keras.Input((784,))
    x = L.Dense(512, activation="relu")(inputs)
    x = L.Dense(128, activation="relu", activity_regularizer=keras.regularizers.L1(1e-5))(x)
    return keras.Model(inputs, L.Dense(784, activation="sigmoid")(L.Dense(512, activation="relu")(x)))


def quantiles(keras):
    L = keras.layers
    inputs = keras.Input((60,))
    x = L.LayerNormalization()(L.Dense(512, activation="mish")(inputs))
    x = L.LayerNormalization()(L.Dense(512, activation="mish")(x))
    return keras.Model(inputs, [L.Dense(1, name=f"q{index}")(L.Dense(128, activation="mish")(x)) for index in range(3)])


def radiance(keras):
    """Places to colours, through a deep network with one shortcut."""
    L = keras.layers
    inputs = keras.Input((63,))
    x = inputs
    for index in range(8):
        x = L.Dense(256, activation="relu")(x)
        if index == 4:
            x = L.Concatenate()([x, inputs])
    return keras.Model(inputs, L.Dense(4)(x))


def highway(keras):
    L = keras.layers
    inputs = keras.Input((256,))
    x = L.Dense(400)(inputs)
    for _ in range(5):
        gate = L.Dense(400, activation="sigmoid")(x)
        x = L.Add()([L.Multiply()([gate, L.Dense(400, activation="tanh")(x)]), L.Multiply()([1.0 - gate, x])])
    return keras.Model(inputs, L.Dense(20, activation="softmax")(x))


def sessions(keras):
    """What a visitor looks at next."""
    L = keras.layers
    inputs = keras.Input((30,), dtype="int32")
    x = L.GRU(100)(L.Dropout(0.25)(L.Embedding(10000, 50, mask_zero=True)(inputs)))
    return keras.Model(inputs, L.Dense(10000, activation="softmax")(x))
