"""Models of the ninth table: detectors, many branches, and graphs and sets of things."""


def weighed_pyramid(keras):
    """Scales that are added up with weights of their own, up and down (BiFPN)."""
    L = keras.layers
    inputs = keras.Input((128, 128, 3))
    x = L.Conv2D(24, 3, strides=2, padding="same", activation="swish")(inputs)
    scales = []
    for channels in (32, 48, 64, 96):
        x = L.SeparableConv2D(channels, 3, strides=2, padding="same", use_bias=False)(x)
        x = L.Activation("swish")(L.BatchNormalization()(x))
        scales.append(L.BatchNormalization()(L.Conv2D(64, 1)(x)))

    def fused(*parts):
        weighed = [L.DepthwiseConv2D(1, use_bias=False, depthwise_constraint="non_neg")(part) for part in parts]
        return L.BatchNormalization()(L.SeparableConv2D(64, 3, padding="same")(L.Activation("swish")(L.Add()(weighed))))

    for _ in range(2):
        down = [scales[-1]]
        for scale in reversed(scales[:-1]):
            down.insert(0, fused(scale, L.UpSampling2D()(down[0])))
        up = [down[0]]
        for scale, middle in zip(scales[1:], down[1:]):
            up.append(fused(scale, middle, L.MaxPooling2D(3, strides=2, padding="same")(up[-1])))
        scales = up
    head, boxes = L.SeparableConv2D(36, 3, padding="same"), L.SeparableConv2D(16, 3, padding="same")
    classes = L.Concatenate(axis=1)([L.Reshape((-1, 4))(head(scale)) for scale in scales])
    places = L.Concatenate(axis=1)([L.Reshape((-1, 4))(boxes(scale)) for scale in scales])
    return keras.Model(inputs, [L.Activation("sigmoid")(classes), places])


def repeated_vgg(keras):
    """Three branches in every block, which could be one convolution afterwards (RepVGG)."""
    L = keras.layers
    x = inputs = keras.Input((80, 80, 3))
    for channels, count in ((32, 1), (48, 2), (96, 3), (192, 1)):
        for index in range(count):
            stride = 1 if index else 2
            branches = [
                L.BatchNormalization()(L.Conv2D(channels, size, strides=stride, padding="same", use_bias=False)(x)) for size in (3, 1)
            ]
            if index:
                branches.append(L.BatchNormalization()(x))
            x = L.ReLU()(L.Add()(branches))
    return keras.Model(inputs, L.Dense(100, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def cross_stage(keras):
    """Half of the channels pass by each stage, with mish (CSPDarknet)."""
    L = keras.layers

    def block(x, channels, size, stride=1):
        x = L.Conv2D(channels, size, strides=stride, padding="same", use_bias=False)(x)
        return L.Activation("mish")(L.BatchNormalization()(x))

    inputs = keras.Input((112, 112, 3))
    x = block(inputs, 24, 3)
    for channels, count in ((48, 1), (96, 2), (192, 2)):
        x = block(x, channels, 3, 2)
        past, through = block(x, channels // 2, 1), block(x, channels // 2, 1)
        for _ in range(count):
            through = L.Add()([through, block(block(through, channels // 2, 1), channels // 2, 3)])
        x = block(L.Concatenate()([block(through, channels // 2, 1), past]), channels, 1)
    pools = [L.MaxPooling2D(size, strides=1, padding="same")(x) for size in (5, 9, 13)]
    x = block(L.Concatenate()([x, *pools]), 128, 1)
    return keras.Model(inputs, L.Conv2D(3 * 25, 1)(x))


def shuffled(keras):
    """Groups of channels whose order is mixed (ShuffleNet)."""
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x = L.MaxPooling2D(3, strides=2, padding="same")(L.Conv2D(48, 3, padding="same", activation="relu")(inputs))
    for channels, count in ((96, 2), (192, 3)):
        for index in range(count):
            stride = 1 if index else 2
            y = L.ReLU()(L.BatchNormalization()(L.Conv2D(channels // 2, 1, groups=3 if index else 1)(x)))
            side = y.shape[1]
            y = L.Reshape((side, side, 3, channels // 6))(y)
            y = L.Reshape((side, side, channels // 2))(L.Permute((1, 2, 4, 3))(y))
            y = L.BatchNormalization()(L.DepthwiseConv2D(3, strides=stride, padding="same")(y))
            if index:
                x = L.ReLU()(L.Add()([x, L.BatchNormalization()(L.Conv2D(channels, 1, groups=3)(y))]))
            else:
                y = L.BatchNormalization()(L.Conv2D(channels - x.shape[-1], 1)(y))
                x = L.ReLU()(L.Concatenate()([L.AveragePooling2D(3, strides=2, padding="same")(x), y]))
    return keras.Model(inputs, L.Dense(60, activation="softmax")(L.GlobalMaxPooling2D()(x)))


def graph_attention(keras):
    """Nodes look at their neighbours, with four heads."""
    L, ops = keras.layers, keras.ops
    nodes, edges = keras.Input((200, 48)), keras.Input((200, 200))
    x, apart = nodes, -1e9 * (1.0 - ops.cast(edges > 0.5, "float32"))
    for _ in range(3):
        heads = []
        for _ in range(4):
            y = L.Dense(32, use_bias=False)(x)
            scores = L.Dense(1)(y) + ops.transpose(L.Dense(1)(y), (0, 2, 1))
            weights = ops.softmax(ops.leaky_relu(scores, 0.2) + apart, axis=-1)
            heads.append(ops.matmul(L.Dropout(0.2)(weights), y))
        x = ops.elu(ops.concatenate(heads, axis=-1))
    return keras.Model([nodes, edges], L.Dense(7, activation="softmax")(x))


def molecules(keras):
    """Messages along bonds of four kinds, gathered by gated sums."""
    L, ops = keras.layers, keras.ops
    bonds, atoms = keras.Input((4, 40, 40)), keras.Input((40, 24))
    x = L.Dense(96, activation="tanh")(atoms)
    for _ in range(4):
        sent = ops.reshape(ops.matmul(bonds, ops.expand_dims(x, 1)), (-1, 4, 40, 96))
        heard = ops.sum(L.EinsumDense("bknf,kfg->bkng", (4, 40, 96))(sent), axis=1)
        gate = L.Dense(96, activation="sigmoid")(L.Concatenate()([heard, x]))
        x = gate * L.Dense(96, activation="tanh")(heard) + (1.0 - gate) * x
    x = ops.sum(L.Dense(128, activation="sigmoid")(x) * L.Dense(128)(x), axis=1)
    return keras.Model([bonds, atoms], L.Dense(12, activation="sigmoid")(x))


def set_of_points(keras):
    """Points ask a few learnt ones, which have asked all points before (set transformer)."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((512, 6))
    x = L.Dense(96)(inputs)
    for _ in range(3):
        asked = L.Embedding(24, 96)(ops.zeros_like(inputs[:, :24, 0], dtype="int32") + ops.arange(24))
        asked = L.LayerNormalization()(asked + L.MultiHeadAttention(4, 24)(asked, x))
        x = L.LayerNormalization()(x + L.MultiHeadAttention(4, 24)(x, asked))
        x = L.LayerNormalization()(x + L.Dense(96)(L.Dense(192, activation="relu")(x)))
    return keras.Model(inputs, L.Dense(40, activation="softmax")(ops.max(x, axis=1)))


def tent(keras):
    """Coordinates to grey values, through sines (SIREN)."""
    L, ops = keras.layers, keras.ops
    x = inputs = keras.Input((3,))
    for _ in range(4):
        x = ops.sin(30.0 * L.Dense(256, kernel_initializer=keras.initializers.RandomUniform(-0.01, 0.01))(x))
    return keras.Model(inputs, L.Dense(3)(x))
