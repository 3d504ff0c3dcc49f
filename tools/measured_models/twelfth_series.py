"""Models of the twelfth table: series, sounds, tastes and tables, after papers and contests."""


def decayed_vitals(keras):
    """Measurements with gaps: what was last seen fades to the mean, the longer ago the more, before a GRU reads it (GRU-D)."""
    layers, ops = keras.layers, keras.ops
    values, seen, since = (keras.Input((48, 36), name=name) for name in ("values", "seen", "since"))
    fading = ops.exp(-ops.relu(layers.Dense(36)(since)))
    mean = ops.sum(values * seen, axis=1, keepdims=True) / (ops.sum(seen, axis=1, keepdims=True) + 1e-6)
    filled = ops.where(seen > 0.5, values, fading * values + (1.0 - fading) * mean)
    x = layers.Concatenate()([filled, seen, layers.Dense(32, activation="relu")(since)])
    x = layers.GRU(128, dropout=0.1, recurrent_dropout=0.1, return_sequences=True)(x)
    x = layers.GRU(64)(layers.BatchNormalization()(x))
    return keras.Model([values, seen, since], layers.Dense(1, activation="sigmoid")(layers.Dropout(0.3)(x)))


def dense_horizon(keras):
    """TiDE: dense residual blocks alone, from what was and what is known to what will be."""
    layers = keras.layers

    def residual(x, hidden, units):
        y = layers.Dense(units)(layers.Dense(hidden, activation="relu")(x))
        return layers.LayerNormalization()(layers.Add()([layers.Dropout(0.2)(y), layers.Dense(units)(x)]))

    past, known = keras.Input((192,), name="past"), keras.Input((288, 12), name="known")
    features = residual(known, 64, 4)
    x = layers.Concatenate()([past, layers.Flatten()(features)])
    for _ in range(2):
        x = residual(x, 512, 512)
    x = layers.Reshape((96, 16))(residual(x, 512, 96 * 16))
    x = residual(layers.Concatenate()([x, features[:, 192:]]), 64, 1)
    return keras.Model([past, known], layers.Flatten()(x) + layers.Dense(96)(past))


def bought_in_order(keras):
    """SASRec: what was bought before, looked at from each purchase back; one that followed and one that did not are scored."""
    layers, ops = keras.layers, keras.ops
    before, right, wrong = (keras.Input((100,), dtype="int32", name=name) for name in ("before", "right", "wrong"))
    items = layers.Embedding(18000, 64, embeddings_regularizer=keras.regularizers.L2(1e-6), name="items")
    x = items(before) * 8.0 + layers.Embedding(18000, 64, name="places")(ops.cumsum(ops.ones_like(before), axis=1))
    x = layers.Dropout(0.2)(x)
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(1, 64, dropout=0.2)(y, x, use_causal_mask=True)
        y = layers.LayerNormalization()(x)
        x = x + layers.Dropout(0.2)(layers.Conv1D(64, 1)(layers.Conv1D(64, 1, activation="relu")(y)))
    x = layers.LayerNormalization()(x)
    scores = [ops.sum(x * items(each), axis=-1) for each in (right, wrong)]
    return keras.Model([before, right, wrong], ops.sigmoid(ops.stack(scores, axis=-1)))


def genome_marks(keras):
    """DeepSEA: wide convolutions over a thousand letters of a genome, and 919 marks that may be there."""
    model = keras.Sequential([keras.Input((1000, 4))])
    for filters, pool, rate in ((320, 4, 0.2), (480, 4, 0.2), (960, None, 0.5)):
        model.add(keras.layers.Conv1D(filters, 8, activation="relu", kernel_constraint=keras.constraints.MaxNorm(0.9)))
        if pool:
            model.add(keras.layers.MaxPooling1D(pool))
        model.add(keras.layers.Dropout(rate))
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(925, activation="relu", activity_regularizer=keras.regularizers.L1(1e-8)))
    model.add(keras.layers.Dense(919, activation="sigmoid"))
    return model


def bird_calls(keras):
    """Sound becomes a spectrogram within the model, then a small network with squeezed channels, then attention over time."""
    layers, ops = keras.layers, keras.ops
    sound = keras.Input((32000, 1), name="sound")
    x = layers.STFTSpectrogram(mode="log", frame_length=512, frame_step=256, fft_length=512, data_format="channels_last")(sound)
    x = layers.Reshape((*x.shape[1:3], 1))(x)
    x = layers.BatchNormalization(axis=2)(x)
    for filters in (32, 64, 128):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.Activation("relu6")(layers.BatchNormalization()(x))
        squeezed = layers.Dense(filters // 4, activation="relu")(layers.GlobalAveragePooling2D()(x))
        x = x * layers.Reshape((1, 1, filters))(layers.Dense(filters, activation="hard_sigmoid")(squeezed))
        x = layers.MaxPooling2D((2, 4))(x)
    x = ops.mean(x, axis=2) + ops.max(x, axis=2)
    x = layers.Dense(256, activation="relu")(layers.Dropout(0.3)(x))
    weights = ops.softmax(ops.tanh(layers.Dense(182)(x)), axis=1)
    return keras.Model(sound, ops.clip(ops.sum(weights * layers.Dense(182, activation="sigmoid")(x), axis=1), 0.0, 1.0))


def operators(keras):
    """DeepONet: one network reads a function at its sensors, one the places to answer for; their products are the answer."""
    layers, ops = keras.layers, keras.ops
    function, places = keras.Input((128,), name="function"), keras.Input((400, 2), name="places")
    branch, trunk = function, ops.concatenate([places, ops.sin(places * 6.2832), ops.cos(places * 6.2832)], axis=-1)
    for _ in range(3):
        branch, trunk = layers.Dense(160, activation="gelu")(branch), layers.Dense(160, activation="tanh")(trunk)
    return keras.Model([function, places], ops.einsum("bp,bnp->bn", layers.Dense(160)(branch), layers.Dense(160)(trunk)))


def periodic_columns(keras):
    """Each number of a row as sines and cosines of learnt pace, then residual blocks (a contest's favourite for tables)."""
    layers, ops = keras.layers, keras.ops
    row = keras.Input((54,))
    angles = layers.EinsumDense("bf,fk->bfk", (54, 24), kernel_initializer=keras.initializers.RandomNormal(stddev=0.1))(row)
    angles = angles * 6.2831853
    x = layers.EinsumDense("bfk,fkd->bfd", (54, 16), bias_axes="fd", activation="relu")(
        ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)
    )
    x = layers.Dense(384)(layers.Flatten()(x))
    for _ in range(3):
        y = layers.Dense(512, activation="relu")(layers.BatchNormalization()(x))
        x = layers.Add()([x, layers.Dense(384)(layers.Dropout(0.2)(y))])
    return keras.Model(row, layers.Dense(7, activation="softmax")(layers.ReLU()(layers.BatchNormalization()(x))))


def chunked_reader(keras):
    """Long texts in pieces of 64 words: each word asks its own piece and the one before."""
    layers, ops = keras.layers, keras.ops
    words = keras.Input((1024,), dtype="int32")
    x = layers.Embedding(10000, 128)(words)
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        q, k, v = (ops.reshape(layers.Dense(128)(y), (-1, 16, 64, 4, 32)) for _ in range(3))
        k, v = (ops.concatenate([ops.pad(each[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0))), each], axis=2) for each in (k, v))
        scores = ops.einsum("bcqhd,bckhd->bchqk", q, k) / 32**0.5
        y = ops.reshape(ops.einsum("bchqk,bckhd->bcqhd", ops.softmax(scores), v), (-1, 1024, 128))
        x = x + layers.Dense(128)(y)
        x = x + layers.Dense(128)(layers.Dense(256, activation="gelu")(layers.LayerNormalization()(x)))
    return keras.Model(words, layers.Dense(8, activation="softmax")(layers.GlobalMaxPooling1D()(x)))


def worn_sensors(keras):
    """Separable convolutions over a second or two of movement; each channel is weighed, whole channels are left out."""
    layers = keras.layers
    series = keras.Input((256, 9))
    x = layers.LayerNormalization(axis=1)(series)
    for filters, size in ((64, 9), (128, 7), (192, 5)):
        x = layers.SeparableConv1D(filters, size, padding="same", depth_multiplier=2, activation="selu")(x)
        x = layers.SpatialDropout1D(0.1)(layers.BatchNormalization()(x))
        weights = layers.Dense(filters, activation="sigmoid")(layers.Dense(16, activation="relu")(layers.GlobalAvgPool1D()(x)))
        x = layers.Multiply()([x, layers.RepeatVector(x.shape[1])(weights)])
        x = layers.AveragePooling1D(2)(x)
    mean, most = layers.GlobalAvgPool1D()(x), layers.GlobalMaxPool1D()(x)
    x = layers.UnitNormalization()(layers.Dense(96)(layers.concatenate([mean, most])))
    return keras.Model(series, layers.Dense(18, activation="softmax")(x))
