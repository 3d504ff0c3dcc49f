"""Models of the ninth table: texts, sounds and series."""


def fourier(keras):
    """FNet: words are mixed by Fourier transforms, without a weight."""
    L, ops = keras.layers, keras.ops
    words = keras.Input((128,), dtype="int32")
    x = L.LayerNormalization()(L.Embedding(6000, 128)(words))
    for _ in range(4):
        mixed = ops.fft2((x, ops.zeros_like(x)))[0]
        x = L.LayerNormalization()(x + mixed)
        x = L.LayerNormalization()(x + L.Dense(128)(L.Dense(512, activation="gelu")(x)))
    return keras.Model(words, L.Dense(6000, activation="softmax")(L.Dropout(0.1)(x)))


def spelled_words(keras):
    """A label for each word, by its letters and its neighbours."""
    L = keras.layers
    letters = keras.Input((40, 12), dtype="int32")
    x = L.Embedding(90, 32)(letters)
    x = L.TimeDistributed(L.Conv1D(64, 3, padding="same", activation="relu"))(x)
    x = L.Dropout(0.3)(L.TimeDistributed(L.GlobalMaxPooling1D())(x))
    x = L.Bidirectional(L.LSTM(96, return_sequences=True))(x)
    return keras.Model(letters, L.Dense(17, activation="softmax")(x))


def documents(keras):
    """Attention over words of sentences, then over sentences."""
    L, ops = keras.layers, keras.ops

    def attended(x, axis):
        weights = ops.softmax(L.Dense(1, use_bias=False)(L.Dense(96, activation="tanh")(x)), axis=axis)
        return ops.sum(weights * x, axis=axis)

    words = keras.Input((15, 25), dtype="int32")
    x = L.Embedding(15000, 64)(words)
    x = L.TimeDistributed(L.Bidirectional(L.GRU(48, return_sequences=True)))(x)
    x = L.Bidirectional(L.GRU(48, return_sequences=True))(attended(x, 2))
    return keras.Model(words, L.Dense(10, activation="softmax")(attended(x, 1)))


def tied_words(keras):
    """A decoder whose table of words is used at both ends."""
    L = keras.layers
    words = keras.Input((80,), dtype="int32")
    table = L.ReversibleEmbedding(8000, 128)
    x = table(words)
    for _ in range(3):
        y = L.LayerNormalization()(x)
        x = x + L.MultiHeadAttention(4, 32)(y, y, use_causal_mask=True)
        x = x + L.Dense(128)(L.Dense(512, activation="relu")(L.LayerNormalization()(x)))
    return keras.Model(words, table(L.LayerNormalization()(x), reverse=True))


def turned_places(keras):
    """A language model whose queries and keys are turned by their places (RoPE)."""
    L, ops = keras.layers, keras.ops
    words = keras.Input((96,), dtype="int32")
    angles = ops.outer(ops.arange(96, dtype="float32"), ops.power(10000.0, -ops.arange(16, dtype="float32") / 16))
    cosines, sines = (ops.reshape(function(angles), (1, 96, 1, 16)) for function in (ops.cos, ops.sin))
    past = ops.reshape(-1e9 * (1.0 - ops.tril(ops.ones((96, 96)))), (1, 1, 96, 96))

    def turned(x):
        x = ops.reshape(x, (-1, 96, 4, 32))
        left, right = x[..., :16], x[..., 16:]
        return ops.concatenate([left * cosines - right * sines, left * sines + right * cosines], axis=-1)

    x = L.Embedding(5000, 128)(words)
    for _ in range(3):
        y = L.RMSNormalization()(x)
        queries, keys = turned(L.Dense(128, use_bias=False)(y)), turned(L.Dense(128, use_bias=False)(y))
        values = ops.reshape(L.Dense(128, use_bias=False)(y), (-1, 96, 4, 32))
        weights = ops.softmax(ops.einsum("bqhd,bkhd->bhqk", queries, keys) / 5.66 + past, axis=-1)
        y = ops.reshape(ops.einsum("bhqk,bkhd->bqhd", weights, values), (-1, 96, 128))
        x = x + L.Dense(128, use_bias=False)(y)
        y = L.RMSNormalization()(x)
        x = x + L.Dense(128)(ops.silu(L.Dense(352)(y)) * L.Dense(352)(y))
    return keras.Model(words, L.Dense(5000)(L.RMSNormalization()(x)))


def linear_attention(keras):
    """Long texts: keys are multiplied with values first."""
    L, ops = keras.layers, keras.ops
    words = keras.Input((512,), dtype="int32")
    x = L.Embedding(3000, 96)(words)
    for _ in range(3):
        y = L.LayerNormalization()(x)
        queries, keys, values = (L.EinsumDense("bsd,dhk->bshk", (None, 4, 24))(y) for _ in range(3))
        queries, keys = ops.elu(queries) + 1.0, ops.elu(keys) + 1.0
        total = ops.einsum("bshk,bshv->bhkv", keys, values)
        norm = ops.einsum("bshk,bhk->bsh", queries, ops.sum(keys, axis=1))
        y = ops.einsum("bshk,bhkv->bshv", queries, total) / (ops.expand_dims(norm, -1) + 1e-6)
        x = x + L.EinsumDense("bshv,hvd->bsd", (None, 96))(y)
        x = x + L.Dense(96)(L.Dense(256, activation="gelu")(L.LayerNormalization()(x)))
    return keras.Model(words, L.Dense(4, activation="softmax")(L.GlobalMaxPooling1D()(x)))


def masked_pairs(keras):
    """Translation with LSTM at both ends, padding left out, and attention by products."""
    L = keras.layers
    source, target = keras.Input((30,), dtype="int32"), keras.Input((32,), dtype="int32")
    encoded, *state = L.LSTM(160, return_sequences=True, return_state=True)(L.Embedding(5000, 128, mask_zero=True)(source))
    decoded = L.LSTM(160, return_sequences=True)(L.Embedding(5000, 128, mask_zero=True)(target), initial_state=state)
    context = L.Attention()([decoded, encoded])
    x = L.Dense(160, activation="tanh")(L.Concatenate()([decoded, context]))
    return keras.Model([source, target], L.Dense(5000, activation="softmax")(x))


def waves_apart(keras):
    """Voices are taken apart by a U-Net over the wave."""
    L = keras.layers
    x = inputs = keras.Input((4096, 1))
    skips = []
    for channels in (24, 48, 72, 96):
        x = L.LeakyReLU(0.2)(L.Conv1D(channels, 15, padding="same")(x))
        skips.append(x)
        x = L.MaxPooling1D(2)(x)
    x = L.LeakyReLU(0.2)(L.Conv1D(120, 15, padding="same")(x))
    for channels, skip in zip((96, 72, 48, 24), reversed(skips)):
        x = L.LeakyReLU(0.2)(L.Conv1D(channels, 5, padding="same")(L.Concatenate()([L.UpSampling1D(2)(x), skip])))
    return keras.Model(inputs, L.Conv1D(2, 1, activation="tanh")(L.Concatenate()([x, inputs])))


def brain_waves(keras):
    """EEGNet: filters over time, then over electrodes, with norms that are held down."""
    L = keras.layers
    hold = keras.constraints.MaxNorm
    inputs = keras.Input((64, 256, 1))
    x = L.BatchNormalization()(L.Conv2D(8, (1, 64), padding="same", use_bias=False)(inputs))
    x = L.DepthwiseConv2D((64, 1), depth_multiplier=4, use_bias=False, depthwise_constraint=hold(1.0))(x)
    x = L.Dropout(0.5)(L.AveragePooling2D((1, 4))(L.Activation("elu")(L.BatchNormalization()(x))))
    x = L.BatchNormalization()(L.SeparableConv2D(32, (1, 16), padding="same", use_bias=False)(x))
    x = L.Dropout(0.5)(L.AveragePooling2D((1, 8))(L.Activation("elu")(x)))
    return keras.Model(inputs, L.Dense(4, activation="softmax", kernel_constraint=hold(0.25))(L.Flatten()(x)))


def tracks(keras):
    """Convolutions inside a recurrent layer, over one dimension."""
    L = keras.layers
    model = keras.Sequential([L.Input((12, 200, 4))])
    model.add(L.ConvLSTM1D(32, 5, padding="same", return_sequences=True))
    model.add(L.LayerNormalization())
    model.add(L.ConvLSTM1D(32, 3, padding="same", dropout=0.1))
    model.add(L.Conv1D(4, 3, padding="same"))
    return model


def unrolled(keras):
    """Recurrent layers that are written out step by step."""
    L = keras.layers
    model = keras.Sequential([L.Input((24, 32)), L.GRU(192, return_sequences=True, unroll=True)])
    model.add(L.LSTM(192, unroll=True))
    model.add(L.Dense(24))
    return model


def stacked_cells(keras):
    """Cells on top of each other within one loop, backwards, with penalties on the weights."""
    L = keras.layers
    cells = [L.LSTMCell(128, kernel_regularizer="l2"), L.GRUCell(128, reset_after=False), L.SimpleRNNCell(64)]
    inputs = keras.Input((60, 40))
    x = L.RNN(cells, return_sequences=True, go_backwards=True)(inputs)
    return keras.Model(inputs, L.Dense(1)(L.GlobalAveragePooling1D()(x)))


def fused_series(keras):
    """Gated residual networks, LSTM and attention for forecasts (temporal fusion)."""
    L = keras.layers

    def gated(x, width=64):
        y = L.Dropout(0.1)(L.Dense(width)(L.Dense(width, activation="elu")(x)))
        y = L.Multiply()([L.Dense(width)(y), L.Dense(width, activation="sigmoid")(y)])
        return L.LayerNormalization()(L.Add()([x if x.shape[-1] == width else L.Dense(width)(x), y]))

    series, place = keras.Input((96, 10)), keras.Input((6,))
    x = L.Concatenate()([gated(series), L.RepeatVector(96)(gated(place))])
    x = L.Add()([gated(x), L.LSTM(64, return_sequences=True)(gated(x))])
    x = gated(L.Add()([x, L.MultiHeadAttention(4, 16)(x, x)]))
    return keras.Model([series, place], L.Dense(3)(L.Cropping1D((72, 0))(x)))


def speech_features(keras):
    """Raw sound through strided convolutions and a transformer (wav2vec)."""
    L = keras.layers
    x = inputs = keras.Input((8000, 1))
    for size, stride in ((10, 5), (3, 2), (3, 2), (2, 2)):
        x = L.Activation("gelu")(L.LayerNormalization()(L.Conv1D(128, size, strides=stride, use_bias=False)(x)))
    x = x + L.Conv1D(128, 31, padding="same", groups=8, activation="gelu")(x)
    for _ in range(2):
        x = L.LayerNormalization()(x + L.MultiHeadAttention(4, 32, dropout=0.1)(x, x))
        x = L.LayerNormalization()(x + L.Dense(128)(L.Dense(512, activation="gelu")(x)))
    return keras.Model(inputs, L.Dense(32)(x))
