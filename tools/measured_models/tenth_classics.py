"""Models of the tenth table: the well-known tutorials, as tutorials write them."""


def bottlenecks(keras):
    """ResNet v2 for CIFAR: normalization comes before each convolution."""
    L = keras.layers

    def convolution(x, channels, size=3, stride=1, first=True):
        if first:
            x = L.Activation("relu")(L.BatchNormalization()(x))
        settings = {"kernel_initializer": "he_normal", "kernel_regularizer": keras.regularizers.L2(1e-4)}
        return L.Conv2D(channels, size, strides=stride, padding="same", **settings)(x)

    inputs = keras.Input((32, 32, 3))
    x = L.Activation("relu")(L.BatchNormalization()(convolution(inputs, 16, first=False)))
    for stage, (narrow, wide) in enumerate(((16, 64), (64, 128), (128, 256))):
        for block in range(3):
            stride = 2 if stage and not block else 1
            y = convolution(x, narrow, 1, stride, first=bool(stage or block))
            y = convolution(convolution(y, narrow), wide, 1)
            x = L.Add()([x if block else convolution(x, wide, 1, stride, first=False), y])
    x = L.Flatten()(L.AveragePooling2D(8)(L.Activation("relu")(L.BatchNormalization()(x))))
    return keras.Model(inputs, L.Dense(10, activation="softmax", kernel_initializer="he_normal")(x))


def long_reviews(keras):
    """Reviews with padding, read from both ends."""
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((250,), dtype="int32"),
            L.Embedding(8000, 64, mask_zero=True),
            L.Bidirectional(L.LSTM(64, return_sequences=True)),
            L.Bidirectional(L.LSTM(32)),
            L.Dense(64, activation="relu"),
            L.Dropout(0.5),
            L.Dense(1, activation="sigmoid"),
        ]
    )


def fooling(keras):
    """The generator of a GAN is trained through a discriminator that stays as it is."""
    L = keras.layers
    generator = keras.Sequential([L.Input((128,)), L.Dense(8 * 8 * 128), L.Reshape((8, 8, 128))], name="generator")
    for channels in (128, 192, 256):
        generator.add(L.Conv2DTranspose(channels, 4, strides=2, padding="same"))
        generator.add(L.LeakyReLU(0.2))
    generator.add(L.Conv2D(3, 5, padding="same", activation="sigmoid"))
    judge = keras.Sequential([L.Input((64, 64, 3))], name="judge")
    for channels in (64, 128, 128):
        judge.add(L.Conv2D(channels, 4, strides=2, padding="same"))
        judge.add(L.LeakyReLU(0.2))
    for layer in (L.Flatten(), L.Dropout(0.2), L.Dense(1, activation="sigmoid")):
        judge.add(layer)
    judge.trainable = False
    inputs = keras.Input((128,))
    return keras.Model(inputs, judge(generator(inputs)))


def labelled_generator(keras):
    """Pictures of a kind that is asked for: the label becomes a channel of its own."""
    L = keras.layers
    noise, label = keras.Input((100,), name="noise"), keras.Input((1,), dtype="int32", name="label")
    kind = L.Reshape((7, 7, 1))(L.Dense(49)(L.Embedding(10, 50)(label)))
    x = L.Reshape((7, 7, 128))(L.LeakyReLU(0.2)(L.Dense(7 * 7 * 128)(noise)))
    x = L.Concatenate()([x, kind])
    for _ in range(2):
        x = L.LeakyReLU(0.2)(L.BatchNormalization(momentum=0.8)(L.Conv2DTranspose(128, 4, strides=2, padding="same")(x)))
    return keras.Model([noise, label], L.Conv2D(1, 7, padding="same", activation="tanh")(x))


def cut_up(keras):
    """A vision transformer that cuts its pictures into patches itself."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((72, 72, 3))
    patches = L.Reshape((144, 108))(ops.image.extract_patches(inputs, 6))
    places = L.Embedding(144, 64)(ops.zeros_like(patches[:, :, 0], dtype="int32") + ops.arange(144))
    x = L.Dense(64)(patches) + places
    for _ in range(4):
        y = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([L.MultiHeadAttention(num_heads=4, key_dim=64, dropout=0.1)(y, y), x])
        y = L.LayerNormalization(epsilon=1e-6)(x)
        for units in (128, 64):
            y = L.Dropout(0.1)(L.Dense(units, activation=keras.activations.gelu)(y))
        x = L.Add()([y, x])
    x = L.Dropout(0.5)(L.Flatten()(L.LayerNormalization(epsilon=1e-6)(x)))
    for units in (1024, 512):
        x = L.Dropout(0.5)(L.Dense(units, activation=keras.activations.gelu)(x))
    return keras.Model(inputs, L.Dense(100)(x))


def triplets(keras):
    """An anchor, one like it and one unlike it through one network; the distances of the pairs come out."""
    L, ops = keras.layers, keras.ops
    tower = keras.Sequential([L.Input((80, 80, 3))], name="tower")
    for channels in (32, 64, 128):
        tower.add(L.Conv2D(channels, 3, padding="same", activation="relu"))
        tower.add(L.MaxPooling2D())
    for layer in (L.Flatten(), L.Dense(256, activation="relu"), L.BatchNormalization(), L.Dense(128)):
        tower.add(layer)
    three = [keras.Input((80, 80, 3), name=name) for name in ("anchor", "like", "unlike")]
    anchor, like, unlike = (tower(picture) for picture in three)
    near = ops.sum(ops.square(anchor - like), axis=-1, keepdims=True)
    far = ops.sum(ops.square(anchor - unlike), axis=-1, keepdims=True)
    return keras.Model(three, L.Activation("sigmoid")(L.Concatenate()([near, far])))


def told_pictures(keras):
    """A picture's places are asked by the words of its description."""
    L = keras.layers
    picture, words = keras.Input((96, 96, 3), name="picture"), keras.Input((24,), dtype="int32", name="words")
    seen = picture
    for channels in (32, 64, 128):
        seen = L.MaxPooling2D()(L.BatchNormalization()(L.Conv2D(channels, 3, padding="same", activation="relu")(seen)))
    seen = L.LayerNormalization()(L.Dense(160, activation="relu")(L.Reshape((144, 128))(seen)))
    x = L.Embedding(6000, 160, mask_zero=True)(words)
    for _ in range(2):
        x = L.LayerNormalization()(x + L.MultiHeadAttention(2, 160, dropout=0.1)(x, x, use_causal_mask=True))
        x = L.LayerNormalization()(x + L.MultiHeadAttention(2, 160, dropout=0.1)(query=x, value=seen, key=seen))
        y = L.Dense(160)(L.Dropout(0.3)(L.Dense(512, activation="relu")(x)))
        x = L.LayerNormalization()(x + y)
    return keras.Model([picture, words], L.Dense(6000, activation="softmax")(L.Dropout(0.5)(x)))


def scratch_text(keras):
    """Text classification from scratch: strided convolutions over words."""
    L = keras.layers
    inputs = keras.Input((400,), dtype="int64")
    x = L.Dropout(0.5)(L.Embedding(20000, 128)(inputs))
    for _ in range(2):
        x = L.Conv1D(128, 7, padding="valid", activation="relu", strides=3)(x)
    x = L.Dropout(0.5)(L.Dense(128, activation="relu")(L.GlobalMaxPooling1D()(x)))
    return keras.Model(inputs, L.Dense(1, activation="sigmoid", name="predictions")(x))


def luong(keras):
    """Two layers of LSTM at both ends, and attention over what was read."""
    L = keras.layers
    source, target = keras.Input((36,), dtype="int32", name="source"), keras.Input((32,), dtype="int32", name="target")
    x, *lower = L.LSTM(128, return_sequences=True, return_state=True)(L.Embedding(6000, 96)(source))
    encoded, *upper = L.LSTM(128, return_sequences=True, return_state=True)(x)
    x = L.LSTM(128, return_sequences=True)(L.Embedding(7000, 96)(target), initial_state=lower)
    x = L.LSTM(128, return_sequences=True)(x, initial_state=upper)
    scores = L.Dot(axes=(2, 2))([x, L.Dense(128, use_bias=False)(encoded)])
    context = L.Dot(axes=(2, 1))([L.Softmax()(scores), encoded])
    x = L.TimeDistributed(L.Dense(128, activation="tanh"))(L.Concatenate()([context, x]))
    return keras.Model([source, target], L.TimeDistributed(L.Dense(7000, activation="softmax"))(x))


def newswires(keras):
    """Which words occur in a message, and a plain network."""
    L = keras.layers
    model = keras.Sequential([L.Input((10000,))])
    for units in (512, 256):
        model.add(L.Dense(units, activation="relu"))
        model.add(L.Dropout(0.5))
    model.add(L.Dense(46, activation="softmax"))
    return model


def causal_blocks(keras):
    """A temporal convolutional network: two causal convolutions a block, each block twice as far back."""
    L = keras.layers
    x = inputs = keras.Input((784, 1))
    for level in range(6):
        y = x
        for _ in range(2):
            y = L.Conv1D(32, 7, padding="causal", dilation_rate=2**level, kernel_initializer="he_normal")(y)
            y = L.SpatialDropout1D(0.05)(L.Activation("relu")(L.LayerNormalization()(y)))
        short = x if x.shape[-1] == 32 else L.Conv1D(32, 1, padding="same")(x)
        x = L.Activation("relu")(L.Add()([short, y]))
    return keras.Model(inputs, L.Dense(10, activation="softmax")(x[:, -1]))


def cropped_unet(keras):
    """The first U-Net: no padding, so that what is passed across is cut to size."""
    L = keras.layers

    def block(x, channels):
        for _ in range(2):
            x = L.Conv2D(channels, 3, activation="relu", kernel_initializer="he_normal")(x)
        return x

    inputs = keras.Input((124, 124, 1))
    x, levels = inputs, []
    for channels in (24, 48, 96):
        x = block(x, channels)
        levels.append(x)
        x = L.MaxPooling2D()(x)
    x = L.Dropout(0.5)(block(x, 192))
    for channels in (96, 48, 24):
        x = L.Conv2DTranspose(channels, 2, strides=2)(x)
        level = levels.pop()
        margin = level.shape[1] - x.shape[1]
        level = L.Cropping2D((margin // 2, margin - margin // 2))(level)
        x = block(L.Concatenate()([level, x]), channels)
    return keras.Model(inputs, L.Conv2D(2, 1, activation="softmax")(x))
