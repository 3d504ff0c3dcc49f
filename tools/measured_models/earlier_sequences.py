"""Models of text, sound and time series, of the second, third and fourth table. In: Keras. Out: a model that is not compiled."""


def gru_text(keras):
    L = keras.layers
    return keras.Sequential(
        [L.Input((100,)), L.Embedding(5000, 64), L.GRU(96, return_sequences=True), L.GRU(48), L.Dense(6, activation="softmax")]
    )


def bilstm_tagger(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((80,)),
            L.Embedding(8000, 100),
            L.Bidirectional(L.LSTM(64, return_sequences=True)),
            L.TimeDistributed(L.Dense(32, activation="relu")),
            L.Dense(12, activation="softmax"),
        ]
    )


def conv1d_audio(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((4000, 1)),
            L.Conv1D(32, 9, strides=2, padding="same", activation="relu"),
            L.BatchNormalization(),
            L.MaxPooling1D(4),
            L.Conv1D(64, 5, padding="same", activation="relu"),
            L.SpatialDropout1D(0.2),
            L.MaxPooling1D(4),
            L.Conv1D(128, 3, padding="causal", activation="elu"),
            L.GlobalMaxPooling1D(),
            L.Dense(10, activation="softmax"),
        ]
    )


def causal_lm(keras):
    L = keras.layers
    inputs = keras.Input((96,))
    x = L.Embedding(4000, 192)(inputs)
    for _ in range(3):
        y = L.LayerNormalization()(x)
        y = L.MultiHeadAttention(6, 32, dropout=0.1)(y, y, use_causal_mask=True)
        x = L.Add()([x, L.Dropout(0.1)(y)])
        y = L.LayerNormalization()(x)
        y = L.Dense(768, activation="relu")(y)
        x = L.Add()([x, L.Dense(192)(y)])
    return keras.Model(inputs, L.Dense(4000, activation="softmax")(x))


def text_cnn(keras):
    L = keras.layers
    inputs = keras.Input((200,))
    x = L.SpatialDropout1D(0.2)(L.Embedding(10000, 128)(inputs))
    towers = [L.GlobalMaxPooling1D()(L.Conv1D(128, size, activation="relu")(x)) for size in (3, 4, 5)]
    return keras.Model(inputs, L.Dense(4, activation="softmax")(L.Dropout(0.5)(L.Concatenate()(towers))))


def stacked_lstm(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((60, 32)),
            L.LSTM(128, return_sequences=True),
            L.Dropout(0.2),
            L.LSTM(128, return_sequences=True),
            L.LSTM(64),
            L.Dense(1),
        ]
    )


def bigru_attention(keras):
    L = keras.layers
    inputs = keras.Input((80,))
    x = L.Embedding(12000, 96)(inputs)
    x = L.Bidirectional(L.GRU(64, return_sequences=True))(x)
    x = L.Attention()([x, x])
    x = L.Dropout(0.3)(L.GlobalAveragePooling1D()(x))
    return keras.Model(inputs, L.Dense(5, activation="softmax")(x))


def tcn(keras):
    L = keras.layers
    inputs = keras.Input((512, 8))
    x = L.Conv1D(64, 1)(inputs)
    for dilation in (1, 2, 4, 8, 16):
        y = L.Conv1D(64, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        y = L.LayerNormalization()(y)
        y = L.SpatialDropout1D(0.1)(y)
        y = L.Conv1D(64, 3, padding="causal", dilation_rate=dilation, activation="relu")(y)
        x = L.Add()([x, y])
    return keras.Model(inputs, L.Dense(1)(L.GlobalAveragePooling1D()(x)))


def seq2seq(keras):
    L = keras.layers
    source, target = keras.Input((64,), name="source"), keras.Input((48,), name="target")
    x = L.Embedding(6000, 128)(source)
    for _ in range(2):
        x = L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(4, 32)(x, x)]))
        y = L.Dense(128)(L.Dense(384, activation="relu")(x))
        x = L.LayerNormalization()(L.Add()([x, L.Dropout(0.1)(y)]))
    y = L.Embedding(6000, 128)(target)
    for _ in range(2):
        y = L.LayerNormalization()(L.Add()([y, L.MultiHeadAttention(4, 32)(y, y, use_causal_mask=True)]))
        y = L.LayerNormalization()(L.Add()([y, L.MultiHeadAttention(4, 32)(y, x)]))
        z = L.Dense(128)(L.Dense(384, activation="relu")(y))
        y = L.LayerNormalization()(L.Add()([y, L.Dropout(0.1)(z)]))
    return keras.Model([source, target], L.Dense(6000, activation="softmax")(y))


def text_encoder(keras):
    L = keras.layers
    inputs = keras.Input((128,))
    x = L.Embedding(10000, 192)(inputs)
    for _ in range(3):
        a = L.MultiHeadAttention(6, 32)(x, x)
        x = L.LayerNormalization()(L.Add()([x, L.Dropout(0.1)(a)]))
        f = L.Dense(192)(L.Dense(768, activation="gelu")(x))
        x = L.LayerNormalization()(L.Add()([x, L.Dropout(0.1)(f)]))
    return keras.Model(inputs, L.Dense(3, activation="softmax")(L.Dense(192, activation="tanh")(L.GlobalAveragePooling1D()(x))))


def lstm_forecast(keras):
    L = keras.layers
    inputs = keras.Input((120, 16))
    x = L.LSTM(96, return_sequences=True)(inputs)
    x = L.LSTM(48)(x)
    return keras.Model(inputs, L.Dense(24)(L.Dense(64, activation="relu")(x)))


def speech_cnn_gru(keras):
    L = keras.layers
    inputs = keras.Input((160, 40, 1))
    x = L.Conv2D(24, 5, strides=(2, 2), padding="same", activation="relu")(inputs)
    x = L.BatchNormalization()(x)
    x = L.Conv2D(48, 3, strides=(1, 2), padding="same", activation="relu")(x)
    x = L.Reshape((80, 480))(x)
    x = L.GRU(128, return_sequences=True)(x)
    x = L.GRU(128)(x)
    return keras.Model(inputs, L.Dense(35, activation="softmax")(x))
