"""Models of rows of numbers and categories, of the sixth table."""


def wide_and_deep(keras):
    L = keras.layers
    numbers, category = keras.Input((30,), name="numbers"), keras.Input((20,), dtype="int32", name="category")
    wide = L.CategoryEncoding(5000, output_mode="multi_hot")(category)
    deep = L.Concatenate()([L.Flatten()(L.Embedding(5000, 32)(category)), L.BatchNormalization()(numbers)])
    for units in (512, 256, 128):
        deep = L.Dropout(0.3)(L.Dense(units, activation="relu")(deep))
    return keras.Model([numbers, category], L.Dense(1, activation="sigmoid")(L.Concatenate()([wide, deep])))


def factorization(keras):
    """DeepFM: the same embeddings for pairs of categories and for a deep network."""
    L, ops = keras.layers, keras.ops
    category = keras.Input((26,), dtype="int32")
    first = L.Flatten()(L.Embedding(30000, 1)(category))
    vectors = L.Embedding(30000, 16)(category)
    of_sum = ops.square(ops.sum(vectors, axis=1))
    sum_of = ops.sum(ops.square(vectors), axis=1)
    pairs = ops.sum(of_sum - sum_of, axis=1, keepdims=True) * 0.5
    deep = L.Flatten()(vectors)
    for units in (400, 400, 400):
        deep = L.Dropout(0.5)(L.Dense(units, activation="relu")(deep))
    x = L.Add()([ops.sum(first, axis=1, keepdims=True), pairs, L.Dense(1)(deep)])
    return keras.Model(category, L.Activation("sigmoid")(x))


def two_towers(keras):
    L = keras.layers
    user, item = keras.Input((1,), dtype="int32", name="user"), keras.Input((8,), dtype="int32", name="item")
    u = L.Flatten()(L.Embedding(60000, 48, embeddings_regularizer="l2")(user))
    v = L.GlobalAveragePooling1D()(L.Embedding(25000, 48)(item))
    for units in (256, 64):
        u, v = L.Dense(units, activation="relu")(u), L.Dense(units, activation="relu")(v)
    return keras.Model([user, item], L.Dot(axes=1, normalize=True)([u, v]))


def categories_transformer(keras):
    L = keras.layers
    category, numbers = keras.Input((16,), dtype="int32", name="category"), keras.Input((12,), name="numbers")
    x = L.Embedding(4000, 32)(category)
    for _ in range(3):
        x = L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(4, 32, dropout=0.1)(x, x)]))
        y = L.Dense(32)(L.Dropout(0.1)(L.Dense(128, activation="gelu")(x)))
        x = L.LayerNormalization()(L.Add()([x, y]))
    x = L.Concatenate()([L.Flatten()(x), L.LayerNormalization()(numbers)])
    for units in (1024, 512):
        x = L.Dropout(0.2)(L.Activation("selu")(L.BatchNormalization()(L.Dense(units)(x))))
    return keras.Model([category, numbers], L.Dense(1, activation="sigmoid")(x))


def experts(keras):
    """Several experts, weighed by a gate for each of two answers."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((256,))
    all_experts = ops.stack([L.Dense(128, activation="relu")(L.Dense(256, activation="relu")(inputs)) for _ in range(6)], axis=1)
    answers = []
    for name in ("click", "buy"):
        gate = L.Dense(6, activation="softmax")(inputs)
        x = L.Flatten()(L.Dot(axes=1)([L.Reshape((6, 1))(gate), all_experts]))
        answers.append(L.Dense(1, activation="sigmoid", name=name)(L.Dense(64, activation="relu")(x)))
    return keras.Model(inputs, answers)


def gated_residual(keras):
    L = keras.layers
    inputs = keras.Input((200,))
    x = L.Dense(512)(inputs)
    for _ in range(3):
        y = L.Dropout(0.15)(L.Dense(512)(L.Dense(512, activation="elu")(x)))
        y = L.Multiply()([L.Dense(512)(y), L.Dense(512, activation="sigmoid")(y)])
        x = L.LayerNormalization()(L.Add()([x, y]))
    return keras.Model(inputs, L.Dense(3)(x))


def regularized_mlp(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((400,))])
    for units in (1200, 1200, 600):
        model.add(L.Dense(units, kernel_regularizer=keras.regularizers.L1L2(1e-5, 1e-4)))
        model.add(L.BatchNormalization())
        model.add(L.LeakyReLU())
        model.add(L.GaussianDropout(0.2))
    model.add(L.Dense(12, activation="softmax"))
    return model


def precise_mlp(keras):
    L = keras.layers
    inputs = keras.Input((64,))
    x = inputs
    for _ in range(5):
        x = L.Dense(400, activation="tanh")(x)
    return keras.Model(inputs, L.Dense(8)(x))
