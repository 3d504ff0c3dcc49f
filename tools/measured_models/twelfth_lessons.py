"""Models of the twelfth table: what first lessons have one write, for pictures and tables."""


def fashion_cnn(keras):
    return keras.Sequential(
        [
            keras.layers.Input(shape=(28, 28, 1)),
            keras.layers.Conv2D(32, (3, 3), activation="relu", kernel_initializer="he_uniform"),
            keras.layers.BatchNormalization(),
            keras.layers.Conv2D(32, (3, 3), activation="relu"),
            keras.layers.MaxPooling2D((2, 2)),
            keras.layers.Dropout(0.25),
            keras.layers.Conv2D(64, (3, 3), padding="same", activation="relu"),
            keras.layers.MaxPooling2D((2, 2)),
            keras.layers.Flatten(),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


def cifar_regularized(keras):
    """Six convolutions, each with a penalty, elu and normalization; dropout grows from pool to pool."""
    model = keras.Sequential(name="cifar10")
    model.add(keras.Input((32, 32, 3)))
    for stage, filters in enumerate([32, 64, 128]):
        for _ in range(2):
            model.add(keras.layers.Conv2D(filters, 3, padding="same", kernel_regularizer=keras.regularizers.l2(1e-4)))
            model.add(keras.layers.Activation("elu"))
            model.add(keras.layers.BatchNormalization())
        model.add(keras.layers.MaxPooling2D(2))
        model.add(keras.layers.Dropout(0.2 + 0.1 * stage))
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(10, activation="softmax"))
    return model


def credit_default(keras):
    """A dense network for a table of loans."""
    model = keras.Sequential([keras.Input((45,)), keras.layers.BatchNormalization()])
    for units in (512, 256, 128, 64):
        model.add(keras.layers.Dense(units))
        model.add(keras.layers.BatchNormalization())
        model.add(keras.layers.LeakyReLU(negative_slope=0.1))
        model.add(keras.layers.Dropout(0.3))
    model.add(keras.layers.Dense(1, activation="sigmoid"))
    return model


def wide_columns(keras):
    model = keras.Sequential([keras.Input((400,))])
    for units in (2048, 2048, 1024):
        model.add(keras.layers.Dense(units, activation="swish"))
    model.add(keras.layers.Dense(50, activation="softmax"))
    return model


def deep_rows(keras):
    """Sixteen narrow layers of tanh, every other one with a way around it."""
    layers = keras.layers
    inputs = keras.Input((64,), name="features")
    h = layers.Dense(256, activation="tanh")(inputs)
    for i in range(8):
        z = layers.Dense(256, activation="tanh", name=f"first_{i}")(h)
        h = layers.add([h, layers.Dense(256, activation="tanh", name=f"second_{i}")(z)])
    return keras.Model(inputs, layers.Dense(3, name="targets")(h))


def fashion_autoencoder(keras):
    """Pools on the way down, stretched pictures on the way up."""
    layers = keras.layers
    encoder = keras.Sequential(name="encoder")
    encoder.add(keras.Input((28, 28, 1)))
    decoder = keras.Sequential(name="decoder")
    for filters in (64, 32):
        encoder.add(layers.Conv2D(filters, 3, activation="relu", padding="same"))
        encoder.add(layers.MaxPooling2D(2, padding="same"))
    encoder.add(layers.Flatten())
    encoder.add(layers.Dense(64))
    decoder.add(keras.Input((64,)))
    decoder.add(layers.Dense(7 * 7 * 32, activation="relu"))
    decoder.add(layers.Reshape((7, 7, 32)))
    for filters in (32, 64):
        decoder.add(layers.Conv2D(filters, 3, activation="relu", padding="same"))
        decoder.add(layers.UpSampling2D(2))
    decoder.add(layers.Conv2D(1, 3, activation="sigmoid", padding="same"))
    return keras.Sequential([encoder, decoder])


def faces_vae(keras):
    """Convolutions, normalization and LeakyReLU around a mean and a variance; noise on zeros is the sample's noise."""
    layers, ops = keras.layers, keras.ops
    image = keras.Input((64, 64, 3), name="image")
    h = image
    for filters in (32, 64, 128, 256):
        h = layers.Conv2D(filters, 4, strides=2, padding="same")(h)
        h = layers.LeakyReLU()(layers.BatchNormalization()(h))
    h = layers.Flatten()(h)
    z_mean, z_log_var = layers.Dense(200, name="z_mean")(h), layers.Dense(200, name="z_log_var")(h)
    z = z_mean + ops.exp(0.5 * z_log_var) * layers.GaussianNoise(1.0)(ops.zeros_like(z_mean))
    kl = ops.mean(-0.5 * (1 + z_log_var - ops.square(z_mean) - ops.exp(z_log_var)), axis=-1, keepdims=True)
    h = layers.Reshape((4, 4, 256))(layers.Dense(4 * 4 * 256)(z))
    for filters in (128, 64, 32):
        h = layers.Conv2DTranspose(filters, 4, strides=2, padding="same")(h)
        h = layers.LeakyReLU()(layers.BatchNormalization()(h))
    image_again = layers.Conv2DTranspose(3, 4, strides=2, padding="same", activation="sigmoid")(h)
    return keras.Model(image, [image_again, kl])


def nuclei_unet(keras):
    """The U-Net of a contest's best known notebook: elu, he_normal, dropout in every block."""
    layers = keras.layers

    def twice(x, filters, rate):
        x = layers.Conv2D(filters, (3, 3), activation="elu", kernel_initializer="he_normal", padding="same")(x)
        x = layers.Dropout(rate)(x)
        return layers.Conv2D(filters, (3, 3), activation="elu", kernel_initializer="he_normal", padding="same")(x)

    inputs = keras.Input((128, 128, 3))
    s = layers.Rescaling(1 / 255)(inputs)
    c1 = twice(s, 16, 0.1)
    c2 = twice(layers.MaxPooling2D((2, 2))(c1), 32, 0.1)
    c3 = twice(layers.MaxPooling2D((2, 2))(c2), 64, 0.2)
    c4 = twice(layers.MaxPooling2D((2, 2))(c3), 128, 0.2)
    x = twice(layers.MaxPooling2D((2, 2))(c4), 256, 0.3)
    for skip, filters, rate in ((c4, 128, 0.2), (c3, 64, 0.2), (c2, 32, 0.1), (c1, 16, 0.1)):
        x = layers.Conv2DTranspose(filters, (2, 2), strides=(2, 2), padding="same")(x)
        x = twice(layers.concatenate([x, skip]), filters, rate)
    return keras.Model(inputs=[inputs], outputs=[layers.Conv2D(1, (1, 1), activation="sigmoid")(x)])


def cars_unet(keras):
    """Normalization after every convolution, and bilinear pictures on the way up."""
    layers = keras.layers

    def block(x, filters):
        for _ in range(2):
            x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
            x = layers.BatchNormalization()(x)
            x = layers.Activation("relu")(x)
        return x

    inputs = keras.Input((160, 160, 3))
    x, skips = inputs, []
    for filters in (32, 64, 128, 256):
        x = block(x, filters)
        skips.append(x)
        x = layers.MaxPool2D()(x)
    x = block(x, 512)
    for filters in (256, 128, 64, 32):
        x = layers.UpSampling2D(interpolation="bilinear")(x)
        x = block(layers.Concatenate()([skips.pop(), x]), filters)
    return keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(x))


def signature_pairs(keras):
    """Two signatures through one network; how far apart they are, in each number, decides."""
    layers = keras.layers
    tower = keras.Sequential(name="tower")
    tower.add(layers.Input((105, 105, 1)))
    for filters, size in ((64, 10), (128, 7), (128, 4)):
        tower.add(layers.Conv2D(filters, size, activation="relu", kernel_regularizer="l2"))
        tower.add(layers.MaxPooling2D())
    tower.add(layers.Conv2D(256, 4, activation="relu"))
    tower.add(layers.Flatten())
    tower.add(layers.Dense(2048, activation="sigmoid"))
    left, right = keras.Input((105, 105, 1), name="left"), keras.Input((105, 105, 1), name="right")
    distance = keras.ops.abs(tower(left) - tower(right))
    return keras.Model([left, right], layers.Dense(1, activation="sigmoid")(distance))
