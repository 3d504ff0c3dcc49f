"""Models of the ninth table: tables, tastes and answers that are compared."""


def click_model(keras):
    """Numbers through one network, categories through tables, every pair of them multiplied (DLRM)."""
    L, ops = keras.layers, keras.ops
    numbers, kinds = keras.Input((13,)), keras.Input((26,), dtype="int32")
    dense = L.Dense(48, activation="relu")(L.Dense(512, activation="relu")(numbers))
    tables = L.Embedding(30000, 48, embeddings_regularizer="l2")(kinds)
    together = L.Concatenate(axis=1)([L.Reshape((1, 48))(dense), tables])
    pairs = L.Flatten()(L.Dot(axes=2)([together, together]))
    x = L.Concatenate()([dense, pairs])
    for units in (512, 256):
        x = L.Dense(units, activation="relu")(x)
    return keras.Model([numbers, kinds], ops.sigmoid(L.Dense(1)(x)))


def interests(keras):
    """What was bought before is weighed by what is offered now (DIN)."""
    L, ops = keras.layers, keras.ops
    offered, history = keras.Input((1,), dtype="int32"), keras.Input((50,), dtype="int32")
    table = L.Embedding(20000, 32)
    now, before = table(offered), table(history)
    now_50 = ops.repeat(now, 50, axis=1)
    x = L.Concatenate()([now_50, before, now_50 - before, now_50 * before])
    weights = L.Dense(1)(L.PReLU(shared_axes=[1])(L.Dense(80)(x)))
    past = ops.sum(ops.softmax(weights, axis=1) * before, axis=1)
    x = L.BatchNormalization()(L.Concatenate()([past, now[:, 0]]))
    return keras.Model([offered, history], L.Dense(1, activation="sigmoid")(L.PReLU()(L.Dense(200)(x))))


def features_transformer(keras):
    """Every number of a row becomes a token (FT-Transformer)."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((32,))
    x = L.EinsumDense("bf,fd->bfd", (32, 64), bias_axes="fd")(L.BatchNormalization()(inputs))
    for _ in range(3):
        y = L.LayerNormalization()(x)
        x = x + L.MultiHeadAttention(8, 8, dropout=0.2)(y, y)
        left, right = ops.split(L.Dense(192)(L.LayerNormalization()(x)), 2, axis=-1)
        x = x + L.Dense(64)(L.Dropout(0.1)(left * ops.relu(right)))
    return keras.Model(inputs, L.Dense(1)(ops.relu(L.LayerNormalization()(x[:, 0]))))


def binned(keras):
    """Numbers are cut into bins, each of which has a vector."""
    L = keras.layers
    inputs = keras.Input((24,))
    bins = L.Discretization(bin_boundaries=[0.1 * place for place in range(1, 10)])(inputs)
    x = L.Concatenate()([L.Flatten()(L.Embedding(10, 24)(bins)), L.Normalization(mean=0.5, variance=0.08)(inputs)])
    for units in (768, 768, 384):
        x = L.Dropout(0.2)(L.Dense(units, activation="silu", kernel_regularizer="l1")(x))
    return keras.Model(inputs, L.Dense(1, activation="softplus")(x))


def greatest_of(keras):
    """Maxout: the greater of two dense layers, and the smaller of two for the answer."""
    L = keras.layers
    x = inputs = keras.Input((120,))
    for units in (640, 640, 320):
        x = L.GaussianDropout(0.1)(L.Maximum()([L.Dense(units)(x), L.Dense(units)(x)]))
    return keras.Model(inputs, L.Minimum()([L.Dense(8, activation="tanh")(x), L.Dense(8, activation="tanh")(x)]))


def student(keras):
    """A small network learns the answers of a large one as distributions."""
    L = keras.layers
    model = keras.Sequential([L.Input((40, 40, 3))])
    for channels in (32, 64, 128):
        model.add(L.Conv2D(channels, 3, padding="same", activation="hard_swish"))
        model.add(L.Conv2D(channels, 3, strides=2, padding="same", activation="relu6"))
    for layer in (L.Flatten(), L.Dense(1000, activation="softmax")):
        model.add(layer)
    return model


def embedded_sentences(keras):
    """Sentences as directions, to be compared by their angles."""
    L = keras.layers
    model = keras.Sequential([L.Input((60,), dtype="int32"), L.Embedding(20000, 128), L.Masking()])
    model.add(L.Bidirectional(L.GRU(96, return_sequences=True), merge_mode="sum"))
    for layer in (L.GlobalAveragePooling1D(), L.Dense(256, activation="gelu"), L.UnitNormalization()):
        model.add(layer)
    return model


def counts(keras):
    """How often something happens in each cell of a map."""
    L = keras.layers
    model = keras.Sequential([L.Input((64, 64, 5)), L.ZeroPadding2D(2)])
    for channels in (32, 64):
        model.add(L.Conv2D(channels, 5, padding="same", activation="selu", kernel_initializer="lecun_normal"))
        model.add(L.AlphaDropout(0.1))
    for layer in (L.Cropping2D(2), L.Conv2D(1, 1, activation="exponential")):
        model.add(layer)
    return model
