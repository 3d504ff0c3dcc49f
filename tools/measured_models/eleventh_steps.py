"""Models of the eleventh table whose work is done by operations between the layers."""


def reflected(keras):
    """Pictures whose edges are mirrored before each convolution, and each picture normalized by itself."""
    L, ops = keras.layers, keras.ops

    def convolution(x, filters, size=3, stride=1):
        edge = size // 2
        x = ops.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)), mode="reflect")
        x = L.Conv2D(filters, size, strides=stride, padding="valid")(x)
        middle, spread = ops.moments(x, axes=[1, 2], keepdims=True)
        return (x - middle) * ops.rsqrt(spread + 1e-5)

    inputs = keras.Input((96, 96, 3))
    x = ops.relu(convolution(inputs, 24, 7))
    x = ops.relu(convolution(ops.relu(convolution(x, 48, 3, 2)), 96, 3, 2))
    for _ in range(3):
        x = x + convolution(ops.relu(convolution(x, 96)), 96)
    for filters in (48, 24):
        x = ops.image.resize(x, (x.shape[1] * 2, x.shape[2] * 2), interpolation="nearest")
        x = ops.relu(convolution(x, filters))
    return keras.Model(inputs, L.Conv2D(3, 7, padding="same", activation="tanh")(x))


def forward_scores(keras):
    """The scores of all ways to tag a sentence, summed from word to word."""
    L, ops = keras.layers, keras.ops
    words = keras.Input((20,), dtype="int32")
    x = L.Bidirectional(L.GRU(96, return_sequences=True))(L.Embedding(9000, 96)(words))
    scores = L.Dense(24)(x)
    steps = L.EinsumDense("btd,dij->btij", (20, 24, 24))(x)
    total, ways = scores[:, 0], []
    for index in range(1, 20):
        both = ops.expand_dims(total, 2) + steps[:, index] + ops.expand_dims(scores[:, index], 1)
        total = ops.logsumexp(both, axis=1)
        ways.append(total)
    ways = ops.stack(ways, axis=1)
    return keras.Model(words, ops.log_softmax(ways, axis=-1) + 0.01 * ways)


def captioned_pairs(keras):
    """CLIP: which text of the batch belongs to which picture of it, and the other way round."""
    L, ops = keras.layers, keras.ops
    picture, text = keras.Input(batch_shape=(48, 64, 64, 3), name="picture"), keras.Input(batch_shape=(48, 24), dtype="int32", name="text")
    x = picture
    for filters in (32, 64, 128):
        x = L.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)(x)
        x = L.Activation("gelu")(L.BatchNormalization()(x))
    y = L.Embedding(6000, 128)(text)
    y = L.LayerNormalization()(y + L.MultiHeadAttention(4, 32)(y, y))
    both = [L.Dense(96, use_bias=False)(each) for each in (L.GlobalAveragePooling2D()(x), ops.max(y, axis=1))]
    x, y = (each / ops.norm(each, axis=-1, keepdims=True) for each in both)
    scores = ops.matmul(x, ops.transpose(y)) * 14.0
    return keras.Model([picture, text], [scores, ops.transpose(scores)])


def frequency_filters(keras):
    """Series are filtered among their frequencies: there, weighed, and back."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((256, 16))
    x = L.Dense(48)(inputs)
    for _ in range(3):
        real, imaginary = ops.rfft(ops.transpose(L.LayerNormalization()(x), (0, 2, 1)))
        real, imaginary = (L.EinsumDense("bcf,cfd->bdf", (48, 129), bias_axes="f")(part[:, :, :129]) for part in (real, imaginary))
        y = ops.transpose(ops.irfft((real, imaginary), fft_length=256), (0, 2, 1))
        x = x + L.Dense(48)(ops.gelu(L.Dense(96)(y), approximate=False))
    return keras.Model(inputs, L.Dense(4)(x[:, -32:]))


def bonds(keras):
    """Atoms send messages along their bonds, and each sums up what it hears."""
    L, ops = keras.layers, keras.ops
    atoms, bond = keras.Input((40,), dtype="int32", name="atoms"), keras.Input((80, 2), dtype="int32", name="bond")
    lengths = keras.Input((80, 1), name="lengths")
    x = L.Embedding(40, 64)(atoms)
    ends = ops.one_hot(bond[:, :, 1], 40)
    edges = L.Dense(64, activation="softplus")(ops.exp(-ops.square(lengths - ops.linspace(0.0, 1.0, 24)) * 10.0))
    for _ in range(3):
        sent = ops.take_along_axis(x, ops.repeat(bond[:, :, :1], 64, axis=2), axis=1) * edges
        heard = ops.einsum("ben,bec->bnc", ends, L.Dense(64, activation="silu")(sent))
        x = x + L.Dense(64)(ops.concatenate([x, heard], axis=-1))
    return keras.Model([atoms, bond, lengths], L.Dense(12)(L.Dense(96, activation="silu")(ops.sum(x, axis=1))))


def kept_patches(keras):
    """A vision transformer that goes on with the third of its patches that seem to matter most."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((96, 96, 3))
    x = L.Reshape((144, 128))(L.Conv2D(128, 8, strides=8)(inputs))
    x = x + L.EinsumDense("bnd,nd->bnd", (144, 128))(ops.ones_like(x))

    def block(x):
        y = L.LayerNormalization()(x)
        heads = [L.Reshape((-1, 4, 32))(L.Dense(128)(y)) for _ in range(3)]
        y = L.Reshape((-1, 128))(ops.dot_product_attention(*heads))
        x = x + L.Dense(128)(y)
        return x + L.Dense(128)(L.Dense(512, activation="gelu")(L.LayerNormalization()(x)))

    x = block(block(x))
    worth, which = ops.top_k(ops.squeeze(L.Dense(1)(x), axis=-1), k=48)
    x = ops.take_along_axis(x, ops.expand_dims(which, -1), axis=1) * ops.expand_dims(ops.sigmoid(worth), -1)
    x = block(block(x))
    return keras.Model(inputs, L.Dense(100)(L.GlobalAveragePooling1D()(x)))


def pyramid_pools(keras):
    """PSPNet: what is in the picture as a whole, in its quarters and in its ninths, stretched and laid beside."""
    L, ops = keras.layers, keras.ops
    x = inputs = keras.Input((144, 144, 3))
    for filters in (32, 64, 96):
        x = L.ReLU()(L.BatchNormalization()(L.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)(x)))
        x = L.ReLU()(L.BatchNormalization()(L.Conv2D(filters, 3, padding="same", use_bias=False)(x)))
    parts = [x]
    for pool in (18, 9, 6, 3):
        y = L.Conv2D(24, 1, activation="relu")(L.AveragePooling2D(pool)(x))
        parts.append(ops.image.resize(y, (18, 18), interpolation="bilinear"))
    x = L.Conv2D(96, 3, padding="same", activation="relu")(ops.concatenate(parts, axis=-1))
    return keras.Model(inputs, ops.softmax(ops.image.resize(L.Conv2D(8, 1)(x), (144, 144), interpolation="bicubic")))


def gathered_clusters(keras):
    """NetVLAD: how far a film's frames are from 32 middles, summed over all frames."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((120, 256))
    x = L.BatchNormalization()(L.Dense(160)(inputs))
    shares = L.Activation("softmax")(L.BatchNormalization()(L.Dense(32, use_bias=False)(x)))
    middles = L.EinsumDense("bk,kd->bkd", (32, 160))(ops.sum(shares, axis=1))
    x = ops.einsum("btk,btd->bkd", shares, x) - middles
    x = L.Flatten()(ops.normalize(x, axis=-1))
    x = L.Dense(512, activation="relu6")(x / (ops.norm(x, axis=-1, keepdims=True) + 1e-6))
    gate = L.Dense(512, activation="sigmoid")(x)
    return keras.Model(inputs, L.Dense(300, activation="sigmoid")(x * gate))


def running_states(keras):
    """A linear recurrent network: each channel forgets at a pace of its own, all moments at once."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((192,), dtype="int32")
    x = L.Embedding(3000, 128)(inputs)
    for _ in range(3):
        y = L.LayerNormalization()(x)
        pace = ops.cumsum(ops.log_sigmoid(L.Dense(128)(y) + 4.0), axis=1)
        value = ops.exp(ops.clip(-pace, 0.0, 20.0)) * L.Dense(128)(y)
        state = ops.exp(ops.clip(pace, -20.0, 0.0)) * ops.cumsum(value, axis=1)
        short = L.DepthwiseConv1D(4, padding="valid")(L.ZeroPadding1D((3, 0))(y))
        x = x + L.Dense(128)(ops.silu(short) * ops.tanh(state))
    return keras.Model(inputs, L.Dense(3000)(x))


def pixel_shuffle(keras):
    """Pictures three times as large: depth becomes space, and what a plain stretch gives is added."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((48, 48, 3))
    x = L.Conv2D(64, 5, padding="same", activation="tanh")(inputs)
    for _ in range(3):
        x = ops.concatenate([x, L.Conv2D(32, 3, padding="same", activation="relu")(x)], axis=-1)
    x = ops.depth_to_space(L.Conv2D(27, 3, padding="same")(x), 3)
    return keras.Model(inputs, ops.clip(x + ops.image.resize(inputs, (144, 144), interpolation="bilinear"), -1.0, 2.0))


def robust_rows(keras):
    """Rows of sets: quantiles, ranks, differences and the nearest of some learnt points."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((64, 24))
    x = L.Dense(96, activation="gelu")(inputs)
    ranked = ops.take_along_axis(x, ops.argsort(ops.norm(inputs, axis=-1), axis=1)[:, :, None], axis=1)
    steps = ops.diff(ranked, axis=1)
    wide = ops.max(x, axis=1) - ops.min(x, axis=1)
    points = L.EinsumDense("bd,pd->bpd", (40, 96))(ops.mean(x, axis=1))
    apart = ops.sum(ops.square(x[:, :, None] - points[:, None]), axis=-1)
    near = ops.one_hot(ops.argmin(apart, axis=-1), 40) * ops.exp(-apart * 0.01)
    changed = ops.scatter_update(wide[0], [[0], [5], [7]], [1.0, 1.0, 1.0]) * wide
    x = ops.concatenate([ops.var(steps, axis=1), changed, ops.sum(near, axis=1), ops.sort(x, axis=1)[:, 32]], axis=-1)
    return keras.Model(inputs, L.Dense(8)(L.Dense(192, activation="relu")(x)))
