"""Models of text, sound and time series, of the sixth table."""


def char_model(keras):
    L = keras.layers
    inputs = keras.Input((100,), dtype="int32")
    x = L.Embedding(66, 128)(inputs)
    return keras.Model(inputs, L.Dense(66)(L.GRU(384, return_sequences=True)(x)))


def char_translation(keras):
    """Letters to letters, with the right answer given to the decoder, as one-hot rows."""
    L = keras.layers
    source, target = keras.Input((30, 71), name="source"), keras.Input((45, 93), name="target")
    _, hidden, cell = L.LSTM(256, return_state=True)(source)
    x = L.LSTM(256, return_sequences=True)(target, initial_state=[hidden, cell])
    return keras.Model([source, target], L.Dense(93, activation="softmax")(x))


def small_gpt(keras):
    L = keras.layers
    inputs = keras.Input((80,), dtype="int32")
    x = L.Embedding(5000, 192)(inputs)
    for _ in range(3):
        y = L.LayerNormalization()(x)
        x = L.Add()([x, L.Dropout(0.1)(L.MultiHeadAttention(6, 32, dropout=0.1)(y, y, use_causal_mask=True))])
        y = L.Dense(192)(L.Dense(768, activation="gelu")(L.LayerNormalization()(x)))
        x = L.Add()([x, L.Dropout(0.1)(y)])
    return keras.Model(inputs, L.Dense(5000)(L.LayerNormalization()(x)))


def translation_transformer(keras):
    L = keras.layers
    source, target = keras.Input((32,), dtype="int32", name="source"), keras.Input((32,), dtype="int32", name="target")
    memory = L.Embedding(6000, 128, mask_zero=True)(source)
    a = L.MultiHeadAttention(4, 32)(memory, memory)
    memory = L.LayerNormalization()(L.Add()([memory, a]))
    f = L.Dense(128)(L.Dense(512, activation="relu")(memory))
    memory = L.LayerNormalization()(L.Add()([memory, f]))
    x = L.Embedding(6000, 128, mask_zero=True)(target)
    a = L.MultiHeadAttention(4, 32)(x, x, use_causal_mask=True)
    x = L.LayerNormalization()(L.Add()([x, a]))
    a = L.MultiHeadAttention(4, 32)(x, memory, memory)
    x = L.LayerNormalization()(L.Add()([x, a]))
    f = L.Dense(128)(L.Dense(512, activation="relu")(x))
    x = L.LayerNormalization()(L.Add()([x, f]))
    return keras.Model([source, target], L.Dense(6000, activation="softmax")(L.Dropout(0.5)(x)))


def film_reviews(keras):
    L = keras.layers
    inputs = keras.Input((120,), dtype="int32")
    x = L.Embedding(20000, 128)(inputs)
    x = L.Bidirectional(L.LSTM(64, return_sequences=True))(x)
    x = L.Bidirectional(L.LSTM(64))(x)
    return keras.Model(inputs, L.Dense(1, activation="sigmoid")(x))


def deep_speech(keras):
    L = keras.layers
    inputs = keras.Input((160, 96, 1))
    x = L.Conv2D(16, (11, 21), strides=(2, 2), padding="same", use_bias=False)(inputs)
    x = L.ReLU()(L.BatchNormalization()(x))
    x = L.Conv2D(16, (11, 11), strides=(1, 2), padding="same", use_bias=False)(x)
    x = L.ReLU()(L.BatchNormalization()(x))
    x = L.Reshape((80, 24 * 16))(x)
    for _ in range(2):
        x = L.Dropout(0.5)(L.Bidirectional(L.GRU(96, return_sequences=True, reset_after=True))(x))
    x = L.Dropout(0.5)(L.Dense(192, activation="relu")(x))
    return keras.Model(inputs, L.Dense(32, activation="softmax")(x))


def speaker(keras):
    """Residual blocks of convolutions over a spectrum."""
    L = keras.layers
    inputs = keras.Input((2000, 1))
    x = inputs
    for channels, count in ((16, 2), (32, 2), (64, 3), (128, 3)):
        short = L.Conv1D(channels, 1, padding="same")(x)
        for _ in range(count - 1):
            x = L.Activation("relu")(L.Conv1D(channels, 3, padding="same")(x))
        x = L.Activation("relu")(L.Add()([L.Conv1D(channels, 3, padding="same")(x), short]))
        x = L.MaxPooling1D(2, strides=2)(x)
    x = L.Flatten()(L.AveragePooling1D(3, strides=3)(x))
    x = L.Dense(128, activation="relu")(L.Dense(256, activation="relu")(x))
    return keras.Model(inputs, L.Dense(10, activation="softmax")(x))


def anomalies(keras):
    """A sequence is folded into one vector and unfolded again."""
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((100, 12)),
            L.LSTM(128, return_sequences=True),
            L.LSTM(64),
            L.RepeatVector(100),
            L.LSTM(64, return_sequences=True),
            L.LSTM(128, return_sequences=True),
            L.TimeDistributed(L.Dense(12)),
        ]
    )


def attended_forecast(keras):
    L = keras.layers
    past, known = keras.Input((96, 10), name="past"), keras.Input((24, 4), name="known")
    encoded, hidden, cell = L.LSTM(128, return_sequences=True, return_state=True)(past)
    decoded = L.LSTM(128, return_sequences=True)(known, initial_state=[hidden, cell])
    x = L.Concatenate()([decoded, L.Attention(use_scale=True)([decoded, encoded])])
    return keras.Model([past, known], L.Dense(1)(L.Dropout(0.2)(L.Dense(128, activation="relu")(x))))


def series_fcn(keras):
    L = keras.layers
    inputs = keras.Input((500, 1))
    x = inputs
    for channels, size in ((128, 8), (256, 5), (128, 3)):
        x = L.ReLU()(L.BatchNormalization()(L.Conv1D(channels, size, padding="same")(x)))
    return keras.Model(inputs, L.Dense(2, activation="softmax")(L.GlobalAveragePooling1D()(x)))


def text_pyramid(keras):
    """Gated convolutions over words."""
    L = keras.layers
    inputs = keras.Input((160,), dtype="int32")
    x = L.SpatialDropout1D(0.2)(L.Embedding(8000, 96)(inputs))
    for channels in (96, 128, 192):
        a, b = L.Conv1D(channels, 5, padding="same")(x), L.Conv1D(channels, 5, padding="same", activation="sigmoid")(x)
        x = L.AveragePooling1D(2)(L.LayerNormalization()(L.Multiply()([a, b])))
    x = L.Concatenate()([L.GlobalAveragePooling1D()(x), L.GlobalMaxPooling1D()(x)])
    return keras.Model(inputs, L.Dense(8, activation="softmax")(L.Dropout(0.4)(x)))


def weather(keras):
    L = keras.layers
    inputs = keras.Input((72, 7))
    return keras.Model(inputs, L.Dense(1)(L.LSTM(32)(inputs)))


def masked_language(keras):
    """An encoder of text with padding, which answers for each word."""
    L = keras.layers
    inputs = keras.Input((64,), dtype="int32")
    x = L.Embedding(7000, 128, mask_zero=True)(inputs)
    x = L.LayerNormalization(epsilon=1e-12)(x)
    for _ in range(2):
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, L.MultiHeadAttention(4, 32, dropout=0.1)(x, x)]))
        y = L.Dropout(0.1)(L.Dense(128)(L.Dense(512, activation="gelu")(x)))
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, y]))
    x = L.LayerNormalization()(L.Dense(128, activation="gelu")(x))
    return keras.Model(inputs, L.Dense(7000, activation="softmax")(x))
