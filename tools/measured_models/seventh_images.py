"""Models of pictures, of the seventh table."""


def small_vgg(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((32, 32, 3))])
    for channels in (32, 64, 128):
        for _ in range(2):
            model.add(L.Conv2D(channels, 3, padding="same", activation="relu"))
            model.add(L.BatchNormalization())
        model.add(L.MaxPooling2D())
        model.add(L.Dropout(0.25))
    for layer in (L.Flatten(), L.Dense(256, activation="relu"), L.Dropout(0.5), L.Dense(10, activation="softmax")):
        model.add(layer)
    return model


def resnet_18(keras):
    L = keras.layers

    def convolution(x, channels, stride=1, size=3):
        return L.BatchNormalization()(L.Conv2D(channels, size, strides=stride, padding="same", use_bias=False)(x))

    inputs = keras.Input((64, 64, 3))
    x = L.MaxPooling2D(3, strides=2, padding="same")(L.ReLU()(convolution(inputs, 64, 2, 7)))
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = convolution(L.ReLU()(convolution(x, channels, stride)), channels)
            short = convolution(x, channels, stride, 1) if stride == 2 else x
            x = L.ReLU()(L.Add()([y, short]))
    return keras.Model(inputs, L.Dense(200, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def generator(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((100,)), L.Dense(8 * 8 * 256, use_bias=False)])
    model.add(L.BatchNormalization())
    model.add(L.LeakyReLU())
    model.add(L.Reshape((8, 8, 256)))
    for channels, stride in ((128, 1), (64, 2), (32, 2)):
        model.add(L.Conv2DTranspose(channels, 5, strides=stride, padding="same", use_bias=False))
        model.add(L.BatchNormalization())
        model.add(L.LeakyReLU())
    model.add(L.Conv2DTranspose(3, 5, strides=2, padding="same", use_bias=False, activation="tanh"))
    return model


def patch_discriminator(keras):
    """Says of each patch of a pair of pictures whether it is real."""
    L = keras.layers
    pair = [keras.Input((96, 96, 3), name="source"), keras.Input((96, 96, 3), name="target")]
    x = L.Concatenate()(pair)
    for index, channels in enumerate((64, 128, 256)):
        x = L.Conv2D(channels, 4, strides=2, padding="same", use_bias=False)(x)
        x = L.LeakyReLU()(L.BatchNormalization()(x) if index else x)
    x = L.LeakyReLU()(L.BatchNormalization()(L.Conv2D(256, 4, use_bias=False)(L.ZeroPadding2D()(x))))
    return keras.Model(pair, L.Conv2D(1, 4)(L.ZeroPadding2D()(x)))


def nested_unet(keras):
    """U-Net++ of three levels."""
    L = keras.layers
    inputs = keras.Input((64, 64, 3))

    def block(x, channels):
        for _ in range(2):
            x = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(channels, 3, padding="same")(x)))
        return x

    widths = (24, 48, 96)
    grid = {}
    x = inputs
    for row, channels in enumerate(widths):
        grid[row, 0] = block(x, channels)
        x = L.MaxPooling2D()(grid[row, 0])
    for column in (1, 2):
        for row in range(3 - column):
            up = L.UpSampling2D()(grid[row + 1, column - 1])
            before = [grid[row, index] for index in range(column)]
            grid[row, column] = block(L.Concatenate()([*before, up]), widths[row])
    return keras.Model(inputs, L.Conv2D(1, 1, activation="sigmoid")(grid[0, 2]))


def mobile_segmenter(keras):
    L = keras.layers
    inputs = keras.Input((128, 128, 3))
    x = L.Conv2D(32, 3, strides=2, padding="same")(inputs)
    x = L.Activation("relu")(L.BatchNormalization()(x))
    short = x
    for channels in (64, 128):
        for _ in range(2):
            x = L.BatchNormalization()(L.SeparableConv2D(channels, 3, padding="same")(L.Activation("relu")(x)))
        x = L.MaxPooling2D(3, strides=2, padding="same")(x)
        short = L.Conv2D(channels, 1, strides=2, padding="same")(short)
        x = short = L.Add()([x, short])
    for channels in (128, 64, 32):
        for _ in range(2):
            x = L.BatchNormalization()(L.Conv2DTranspose(channels, 3, padding="same")(L.Activation("relu")(x)))
        x = L.UpSampling2D(2)(x)
        short = L.Conv2D(channels, 1, padding="same")(L.UpSampling2D(2)(short))
        x = short = L.Add()([x, short])
    return keras.Model(inputs, L.Conv2D(4, 3, padding="same", activation="softmax")(x))


def grid_detector(keras):
    """Boxes for each cell of a grid, in the manner of YOLO."""
    L = keras.layers

    def convolution(x, channels, size=3):
        x = L.BatchNormalization()(L.Conv2D(channels, size, padding="same", use_bias=False)(x))
        return L.LeakyReLU(0.1)(x)

    inputs = keras.Input((128, 128, 3))
    x = inputs
    for channels in (16, 32, 64, 128, 256):
        x = L.MaxPooling2D()(convolution(x, channels))
    x = convolution(convolution(convolution(x, 512), 256, 1), 512)
    return keras.Model(inputs, L.Reshape((4, 4, 3, 25))(L.Conv2D(75, 1)(x)))


def keypoints(keras):
    """Two answers for each place: what is there, and how far off its middle is."""
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x, levels = inputs, []
    for channels in (32, 64, 128):
        x = L.Conv2D(channels, 3, strides=2, padding="same", activation="swish")(x)
        x = L.BatchNormalization()(L.Conv2D(channels, 3, padding="same", activation="swish")(x))
        levels.append(x)
    levels.pop()
    while levels:
        level = levels.pop()
        x = L.UpSampling2D(interpolation="bilinear")(L.Conv2D(level.shape[-1], 1)(x))
        x = L.Conv2D(level.shape[-1], 3, padding="same", activation="swish")(L.Add()([x, level]))
    heat = L.Conv2D(8, 1, activation="sigmoid", name="heat")(L.Conv2D(32, 3, padding="same", activation="relu")(x))
    return keras.Model(inputs, [heat, L.Conv2D(2, 1, name="offset")(x)])


def denoiser(keras):
    L = keras.layers
    inputs = keras.Input((56, 56, 1))
    x = L.Conv2D(48, 3, padding="same", activation="relu")(inputs)
    for _ in range(7):
        x = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(48, 3, padding="same", use_bias=False)(x)))
    return keras.Model(inputs, L.Subtract()([inputs, L.Conv2D(1, 3, padding="same")(x)]))
