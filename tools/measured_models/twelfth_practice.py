"""Models of the twelfth table: texts, series, several inputs, and backbones that others have trained."""


def star_reviews(keras):
    model = keras.Sequential(
        [
            keras.layers.Input((180,), dtype="int32"),
            keras.layers.Embedding(15000, 64, mask_zero=True),
            keras.layers.Bidirectional(keras.layers.GRU(64, return_sequences=True)),
            keras.layers.Bidirectional(keras.layers.GRU(32)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dropout(0.4),
            keras.layers.Dense(5, activation="softmax"),
        ]
    )
    return model


def letters_of_plays(keras):
    """The next letter, by one wide LSTM over a hundred letters, as in a tutorial."""
    model = keras.Sequential([keras.layers.Input((100,), dtype="int32"), keras.layers.Embedding(66, 256)])
    model.add(keras.layers.LSTM(768, return_sequences=True, recurrent_initializer="glorot_uniform"))
    model.add(keras.layers.Dense(66))
    return model


def written_dates(keras):
    """Dates as people write them, turned into numbers letter by letter."""
    layers = keras.layers
    model = keras.Sequential()
    model.add(layers.Input((30,), dtype="int32"))
    model.add(layers.Embedding(64, 64))
    model.add(layers.Bidirectional(layers.LSTM(160)))
    model.add(layers.RepeatVector(10))
    model.add(layers.LSTM(256, return_sequences=True))
    model.add(layers.TimeDistributed(layers.Dense(12, activation="softmax")))
    return model


def phrase_book(keras):
    """Encoder and decoder of GRUs whose state is handed over, with masks, and a dense layer over 8000 words."""
    layers = keras.layers
    english = keras.Input((20,), dtype="int32", name="english")
    spanish = keras.Input((22,), dtype="int32", name="spanish")
    x = layers.Embedding(8000, 128, mask_zero=True)(english)
    state = layers.Bidirectional(layers.GRU(256), merge_mode="sum")(x)
    y = layers.Embedding(8000, 128, mask_zero=True)(spanish)
    y = layers.GRU(256, return_sequences=True)(y, initial_state=state)
    return keras.Model([english, spanish], layers.Dense(8000, activation="softmax")(layers.Dropout(0.5)(y)))


def air_quality(keras):
    """Two convolutions over hours, then an LSTM; a whole day is told."""
    layers = keras.layers
    hours = keras.Input((168, 14))
    x = layers.Conv1D(64, 3, activation="relu")(hours)
    x = layers.Conv1D(128, 3, activation="relu")(x)
    x = layers.MaxPooling1D(2)(x)
    x = layers.LSTM(100, activation="tanh")(x)
    x = layers.Dense(100, activation="relu")(x)
    return keras.Model(hours, layers.Dense(24)(x))


def reading_encoder(keras):
    """Words and places, two blocks of attention that are normalized afterwards, and an average."""
    layers, ops = keras.layers, keras.ops
    tokens = keras.Input((160,), dtype="int32", name="tokens")
    positions = ops.arange(160) + ops.zeros_like(tokens)
    x = layers.Embedding(12000, 96)(tokens) + layers.Embedding(160, 96)(positions)
    for _ in range(2):
        attention = layers.MultiHeadAttention(num_heads=4, key_dim=96, dropout=0.1)(x, x)
        x = layers.LayerNormalization(epsilon=1e-6)(x + attention)
        forward = keras.Sequential([layers.Dense(192, activation="relu"), layers.Dense(96)])(x)
        x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dropout(0.1)(forward))
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling1D()(x))
    return keras.Model(tokens, layers.Dense(20, activation="softmax")(x))


def recipe_writer(keras):
    """Three blocks of causal attention, normalized afterwards; scores of the next word."""
    layers = keras.layers
    tokens = keras.Input((80,), dtype="int32")
    places = keras.layers.Embedding(80, 256)(keras.ops.cumsum(keras.ops.ones_like(tokens), axis=1) - 1)
    x = layers.Add()([layers.Embedding(7000, 256)(tokens), places])
    for _ in range(3):
        y, _scores = layers.MultiHeadAttention(4, 64)(x, x, use_causal_mask=True, return_attention_scores=True)
        x = layers.LayerNormalization()(x + layers.Dropout(0.1)(y))
        y = layers.Dense(256)(layers.Dense(512, activation="relu")(x))
        x = layers.LayerNormalization()(x + layers.Dropout(0.1)(y))
    return keras.Model(tokens, layers.Dense(7000)(x))


def rented_rooms(keras):
    """A picture, a description and a few numbers; a price and how sought after the room is."""
    layers = keras.layers
    photo, words = keras.Input((96, 96, 3), name="photo"), keras.Input((100,), dtype="int32", name="words")
    numbers = keras.Input((18,), name="numbers")
    a = photo
    for filters in (16, 32, 64):
        a = layers.MaxPooling2D()(layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same", activation="relu")(a)))
    a = layers.Dense(64, activation="relu")(layers.Flatten()(a))
    b = layers.GRU(64)(layers.Embedding(9000, 64)(words))
    c = layers.Dense(32, activation="relu")(layers.Normalization(mean=0.0, variance=1.0)(numbers))
    both = layers.Dense(128, activation="relu")(layers.concatenate([a, b, c]))
    price = layers.Dense(1, name="price")(both)
    return keras.Model([photo, words, numbers], [price, layers.Dense(1, "sigmoid", name="sought")(both)])


def fake_faces(keras):
    """A GAN's discriminator with normalization, for pictures of 128 by 128."""
    model = keras.Sequential([keras.Input((128, 128, 3))])
    for i, filters in enumerate((64, 128, 256, 512)):
        model.add(keras.layers.Conv2D(filters, 4, strides=2, padding="same", use_bias=i == 0))
        if i:
            model.add(keras.layers.BatchNormalization(momentum=0.8))
        model.add(keras.layers.LeakyReLU(0.2))
    model.add(keras.layers.Conv2D(1, 8, padding="valid", activation="sigmoid"))
    model.add(keras.layers.Flatten())
    return model


def flower_head(keras):
    """MobileNetV2 that does not learn, an average and one dense layer."""
    base = keras.applications.MobileNetV2(input_shape=(160, 160, 3), include_top=False, weights=None)
    base.trainable = False
    inputs = keras.Input(shape=(160, 160, 3))
    x = keras.applications.mobilenet_v2.preprocess_input(inputs)
    x = base(x, training=False)
    x = keras.layers.GlobalAveragePooling2D()(x)
    x = keras.layers.Dropout(0.2)(x)
    return keras.Model(inputs, keras.layers.Dense(5)(x))


def leaf_diseases(keras):
    """A frozen DenseNet121, flattened, and two dense layers of some size."""
    base = keras.applications.DenseNet121(input_shape=(128, 128, 3), include_top=False, weights=None)
    base.trainable = False
    model = keras.Sequential([keras.Input((128, 128, 3)), keras.layers.Rescaling(1.0 / 255), base])
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(512, activation="relu"))
    model.add(keras.layers.BatchNormalization())
    model.add(keras.layers.Dropout(0.5))
    model.add(keras.layers.Dense(38, activation="softmax"))
    return model


def last_layers(keras):
    """EfficientNetV2B0 whose last forty layers learn, those that normalize excepted."""
    base = keras.applications.EfficientNetV2B0(input_shape=(192, 192, 3), include_top=False, weights=None, pooling="avg")
    for layer in base.layers[:-40]:
        layer.trainable = False
    for layer in base.layers[-40:]:
        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
    x = keras.layers.Dropout(0.3)(base.output)
    return keras.Model(base.input, keras.layers.Dense(11, activation="softmax")(x))


def music_waves(keras):
    """Gated dilated convolutions that look back only, with sums for the answer, over waves of 256 steps of height."""
    layers = keras.layers
    wave = keras.Input((2048, 1))
    x, skips = layers.Conv1D(32, 2, padding="causal")(wave), []
    for _ in range(2):
        for rate in (1, 2, 4, 8, 16, 32):
            gate = layers.Conv1D(32, 2, dilation_rate=rate, padding="causal", activation="sigmoid")(x)
            y = layers.Conv1D(32, 2, dilation_rate=rate, padding="causal", activation="tanh")(x)
            y = layers.multiply([y, gate])
            skips.append(layers.Conv1D(64, 1)(y))
            x = layers.add([x, layers.Conv1D(32, 1)(y)])
    y = layers.Conv1D(128, 1, activation="relu")(layers.Activation("relu")(layers.add(skips)))
    return keras.Model(wave, layers.Conv1D(256, 1, activation="softmax")(y))
