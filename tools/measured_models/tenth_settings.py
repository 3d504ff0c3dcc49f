"""Models of the tenth table that use what ordinary layers can do, but are seldom asked for: series, texts and tables."""


def both_ways(keras):
    """Recurrent layers in both directions, put together in each way that there is."""
    L = keras.layers
    inputs = keras.Input((70, 24))
    x = L.Masking(mask_value=0.0)(inputs)
    x = L.Bidirectional(L.LSTM(64, return_sequences=True, unit_forget_bias=False), merge_mode="ave")(x)
    x = L.Bidirectional(L.GRU(64, return_sequences=True, reset_after=False, use_bias=False), merge_mode="mul")(x)
    there, back = L.Bidirectional(L.SimpleRNN(48, return_sequences=True, activation="relu"), merge_mode=None)(x)
    x, state = L.GRU(64, return_sequences=True, return_state=True, go_backwards=True)(L.Maximum()([there, back]))
    x = L.LSTM(64, recurrent_dropout=0.2, recurrent_activation="hard_sigmoid")(x)
    return keras.Model(inputs, L.Dense(5, activation="softmax")(L.Concatenate()([x, state])))


def causal_separable(keras):
    """Sound through convolutions that only look back, each channel by itself."""
    L = keras.layers
    x = inputs = keras.Input((2000, 4))
    x = L.DepthwiseConv1D(9, depth_multiplier=8, padding="same", activation="relu")(x)
    for rate in (1, 4, 16):
        y = L.SeparableConv1D(48, 5, dilation_rate=rate, depth_multiplier=2, activation="elu")(L.ZeroPadding1D((4 * rate, 0))(x))
        x = L.Concatenate()([y, L.Conv1D(16, 3, padding="causal", groups=4)(x)])
        x = L.AveragePooling1D(3, strides=2, padding="same")(L.GaussianDropout(0.1)(x))
    x = L.MaxPooling1D(5, strides=3)(L.Conv1D(96, 4, strides=2, padding="valid", activation="gelu")(x))
    return keras.Model(inputs, L.Dense(8, activation="softmax")(L.Flatten()(x)))


def stretched_series(keras):
    """A short series made long: a transposed convolution with odd paddings, one with gaps, repeated and cut."""
    L = keras.layers
    inputs = keras.Input((60, 12))
    x = L.Permute((2, 1))(L.Dense(90, activation="selu")(L.Permute((2, 1))(inputs)))
    x = L.Conv1DTranspose(64, 5, strides=3, padding="valid", output_padding=1, activation="relu")(x)
    x = L.Conv1D(48, 3, dilation_rate=2, padding="same", activation="relu")(x)
    x = L.Cropping1D((4, 6))(L.UpSampling1D(4)(L.ZeroPadding1D((3, 2))(x)))
    whole = L.RepeatVector(x.shape[1])(L.Dense(16)(L.GlobalMaxPooling1D()(x)))
    x = L.Conv1D(32, 9, padding="same", activation="tanh")(L.Concatenate()([x, whole]))
    return keras.Model(inputs, L.Conv1D(1, 1)(x))


def asked_in_parts(keras):
    """Attention over rows and columns at once, with values of another size, then over the rows alone, with a mask."""
    L, ops = keras.layers, keras.ops
    grid, seen = keras.Input((12, 10, 48), name="grid"), keras.Input((12, 12), name="seen")
    x = grid + L.MultiHeadAttention(3, 24, value_dim=40, attention_axes=(1, 2), use_bias=False)(grid, grid)
    x = L.LayerNormalization(axis=[2, 3])(x)
    rows = ops.mean(x, axis=2)
    y = L.MultiHeadAttention(4, 16, value_dim=8, output_shape=64)(rows, rows, attention_mask=seen > 0.3)
    y = L.GroupQueryAttention(16, 6, 3, dropout=0.1)(y, y, use_causal_mask=True)
    y = L.Dropout(0.2, noise_shape=(None, 12, 1))(L.Dense(128, activation="hard_silu")(y))
    return keras.Model([grid, seen], L.Dense(9, activation="softmax")(L.Flatten()(y)))


def scored_words(keras):
    """Words with padding: attention by sums, by learnt products and looking back only."""
    L = keras.layers
    text, title = keras.Input((90,), dtype="int32", name="text"), keras.Input((12,), dtype="int32", name="title")
    table = L.Embedding(12000, 96, mask_zero=True, embeddings_initializer="he_uniform")
    long, short = L.Dense(96)(table(text)), L.Dense(96)(table(title))
    x = L.AdditiveAttention(use_scale=True, dropout=0.1)([long, short])
    y = L.Attention(score_mode="concat", use_scale=True)([short, long])
    x = L.Add()([x, L.Attention(dropout=0.1)([x, x], use_causal_mask=True)])
    pooled = [L.GlobalAveragePooling1D()(x), L.GlobalMaxPooling1D()(y), L.Flatten()(L.AveragePooling1D(4)(y))]
    return keras.Model([text, title], L.Dense(25)(L.Dropout(0.3)(L.Concatenate()(pooled))))


def prepared_columns(keras):
    """Columns are cut into bins, hashed, crossed and counted within the model."""
    L, ops = keras.layers, keras.ops
    numbers, kinds = keras.Input((8,), name="numbers"), keras.Input((6,), dtype="int64", name="kinds")
    bins = L.Discretization(bin_boundaries=[0.1, 0.25, 0.5, 0.75, 0.9])(numbers)
    few = L.CategoryEncoding(num_tokens=6, output_mode="count")(bins)
    hashed = L.Hashing(num_bins=512, salt=7)(kinds)
    counted = L.CategoryEncoding(num_tokens=512, output_mode="multi_hot")(hashed)
    vectors = L.Flatten()(L.Embedding(5000, 24)(kinds))
    logs = ops.log1p(ops.clip(numbers, 0.0, 0.9))
    x = L.Concatenate()([few, counted, vectors, logs, ops.where(numbers > 0.5, numbers, -1.0)])
    for units in (600, 300):
        x = L.Dense(units, activation="silu")(L.LayerNormalization(scale=False)(x))
    return keras.Model([numbers, kinds], L.Dense(1, activation="sigmoid")(x))


def held_weights(keras):
    """Weights that are kept positive, short or at right angles, and answers that are paid for."""
    L = keras.layers
    hold, pay = keras.constraints, keras.regularizers
    x = inputs = keras.Input((300,))
    x = L.Dense(800, kernel_constraint=hold.UnitNorm(), bias_constraint=hold.NonNeg(), activation="softplus")(x)
    x = L.GaussianNoise(0.2)(L.ActivityRegularization(l1=1e-5, l2=1e-5)(x))
    x = L.Dense(800, kernel_constraint=hold.MinMaxNorm(0.1, 2.0, rate=0.5), activity_regularizer="l2", activation="elu")(x)
    x = L.Dense(400, kernel_regularizer=pay.OrthogonalRegularizer(0.001), bias_regularizer="l1", activation="squareplus")(x)
    x = L.AlphaDropout(0.2)(x)
    x = L.Dense(200, kernel_initializer="orthogonal", kernel_constraint=hold.MaxNorm(2.0, axis=1), activation="hard_tanh")(x)
    return keras.Model(inputs, L.Dense(3)(x))


def sound_pictures(keras):
    """Sound becomes a picture of its pitches within the model."""
    L = keras.layers
    inputs = keras.Input((16000,))
    x = L.MelSpectrogram(num_mel_bins=64, sampling_rate=16000, sequence_stride=128, fft_length=512)(inputs)
    x = L.Reshape((*x.shape[1:], 1))(x)
    for channels in (24, 48, 96):
        x = L.Conv2D(channels, 3, padding="same", activation="relu", use_bias=False)(x)
        x = L.MaxPooling2D(3, strides=(2, 2), padding="same")(L.BatchNormalization(scale=False)(x))
    x = L.GRU(64)(L.Reshape((x.shape[1], x.shape[2] * 96))(x))
    return keras.Model(inputs, L.Dense(30, activation="softmax")(x))


def sorted_parts(keras):
    """Columns are sorted, summed by groups, run up and picked, with operations alone between the dense layers."""
    L, ops = keras.layers, keras.ops
    inputs = keras.Input((96, 12))
    x = L.Dense(64, activation="relu")(inputs)
    order = ops.sort(x, axis=1)
    sums = ops.cumsum(order, axis=1) / 96.0
    groups = [index // 8 for index in range(96)]
    grouped = ops.segment_sum(ops.transpose(sums, (1, 0, 2)), ops.convert_to_tensor(groups, "int32"), num_segments=12)
    grouped = ops.transpose(grouped, (1, 0, 2))
    best = ops.take(order, ops.convert_to_tensor([95, 90, 80, 60, 30], "int32"), axis=1)
    rolled = ops.roll(x, 5, axis=1) - ops.flip(x, axis=1)
    smooth = ops.logsumexp(ops.where(rolled > 0.0, rolled, 0.1 * rolled), axis=1)
    spread = ops.std(ops.maximum(x, sums), axis=1)
    x = ops.concatenate([L.Flatten()(grouped), L.Flatten()(best), smooth, spread], axis=-1)
    return keras.Model(inputs, L.Dense(2)(L.Dense(256, activation="gelu")(x)))
