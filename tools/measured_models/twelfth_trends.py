"""Models of the twelfth table: more pictures after papers; heads that are shared, gates, and steps that repeat."""


def rain_ahead(keras):
    """Radar pictures through ConvLSTM, normalized by layer; the next ones by a convolution over volumes."""
    layers = keras.layers
    frames = keras.Input((8, 48, 48, 1))
    x = layers.ConvLSTM2D(24, 5, padding="same", return_sequences=True, activation="relu")(frames)
    x = layers.LayerNormalization()(x)
    x = layers.ConvLSTM2D(24, 3, padding="same", return_sequences=True, recurrent_dropout=0.1)(x)
    x = layers.LayerNormalization()(x)
    return keras.Model(frames, layers.Conv3D(1, 3, padding="same", activation="sigmoid")(x))


def where_it_is(keras):
    """CoordConv: rows and columns are laid beside the picture, for an answer about places."""
    layers, ops = keras.layers, keras.ops
    image = keras.Input((112, 112, 3))
    rows, columns = ops.meshgrid(ops.linspace(-1.0, 1.0, 112), ops.linspace(-1.0, 1.0, 112), indexing="ij")
    grid = ops.expand_dims(ops.stack([rows, columns], axis=-1), 0)
    x = ops.concatenate([image, ops.zeros_like(image[..., :2]) + grid], axis=-1)
    for filters in (24, 48, 96, 192):
        x = layers.Conv2D(filters, 3, padding="same", activation="mish")(x)
        x = layers.MaxPooling2D()(layers.BatchNormalization()(x))
    x = layers.Conv2D(20, 1)(x)
    attention = layers.Softmax(axis=1)(layers.Reshape((49, 20))(x))
    return keras.Model(image, layers.Flatten()(layers.Dense(2)(layers.Permute((2, 1))(attention))))


def split_scales(keras):
    """Res2Net: a block's channels go in four parts, each through a convolution that saw the part before."""
    layers, ops = keras.layers, keras.ops

    def block(x, filters, stride):
        y = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(filters, 1, use_bias=False)(x)))
        if stride > 1:
            y = layers.AveragePooling2D(3, strides=stride, padding="same")(y)
        parts = ops.split(y, 4, axis=-1)
        seen = [parts[0]]
        for part in parts[1:]:
            part = part if len(seen) == 1 else part + seen[-1]
            part = layers.Conv2D(filters // 4, 3, padding="same", use_bias=False)(part)
            seen.append(layers.ReLU()(layers.BatchNormalization()(part)))
        y = layers.BatchNormalization()(layers.Conv2D(filters * 2, 1, use_bias=False)(layers.Concatenate()(seen)))
        if x.shape[-1] != filters * 2:
            x = layers.BatchNormalization()(layers.Conv2D(filters * 2, 1, strides=stride, use_bias=False)(x))
        return layers.ReLU()(x + y)

    image = keras.Input((96, 96, 3))
    x = layers.Conv2D(48, 3, strides=2, padding="same", activation="relu")(image)
    for filters, stride in ((48, 1), (48, 1), (96, 2), (96, 1), (192, 2), (192, 1)):
        x = block(x, filters, stride)
    return keras.Model(image, layers.Dense(50, activation="softmax")(layers.GlobalAveragePooling2D()(x)))


def shared_heads(keras):
    """RetinaNet in small: the same two heads go over every level of the pyramid."""
    layers = keras.layers
    image = keras.Input((160, 160, 3))
    x, levels = image, []
    for filters in (24, 48, 96, 128, 160):
        x = layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.Activation("silu")(layers.BatchNormalization()(x))
        x = layers.Activation("silu")(layers.BatchNormalization()(layers.SeparableConv2D(filters, 3, padding="same")(x)))
        levels.append(layers.Conv2D(96, 1)(x))
    c3, c4, c5 = levels[2:]
    p4 = layers.Add()([c4, layers.UpSampling2D()(c5)])
    p3 = layers.Add()([c3, layers.UpSampling2D()(p4)])

    maps = [layers.Conv2D(96, 3, padding="same")(each) for each in (p3, p4, c5)]
    outputs = []
    for answers, activation in ((20, "sigmoid"), (4, None)):
        head = [layers.Conv2D(96, 3, padding="same", activation="relu") for _ in range(3)]
        head.append(layers.Conv2D(9 * answers, 3, padding="same", activation=activation))
        parts = []
        for x in maps:
            for layer in head:
                x = layer(x)
            parts.append(layers.Reshape((-1, answers))(x))
        outputs.append(layers.Concatenate(axis=1)(parts))
    return keras.Model(image, outputs)


def tiny_yolo(keras):
    """YOLO's small sister: leaky convolutions, pools, and two maps of answers of different size."""
    layers = keras.layers

    def leaky(x, filters, size=3):
        x = layers.Conv2D(filters, size, padding="same", use_bias=False, kernel_regularizer=keras.regularizers.l2(5e-4))(x)
        return layers.LeakyReLU(negative_slope=0.1)(layers.BatchNormalization()(x))

    x = inputs = keras.Input((256, 256, 3))
    for filters in (16, 32, 64, 128):
        x = layers.MaxPooling2D(2)(leaky(x, filters))
    route = leaky(x, 256)
    x = leaky(layers.MaxPooling2D(2)(route), 512)
    x = leaky(leaky(layers.MaxPooling2D(2, 1, "same")(x), 512), 256, 1)
    large = layers.Conv2D(75, 1)(leaky(x, 512))
    x = layers.UpSampling2D(2)(leaky(x, 128, 1))
    x = leaky(layers.Concatenate()([x, route]), 256)
    return keras.Model(inputs, [large, layers.Conv2D(75, 1)(x)])


def attention_bottleneck(keras):
    """BoTNet: a residual network whose last stage has attention over all places instead of convolutions."""
    layers = keras.layers

    def block(x, filters, stride, attends):
        y = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(filters, 1, use_bias=False)(x)))
        if attends:
            height, width = y.shape[1:3]
            y = layers.Reshape((height * width, filters))(y)
            y = layers.MultiHeadAttention(4, filters // 4, use_bias=False)(y, y)
            y = layers.Reshape((height, width, filters))(y)
        else:
            y = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(y)
        y = layers.ReLU()(layers.BatchNormalization()(y))
        y = layers.BatchNormalization(gamma_initializer="zeros")(layers.Conv2D(4 * filters, 1, use_bias=False)(y))
        if x.shape[-1] != 4 * filters:
            x = layers.BatchNormalization()(layers.Conv2D(4 * filters, 1, strides=stride, use_bias=False)(x))
        return layers.ReLU()(layers.Add()([x, y]))

    image = keras.Input((128, 128, 3))
    x = layers.Conv2D(32, 7, strides=2, padding="same", activation="relu")(image)
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    for filters, stride, attends in ((32, 1, False), (64, 2, False), (64, 1, False), (96, 1, True), (96, 1, True)):
        x = block(x, filters, stride, attends)
    return keras.Model(image, layers.Dense(37)(layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))))


def simple_gates(keras):
    """NAFNet: no activation at all, one half of the channels times the other; noise is what is taken away."""
    layers, ops = keras.layers, keras.ops

    def gate(x):
        a, b = ops.split(x, 2, axis=-1)
        return a * b

    def block(x):
        width = x.shape[-1]
        y = layers.Conv2D(2 * width, 1)(layers.LayerNormalization()(x))
        y = gate(layers.DepthwiseConv2D(3, padding="same")(y))
        y = y * layers.Conv2D(width, 1)(ops.mean(y, axis=(1, 2), keepdims=True))
        x = x + layers.Conv2D(width, 1)(y)
        return x + layers.Conv2D(width, 1)(gate(layers.Conv2D(2 * width, 1)(layers.LayerNormalization()(x))))

    noisy = keras.Input((96, 96, 3))
    x, skips = layers.Conv2D(24, 3, padding="same")(noisy), []
    for width in (48, 96):
        x = block(x)
        skips.append(x)
        x = layers.Conv2D(width, 2, strides=2)(x)
    x = block(block(x))
    for skip in reversed(skips):
        x = ops.depth_to_space(layers.Conv2D(2 * x.shape[-1], 1, use_bias=False)(x), 2)
        x = block(x + skip)
    return keras.Model(noisy, noisy + layers.Conv2D(3, 3, padding="same")(x))


def bags_of_patches(keras):
    """A slide is a bag of patches; a gated attention says which of them matter for the answer."""
    layers, ops = keras.layers, keras.ops
    bag = keras.Input((24, 48, 48, 3), name="bag")
    patch = keras.Input((48, 48, 3), name="patch")
    y = layers.MaxPooling2D()(layers.Conv2D(20, 5, activation="relu")(patch))
    y = layers.MaxPooling2D()(layers.Conv2D(50, 5, activation="relu")(y))
    y = layers.Dropout(0.25)(layers.Dense(256, activation="relu")(layers.Flatten()(y)))
    x = layers.TimeDistributed(keras.Model(patch, y, name="instance"))(bag)
    weights = layers.Dense(1)(layers.Dense(128, activation="tanh")(x) * layers.Dense(128, activation="sigmoid")(x))
    pooled = ops.sum(x * ops.softmax(weights, axis=1), axis=1)
    return keras.Model(bag, layers.Dense(1, activation="sigmoid", name="tumour")(pooled))
