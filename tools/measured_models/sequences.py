"""Models of text, sound, time series and points, of the fifth table."""


def siamese_text(keras):
    L = keras.layers
    left, right = keras.Input((40,), dtype="int32", name="left"), keras.Input((40,), dtype="int32", name="right")
    embedding, encoder = L.Embedding(20000, 128), L.Bidirectional(L.LSTM(96))
    a, b = encoder(embedding(left)), encoder(embedding(right))
    x = L.Concatenate()([a, b, L.Subtract()([a, b]), L.Multiply()([a, b])])
    x = L.Dropout(0.3)(L.Dense(256, activation="relu")(x))
    return keras.Model([left, right], L.Dense(1, activation="sigmoid")(x))


def deep_char_cnn(keras):
    L = keras.layers
    inputs = keras.Input((512,), dtype="int32")
    x = L.Conv1D(64, 3, padding="same")(L.Embedding(70, 16)(inputs))
    for channels in (64, 128, 256):
        for _ in range(2):
            x = L.Conv1D(channels, 3, padding="same", use_bias=False)(x)
            x = L.Activation("relu")(L.BatchNormalization()(x))
        x = L.MaxPooling1D(3, strides=2, padding="same")(x)
    x = L.Dense(1024, activation="relu")(L.Flatten()(x))
    return keras.Model(inputs, L.Dense(14, activation="softmax")(x))


def gru_translation(keras):
    L = keras.layers
    source, target = keras.Input((40,), dtype="int32", name="source"), keras.Input((30,), dtype="int32", name="target")
    encoded, state = L.GRU(192, return_sequences=True, return_state=True)(L.Embedding(8000, 128)(source))
    decoded = L.GRU(192, return_sequences=True)(L.Embedding(8000, 128)(target), initial_state=state)
    context = L.AdditiveAttention()([decoded, encoded])
    x = L.Dense(192, activation="tanh")(L.Concatenate()([decoded, context]))
    return keras.Model([source, target], L.Dense(8000, activation="softmax")(x))


def masked_tagger(keras):
    L = keras.layers
    inputs = keras.Input((75,), dtype="int32")
    x = L.Embedding(15000, 100, mask_zero=True)(inputs)
    x = L.Bidirectional(L.LSTM(100, return_sequences=True, dropout=0.2))(x)
    x = L.Bidirectional(L.LSTM(100, return_sequences=True))(x)
    return keras.Model(inputs, L.TimeDistributed(L.Dense(17, activation="softmax"))(x))


def bag_of_words(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((256,), dtype="int32"),
            L.Embedding(100000, 64),
            L.GlobalAveragePooling1D(),
            L.Dense(64, activation="relu"),
            L.Dense(20, activation="softmax"),
        ]
    )


def word_model(keras):
    L = keras.layers
    inputs = keras.Input((48,), dtype="int32")
    x = L.Embedding(9000, 200)(inputs)
    x = L.LSTM(256, return_sequences=True)(L.Dropout(0.2)(x))
    x = L.LSTM(256, return_sequences=True)(x)
    return keras.Model(inputs, L.Dense(9000)(x))


def wavenet(keras):
    L = keras.layers
    inputs = keras.Input((2048, 1))
    x, skips = L.Conv1D(32, 1)(inputs), []
    for dilation in (1, 2, 4, 8, 16, 32):
        f = L.Conv1D(32, 2, padding="causal", dilation_rate=dilation, activation="tanh")(x)
        g = L.Conv1D(32, 2, padding="causal", dilation_rate=dilation, activation="sigmoid")(x)
        y = L.Multiply()([f, g])
        skips.append(L.Conv1D(32, 1)(y))
        x = L.Add()([x, L.Conv1D(32, 1)(y)])
    y = L.Conv1D(64, 1, activation="relu")(L.ReLU()(L.Add()(skips)))
    return keras.Model(inputs, L.Conv1D(64, 1, activation="softmax")(y))


def inception_time(keras):
    L = keras.layers
    inputs = keras.Input((400, 12))
    x = short = inputs
    for index in range(6):
        y = L.Conv1D(32, 1, use_bias=False)(x) if x.shape[-1] > 1 else x
        branches = [L.Conv1D(32, size, padding="same", use_bias=False)(y) for size in (40, 20, 10)]
        branches.append(L.Conv1D(32, 1, use_bias=False)(L.MaxPooling1D(3, strides=1, padding="same")(x)))
        x = L.ReLU()(L.BatchNormalization()(L.Concatenate()(branches)))
        if index % 3 == 2:
            short = L.BatchNormalization()(L.Conv1D(128, 1, use_bias=False)(short))
            x = short = L.ReLU()(L.Add()([x, short]))
    return keras.Model(inputs, L.Dense(6, activation="softmax")(L.GlobalAveragePooling1D()(x)))


def forecast_transformer(keras):
    L = keras.layers
    inputs = keras.Input((336, 7))
    x = L.Dense(64)(L.Reshape((42, 56))(inputs))
    for _ in range(3):
        y = L.MultiHeadAttention(8, 16, dropout=0.2)(x, x)
        x = L.BatchNormalization()(L.Add()([x, L.Dropout(0.2)(y)]))
        y = L.Dense(64)(L.Dropout(0.2)(L.Dense(256, activation="gelu")(x)))
        x = L.BatchNormalization()(L.Add()([x, y]))
    return keras.Model(inputs, L.Dense(96)(L.Dropout(0.2)(L.Flatten()(x))))


def conformer(keras):
    L = keras.layers
    inputs = keras.Input((200, 80))
    x = L.Dense(144)(inputs)
    for _ in range(3):
        y = L.Dense(576, activation="silu")(L.LayerNormalization()(x))
        x = L.Add()([x, L.Rescaling(0.5)(L.Dense(144)(y))])
        y = L.LayerNormalization()(x)
        x = L.Add()([x, L.Dropout(0.1)(L.MultiHeadAttention(4, 36)(y, y))])
        y = L.Conv1D(144, 1)(L.LayerNormalization()(x))
        y = L.Activation("silu")(L.BatchNormalization()(L.DepthwiseConv1D(15, padding="same")(y)))
        x = L.Add()([x, L.Conv1D(144, 1)(y)])
    return keras.Model(inputs, L.Dense(40, activation="softmax")(x))


def ecg_autoencoder(keras):
    L = keras.layers
    inputs = keras.Input((1024, 2))
    x = inputs
    for channels in (32, 64, 96):
        x = L.SeparableConv1D(channels, 7, strides=1, padding="same", activation="relu")(x)
        x = L.AveragePooling1D(2)(x)
    for channels in (96, 64, 32):
        x = L.Conv1DTranspose(channels, 7, strides=2, padding="same", activation="relu")(x)
    return keras.Model(inputs, L.Conv1D(2, 7, padding="same")(x))


def point_net(keras):
    L = keras.layers

    def points(x, channels):
        return L.ReLU()(L.BatchNormalization(momentum=0.0)(L.Conv1D(channels, 1)(x)))

    inputs = keras.Input((1024, 3))
    x = points(points(points(inputs, 32), 64), 256)
    x = L.Dense(128, activation="relu")(L.GlobalMaxPooling1D()(x))
    turn = L.Reshape((3, 3))(L.Dense(9)(x))
    x = L.Dot(axes=(2, 1))([inputs, turn])
    x = points(points(points(points(x, 32), 64), 128), 512)
    x = L.Dropout(0.3)(L.Dense(256, activation="relu")(L.GlobalMaxPooling1D()(x)))
    return keras.Model(inputs, L.Dense(10, activation="softmax")(x))


def simple_rnn(keras):
    L = keras.layers
    inputs = keras.Input((90, 24))
    x = L.SimpleRNN(256, return_sequences=True)(inputs)
    x = L.SimpleRNN(128, activation="relu")(x)
    return keras.Model(inputs, L.Dense(4, activation="softmax")(x))
