"""Models of the ninth table: pictures and films."""


def capsules(keras):
    """Vectors instead of channels, sent on by agreement in two rounds."""
    L, ops = keras.layers, keras.ops

    def squash(vectors):
        squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
        return vectors * squares / (1.0 + squares) / ops.sqrt(squares + 1e-7)

    inputs = keras.Input((28, 28, 1))
    x = L.Conv2D(128, 9, activation="relu")(inputs)
    x = squash(L.Reshape((1152, 8))(L.Conv2D(256, 9, strides=2)(x)))
    votes = L.EinsumDense("bid,ijde->bije", (1152, 10, 16))(x)
    agreement = ops.zeros_like(votes[..., :1])
    for _ in range(2):
        parts = ops.softmax(agreement, axis=2)
        together = squash(ops.sum(parts * votes, axis=1, keepdims=True))
        agreement = agreement + ops.sum(votes * together, axis=-1, keepdims=True)
    return keras.Model(inputs, ops.sqrt(ops.sum(ops.square(together[:, 0]), axis=-1) + 1e-7))


def gated_patches(keras):
    """gMLP: patches are mixed by one half of the channels, which gates the other."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((64, 64, 3))
    x = L.Reshape((256, 96))(L.Conv2D(96, 4, strides=4)(inputs))
    for _ in range(5):
        y = L.Dense(384, activation="gelu")(L.LayerNormalization(epsilon=1e-6)(x))
        left, right = ops.split(y, 2, axis=-1)
        right = L.LayerNormalization(epsilon=1e-6)(right)
        right = L.Permute((2, 1))(L.Dense(256, bias_initializer="ones")(L.Permute((2, 1))(right)))
        x = x + L.Dense(96)(left * right)
    return keras.Model(inputs, L.Dense(100)(L.Dropout(0.2)(L.GlobalAveragePooling1D()(x))))


def dilated_backbone(keras):
    """DeepLabV3+ on a ResNet50 that is trained with it, made again from its configuration: the unused last stage would stay in memory."""
    L = keras.layers
    backbone = keras.applications.ResNet50(weights=None, include_top=False, input_shape=(128, 128, 3))

    def block(x, channels=64, size=3, rate=1):
        x = L.Conv2D(channels, size, dilation_rate=rate, padding="same", use_bias=False)(x)
        return L.ReLU()(L.BatchNormalization()(x))

    x = backbone.get_layer("conv4_block6_2_relu").output
    pooled = block(L.AveragePooling2D(8)(x), size=1)
    branches = [L.UpSampling2D(8, interpolation="bilinear")(pooled)]
    branches += [block(x, size=size, rate=rate) for size, rate in ((1, 1), (3, 2), (3, 4))]
    x = L.UpSampling2D(4, interpolation="bilinear")(block(L.Concatenate()(branches), size=1))
    x = L.Concatenate()([x, block(backbone.get_layer("conv2_block3_2_relu").output, 48, 1)])
    x = L.UpSampling2D(4, interpolation="bilinear")(block(block(x)))
    model = keras.Model(backbone.input, L.Conv2D(21, 1)(x))
    return keras.Model.from_config(model.get_config())


def cycle(keras):
    """The generator of a CycleGAN: mirrored edges, each channel of each picture normalized by itself."""
    L, ops = keras.layers, keras.ops

    def mirrored(x, width):
        return ops.pad(x, ((0, 0), (width, width), (width, width), (0, 0)), mode="reflect")

    inputs = keras.Input((96, 96, 3))
    x = L.ReLU()(L.GroupNormalization(-1)(L.Conv2D(32, 7, use_bias=False)(mirrored(inputs, 3))))
    for channels in (64, 128):
        x = L.Conv2D(channels, 3, strides=2, padding="same", use_bias=False)(x)
        x = L.ReLU()(L.GroupNormalization(-1)(x))
    for _ in range(4):
        y = L.ReLU()(L.GroupNormalization(-1)(L.Conv2D(128, 3, use_bias=False)(mirrored(x, 1))))
        x = L.Add()([x, L.GroupNormalization(-1)(L.Conv2D(128, 3, use_bias=False)(mirrored(y, 1)))])
    for channels in (64, 32):
        x = L.Conv2DTranspose(channels, 3, strides=2, padding="same", use_bias=False)(x)
        x = L.ReLU()(L.GroupNormalization(-1)(x))
    return keras.Model(inputs, L.Conv2D(3, 7, activation="tanh")(mirrored(x, 3)))


def mobile_vit(keras):
    """Convolutions between which patches attend to each other."""
    L = keras.layers

    def inverted(x, channels, stride=1):
        y = L.Activation("swish")(L.BatchNormalization()(L.Conv2D(2 * x.shape[-1], 1, use_bias=False)(x)))
        y = L.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False)(y)
        y = L.Activation("swish")(L.BatchNormalization()(y))
        y = L.BatchNormalization()(L.Conv2D(channels, 1, use_bias=False)(y))
        return L.Add()([x, y]) if stride == 1 and channels == x.shape[-1] else y

    def attending(x, width, count):
        local = L.Conv2D(width, 1, activation="swish")(L.Conv2D(width, 3, padding="same", activation="swish")(x))
        side = local.shape[1]
        y = L.Reshape((4, side * side // 4, width))(local)
        for _ in range(count):
            z = L.LayerNormalization(epsilon=1e-6)(y)
            y = L.Add()([y, L.MultiHeadAttention(2, width, dropout=0.1)(z, z)])
            z = L.Dense(2 * width, activation="swish")(L.LayerNormalization(epsilon=1e-6)(y))
            y = L.Add()([y, L.Dropout(0.1)(L.Dense(width)(z))])
        y = L.Conv2D(x.shape[-1], 1, activation="swish")(L.Reshape((side, side, width))(y))
        return L.Conv2D(width, 3, padding="same", activation="swish")(L.Concatenate()([x, y]))

    inputs = keras.Input((128, 128, 3))
    x = L.Conv2D(16, 3, strides=2, padding="same", activation="swish")(inputs)
    x = inverted(inverted(inverted(x, 16), 24, 2), 24)
    x = attending(inverted(x, 48, 2), 64, 2)
    x = attending(inverted(x, 64, 2), 80, 2)
    return keras.Model(inputs, L.Dense(40, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def diffusion(keras):
    """The noise in a picture, given how much there is of it (DDIM)."""
    L, ops = keras.layers, keras.ops

    def residual(x, channels):
        short = x if x.shape[-1] == channels else L.Conv2D(channels, 1)(x)
        x = L.BatchNormalization(center=False, scale=False)(x)
        x = L.Conv2D(channels, 3, padding="same", activation="swish")(x)
        return L.Add()([L.Conv2D(channels, 3, padding="same")(x), short])

    pictures, noise = keras.Input((64, 64, 3)), keras.Input((1, 1, 1))
    frequencies = ops.exp(ops.linspace(0.0, 6.9, 16))
    angles = 6.2832 * frequencies * noise
    places = L.UpSampling2D(64, interpolation="nearest")(ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=3))
    x, skips = L.Concatenate()([L.Conv2D(32, 1)(pictures), places]), []
    for channels in (32, 64, 96):
        for _ in range(2):
            x = residual(x, channels)
            skips.append(x)
        x = L.AveragePooling2D(2)(x)
    x = residual(residual(x, 128), 128)
    for channels in (96, 64, 32):
        x = L.UpSampling2D(interpolation="bilinear")(x)
        for _ in range(2):
            x = residual(L.Concatenate()([x, skips.pop()]), channels)
    return keras.Model([pictures, noise], L.Conv2D(3, 1, kernel_initializer="zeros")(x))


def night(keras):
    """Dark pictures are lit by a curve for each pixel, applied eight times (Zero-DCE)."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((112, 112, 3))
    made = [L.Conv2D(32, 3, padding="same", activation="relu")(inputs)]
    for _ in range(3):
        made.append(L.Conv2D(32, 3, padding="same", activation="relu")(made[-1]))
    x = made.pop()
    for earlier in reversed(made):
        x = L.Conv2D(32 if earlier is not made[0] else 24, 3, padding="same", activation="tanh")(L.Concatenate()([x, earlier]))
    lit = inputs
    for curve in ops.split(x, 8, axis=3):
        lit = lit + curve * (ops.square(lit) - lit)
    return keras.Model(inputs, lit)


def global_response(keras):
    """ConvNeXt V2: responses are divided by their mean over the picture."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((96, 96, 3))
    x = L.LayerNormalization(epsilon=1e-6)(L.Conv2D(40, 4, strides=4)(inputs))
    for width, count in ((40, 2), (80, 2), (160, 4)):
        if width > 40:
            x = L.Conv2D(width, 2, strides=2)(L.LayerNormalization(epsilon=1e-6)(x))
        for _ in range(count):
            y = L.LayerNormalization(epsilon=1e-6)(L.DepthwiseConv2D(7, padding="same")(x))
            y = L.Dense(4 * width, activation="gelu")(y)
            size = ops.sqrt(ops.sum(ops.square(y), axis=(1, 2), keepdims=True) + 1e-6)
            y = y + y * (size / (ops.mean(size, axis=-1, keepdims=True) + 1e-6))
            x = L.Add()([x, L.Dense(width)(y)])
    return keras.Model(inputs, L.Dense(50)(L.LayerNormalization(epsilon=1e-6)(L.GlobalAveragePooling2D()(x))))


def slow_and_fast(keras):
    """Few frames with many channels beside many frames with few."""
    L = keras.layers
    inputs = keras.Input((16, 64, 64, 3))
    slow, fast = inputs[:, ::4], inputs
    slow = L.Conv3D(32, (1, 5, 5), strides=(1, 2, 2), padding="same", activation="relu")(slow)
    fast = L.Conv3D(8, (3, 5, 5), strides=(1, 2, 2), padding="same", activation="relu")(fast)
    for channels in (48, 96):
        slow = L.Concatenate()([slow, L.Conv3D(2 * fast.shape[-1], (5, 1, 1), strides=(4, 1, 1), padding="same")(fast)])
        slow = L.Conv3D(channels, (1, 3, 3), padding="same", activation="relu")(L.MaxPooling3D((1, 2, 2))(slow))
        fast = L.Conv3D(channels // 4, (3, 3, 3), padding="same", activation="relu")(L.MaxPooling3D((1, 2, 2))(fast))
    x = L.Concatenate()([L.GlobalAveragePooling3D()(slow), L.GlobalAveragePooling3D()(fast)])
    return keras.Model(inputs, L.Dense(30, activation="softmax")(L.Dropout(0.3)(x)))


def tubelets(keras):
    """A transformer over short films, cut into small boxes (ViViT)."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((16, 32, 32, 1))
    x = L.Reshape((256, 96))(L.Conv3D(96, (4, 4, 4), strides=(4, 4, 4))(inputs))
    x = x + L.Embedding(256, 96)(ops.arange(256))
    for _ in range(4):
        y = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([L.MultiHeadAttention(6, 16, dropout=0.1)(y, y), x])
        y = L.Dense(384, activation="gelu")(L.LayerNormalization(epsilon=1e-6)(x))
        x = L.Add()([L.Dense(96, activation="gelu")(y), x])
    x = L.GlobalAveragePooling1D()(L.LayerNormalization(epsilon=1e-6)(x))
    return keras.Model(inputs, L.Dense(11, activation="softmax")(x))


def critic(keras):
    """Tells real pictures from made ones, with weights whose norm is held at one."""
    L = keras.layers
    x = inputs = keras.Input((64, 64, 3))
    for channels in (48, 96, 192):
        x = L.SpectralNormalization(L.Conv2D(channels, 4, strides=2, padding="same"))(x)
        x = L.LeakyReLU(0.2)(x)
    return keras.Model(inputs, L.SpectralNormalization(L.Dense(1))(L.Flatten()(x)))
