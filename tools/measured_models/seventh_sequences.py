"""Models of text, sound and time series, of the seventh table."""


def sentiment(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((200,), dtype="int32"),
            L.Embedding(10000, 64),
            L.LSTM(64, dropout=0.2),
            L.Dense(1, activation="sigmoid"),
        ]
    )


def topics(keras):
    L = keras.layers
    inputs = keras.Input((150,), dtype="int32")
    x = L.SpatialDropout1D(0.3)(L.Embedding(12000, 100)(inputs))
    x = L.Bidirectional(L.GRU(80, return_sequences=True))(x)
    x = L.Concatenate()([L.GlobalMaxPooling1D()(x), L.GlobalAveragePooling1D()(x)])
    return keras.Model(inputs, L.Dense(20, activation="softmax")(L.Dense(64, activation="relu")(x)))


def entities(keras):
    """A label for each word, by a dense layer that is applied to each of them in turn."""
    L = keras.layers
    inputs = keras.Input((75,), dtype="int32")
    x = L.Dropout(0.1)(L.Embedding(9000, 100)(inputs))
    x = L.Bidirectional(L.LSTM(100, return_sequences=True, recurrent_dropout=0.1))(x)
    return keras.Model(inputs, L.TimeDistributed(L.Dense(17, activation="softmax"))(x))


def reconstruction(keras):
    """A sensor's day, folded into a vector and unfolded."""
    L = keras.layers
    inputs = keras.Input((60, 8))
    x = L.RepeatVector(60)(L.GRU(96)(inputs))
    x = L.GRU(96, return_sequences=True)(x)
    return keras.Model(inputs, L.TimeDistributed(L.Dense(8))(L.TimeDistributed(L.Dense(48, activation="relu"))(x)))


def frames(keras):
    """A small network sees each frame of a film, a recurrent one their order."""
    L = keras.layers
    eye = keras.Sequential([L.Input((32, 32, 3))])
    for channels in (16, 32):
        eye.add(L.Conv2D(channels, 3, activation="relu"))
        eye.add(L.MaxPooling2D())
    eye.add(L.Flatten())
    inputs = keras.Input((10, 32, 32, 3))
    x = L.GRU(64)(L.TimeDistributed(eye)(inputs))
    return keras.Model(inputs, L.Dense(6, activation="softmax")(x))


def small_bert(keras):
    L = keras.layers
    words, places = keras.Input((128,), dtype="int32", name="words"), keras.Input((128,), dtype="int32", name="places")
    x = L.Add()([L.Embedding(8000, 128)(words), L.Embedding(128, 128)(places)])
    x = L.Dropout(0.1)(L.LayerNormalization(epsilon=1e-12)(x))
    for _ in range(3):
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, L.Dropout(0.1)(L.MultiHeadAttention(4, 32)(x, x))]))
        y = L.Dense(128)(L.Dense(512, activation="gelu")(x))
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, L.Dropout(0.1)(y)]))
    first = L.Dense(128, activation="tanh")(x[:, 0])
    return keras.Model([words, places], L.Dense(3, activation="softmax")(first))


def reviews_transformer(keras):
    L = keras.layers
    words, places = keras.Input((200,), dtype="int32", name="words"), keras.Input((200,), dtype="int32", name="places")
    x = L.Embedding(20000, 32)(words) + L.Embedding(200, 32)(places)
    x = L.LayerNormalization(epsilon=1e-6)(x + L.Dropout(0.1)(L.MultiHeadAttention(2, 32)(x, x)))
    y = L.Dense(32)(L.Dense(32, activation="relu")(x))
    x = L.LayerNormalization(epsilon=1e-6)(x + L.Dropout(0.1)(y))
    x = L.Dropout(0.1)(L.Dense(20, activation="relu")(L.Dropout(0.1)(L.GlobalAveragePooling1D()(x))))
    return keras.Model([words, places], L.Dense(2, activation="softmax")(x))


def attended_translation(keras):
    """Encoder and decoder with additive attention."""
    L = keras.layers
    source, target = keras.Input((24,), dtype="int32", name="source"), keras.Input((24,), dtype="int32", name="target")
    encoded, hidden, cell = L.LSTM(192, return_sequences=True, return_state=True)(L.Embedding(4000, 128)(source))
    x = L.LSTM(192, return_sequences=True)(L.Embedding(5000, 128)(target), initial_state=[hidden, cell])
    x = L.Concatenate()([x, L.AdditiveAttention()([x, encoded])])
    return keras.Model([source, target], L.Dense(5000, activation="softmax")(L.Dense(192, activation="tanh")(x)))


def llama(keras):
    """A small language model with grouped heads, gates and root mean squares."""
    L = keras.layers
    inputs = keras.Input((96,), dtype="int32")
    x = L.Embedding(4000, 128)(inputs)
    for _ in range(3):
        y = L.RMSNormalization()(x)
        x = x + L.GroupQueryAttention(32, 4, 2, use_bias=False)(y, y, use_causal_mask=True)
        y = L.RMSNormalization()(x)
        gated = L.Dense(344, activation="silu", use_bias=False)(y) * L.Dense(344, use_bias=False)(y)
        x = x + L.Dense(128, use_bias=False)(gated)
    return keras.Model(inputs, L.Dense(4000, use_bias=False)(L.RMSNormalization()(x)))


def heartbeats(keras):
    """A residual network over one dimension."""
    L = keras.layers
    inputs = keras.Input((1024, 2))
    x = L.ReLU()(L.BatchNormalization()(L.Conv1D(32, 15, strides=2, padding="same")(inputs)))
    for channels in (32, 64, 96, 128):
        y = L.ReLU()(L.BatchNormalization()(L.Conv1D(channels, 7, strides=2, padding="same")(x)))
        y = L.BatchNormalization()(L.Conv1D(channels, 7, padding="same")(L.Dropout(0.2)(y)))
        x = L.ReLU()(L.Add()([y, L.Conv1D(channels, 1, strides=2, padding="same")(x)]))
    return keras.Model(inputs, L.Dense(5, activation="sigmoid")(L.GlobalAveragePooling1D()(x)))
