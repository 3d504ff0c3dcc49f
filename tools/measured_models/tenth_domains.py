"""Models of the tenth table, after a gallery of examples: texts, tables, graphs, and what is recommended."""


def switch_words(keras):
    """A switch transformer: each word goes to one of four experts."""
    L, ops = keras.layers, keras.ops
    words = keras.Input((100,), dtype="int32")
    x = L.Embedding(10000, 64)(words)
    for _ in range(2):
        x = L.LayerNormalization(epsilon=1e-6)(x + L.Dropout(0.25)(L.MultiHeadAttention(2, 64)(x, x)))
        chances = L.Dense(4, activation="softmax")(x)
        best, which = ops.top_k(chances, k=1)
        chosen = ops.one_hot(ops.squeeze(which, axis=-1), 4) * best
        y = L.EinsumDense("bsd,edh->besh", (4, 100, 160), bias_axes="eh", activation="relu")(x)
        y = L.EinsumDense("besh,ehd->besd", (4, 100, 64), bias_axes="ed")(y)
        x = L.LayerNormalization(epsilon=1e-6)(x + ops.einsum("bse,besd->bsd", chosen, y))
    x = L.Dropout(0.25)(L.Dense(50, activation="relu")(L.Dropout(0.25)(L.GlobalAveragePooling1D()(x))))
    return keras.Model(words, L.Dense(2, activation="softmax")(x))


def spans(keras):
    """Where an answer begins in a text and where it ends."""
    L, ops = keras.layers, keras.ops
    words, padding = keras.Input((160,), dtype="int32", name="words"), keras.Input((160,), name="padding")
    x = L.Embedding(9000, 128)(words)
    x = x + L.EinsumDense("bsd,sd->bsd", (160, 128))(x)
    x = L.Dropout(0.1)(L.LayerNormalization(epsilon=1e-12)(x))
    seen = ops.expand_dims(padding > 0.1, axis=1)
    for _ in range(3):
        attended = L.MultiHeadAttention(4, 32, dropout=0.1)(x, x, attention_mask=seen)
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, attended]))
        y = L.Dropout(0.1)(L.Dense(128)(L.Dense(512, activation="gelu")(x)))
        x = L.LayerNormalization(epsilon=1e-12)(L.Add()([x, y]))
    start, end = (L.Flatten()(L.Dense(1, use_bias=False)(x)) for _ in range(2))
    return keras.Model([words, padding], [L.Activation(keras.activations.softmax)(place) for place in (start, end)])


def inference_pairs(keras):
    """ESIM: the words of two sentences are laid beside those of the other that are like them."""
    L, ops = keras.layers, keras.ops
    left, right = keras.Input((40,), dtype="int32", name="left"), keras.Input((40,), dtype="int32", name="right")
    table, norm, reader = L.Embedding(15000, 100), L.BatchNormalization(axis=2), L.Bidirectional(L.LSTM(100, return_sequences=True))
    a, b = (reader(norm(table(words))) for words in (left, right))
    scores = ops.matmul(a, ops.transpose(b, (0, 2, 1)))
    like_a = ops.matmul(ops.softmax(scores, axis=2), b)
    like_b = ops.matmul(ops.softmax(ops.transpose(scores, (0, 2, 1)), axis=2), a)
    compare, pooled = L.Bidirectional(L.LSTM(100, return_sequences=True)), []
    for own, other in ((a, like_a), (b, like_b)):
        x = compare(L.Concatenate()([own, other, L.Subtract()([own, other]), L.Multiply()([own, other])]))
        pooled += [L.GlobalAveragePooling1D()(x), L.GlobalMaxPooling1D()(x)]
    x = L.BatchNormalization()(L.Concatenate()(pooled))
    x = L.Dropout(0.5)(L.Dense(300, activation="elu")(x))
    return keras.Model([left, right], L.Dense(3, activation="softmax")(x))


def forest(keras):
    """A neural decision forest: at each fork of a tree some of the row goes left and the rest goes right."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((64,))
    features, answers = L.BatchNormalization()(inputs), []
    for _ in range(8):
        used = L.Dropout(0.5)(features)
        forks = L.Dense(128, activation="sigmoid")(used)
        forks = ops.stack([forks, 1.0 - forks], axis=2)
        share, first = ops.ones_like(forks[:, :1, :1]), 1
        for level in range(7):
            share = ops.tile(ops.reshape(share, (-1, 2**level, 1)), (1, 1, 2)) * forks[:, first : first + 2**level]
            first += 2**level
        answers.append(L.Dense(6, use_bias=False, activation="softmax")(ops.reshape(share, (-1, 128))))
    return keras.Model(inputs, L.average(answers))


def chosen_features(keras):
    """TabNet: each step picks a few columns of the table, others than the steps before."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((80,))
    table = L.BatchNormalization(momentum=0.9)(inputs)
    shared = [L.Dense(128, use_bias=False) for _ in range(2)]

    def features(x):
        for layer in (*shared, L.Dense(128, use_bias=False)):
            value, gate = ops.split(L.BatchNormalization(momentum=0.9)(layer(x)), 2, axis=-1)
            y = value * ops.sigmoid(gate)
            x = (x + y) * 0.7071 if x.shape[-1] == 64 else y
        return x

    left = ops.ones_like(inputs)
    x, answer = features(L.Dense(64)(table)), None
    for _ in range(4):
        mask = ops.sparsemax(left * L.BatchNormalization()(L.Dense(80, use_bias=False)(x)))
        left = left * (1.3 - mask)
        x = features(L.Dense(64)(mask * table))
        part = ops.relu(x)
        answer = part if answer is None else answer + part
    return keras.Model(inputs, L.Dense(4, activation="softmax")(answer))


def watched_films(keras):
    """A behaviour sequence transformer: films seen before, with what was thought of them, and one more."""
    L, ops = keras.layers, keras.ops
    user, film = keras.Input((1,), dtype="int32", name="user"), keras.Input((1,), dtype="int32", name="film")
    seen, ratings = keras.Input((15,), dtype="int32", name="seen"), keras.Input((15,), name="ratings")
    table = L.Embedding(4000, 62)
    past = table(seen) + ops.expand_dims(ops.cumsum(ratings, axis=1), -1) * L.Dense(62)(table(seen))
    x = L.Concatenate(axis=1)([past, table(film)])
    y = L.Dropout(0.1)(L.MultiHeadAttention(num_heads=3, key_dim=62, dropout=0.1)(x, x))
    x = L.LayerNormalization()(L.Add()([x, y]))
    y = L.Dropout(0.1)(L.Dense(62)(L.LeakyReLU()(x)))
    x = L.Flatten()(L.LayerNormalization()(L.Add()([x, y])))
    x = L.Concatenate()([x, L.Flatten()(L.Embedding(6000, 32)(user))])
    for units in (256, 128):
        x = L.Dropout(0.1)(L.LeakyReLU()(L.BatchNormalization()(L.Dense(units)(x))))
    return keras.Model([user, film, seen, ratings], L.Dense(1)(x))


def roads(keras):
    """Speeds on roads that meet: neighbours are gathered at each hour, then each road is read by itself."""
    L, ops = keras.layers, keras.ops
    speeds, meet = keras.Input((12, 64, 2), name="speeds"), keras.Input((64, 64), name="meet")
    near = meet / (ops.sum(meet, axis=-1, keepdims=True) + 1e-6)
    heard = L.Dense(24)(ops.einsum("bnm,btmf->btnf", near, speeds))
    x = ops.relu(ops.concatenate([L.Dense(24)(speeds), heard], axis=-1))
    x = ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (-1, 12, 48))
    x = L.Dense(3)(L.LSTM(64, activation="relu")(x))
    return keras.Model([speeds, meet], ops.transpose(ops.reshape(x, (-1, 64, 3)), (0, 2, 1)))


def citations(keras):
    """Papers of one batch that cite each other: what the cited ones say is taken from the batch itself."""
    L, ops = keras.layers, keras.ops
    paper, cited = keras.Input((400,), name="paper"), keras.Input((8,), dtype="int32", name="cited")
    x = L.Dropout(0.5)(L.Dense(64, activation="gelu")(L.BatchNormalization()(paper)))
    edge = L.Embedding(2000, 16)(cited)
    for _ in range(2):
        sent = ops.concatenate([ops.take(x, cited, axis=0), edge], axis=-1)
        sent = L.Dropout(0.5)(L.Dense(64, activation="gelu")(L.BatchNormalization()(sent)))
        heard = ops.concatenate([x, ops.mean(sent, axis=1), ops.amax(sent, axis=1)], axis=-1)
        y = L.Dense(64, activation="gelu")(L.BatchNormalization()(heard))
        x = L.UnitNormalization()(x + y)
    return keras.Model([paper, cited], L.Dense(7)(x))
