"""Models of pictures and volumes, of the sixth table."""


def inverted_residuals(keras):
    L = keras.layers
    inputs = keras.Input((96, 96, 3))

    def block(x, expand, channels, size, stride):
        y = L.Conv2D(expand, 1, use_bias=False)(x)
        y = L.Activation("hard_swish")(L.BatchNormalization()(y))
        y = L.DepthwiseConv2D(size, strides=stride, padding="same", use_bias=False)(y)
        y = L.Activation("hard_swish")(L.BatchNormalization()(y))
        z = L.Dense(expand // 4, activation="relu")(L.GlobalAveragePooling2D()(y))
        z = L.Reshape((1, 1, expand))(L.Dense(expand, activation="hard_sigmoid")(z))
        y = L.BatchNormalization()(L.Conv2D(channels, 1, use_bias=False)(L.Multiply()([y, z])))
        return L.Add()([x, y]) if stride == 1 and x.shape[-1] == channels else y

    x = L.Conv2D(16, 3, strides=2, padding="same", use_bias=False)(inputs)
    x = L.Activation("hard_swish")(L.BatchNormalization()(x))
    for setting in ((64, 24, 3, 2), (72, 24, 3, 1), (96, 40, 5, 2), (160, 40, 5, 1), (240, 80, 3, 2), (320, 80, 3, 1)):
        x = block(x, *setting)
    x = L.Dropout(0.2)(L.GlobalAveragePooling2D()(L.Conv2D(320, 1, activation="hard_swish")(x)))
    return keras.Model(inputs, L.Dense(40, activation="softmax")(x))


def dense_blocks(keras):
    L = keras.layers
    inputs = keras.Input((32, 32, 3))
    x = L.Conv2D(24, 3, padding="same", use_bias=False)(inputs)
    for stage in range(3):
        for _ in range(6):
            y = L.Conv2D(48, 1, use_bias=False)(L.Activation("relu")(L.BatchNormalization()(x)))
            y = L.Conv2D(12, 3, padding="same", use_bias=False)(L.Activation("relu")(L.BatchNormalization()(y)))
            x = L.Concatenate()([x, L.Dropout(0.2)(y)])
        if stage < 2:
            x = L.Activation("relu")(L.BatchNormalization()(x))
            x = L.AveragePooling2D(2)(L.Conv2D(x.shape[-1] // 2, 1, use_bias=False)(x))
    x = L.GlobalAveragePooling2D()(L.Activation("relu")(L.BatchNormalization()(x)))
    return keras.Model(inputs, L.Dense(10, activation="softmax")(x))


def inception_blocks(keras):
    """Two answers: the second leaves the network half way, as in GoogLeNet."""
    L = keras.layers
    inputs = keras.Input((112, 112, 3))

    def mixed(x, a, b, c, d):
        ones = L.Conv2D(a, 1, padding="same", activation="relu")(x)
        threes = L.Conv2D(b, 3, padding="same", activation="relu")(L.Conv2D(b // 2, 1, activation="relu")(x))
        fives = L.Conv2D(c, 5, padding="same", activation="relu")(L.Conv2D(c // 2, 1, activation="relu")(x))
        pooled = L.Conv2D(d, 1, activation="relu")(L.MaxPooling2D(3, strides=1, padding="same")(x))
        return L.Concatenate()([ones, threes, fives, pooled])

    x = L.Conv2D(64, 7, strides=2, padding="same", activation="relu")(inputs)
    x = L.MaxPooling2D(3, strides=2, padding="same")(x)
    x = L.Conv2D(96, 3, padding="same", activation="relu")(L.Conv2D(64, 1, activation="relu")(x))
    x = L.MaxPooling2D(3, strides=2, padding="same")(x)
    x = mixed(mixed(x, 64, 128, 32, 32), 96, 160, 64, 48)
    side = L.Flatten()(L.Conv2D(32, 1, activation="relu")(L.AveragePooling2D(5, strides=3)(x)))
    side = L.Dense(30, activation="softmax", name="side")(L.Dropout(0.5)(L.Dense(256, activation="relu")(side)))
    x = mixed(L.MaxPooling2D(3, strides=2, padding="same")(x), 128, 192, 96, 64)
    x = L.Dense(30, activation="softmax", name="main")(L.Dropout(0.4)(L.GlobalAveragePooling2D()(x)))
    return keras.Model(inputs, [x, side])


def patches_transformer(keras):
    """A vision transformer with a learnt place for each patch and a head over all of them."""
    L = keras.layers
    inputs, places = keras.Input((72, 72, 3), name="picture"), keras.Input((144,), dtype="int32", name="places")
    x = L.Reshape((144, 96))(L.Conv2D(96, 6, strides=6)(inputs)) + L.Embedding(144, 96)(places)
    for _ in range(4):
        y = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([L.MultiHeadAttention(4, 24, dropout=0.1)(y, y), x])
        y = L.LayerNormalization(epsilon=1e-6)(x)
        y = L.Dropout(0.1)(L.Dense(192, activation="gelu")(y))
        x = L.Add()([L.Dropout(0.1)(L.Dense(96, activation="gelu")(y)), x])
    x = L.Dropout(0.5)(L.Flatten()(L.LayerNormalization(epsilon=1e-6)(x)))
    x = L.Dropout(0.5)(L.Dense(512, activation="gelu")(x))
    return keras.Model([inputs, places], L.Dense(100)(x))


def windowed_attention(keras):
    """Attention within windows of 4 by 4 patches, then patches merged, as in Swin."""
    L = keras.layers
    inputs = keras.Input((64, 64, 3))
    x = L.LayerNormalization()(L.Conv2D(64, 4, strides=4)(inputs))
    for side, channels, heads in ((16, 64, 2), (8, 128, 4)):
        for _ in range(2):
            count = side // 4
            y = L.Reshape((count, 4, count, 4, channels))(L.LayerNormalization()(x))
            y = L.Reshape((count * count, 16, channels))(L.Permute((1, 3, 2, 4, 5))(y))
            y = L.MultiHeadAttention(heads, channels // heads, attention_axes=2)(y, y)
            y = L.Permute((1, 3, 2, 4, 5))(L.Reshape((count, count, 4, 4, channels))(y))
            x = L.Add()([x, L.Reshape((side, side, channels))(y)])
            y = L.Dense(channels)(L.Dense(channels * 4, activation="gelu")(L.LayerNormalization()(x)))
            x = L.Add()([x, y])
        if side == 16:
            x = L.Dense(128, use_bias=False)(L.LayerNormalization()(L.Conv2D(256, 2, strides=2)(x)))
    return keras.Model(inputs, L.Dense(10, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def residual_unet(keras):
    L = keras.layers

    def block(x, channels):
        y = L.Activation("silu")(L.GroupNormalization(8)(L.Conv2D(channels, 3, padding="same")(x)))
        y = L.GroupNormalization(8)(L.Conv2D(channels, 3, padding="same")(y))
        short = x if x.shape[-1] == channels else L.Conv2D(channels, 1)(x)
        return L.Activation("silu")(L.Add()([y, short]))

    inputs = keras.Input((96, 96, 3))
    x, levels = inputs, []
    for channels in (16, 32, 64):
        x = block(x, channels)
        levels.append(x)
        x = L.Conv2D(channels, 3, strides=2, padding="same")(x)
    x = block(x, 96)
    for channels in (64, 32, 16):
        x = L.Conv2DTranspose(channels, 3, strides=2, padding="same")(x)
        x = block(L.Concatenate()([x, levels.pop()]), channels)
    return keras.Model(inputs, L.Conv2D(1, 1, activation="sigmoid")(x))


def lenet(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((28, 28, 1)),
            L.Conv2D(6, 5, padding="same", activation="tanh"),
            L.AveragePooling2D(2),
            L.Conv2D(16, 5, activation="tanh"),
            L.AveragePooling2D(2),
            L.Flatten(),
            L.Dense(120, activation="tanh"),
            L.Dense(84, activation="tanh"),
            L.Dense(10, activation="softmax"),
        ]
    )


def alex_net(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((127, 127, 3))])
    model.add(L.Conv2D(96, 11, strides=4, activation="relu"))
    model.add(L.BatchNormalization())
    model.add(L.MaxPooling2D(3, strides=2))
    model.add(L.Conv2D(256, 5, padding="same", activation="relu"))
    model.add(L.BatchNormalization())
    model.add(L.MaxPooling2D(3, strides=2))
    for channels in (384, 384, 256):
        model.add(L.Conv2D(channels, 3, padding="same", activation="relu"))
    model.add(L.MaxPooling2D(3, strides=2))
    model.add(L.Flatten())
    for _ in range(2):
        model.add(L.Dense(2048, activation="relu"))
        model.add(L.Dropout(0.5))
    model.add(L.Dense(200, activation="softmax"))
    return model


def grouped_resnet(keras):
    L = keras.layers
    inputs = keras.Input((64, 64, 3))
    x = L.MaxPooling2D(3, strides=2, padding="same")(L.ReLU()(L.Conv2D(32, 3, padding="same")(inputs)))
    for channels, stride in ((64, 1), (128, 2), (256, 2)):
        y = L.ReLU()(L.BatchNormalization()(L.Conv2D(channels, 1, use_bias=False)(x)))
        y = L.Conv2D(channels, 3, strides=stride, padding="same", groups=16, use_bias=False)(y)
        y = L.Conv2D(channels * 2, 1, use_bias=False)(L.ReLU()(L.BatchNormalization()(y)))
        short = L.BatchNormalization()(L.Conv2D(channels * 2, 1, strides=stride, use_bias=False)(x))
        x = L.ReLU()(L.Add()([L.BatchNormalization()(y), short]))
    return keras.Model(inputs, L.Dense(50, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def atrous_pyramid(keras):
    """Semantic segmentation in the manner of DeepLab."""
    L = keras.layers

    def convolution(x, channels, size=3, **settings):
        x = L.Conv2D(channels, size, padding="same", use_bias=False, **settings)(x)
        return L.ReLU()(L.BatchNormalization()(x))

    inputs = keras.Input((128, 128, 3))
    low = convolution(convolution(inputs, 32, strides=2), 48, strides=2)
    x = convolution(convolution(low, 96, strides=2), 96)
    pooled = convolution(L.GlobalAveragePooling2D(keepdims=True)(x), 64, 1)
    pooled = L.UpSampling2D(16, interpolation="bilinear")(pooled)
    branches = [convolution(x, 64, 1), *(convolution(x, 64, dilation_rate=rate) for rate in (2, 4, 6)), pooled]
    x = L.UpSampling2D(2, interpolation="bilinear")(convolution(L.Concatenate()(branches), 64, 1))
    x = convolution(L.Concatenate()([x, convolution(low, 24, 1)]), 64)
    x = L.UpSampling2D(4, interpolation="bilinear")(x)
    return keras.Model(inputs, L.Conv2D(12, 1)(x))
