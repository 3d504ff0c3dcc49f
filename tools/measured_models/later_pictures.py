"""More models of pictures and volumes, of the sixth table."""


def picture_to_picture(keras):
    """The generator of pix2pix, on smaller pictures."""
    L = keras.layers
    inputs = keras.Input((128, 128, 3))
    x, levels = inputs, []
    for index, channels in enumerate((32, 64, 128, 256, 256)):
        x = L.Conv2D(channels, 4, strides=2, padding="same", use_bias=False)(x)
        x = L.LeakyReLU(0.2)(L.BatchNormalization()(x) if index else x)
        levels.append(x)
    levels.pop()
    for index, channels in enumerate((256, 128, 64, 32)):
        x = L.Conv2DTranspose(channels, 4, strides=2, padding="same", use_bias=False)(x)
        x = L.BatchNormalization()(x)
        x = L.ReLU()(L.Dropout(0.5)(x) if index < 2 else x)
        x = L.Concatenate()([x, levels.pop()])
    return keras.Model(inputs, L.Conv2DTranspose(3, 4, strides=2, padding="same", activation="tanh")(x))


def cifar_resnet(keras):
    L = keras.layers
    inputs = keras.Input((32, 32, 3))

    def convolution(x, channels, stride=1, size=3):
        decay = keras.regularizers.L2(1e-4)
        return L.Conv2D(channels, size, strides=stride, padding="same", kernel_initializer="he_normal", kernel_regularizer=decay)(x)

    x = L.Activation("relu")(L.BatchNormalization()(convolution(inputs, 16)))
    for stage, channels in enumerate((16, 32, 64)):
        for index in range(3):
            stride = 2 if stage and not index else 1
            y = L.Activation("relu")(L.BatchNormalization()(convolution(x, channels, stride)))
            y = L.BatchNormalization()(convolution(y, channels))
            x = convolution(x, channels, stride, 1) if stride == 2 else x
            x = L.Activation("relu")(L.Add()([x, y]))
    x = L.Flatten()(L.AveragePooling2D(8)(x))
    return keras.Model(inputs, L.Dense(10, activation="softmax", kernel_initializer="he_normal")(x))


def conv_mixer(keras):
    L = keras.layers
    inputs = keras.Input((32, 32, 3))
    x = L.Rescaling(1 / 255)(inputs)
    x = L.BatchNormalization()(L.Activation("gelu")(L.Conv2D(128, 2, strides=2)(x)))
    for _ in range(4):
        y = L.BatchNormalization()(L.Activation("gelu")(L.DepthwiseConv2D(5, padding="same")(x)))
        x = L.Add()([y, x])
        x = L.BatchNormalization()(L.Activation("gelu")(L.Conv2D(128, 1)(x)))
    return keras.Model(inputs, L.Dense(10, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def flowers(keras):
    """The classifier of a beginner's tutorial: augmentation, then three convolutions."""
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((120, 120, 3)),
            L.RandomFlip("horizontal"),
            L.RandomRotation(0.1),
            L.RandomZoom(0.1),
            L.Rescaling(1 / 255),
            L.Conv2D(16, 3, padding="same", activation="relu"),
            L.MaxPooling2D(),
            L.Conv2D(32, 3, padding="same", activation="relu"),
            L.MaxPooling2D(),
            L.Conv2D(64, 3, padding="same", activation="relu"),
            L.MaxPooling2D(),
            L.Dropout(0.2),
            L.Flatten(),
            L.Dense(128, activation="relu"),
            L.Dense(5),
        ]
    )


def twins(keras):
    """One small network looks at two pictures; the angle between what it sees is the answer."""
    L = keras.layers
    left, right = keras.Input((64, 64, 1), name="left"), keras.Input((64, 64, 1), name="right")
    tower = keras.Sequential(name="tower")
    for channels in (32, 64, 64):
        tower.add(L.Conv2D(channels, 3, activation="relu"))
        tower.add(L.BatchNormalization())
        tower.add(L.MaxPooling2D())
    for layer in (L.GlobalMaxPooling2D(), L.Dense(128), L.UnitNormalization()):
        tower.add(layer)
    return keras.Model([left, right], L.Dense(1, activation="sigmoid")(L.Dot(axes=1)([tower(left), tower(right)])))


def scans(keras):
    """A network for volumes of a scanner."""
    L = keras.layers
    inputs = keras.Input((48, 48, 32, 1))
    x = inputs
    for channels in (32, 32, 64):
        x = L.Conv3D(channels, 3, activation="relu")(x)
        x = L.BatchNormalization()(L.MaxPooling3D(2)(x))
    x = L.Dropout(0.3)(L.Dense(256, activation="relu")(L.GlobalAveragePooling3D()(x)))
    return keras.Model(inputs, L.Dense(1, activation="sigmoid")(x))


def next_frame(keras):
    L = keras.layers
    inputs = keras.Input((6, 32, 32, 1))
    x = L.ConvLSTM2D(16, 5, padding="same", return_sequences=True, activation="relu")(inputs)
    x = L.BatchNormalization()(x)
    x = L.ConvLSTM2D(16, 3, padding="same", return_sequences=True, activation="relu")(x)
    return keras.Model(inputs, L.Conv3D(1, 3, padding="same", activation="sigmoid")(x))


def upscaler(keras):
    """Super-resolution that moves channels to places, with keras.ops in the model."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((48, 48, 1))
    x = L.Conv2D(64, 5, padding="same", activation="relu")(inputs)
    x = L.Conv2D(64, 3, padding="same", activation="relu")(x)
    x = L.Conv2D(32, 3, padding="same", activation="relu")(x)
    x = L.Conv2D(9, 3, padding="same", activation="relu")(x)
    x = ops.transpose(ops.reshape(x, (-1, 48, 48, 3, 3)), (0, 1, 3, 2, 4))
    return keras.Model(inputs, ops.reshape(x, (-1, 144, 144, 1)))


def landmarks(keras):
    L = keras.layers
    inputs = keras.Input((96, 96, 1))
    x = inputs
    for channels in (32, 64, 128, 128):
        x = L.SeparableConv2D(channels, 3, padding="same")(x)
        x = L.PReLU(shared_axes=[1, 2])(L.BatchNormalization()(x))
        x = L.MaxPooling2D()(L.SpatialDropout2D(0.1)(x))
    x = L.Dense(256, activation="elu")(L.Flatten()(x))
    return keras.Model(inputs, L.Dense(30, activation="linear")(x))


def picture_autoencoder(keras):
    L = keras.layers
    inputs = keras.Input((64, 64, 3))
    x = inputs
    for channels in (32, 64, 128):
        x = L.Conv2D(channels, 3, padding="same")(x)
        x = L.MaxPooling2D(padding="same")(L.LeakyReLU()(L.LayerNormalization()(x)))
    x = L.Dense(8 * 8 * 64)(L.Dense(256, name="code")(L.Flatten()(x)))
    x = L.Reshape((8, 8, 64))(x)
    for channels in (128, 64, 32):
        x = L.LeakyReLU()(L.Conv2D(channels, 3, padding="same")(L.UpSampling2D()(x)))
    return keras.Model(inputs, L.Conv2D(3, 3, padding="same", activation="sigmoid")(x))
