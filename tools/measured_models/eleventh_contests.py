"""Models of the eleventh table: tables, series and recommendations, as contests are won with them."""


def pairs_of_fields(keras):
    """DLRM: a vector for each of 16 kinds and one for the numbers, and the products of all pairs of them."""
    L, ops = keras.layers, keras.ops
    numbers, kinds = keras.Input((13,), name="numbers"), [keras.Input((1,), dtype="int32", name=f"kind_{index}") for index in range(16)]
    x = L.Dense(24, activation="relu")(L.Dense(256, activation="relu")(L.Dense(512, activation="relu")(numbers)))
    fields = [L.Reshape((24,))(L.Embedding(3000 + 500 * index, 24)(kind)) for index, kind in enumerate(kinds)]
    fields = ops.stack([x, *fields], axis=1)
    products = ops.matmul(fields, ops.transpose(fields, (0, 2, 1)))
    pairs = [row * 17 + column for row in range(17) for column in range(row)]
    pairs = ops.take(ops.reshape(products, (-1, 289)), ops.convert_to_tensor(pairs, "int32"), axis=1)
    x = L.Concatenate()([x, pairs])
    for units in (512, 256):
        x = L.Dense(units, activation="relu")(x)
    return keras.Model([numbers, *kinds], L.Dense(1, activation="sigmoid")(x))


def factor_machines(keras):
    """DeepFM: one number and one vector for each field; the vectors' products and a deep network see the same table."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((26,), dtype="int64")
    first = ops.sum(L.Embedding(40000, 1)(inputs), axis=1)
    vectors = L.SpatialDropout1D(0.1)(L.Embedding(40000, 16)(inputs))
    crossed = ops.square(ops.sum(vectors, axis=1)) - ops.sum(ops.square(vectors), axis=1)
    x = L.Flatten()(vectors)
    for units in (400, 400, 200):
        x = L.Dropout(0.2)(L.Activation("relu")(L.BatchNormalization()(L.Dense(units, use_bias=False)(x))))
    total = L.Add()([first, 0.5 * ops.sum(crossed, axis=1, keepdims=True), L.Dense(1)(x)])
    return keras.Model(inputs, L.Activation("sigmoid")(total))


def field_attention(keras):
    """AutoInt: the fields of a row ask each other."""
    L = keras.layers
    kinds, numbers = keras.Input((20,), dtype="int32", name="kinds"), keras.Input((10,), name="numbers")
    scaled = L.EinsumDense("bn,nd->bnd", (10, 32), bias_axes="nd")(numbers)
    x = L.Concatenate(axis=1)([L.Embedding(15000, 32)(kinds), scaled])
    for _ in range(3):
        y = L.MultiHeadAttention(num_heads=2, key_dim=32, use_bias=False, output_shape=32)(x, x)
        x = L.Activation("relu")(L.Add()([y, L.Dense(32, use_bias=False)(x)]))
    return keras.Model([kinds, numbers], L.Dense(1, activation="sigmoid")(L.Flatten()(x)))


def neural_mf(keras):
    """Users and films have two vectors each: one pair is multiplied, the other goes through a network."""
    L, pay = keras.layers, keras.regularizers
    user, film = keras.Input((1,), dtype="int32", name="user"), keras.Input((1,), dtype="int32", name="film")
    fast = {"embeddings_initializer": "he_normal", "embeddings_regularizer": pay.L2(1e-6)}
    vectors = [[L.Flatten()(L.Embedding(size, width, **fast)(x)) for width in (32, 64)] for x, size in ((user, 30000), (film, 9000))]
    product = L.Multiply()([vectors[0][0], vectors[1][0]])
    x = L.Concatenate()([vectors[0][1], vectors[1][1]])
    for units in (128, 64, 32):
        x = L.Dropout(0.2)(L.Dense(units, activation="relu", kernel_regularizer=pay.L2(1e-6))(x))
    bias = L.Flatten()(L.Embedding(9000, 1)(film))
    score = L.Add()([L.Dense(1, kernel_initializer="lecun_uniform")(L.Concatenate()([product, x])), bias])
    return keras.Model([user, film], L.Rescaling(4.5, offset=0.5)(L.Activation("sigmoid")(score)))


def drug_effects(keras):
    """What 875 measurements of cells say about 206 ways in which a drug may work."""
    L = keras.layers
    inputs = keras.Input((875,))
    x = L.BatchNormalization()(inputs)
    for units in (1024, 512, 512):
        y = L.Dense(units, activation="swish", kernel_initializer="he_normal")(L.Dropout(0.4)(x))
        x = L.BatchNormalization()(L.Concatenate()([y, L.Dense(units // 4)(x)]))
    return keras.Model(inputs, L.Dense(206, activation="sigmoid")(x))


def supervised_autoencoder(keras):
    """Columns with noise are packed and unpacked; the answer is looked for in all that comes of it, three times."""
    L = keras.layers
    inputs = keras.Input((130,))
    table = L.BatchNormalization()(inputs)
    packed = L.Dense(96)(L.GaussianNoise(0.035)(table))
    packed = L.Activation("swish")(L.BatchNormalization()(packed))
    unpacked = L.Dense(130, name="unpacked")(L.Dropout(0.04)(packed))
    y = L.Dropout(0.4)(L.Activation("swish")(L.BatchNormalization()(L.Dense(96)(unpacked))))
    early = L.Dense(5, activation="sigmoid", name="early")(y)
    x = L.Dropout(0.4)(L.BatchNormalization()(L.Concatenate()([table, packed])))
    for units in (896, 448, 448, 256):
        x = L.Dropout(0.4)(L.Activation("swish")(L.BatchNormalization()(L.Dense(units)(x))))
    return keras.Model(inputs, [unpacked, early, L.Dense(5, activation="sigmoid", name="action")(x)])


def skipped_days(keras):
    """LSTNet: a convolution, a recurrent layer, one that goes from day to day, and a straight line."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((168, 48))
    x = L.Conv2D(64, (6, 48), activation="relu")(L.Reshape((168, 48, 1))(inputs))
    x = L.Dropout(0.2)(L.Reshape((163, 64))(x))
    state = L.Dropout(0.2)(L.GRU(96, activation="relu")(x))
    days = ops.transpose(ops.reshape(x[:, -144:], (-1, 6, 24, 64)), (0, 2, 1, 3))
    days = L.GRU(8, activation="relu")(ops.reshape(days, (-1, 6, 64)))
    x = L.Dense(48)(L.Concatenate()([state, ops.reshape(days, (-1, 24 * 8))]))
    line = L.Dense(1)(L.Permute((2, 1))(inputs[:, -24:]))
    return keras.Model(inputs, L.Add()([x, L.Flatten()(line)]))


def pooled_basis(keras):
    """N-HiTS: each stack looks at the series more coarsely pooled, and answers in fewer numbers, stretched to length."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((240, 1))
    left, answer = inputs, None
    for pool, knots in ((16, 3), (8, 6), (1, 48)):
        x = L.Flatten()(L.MaxPooling1D(pool, padding="same")(left))
        for _ in range(2):
            x = L.Dropout(0.1)(L.Dense(512, activation="relu")(x))
        back = ops.expand_dims(L.Dense(240)(x), -1)
        ahead = ops.reshape(L.Dense(knots)(x), (-1, 1, knots, 1))
        ahead = ops.reshape(ops.image.resize(ahead, (1, 48), interpolation="bilinear"), (-1, 48))
        left = L.Subtract()([left, back])
        answer = ahead if answer is None else answer + ahead
    return keras.Model(inputs, answer)


def breaths(keras):
    """Pressure in each moment of a breath: recurrent layers in both directions, one wider than the next."""
    L = keras.layers
    model = keras.Sequential([L.Input((80, 40))])
    for units in (256, 128, 64):
        model.add(L.Bidirectional(L.LSTM(units, return_sequences=True)))
    for layer in (L.Dense(100, activation="selu"), L.Dense(1)):
        model.add(layer)
    return model


def likely_sales(keras):
    """A shop's days, with what kind of day and shop it is, through stacked LSTMs; how many are sold each day."""
    L = keras.layers
    sales, shop = keras.Input((90, 6), name="sales"), keras.Input((3,), dtype="int32", name="shop")
    day = keras.Input((90,), dtype="int32", name="day")
    still = L.RepeatVector(90)(L.Flatten()(L.Embedding(1200, 12)(shop)))
    x = L.Concatenate()([sales, still, L.Embedding(370, 8)(day)])
    for _ in range(2):
        x = L.LSTM(80, return_sequences=True, dropout=0.1)(x)
    return keras.Model([sales, shop, day], L.TimeDistributed(L.Dense(1, activation="softplus"))(x))


def series_as_words(keras):
    """An inverted transformer: each series of many is one word, whole as it is."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((96, 64))
    middle, spread = ops.moments(inputs, axes=[1], keepdims=True)
    x = L.Permute((2, 1))((inputs - middle) / ops.sqrt(spread + 1e-5))
    x = L.Dense(192)(x)
    for _ in range(3):
        x = L.LayerNormalization()(x + L.MultiHeadAttention(8, 24, dropout=0.1)(x, x))
        y = L.Conv1D(192, 1)(L.Dropout(0.1)(L.Conv1D(384, 1, activation="gelu")(x)))
        x = L.LayerNormalization()(x + y)
    x = L.Permute((2, 1))(L.Dense(48)(x))
    return keras.Model(inputs, x * ops.sqrt(spread + 1e-5) + middle)
