"""Models of pictures and volumes, of the fifth table."""


def application(name, side, classes=100, **settings):
    return lambda keras: getattr(keras.applications, name)(weights=None, classes=classes, input_shape=(side, side, 3), **settings)


def discriminator(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((64, 64, 3))])
    for channels in (64, 128, 256):
        model.add(L.Conv2D(channels, 5, strides=2, padding="same"))
        model.add(L.LeakyReLU(0.2))
        model.add(L.Dropout(0.3))
    model.add(L.Flatten())
    model.add(L.Dense(1, activation="sigmoid"))
    return model


def wide_resnet(keras):
    L = keras.layers
    inputs = keras.Input((32, 32, 3))
    x = L.Conv2D(16, 3, padding="same", use_bias=False)(inputs)
    for channels, first in ((64, 1), (128, 2), (256, 2)):
        for stride in (first, 1):
            y = L.ReLU()(L.BatchNormalization()(x))
            short = L.Conv2D(channels, 1, strides=stride, use_bias=False)(y) if x.shape[-1] != channels else x
            y = L.Conv2D(channels, 3, strides=stride, padding="same", use_bias=False)(y)
            y = L.Dropout(0.3)(L.ReLU()(L.BatchNormalization()(y)))
            x = L.Add()([short, L.Conv2D(channels, 3, padding="same", use_bias=False)(y)])
    x = L.GlobalAveragePooling2D()(L.ReLU()(L.BatchNormalization()(x)))
    return keras.Model(inputs, L.Dense(100, activation="softmax")(x))


def transfer_learning(keras):
    """A backbone that is not trained, behind the usual augmentation."""
    L = keras.layers
    inputs = keras.Input((160, 160, 3))
    x = L.RandomRotation(0.1)(L.RandomFlip("horizontal")(inputs))
    x = L.Rescaling(1 / 127.5, offset=-1)(x)
    backbone = keras.applications.MobileNetV2(weights=None, include_top=False, input_shape=(160, 160, 3))
    backbone.trainable = False
    x = L.GlobalAveragePooling2D()(backbone(x, training=False))
    return keras.Model(inputs, L.Dense(5, activation="softmax")(L.Dropout(0.2)(x)))


def fine_tuning(keras):
    """The last stage of a backbone is trained, the rest is not."""
    L = keras.layers
    backbone = keras.applications.ResNet50V2(weights=None, include_top=False, input_shape=(96, 96, 3), pooling="avg")
    for layer in backbone.layers:
        layer.trainable = layer.name.startswith("conv5")
    x = L.Dense(256, activation="relu")(backbone.output)
    return keras.Model(backbone.input, L.Dense(20, activation="softmax")(L.Dropout(0.5)(x)))


def squeeze_net(keras):
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x = L.MaxPooling2D(3, strides=2)(L.Conv2D(64, 3, strides=2, activation="relu")(inputs))
    for index, squeeze in enumerate((16, 16, 32, 32, 48, 64)):
        y = L.Conv2D(squeeze, 1, activation="relu")(x)
        ones = L.Conv2D(squeeze * 4, 1, activation="relu")(y)
        threes = L.Conv2D(squeeze * 4, 3, padding="same", activation="relu")(y)
        x = L.Concatenate()([ones, threes])
        if index in (1, 3):
            x = L.MaxPooling2D(3, strides=2)(x)
    x = L.Conv2D(50, 1, activation="relu")(L.Dropout(0.5)(x))
    return keras.Model(inputs, L.Softmax()(L.GlobalAveragePooling2D()(x)))


def super_resolution(keras):
    L = keras.layers
    inputs = keras.Input((32, 32, 3))
    x = head = L.Conv2D(64, 3, padding="same")(inputs)
    for _ in range(6):
        y = L.Conv2D(64, 3, padding="same", activation="relu")(x)
        x = L.Add()([x, L.Rescaling(0.1)(L.Conv2D(64, 3, padding="same")(y))])
    x = L.Add()([head, x])
    x = L.Conv2D(64, 3, padding="same", activation="relu")(L.UpSampling2D(2)(x))
    x = L.Conv2D(64, 3, padding="same", activation="relu")(L.UpSampling2D(2)(x))
    return keras.Model(inputs, L.Conv2D(3, 3, padding="same")(x))


def style_transfer(keras):
    L = keras.layers

    def convolution(x, channels, size, stride=1):
        x = L.Conv2D(channels, size, strides=stride, padding="same")(x)
        return L.ReLU()(L.GroupNormalization(groups=-1)(x))

    inputs = keras.Input((128, 128, 3))
    x = convolution(convolution(convolution(inputs, 32, 9), 64, 3, 2), 128, 3, 2)
    for _ in range(3):
        y = L.Conv2D(128, 3, padding="same")(convolution(x, 128, 3))
        x = L.Add()([x, L.GroupNormalization(groups=-1)(y)])
    for channels in (64, 32):
        x = L.Conv2DTranspose(channels, 3, strides=2, padding="same")(x)
        x = L.ReLU()(L.GroupNormalization(groups=-1)(x))
    return keras.Model(inputs, L.Conv2D(3, 9, padding="same", activation="tanh")(x))


def unet_3d(keras):
    L = keras.layers

    def block(x, channels):
        for _ in range(2):
            x = L.ReLU()(L.BatchNormalization()(L.Conv3D(channels, 3, padding="same")(x)))
        return x

    inputs = keras.Input((32, 32, 32, 1))
    a = block(inputs, 16)
    b = block(L.MaxPooling3D(2)(a), 32)
    c = block(L.MaxPooling3D(2)(b), 64)
    y = block(L.Concatenate()([L.Conv3DTranspose(32, 2, strides=2)(c), b]), 32)
    y = block(L.Concatenate()([L.Conv3DTranspose(16, 2, strides=2)(y), a]), 16)
    return keras.Model(inputs, L.Conv3D(3, 1, activation="softmax")(y))


def attention_unet(keras):
    L = keras.layers

    def block(x, channels):
        for _ in range(2):
            x = L.ELU()(L.Conv2D(channels, 3, padding="same", kernel_initializer="he_normal")(x))
        return x

    def gate(skip, signal, channels):
        a = L.Conv2D(channels, 2, strides=2, padding="same", use_bias=False)(skip)
        a = L.Activation("relu")(L.Add()([a, L.Conv2D(channels, 1)(signal)]))
        a = L.UpSampling2D(2)(L.Conv2D(1, 1, activation="sigmoid")(a))
        return L.Multiply()([skip, a])

    inputs = keras.Input((128, 128, 1))
    levels, x = [], inputs
    for channels in (16, 32, 64):
        x = block(x, channels)
        levels.append(x)
        x = L.MaxPooling2D()(x)
    x = block(x, 128)
    for channels in (64, 32, 16):
        skip = gate(levels.pop(), x, channels)
        x = L.Conv2D(channels, 2, padding="same")(L.UpSampling2D(2, interpolation="bilinear")(x))
        x = block(L.Concatenate()([skip, x]), channels)
    return keras.Model(inputs, L.Conv2D(4, 1, activation="softmax")(x))


def keyword_spotting(keras):
    L = keras.layers
    inputs = keras.Input((98, 40, 1))
    x = L.Conv2D(64, (10, 4), strides=2, padding="same", use_bias=False)(inputs)
    x = L.ReLU()(L.BatchNormalization()(x))
    for _ in range(4):
        x = L.DepthwiseConv2D(3, padding="same", use_bias=False)(x)
        x = L.ReLU()(L.BatchNormalization()(x))
        x = L.Conv2D(64, 1, use_bias=False)(x)
        x = L.ReLU()(L.BatchNormalization()(x))
    x = L.Flatten()(L.AveragePooling2D((25, 5))(x))
    return keras.Model(inputs, L.Dense(12, activation="softmax")(L.Dropout(0.4)(x)))


def face_embedding(keras):
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x = inputs
    for channels in (32, 64, 128, 256):
        x = L.BatchNormalization()(L.Conv2D(channels, 3, padding="same", use_bias=False)(x))
        x = L.PReLU(shared_axes=[1, 2])(x)
        x = L.MaxPooling2D()(x)
    x = L.BatchNormalization()(L.Dense(256)(L.Dropout(0.4)(L.Flatten()(x))))
    return keras.Model(inputs, L.Dense(1000, use_bias=False, activation="softmax")(L.UnitNormalization()(x)))


def feature_pyramid(keras):
    L = keras.layers
    inputs = keras.Input((128, 128, 3))
    x, levels = inputs, []
    for channels in (32, 64, 128, 256):
        x = L.Conv2D(channels, 3, strides=2, padding="same", use_bias=False)(x)
        x = L.Activation("silu")(L.BatchNormalization()(x))
        levels.append(x)
    lateral = [L.Conv2D(64, 1)(level) for level in levels[1:]]
    merged = [lateral[-1]]
    for level in reversed(lateral[:-1]):
        merged.append(L.Add()([level, L.UpSampling2D(2)(merged[-1])]))
    tower = [L.Conv2D(64, 3, padding="same", activation="relu") for _ in range(2)]
    classes, boxes = L.Conv2D(9, 3, padding="same", activation="sigmoid"), L.Conv2D(4, 3, padding="same")
    towers = [tower[1](tower[0](level)) for level in merged]
    labels = L.Concatenate(axis=1, name="labels")([L.Reshape((-1, 9))(classes(level)) for level in towers])
    places = L.Concatenate(axis=1, name="places")([L.Reshape((-1, 4))(boxes(level)) for level in towers])
    return keras.Model(inputs, [labels, places])


def attributes(keras):
    """Three answers about one picture, each with a loss of its own."""
    L = keras.layers
    inputs = keras.Input((80, 80, 3))
    x = inputs
    for channels in (32, 64, 96, 128):
        x = L.Conv2D(channels, 3, padding="same", activation="relu")(x)
        x = L.Dropout(0.2)(L.MaxPooling2D()(L.BatchNormalization()(x)))
    x = L.Flatten()(x)
    age = L.Dense(1, name="age")(L.Dense(128, activation="relu")(x))
    kind = L.Dense(7, activation="softmax", name="kind")(L.Dense(128, activation="relu")(x))
    smiles = L.Dense(1, activation="sigmoid", name="smiles")(L.Dense(64, activation="relu")(x))
    return keras.Model(inputs, [age, kind, smiles])


def mlp_mixer(keras):
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x = L.Reshape((144, 160))(L.Conv2D(160, 8, strides=8)(inputs))
    for _ in range(4):
        y = L.Permute((2, 1))(L.LayerNormalization()(x))
        y = L.Permute((2, 1))(L.Dense(144)(L.Dense(96, activation="gelu")(y)))
        x = L.Add()([x, y])
        y = L.Dense(640, activation="gelu")(L.LayerNormalization()(x))
        x = L.Add()([x, L.Dropout(0.1)(L.Dense(160)(y))])
    return keras.Model(inputs, L.Dense(10, activation="softmax")(L.GlobalAveragePooling1D()(L.LayerNormalization()(x))))


def video_lstm(keras):
    L = keras.layers
    frame = keras.Sequential([L.Input((64, 64, 3))], name="frame")
    for channels in (16, 32, 64):
        frame.add(L.Conv2D(channels, 3, padding="same", activation="relu"))
        frame.add(L.MaxPooling2D())
    frame.add(L.Flatten())
    inputs = keras.Input((12, 64, 64, 3))
    x = L.LSTM(128)(L.TimeDistributed(frame)(inputs))
    return keras.Model(inputs, L.Dense(8, activation="softmax")(L.Dropout(0.5)(x)))
