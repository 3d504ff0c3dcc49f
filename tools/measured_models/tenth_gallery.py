"""Models of the tenth table, after a gallery of examples: pictures, points, and things that are made up."""


def external_memory(keras):
    """EANet: patches look into a small memory that all pictures share, instead of at each other."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((64, 64, 3))
    x = L.RandomZoom(0.2)(L.RandomRotation(0.1)(L.RandomFlip("horizontal")(L.Rescaling(1 / 255)(inputs))))
    x = L.Dense(96)(L.Reshape((256, 48))(ops.image.extract_patches(x, 4)))
    x = x + L.Embedding(256, 96)(ops.zeros_like(x[:, :, 0], dtype="int32") + ops.arange(256))
    for _ in range(4):
        y = L.Dense(384)(L.LayerNormalization(epsilon=1e-5)(x))
        y = ops.transpose(ops.reshape(y, (-1, 256, 16, 24)), (0, 2, 1, 3))
        weights = ops.softmax(L.Dense(32)(y), axis=2)
        weights = L.Dropout(0.2)(weights / (1e-9 + ops.sum(weights, axis=-1, keepdims=True)))
        y = ops.reshape(ops.transpose(L.Dense(24)(weights), (0, 2, 1, 3)), (-1, 256, 384))
        x = L.add([x, L.Dropout(0.2)(L.Dense(96)(y))])
        y = L.Dense(96, activation="gelu")(L.LayerNormalization(epsilon=1e-5)(x))
        x = L.add([x, L.Dropout(0.2)(L.Dense(96)(y))])
    return keras.Model(inputs, L.Dense(100, activation="softmax")(L.GlobalAveragePooling1D()(x)))


def latent_array(keras):
    """Perceiver: a few latent vectors ask all pixels, twice, with the same layers each time."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((64, 64, 3))
    data = L.Dense(96)(L.Reshape((1024, 12))(ops.image.extract_patches(inputs, 2)))
    latents = L.Embedding(64, 96)(ops.zeros_like(data[:, :64, 0], dtype="int32") + ops.arange(64))
    ask, before, beside = L.MultiHeadAttention(1, 96, dropout=0.1), L.LayerNormalization(), L.LayerNormalization()
    blocks = [(L.LayerNormalization(), L.MultiHeadAttention(4, 24), L.Dense(192, activation="gelu"), L.Dense(96)) for _ in range(2)]
    for _ in range(2):
        latents = latents + ask(before(latents), beside(data))
        for norm, attention, wide, narrow in blocks:
            y = norm(latents)
            latents = latents + attention(y, y)
            latents = latents + narrow(wide(latents))
    return keras.Model(inputs, L.Dense(100)(L.GlobalAveragePooling1D()(latents)))


def parts_of_things(keras):
    """PointNet for parts: each point is classified by itself and by the whole cloud."""
    L = keras.layers

    def block(x, filters):
        return L.Activation("relu")(L.BatchNormalization()(L.Conv1D(filters, kernel_size=1, padding="valid")(x)))

    def turned(x, size):
        y = block(block(block(x, 32), 64), 256)
        y = L.Dense(128, activation="relu")(L.GlobalMaxPooling1D()(y))
        start = keras.initializers.Constant(0.01)
        y = L.Dense(size * size, kernel_initializer="zeros", bias_initializer=start)(L.BatchNormalization()(y))
        return L.Dot(axes=(2, 1))([x, L.Reshape((size, size))(y)])

    inputs = keras.Input((768, 3))
    x = turned(inputs, 3)
    early = block(x, 64)
    middle = block(block(early, 128), 128)
    late = block(turned(middle, 128), 256)
    whole = L.MaxPooling1D(pool_size=768)(block(late, 512))
    x = L.Concatenate()([early, middle, late, L.UpSampling1D(768)(whole)])
    x = block(block(x, 256), 128)
    return keras.Model(inputs, L.Conv1D(5, kernel_size=1, activation="softmax")(x))


def code_book(keras):
    """A picture as a grid of codes: the best of 128 going forward, all of them going back."""
    L, ops = keras.layers, keras.ops
    x = inputs = keras.Input((64, 64, 3))
    for channels in (32, 64):
        x = L.Conv2D(channels, 3, strides=2, padding="same", activation="relu")(x)
    scores = L.Conv2D(128, 1)(x)
    soft = ops.softmax(scores, axis=-1)
    hard = ops.one_hot(ops.argmax(scores, axis=-1), 128)
    x = L.Dense(64, use_bias=False)(soft + ops.stop_gradient(hard - soft))
    for channels in (64, 32):
        x = L.Conv2DTranspose(channels, 3, strides=2, padding="same", activation="relu")(x)
    return keras.Model(inputs, L.Conv2DTranspose(3, 3, padding="same")(x))


def masked_kernels(keras):
    """PixelCNN: every pixel sees only those above it and before it, since the pictures are pushed aside."""
    L = keras.layers

    def seen(x, channels):
        above = L.Conv2D(channels, (2, 3))(L.ZeroPadding2D(((2, 0), (1, 1)))(x))
        above = L.Cropping2D(((0, 1), (0, 0)))(above)
        before = L.Conv2D(channels, (1, 2))(L.ZeroPadding2D(((0, 0), (2, 0)))(x))
        return L.Activation("relu")(L.Add()([above, L.Cropping2D(((0, 0), (0, 1)))(before)]))

    inputs = keras.Input((28, 28, 1))
    x = seen(inputs, 64)
    for _ in range(4):
        y = L.Conv2D(64, 1, activation="relu")(x)
        x = L.Add()([x, L.Conv2D(64, 1, activation="relu")(seen(y, 32))])
    for _ in range(2):
        x = L.Conv2D(64, 1, activation="relu")(x)
    return keras.Model(inputs, L.Conv2D(1, 1, activation="sigmoid")(x))


def adaptive_style(keras):
    """StyleGAN: a vector, passed through a network of its own, scales and shifts every layer."""
    L = keras.layers
    inputs = keras.Input((128,))
    style = L.UnitNormalization()(inputs)
    for _ in range(4):
        style = L.LeakyReLU(0.2)(L.Dense(128)(style))

    def styled(x):
        channels = x.shape[-1]
        x = L.GroupNormalization(-1, center=False, scale=False)(L.LeakyReLU(0.2)(L.GaussianNoise(0.1)(x)))
        scale, shift = (L.Reshape((1, 1, channels))(L.Dense(channels)(style)) for _ in range(2))
        return x * (1.0 + scale) + shift

    x = styled(L.Reshape((4, 4, 128))(L.Dense(4 * 4 * 128)(style)))
    for channels in (128, 96, 64, 32):
        x = styled(L.Conv2D(channels, 3, padding="same")(L.UpSampling2D(interpolation="bilinear")(x)))
        x = styled(L.Conv2D(channels, 3, padding="same")(x))
    return keras.Model(inputs, L.Conv2D(3, 1, activation="tanh")(x))


def coupling(keras):
    """Real NVP: one half of the numbers says how the other is stretched and moved."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((32,))
    x, stretched = inputs, 0.0
    for _ in range(6):
        kept, changed = ops.split(x, 2, axis=-1)
        scale = move = kept
        for _ in range(3):
            scale = L.Dense(256, activation="relu", kernel_regularizer=keras.regularizers.l2(0.01))(scale)
            move = L.Dense(256, activation="relu", kernel_regularizer=keras.regularizers.l2(0.01))(move)
        scale, move = L.Dense(16, activation="tanh")(scale), L.Dense(16, activation="linear")(move)
        changed = changed * ops.exp(scale) + move
        x = ops.concatenate([changed, kept], axis=-1)
        stretched = stretched + ops.sum(scale, axis=-1, keepdims=True)
    return keras.Model(inputs, [x, stretched])


def mel_generator(keras):
    """MelGAN: a spectrogram becomes sound, through transposed convolutions and stacks of dilated ones."""
    L = keras.layers
    inputs = keras.Input((64, 80))
    x = L.LeakyReLU(0.2)(L.Conv1D(256, 7, padding="same")(inputs))
    for channels, stride in ((128, 8), (64, 4), (32, 4)):
        x = L.LeakyReLU(0.2)(L.Conv1DTranspose(channels, 2 * stride, strides=stride, padding="same")(x))
        for rate in (1, 3, 9):
            y = L.LeakyReLU(0.2)(L.Conv1D(channels, 3, dilation_rate=rate, padding="same")(x))
            x = L.add([x, L.LeakyReLU(0.2)(L.Conv1D(channels, 3, padding="same")(y))])
    return keras.Model(inputs, L.Conv1D(1, 7, padding="same", activation="tanh")(x))
