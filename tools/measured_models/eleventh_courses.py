"""Models of the eleventh table: pictures, as books, courses and contests have them."""


def cats_and_dogs(keras):
    """A book's first network of its own: pictures are made anew each time, and five times made smaller."""
    L = keras.layers
    augmentation = keras.Sequential([L.RandomFlip("horizontal"), L.RandomRotation(0.1), L.RandomZoom(0.2)], name="augmentation")
    inputs = keras.Input((180, 180, 3))
    x = L.Rescaling(1.0 / 255)(augmentation(inputs))
    for filters in (32, 64, 128, 256):
        x = L.MaxPooling2D(pool_size=2)(L.Conv2D(filters, kernel_size=3, activation="relu")(x))
    x = L.Conv2D(256, kernel_size=3, activation="relu")(x)
    x = L.Dropout(0.5)(L.Flatten()(x))
    return keras.Model(inputs, L.Dense(1, activation="sigmoid")(x))


def pet_masks(keras):
    """Each pixel is pet, edge or ground: steps of two on the way down, transposed convolutions on the way up."""
    L = keras.layers
    inputs = keras.Input((152, 152, 3))
    x = L.Rescaling(1.0 / 255)(inputs)
    for filters in (64, 128, 256):
        x = L.Conv2D(filters, 3, strides=2, activation="relu", padding="same")(x)
        x = L.Conv2D(filters, 3, activation="relu", padding="same")(x)
    for filters in (256, 128, 64):
        x = L.Conv2DTranspose(filters, 3, activation="relu", padding="same")(x)
        x = L.Conv2DTranspose(filters, 3, activation="relu", padding="same", strides=2)(x)
    return keras.Model(inputs, L.Conv2D(3, 3, activation="softmax", padding="same")(x))


def small_xception(keras):
    """Separable convolutions with a short way around each pair of them."""
    L = keras.layers
    inputs = keras.Input((128, 128, 3))
    x = L.Conv2D(32, 5, use_bias=False)(L.Rescaling(1.0 / 255)(inputs))
    for size in (32, 64, 128, 256, 512):
        short = L.Conv2D(size, 1, strides=2, padding="same", use_bias=False)(x)
        for _ in range(2):
            x = L.Activation("relu")(L.BatchNormalization()(x))
            x = L.SeparableConv2D(size, 3, padding="same", use_bias=False)(x)
        x = L.add([L.MaxPooling2D(3, strides=2, padding="same")(x), short])
    x = L.Dropout(0.5)(L.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, L.Dense(37, activation="softmax")(x))


def art_generator(keras):
    """The generator of a DCGAN, with all that is normalized on its way to a picture."""
    L = keras.layers
    model = keras.Sequential([L.Input((100,)), L.Dense(4 * 4 * 384, use_bias=False), L.BatchNormalization(), L.LeakyReLU()])
    model.add(L.Reshape((4, 4, 384)))
    for filters in (256, 128, 64):
        model.add(L.Conv2DTranspose(filters, 5, strides=2, padding="same", use_bias=False))
        model.add(L.BatchNormalization())
        model.add(L.LeakyReLU())
    model.add(L.Conv2DTranspose(3, 5, strides=2, padding="same", use_bias=False, activation="tanh"))
    return model


def found_boxes(keras):
    """A single-shot detector: four maps of different size, each with its own heads for kinds and for boxes."""
    L = keras.layers
    x = inputs = keras.Input((160, 160, 3))
    kinds, boxes = [], []
    for level, (filters, anchors) in enumerate(((32, 0), (64, 0), (96, 4), (128, 6), (160, 6), (160, 4))):
        for _ in range(2 if level < 4 else 1):
            x = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(filters, 3, padding="same", use_bias=False)(x)))
        if anchors:
            kinds.append(L.Reshape((-1, 21))(L.Conv2D(anchors * 21, 3, padding="same")(x)))
            boxes.append(L.Reshape((-1, 4))(L.Conv2D(anchors * 4, 3, padding="same")(x)))
        x = L.MaxPooling2D(2, padding="same")(x)
    kinds = L.Softmax(name="kinds")(L.Concatenate(axis=1)(kinds))
    return keras.Model(inputs, [kinds, L.Concatenate(axis=1, name="boxes")(boxes)])


def centers(keras):
    """Things as points: a map of where their middles are, how large they are and what the map's steps left out."""
    L = keras.layers
    x = inputs = keras.Input((128, 128, 3))
    skips = []
    for filters in (32, 64, 128):
        x = L.BatchNormalization()(L.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x))
        skips.append(L.Conv2D(64, 1, padding="same")(x))
    x = skips.pop()
    while len(skips) > 1 or x.shape[1] < 32:
        x = L.Conv2DTranspose(64, 4, strides=2, padding="same", activation="relu")(x)
        x = L.Average()([x, skips.pop()])
    heads = []
    for name, filters, activation in (("heat", 10, "sigmoid"), ("size", 2, "softplus"), ("rest", 2, "sigmoid")):
        y = L.Conv2D(64, 3, padding="same", activation="relu")(x)
        heads.append(L.Conv2D(filters, 1, activation=activation, name=name)(y))
    return keras.Model(inputs, heads)


def plates(keras):
    """Seven letters of a number plate, each with an answer of its own."""
    L = keras.layers
    x = inputs = keras.Input((64, 160, 1))
    for filters in (32, 48, 64, 96):
        x = L.Conv2D(filters, (5, 5) if filters < 64 else (3, 3), padding="same", kernel_initializer="he_uniform")(x)
        x = L.MaxPooling2D()(L.ReLU()(L.BatchNormalization()(x)))
    x = L.Dropout(0.3)(L.Dense(1024, activation="relu")(L.Flatten()(x)))
    return keras.Model(inputs, [L.Dense(36, activation="softmax", name=f"letter_{index}")(x) for index in range(7)])


def cifar_hundred(keras):
    """VGG for small pictures: normalization, dropout that grows, and weights that are paid for."""
    L = keras.layers
    model = keras.Sequential([L.Input((32, 32, 3))])
    for filters, count in ((64, 2), (128, 2), (256, 3)):
        for index in range(count):
            model.add(L.Conv2D(filters, 3, padding="same", activation="relu", kernel_regularizer=keras.regularizers.L2(5e-4)))
            model.add(L.BatchNormalization())
            if index < count - 1:
                model.add(L.Dropout(0.3 + 0.1 * index))
        model.add(L.MaxPooling2D())
    for layer in (L.Flatten(), L.Dense(512, activation="relu"), L.BatchNormalization(), L.Dropout(0.5), L.Dense(100)):
        model.add(layer)
    return model


def dirty_pages(keras):
    """Scanned pages are cleaned of stains: a flat network at the pages' whole size."""
    L = keras.layers
    inputs = keras.Input((252, 540, 1))
    x = L.Conv2D(32, 3, activation="relu", padding="same")(inputs)
    x = L.MaxPooling2D(2, padding="same")(L.BatchNormalization()(L.Conv2D(64, 3, activation="relu", padding="same")(x)))
    x = L.Dropout(0.5)(L.Conv2D(64, 3, activation="relu", padding="same")(x))
    x = L.UpSampling2D(2)(L.BatchNormalization()(L.Conv2D(32, 3, activation="relu", padding="same")(x)))
    return keras.Model(inputs, L.Conv2D(1, 3, activation="sigmoid", padding="same")(x))


def nodules(keras):
    """V-Net: volumes, larger kernels, steps instead of pools, and what comes in is added at the end of each stage."""
    L = keras.layers

    def stage(x, filters, count):
        y = x
        for _ in range(count):
            y = L.PReLU(shared_axes=[1, 2, 3])(L.Conv3D(filters, 5 if filters < 64 else 3, padding="same")(y))
        return L.Add()([x, y])

    inputs = keras.Input((32, 32, 24, 1))
    a = stage(L.Conv3D(8, 1)(inputs), 8, 1)
    b = stage(L.Conv3D(16, 2, strides=2, activation="relu")(a), 16, 2)
    c = stage(L.Conv3D(64, 2, strides=2, activation="relu")(b), 64, 2)
    x = L.Conv3D(16, 1)(L.Concatenate()([L.Conv3DTranspose(16, 2, strides=2, activation="relu")(c), b]))
    x = L.Conv3DTranspose(8, 2, strides=2, activation="relu")(stage(x, 16, 2))
    x = stage(L.Conv3D(8, 1)(L.Concatenate()([x, a])), 8, 1)
    return keras.Model(inputs, L.Conv3D(1, 1, activation="sigmoid")(x))
