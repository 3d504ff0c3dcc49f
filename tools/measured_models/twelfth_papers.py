"""Models of the twelfth table: pictures, films and volumes, after papers and contests."""


def shifted_windows(keras):
    """Attention within windows of 7 by 7, every other time after the picture was rolled by half a window."""
    layers, ops = keras.layers, keras.ops

    def block(x, side, dim, heads, shift):
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        y = ops.roll(y, (-shift, -shift), axis=(1, 2)) if shift else y
        n = side // 7
        y = ops.transpose(ops.reshape(y, (-1, n, 7, n, 7, dim)), (0, 1, 3, 2, 4, 5))
        q, k, v = ops.unstack(ops.reshape(layers.Dense(3 * dim)(ops.reshape(y, (-1, 49, dim))), (-1, 49, 3, heads, dim // heads)), axis=2)
        weights = ops.softmax(ops.einsum("bqhd,bkhd->bhqk", q, k) * (dim // heads) ** -0.5)
        y = ops.reshape(ops.einsum("bhqk,bkhd->bqhd", layers.Dropout(0.1)(weights), v), (-1, n, n, 7, 7, dim))
        y = ops.reshape(ops.transpose(y, (0, 1, 3, 2, 4, 5)), (-1, side, side, dim))
        x = x + layers.Dense(dim)(ops.roll(y, (shift, shift), axis=(1, 2)) if shift else y)
        y = layers.Dense(4 * dim, activation="gelu")(layers.LayerNormalization(epsilon=1e-5)(x))
        return x + layers.Dense(dim)(y)

    image = keras.Input((112, 112, 3))
    x = layers.LayerNormalization()(layers.Conv2D(64, 4, strides=4)(image))
    x = block(block(x, 28, 64, 2, 0), 28, 64, 2, 3)
    x = layers.Dense(128, use_bias=False)(layers.LayerNormalization()(ops.space_to_depth(x, 2)))
    x = block(block(x, 14, 128, 4, 0), 14, 128, 4, 3)
    x = layers.GlobalAveragePooling2D()(layers.LayerNormalization()(x))
    return keras.Model(image, layers.Dense(100)(x))


def class_token(keras):
    """A vision transformer whose answer is read at a token that is put in front of the patches."""
    layers, ops = keras.layers, keras.ops
    image = keras.Input((128, 128, 3))
    x = ops.reshape(layers.Conv2D(192, 16, strides=16, name="patches")(image), (-1, 64, 192))
    x = ops.pad(x, ((0, 0), (1, 0), (0, 0)))
    x = x + layers.Embedding(65, 192, name="places")(ops.arange(65, dtype="int32") + ops.zeros_like(x[..., 0], dtype="int32"))
    for _ in range(6):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(3, 64, dropout=0.1)(y, y)
        y = layers.Dense(768, activation=keras.activations.gelu)(layers.LayerNormalization()(x))
        x = x + layers.Dense(192)(layers.Dropout(0.1)(y))
    return keras.Model(image, layers.Dense(200)(layers.LayerNormalization()(x)[:, 0]))


def pooled_tokens(keras):
    """PoolFormer: neighbours are averaged where others would let them ask each other."""
    layers = keras.layers
    x = image = keras.Input((128, 128, 3))
    for dim, patch, stride in ((48, 7, 4), (96, 3, 2), (192, 3, 2), (320, 3, 2)):
        x = layers.Conv2D(dim, patch, strides=stride, padding="same")(x)
        for _ in range(2):
            y = layers.GroupNormalization(groups=1)(x)
            y = layers.Subtract()([layers.AveragePooling2D(3, strides=1, padding="same")(y), y])
            x = layers.Add()([x, layers.EinsumDense("bhwc,c->bhwc", (None, None, dim))(y)])
            y = layers.Conv2D(4 * dim, 1, activation="gelu")(layers.GroupNormalization(groups=1)(x))
            x = layers.Add()([x, layers.Conv2D(dim, 1)(y)])
    return keras.Model(image, layers.Dense(100, activation="softmax")(layers.GlobalAveragePooling2D()(x)))


def looked_at_twice(keras):
    """CBAM: which channels matter, by one small network over their mean and their greatest, then which places."""
    layers, ops = keras.layers, keras.ops

    def block(x, filters, stride):
        short = x if stride == 1 else layers.Conv2D(filters, 1, strides=stride)(x)
        y = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(filters, 3, strides=stride, padding="same")(x)))
        y = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same")(y))
        first, second = layers.Dense(filters // 8, activation="relu"), layers.Dense(filters)
        mean, most = layers.GlobalAveragePooling2D(keepdims=True)(y), layers.GlobalMaxPooling2D(keepdims=True)(y)
        y = y * ops.sigmoid(second(first(mean)) + second(first(most)))
        places = ops.concatenate([ops.mean(y, axis=-1, keepdims=True), ops.max(y, axis=-1, keepdims=True)], axis=-1)
        y = layers.Multiply()([y, layers.Conv2D(1, 7, padding="same", activation="sigmoid", use_bias=False)(places)])
        return layers.ReLU()(layers.Add()([short, y]))

    image = keras.Input((96, 96, 3))
    x = layers.MaxPooling2D(3, 2, padding="same")(layers.Conv2D(64, 3, padding="same", activation="relu")(image))
    for filters, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        x = block(x, filters, stride)
    return keras.Model(image, layers.Dense(7, activation="softmax")(layers.GlobalAveragePooling2D()(x)))


def high_resolution(keras):
    """HRNet in small: three scales side by side, each told what the others see; a map of each joint."""
    layers = keras.layers

    def conv(x, filters, size=3, stride=1, relu=True):
        x = layers.BatchNormalization()(layers.Conv2D(filters, size, strides=stride, padding="same", use_bias=False)(x))
        return layers.ReLU()(x) if relu else x

    image = keras.Input((128, 96, 3))
    scales = [conv(conv(image, 64, stride=2), 64, stride=2)]
    widths = (32, 64, 128)
    for stage in (1, 2, 3):
        scales = [conv(x, width) for x, width in zip(scales, widths)]
        if stage > 1:
            scales.append(conv(scales[-1], widths[stage - 1], stride=2))
        scales = [layers.ReLU()(x + conv(conv(x, x.shape[-1]), x.shape[-1], relu=False)) for x in scales]
        mixed = []
        for i in range(len(scales)):
            parts = []
            for j, x in enumerate(scales):
                for _ in range(i - j):
                    x = conv(x, widths[i], stride=2)
                if j > i:
                    x = layers.UpSampling2D(2 ** (j - i), interpolation="nearest")(conv(x, widths[i], 1, relu=False))
                parts.append(x)
            mixed.append(layers.ReLU()(layers.Add()(parts)) if len(parts) > 1 else parts[0])
        scales = mixed
    return keras.Model(image, layers.Conv2D(17, 1)(scales[0]))


def fast_upscaling(keras):
    """FSRCNN: shrunk, mapped, widened, and made larger at the very end by one transposed convolution."""
    layers = keras.layers
    small = keras.Input((64, 64, 1))
    x = layers.PReLU(shared_axes=[1, 2])(layers.Conv2D(56, 5, padding="same", kernel_initializer="he_normal")(small))
    x = layers.PReLU(shared_axes=[1, 2])(layers.Conv2D(12, 1, padding="same")(x))
    for _ in range(4):
        x = layers.PReLU(shared_axes=[1, 2])(layers.Conv2D(12, 3, padding="same")(x))
    x = layers.PReLU(shared_axes=[1, 2])(layers.Conv2D(56, 1, padding="same")(x))
    return keras.Model(small, layers.Conv2DTranspose(1, 9, strides=3, padding="same")(x))


def added_across(keras):
    """LinkNet: what was seen on the way down is added, not laid beside, on the way up."""
    layers = keras.layers

    def act(x):
        return layers.Activation("relu")(layers.BatchNormalization()(x))

    image = keras.Input((192, 192, 3))
    x = act(layers.Conv2D(48, 7, strides=2, padding="same")(image))
    skips = []
    for filters in (48, 96, 192):
        skips.append(x)
        y = act(layers.Conv2D(filters, 3, strides=2, padding="same")(x))
        y = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same")(y))
        x = layers.Activation("relu")(layers.add([y, layers.Conv2D(filters, 1, strides=2)(x)]))
    for skip in reversed(skips):
        y = act(layers.Conv2D(x.shape[-1] // 4, 1)(x))
        y = act(layers.Conv2DTranspose(y.shape[-1], 3, strides=2, padding="same")(y))
        x = layers.add([act(layers.Conv2D(skip.shape[-1], 1)(y)), skip])
    x = act(layers.Conv2DTranspose(32, 3, strides=2, padding="same")(x))
    return keras.Model(image, layers.Conv2D(12, 3, padding="same", activation="softmax")(x))


def brain_volumes(keras):
    """Residual blocks over volumes, in groups, with whole channels left out."""
    layers = keras.layers
    volume = keras.Input((48, 48, 48, 1))
    x = layers.Conv3D(16, 3, padding="same")(volume)
    for filters in (32, 64, 128):
        y = layers.Activation("relu")(layers.GroupNormalization(8)(x))
        y = layers.Conv3D(filters, 3, strides=2, padding="same")(y)
        y = layers.SpatialDropout3D(0.2)(layers.Activation("relu")(layers.GroupNormalization(8)(y)))
        y = layers.Conv3D(filters, 3, padding="same")(y)
        x = layers.Add()([y, layers.Conv3D(filters, 1, strides=2)(x)])
    x = layers.Dropout(0.4)(layers.GlobalAveragePooling3D()(x))
    return keras.Model(volume, layers.Dense(3, activation="softmax")(x))
