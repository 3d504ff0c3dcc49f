"""Models of pictures, volumes and films, of the second, third and fourth table. In: Keras. Out: a model that is not compiled."""


def autoencoder(keras):
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x = L.Conv2D(32, 3, strides=2, padding="same", activation="swish")(inputs)
    x = L.Conv2D(64, 3, strides=2, padding="same", activation="swish")(x)
    x = L.Conv2D(128, 3, strides=2, padding="same", activation="swish")(x)
    x = L.Conv2DTranspose(64, 3, strides=2, padding="same", activation="swish")(x)
    x = L.UpSampling2D(2)(x)
    x = L.Conv2D(32, 3, padding="same", activation="leaky_relu")(x)
    x = L.UpSampling2D(2, interpolation="bilinear")(x)
    return keras.Model(inputs, L.Conv2D(3, 3, padding="same")(x))


def group_norm_unet(keras):
    L = keras.layers

    def block(x, channels):
        for _ in range(2):
            x = L.Conv2D(channels, 3, padding="same", use_bias=False)(x)
            x = L.GroupNormalization(8)(x)
            x = L.Activation("silu")(x)
        return x

    inputs = keras.Input((96, 96, 3))
    a = block(inputs, 24)
    b = block(L.AveragePooling2D(2)(a), 48)
    c = block(L.AveragePooling2D(2)(b), 96)
    y = block(L.Concatenate()([L.UpSampling2D()(c), b]), 48)
    y = block(L.Concatenate()([L.UpSampling2D()(y), a]), 24)
    return keras.Model(inputs, L.Conv2D(3, 1)(y))


def video_conv3d(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((16, 48, 48, 3)),
            L.Conv3D(16, 3, padding="same", activation="relu"),
            L.MaxPooling3D(2),
            L.Conv3D(32, 3, padding="same", activation="relu"),
            L.MaxPooling3D(2),
            L.GlobalAveragePooling3D(),
            L.Dense(5, activation="softmax"),
        ]
    )


def separable(keras):
    L = keras.layers
    inputs = keras.Input((112, 112, 3))
    x = L.Rescaling(1 / 255)(inputs)
    x = L.Conv2D(32, 3, strides=2, use_bias=False, padding="same")(x)
    for channels in (64, 128, 256):
        y = L.SeparableConv2D(channels, 3, padding="same", use_bias=False)(x)
        y = L.BatchNormalization()(y)
        y = L.ReLU()(y)
        y = L.SeparableConv2D(channels, 3, padding="same")(y)
        y = L.MaxPooling2D(3, strides=2, padding="same")(y)
        x = L.Add()([y, L.Conv2D(channels, 1, strides=2, padding="same")(x)])
    return keras.Model(inputs, L.Dense(20, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def vision_transformer(keras):
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x = L.Conv2D(128, 8, strides=8)(inputs)
    x = L.Reshape((144, 128))(x)
    for _ in range(4):
        y = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([x, L.MultiHeadAttention(4, 32)(y, y)])
        y = L.LayerNormalization(epsilon=1e-6)(x)
        y = L.Dense(512, activation="gelu")(y)
        x = L.Add()([x, L.Dense(128)(L.Dropout(0.1)(y))])
    return keras.Model(inputs, L.Dense(10, activation="softmax")(L.GlobalAveragePooling1D()(x)))


def plain_cnn(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((128, 128, 3))])
    for channels in (32, 64, 128):
        model.add(L.Conv2D(channels, 3, padding="same", use_bias=False))
        model.add(L.BatchNormalization())
        model.add(L.Activation("relu"))
        model.add(L.MaxPooling2D())
    model.add(L.Flatten())
    model.add(L.Dense(256, activation="relu"))
    model.add(L.Dense(10, activation="softmax"))
    return model


def unet_batch_norm(keras):
    L = keras.layers

    def block(x, channels):
        for _ in range(2):
            x = L.Conv2D(channels, 3, padding="same")(x)
            x = L.BatchNormalization()(x)
            x = L.Activation("relu")(x)
        return x

    inputs = keras.Input((112, 112, 3))
    levels, x = [], inputs
    for channels in (16, 32, 64):
        x = block(x, channels)
        levels.append(x)
        x = L.MaxPooling2D()(x)
    x = L.Dropout(0.3)(block(x, 128))
    for channels in (64, 32, 16):
        x = L.Conv2DTranspose(channels, 2, strides=2, padding="same")(x)
        x = block(L.Concatenate()([x, levels.pop()]), channels)
    return keras.Model(inputs, L.Conv2D(1, 1, activation="sigmoid")(x))


def deconvolution(keras):
    L = keras.layers
    inputs = keras.Input((64, 64, 3))
    x = inputs
    for channels in (32, 64, 128):
        x = L.Conv2D(channels, 4, strides=2, padding="same", use_bias=False)(x)
        x = L.BatchNormalization()(x)
        x = L.LeakyReLU(0.2)(x)
    x = L.Dense(256)(L.Flatten()(x))
    x = L.Reshape((8, 8, 128))(L.Dense(8 * 8 * 128, activation="relu")(x))
    for channels in (128, 64, 32):
        x = L.Conv2DTranspose(channels, 4, strides=2, padding="same")(x)
        x = L.BatchNormalization()(x)
        x = L.ReLU()(x)
    return keras.Model(inputs, L.Conv2D(3, 3, padding="same", activation="tanh")(x))


def siamese(keras):
    L = keras.layers
    tower = keras.Sequential(
        [
            L.Input((96, 96, 1)),
            L.Conv2D(32, 5, activation="relu"),
            L.MaxPooling2D(),
            L.Conv2D(64, 3, activation="relu"),
            L.MaxPooling2D(),
            L.Conv2D(64, 3, activation="relu"),
            L.Flatten(),
            L.Dense(128, activation="sigmoid"),
        ]
    )
    left, right = keras.Input((96, 96, 1), name="left"), keras.Input((96, 96, 1), name="right")
    x = L.Multiply()([tower(left), tower(right)])
    return keras.Model([left, right], L.Dense(1, activation="sigmoid")(x))


def two_heads(keras):
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x = inputs
    for channels in (24, 48, 96, 192):
        x = L.Conv2D(channels, 3, padding="same", activation="relu")(x)
        x = L.Conv2D(channels, 3, strides=2, padding="same")(x)
        x = L.BatchNormalization()(x)
        x = L.ReLU()(x)
    x = L.GlobalAveragePooling2D()(x)
    label = L.Dense(30, activation="softmax", name="label")(L.Dense(256, activation="relu")(x))
    box = L.Dense(4, name="box")(L.Dense(128, activation="relu")(x))
    return keras.Model(inputs, [label, box])


def conv3d_batch_norm(keras):
    L = keras.layers
    inputs = keras.Input((24, 24, 24, 1))
    x = inputs
    for channels in (16, 32, 64):
        x = L.Conv3D(channels, 3, padding="same", use_bias=False)(x)
        x = L.BatchNormalization()(x)
        x = L.Activation("relu")(x)
        x = L.AveragePooling3D(2)(x)
    x = L.Dropout(0.4)(L.Flatten()(x))
    return keras.Model(inputs, L.Dense(8, activation="softmax")(x))


def conv_lstm(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((8, 32, 32, 1)),
            L.ConvLSTM2D(16, 3, padding="same", return_sequences=True),
            L.BatchNormalization(),
            L.ConvLSTM2D(16, 3, padding="same"),
            L.Conv2D(1, 3, padding="same", activation="sigmoid"),
        ]
    )


def squeeze_resnet(keras):
    L = keras.layers
    inputs = keras.Input((64, 64, 3))
    x = L.Conv2D(48, 3, padding="same", activation="relu")(inputs)
    for channels, stride in ((48, 1), (96, 2), (192, 2)):
        y = L.Conv2D(channels, 3, strides=stride, padding="same", use_bias=False)(x)
        y = L.ReLU()(L.BatchNormalization()(y))
        y = L.Conv2D(channels, 3, padding="same", use_bias=False)(y)
        y = L.BatchNormalization()(y)
        z = L.GlobalAveragePooling2D(keepdims=True)(y)
        z = L.Conv2D(channels, 1, activation="sigmoid")(L.Conv2D(channels // 8, 1, activation="relu")(z))
        y = L.Multiply()([y, z])
        x = L.ReLU()(L.Add()([y, L.Conv2D(channels, 1, strides=stride)(x)]))
    return keras.Model(inputs, L.Dense(10, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def cifar_cnn(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((32, 32, 3))])
    for channels in (32, 64, 128):
        for _ in range(2):
            model.add(L.Conv2D(channels, 3, padding="same", activation="relu"))
        model.add(L.MaxPooling2D())
        model.add(L.Dropout(0.25))
    model.add(L.Flatten())
    model.add(L.Dense(512, activation="relu"))
    model.add(L.Dropout(0.5))
    model.add(L.Dense(10, activation="softmax"))
    return model
