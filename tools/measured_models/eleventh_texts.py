"""Models of the eleventh table: texts, sounds and music."""


def toxic_comments(keras):
    """Word vectors that stay as they are, two recurrent layers in both directions, and six answers that may all be yes."""
    L = keras.layers
    inputs = keras.Input((150,), dtype="int32")
    x = L.SpatialDropout1D(0.2)(L.Embedding(30000, 100, trainable=False)(inputs))
    x = L.Bidirectional(L.LSTM(64, return_sequences=True))(x)
    x = L.Bidirectional(L.GRU(64, return_sequences=True))(x)
    hidden = L.Concatenate()([L.GlobalMaxPooling1D()(x), L.GlobalAveragePooling1D()(x)])
    hidden = L.Add()([hidden, L.Dense(256, activation="relu")(hidden)])
    return keras.Model(inputs, L.Dense(6, activation="sigmoid")(hidden))


def named_things(keras):
    """Names in a text: each word as itself and as its letters."""
    L, ops = keras.layers, keras.ops
    words, letters = keras.Input((50,), dtype="int32", name="words"), keras.Input((50, 14), dtype="int32", name="letters")
    x = L.TimeDistributed(L.Embedding(90, 30))(ops.mod(letters, 90))
    x = L.TimeDistributed(L.Conv1D(30, 3, padding="same", activation="tanh"))(L.Dropout(0.5)(x))
    x = L.TimeDistributed(L.GlobalMaxPooling1D())(x)
    casing = ops.one_hot(ops.mod(words, 8), 8)
    x = L.Concatenate()([L.Embedding(12000, 100)(words), casing, L.Dropout(0.5)(x)])
    x = L.Bidirectional(L.LSTM(100, return_sequences=True, dropout=0.3, recurrent_dropout=0.2))(x)
    return keras.Model([words, letters], L.TimeDistributed(L.Dense(9, activation="softmax"))(x))


def poetry(keras):
    """The next word of a poem, as in a first course about texts."""
    L = keras.layers
    model = keras.Sequential([L.Input((24,), dtype="int32"), L.Embedding(6000, 100)])
    model.add(L.Bidirectional(L.LSTM(150, return_sequences=True)))
    model.add(L.Dropout(0.2))
    model.add(L.LSTM(100))
    model.add(L.Dense(3000, activation="relu", kernel_regularizer=keras.regularizers.L2(0.01)))
    model.add(L.Dense(6000, activation="softmax"))
    return model


def sums_in_letters(keras):
    """Sums that are written out: read by one recurrent layer, answered by another."""
    L = keras.layers
    model = keras.Sequential([L.Input((11, 14)), L.LSTM(128), L.RepeatVector(6)])
    for _ in range(2):
        model.add(L.LSTM(128, return_sequences=True))
    model.add(L.Dense(14, activation="softmax"))
    return model


def played_notes(keras):
    """The next note: its pitch, when it comes and how long it lasts."""
    L = keras.layers
    inputs = keras.Input((64, 3))
    x = inputs
    for units in (256, 256):
        x = L.Dropout(0.3)(L.LSTM(units, return_sequences=True, recurrent_dropout=0.1)(x))
    x = L.LSTM(256)(x)
    outputs = [L.Dense(128, name="pitch")(x), L.Dense(1, name="step")(x), L.Dense(1, name="duration")(x)]
    return keras.Model(inputs, outputs)


def story_model(keras):
    """GPT-2 in small: learnt places, normalization first, everything looks back."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((128,), dtype="int32")
    places = L.Embedding(128, 192, name="places")(ops.cumsum(ops.ones_like(inputs), axis=1) - 1)
    x = L.Dropout(0.1)(L.Embedding(6000, 192, name="words")(inputs) + places)
    for _ in range(4):
        y = L.LayerNormalization(epsilon=1e-5)(x)
        x = x + L.MultiHeadAttention(6, 32, dropout=0.1)(y, y, use_causal_mask=True)
        y = L.Dense(768, activation="gelu")(L.LayerNormalization(epsilon=1e-5)(x))
        x = x + L.Dropout(0.1)(L.Dense(192)(y))
    return keras.Model(inputs, L.Dense(6000, use_bias=False)(L.LayerNormalization(epsilon=1e-5)(x)))


def summaries(keras):
    """T5 in small: one table of words for both texts and for the answer, gates, and no means taken away."""
    L = keras.layers
    text, told = keras.Input((160,), dtype="int32", name="text"), keras.Input((40,), dtype="int32", name="told")
    table = L.ReversibleEmbedding(5000, 128, tie_weights=True)

    def asked(x, source=None, **settings):
        y = L.RMSNormalization()(x)
        return x + L.Dropout(0.1)(L.MultiHeadAttention(4, 32, use_bias=False)(y, y if source is None else source, **settings))

    def gated(x):
        y = L.RMSNormalization()(x)
        y = L.Multiply()([L.Dense(256, activation="gelu", use_bias=False)(y), L.Dense(256, use_bias=False)(y)])
        return x + L.Dropout(0.1)(L.Dense(128, use_bias=False)(y))

    x, y = table(text), table(told)
    for _ in range(2):
        x = gated(asked(x))
    x = L.RMSNormalization()(x)
    for _ in range(2):
        y = gated(asked(asked(y, use_causal_mask=True), x))
    return keras.Model([text, told], table(L.RMSNormalization()(y) * 128**-0.5, reverse=True))


def sounds_in_time(keras):
    """Which sounds are heard in each frame: pools over pitch alone, and gates between the two directions."""
    L = keras.layers
    inputs = keras.Input((200, 64, 1))
    x = inputs
    for pool in (4, 4, 2):
        x = L.ReLU()(L.BatchNormalization()(L.Conv2D(64, 3, padding="same", use_bias=False)(x)))
        x = L.Dropout(0.3)(L.MaxPooling2D((1, pool))(x))
    x = L.Reshape((200, -1))(x)
    for _ in range(2):
        x = L.Bidirectional(L.GRU(48, activation="tanh", dropout=0.3, return_sequences=True), merge_mode="mul")(x)
    x = L.TimeDistributed(L.Dense(48))(x)
    return keras.Model(inputs, L.TimeDistributed(L.Dense(12, activation="sigmoid"))(x))


def cleaned_speech(keras):
    """Spectrograms are made smaller over pitch, remembered over time, made larger again, with ways across."""
    L = keras.layers
    inputs = keras.Input((120, 161, 1))
    x, skips = inputs, []
    for filters in (16, 32, 64):
        x = L.Conv2D(filters, (2, 3), strides=(1, 2), padding="valid")(L.ZeroPadding2D(((1, 0), (0, 0)))(x))
        x = L.ELU()(L.BatchNormalization()(x))
        skips.append(x)
    width = x.shape[2] * x.shape[3]
    y = L.LSTM(width // 4, return_sequences=True)(L.Reshape((120, width))(x))
    x = L.Reshape(x.shape[1:])(L.Dense(width)(y))
    for filters in (32, 16, 1):
        x = L.Conv2DTranspose(filters, (2, 3), strides=(1, 2), padding="valid")(L.Concatenate()([x, skips.pop()]))
        x = L.Cropping2D(((0, 1), (0, 0)))(x)
        if filters > 1:
            wide = skips[-1].shape[2] - x.shape[2]
            x = L.ELU()(L.BatchNormalization()(L.ZeroPadding2D(((0, 0), (0, wide)))(x)))
    missing = 161 - x.shape[2]
    return keras.Model(inputs, L.Activation("softplus")(L.ZeroPadding2D(((0, 0), (0, missing)))(x)))


def heard_words(keras):
    """Whisper in small: sound through two convolutions and an encoder, words through a decoder that asks it."""
    L, ops = keras.layers, keras.ops
    sound, words = keras.Input((300, 80), name="sound"), keras.Input((48,), dtype="int32", name="words")

    def block(x, source=None):
        y = L.LayerNormalization()(x)
        x = x + L.MultiHeadAttention(4, 40)(y, y, use_causal_mask=source is not None)
        if source is not None:
            x = x + L.MultiHeadAttention(4, 40)(L.LayerNormalization()(x), source)
        return x + L.Dense(160)(L.Dense(640, activation="gelu")(L.LayerNormalization()(x)))

    x = L.Conv1D(160, 3, padding="same", activation="gelu")(sound)
    x = L.Conv1D(160, 3, strides=2, padding="same", activation="gelu")(x)
    rates = ops.exp(ops.arange(80, dtype="float32") * -0.1166)
    angles = ops.expand_dims(ops.cumsum(ops.ones_like(x[:, :, 0]), axis=1), -1) * rates
    x = x + ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)
    y = L.Embedding(4000, 160)(words)
    for _ in range(2):
        x = block(x)
    x = L.LayerNormalization()(x)
    for _ in range(2):
        y = block(y, x)
    return keras.Model([sound, words], L.Dense(4000)(L.LayerNormalization()(y)))
