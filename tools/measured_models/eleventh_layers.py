"""Models of the eleventh table with layers, and ways of using them, that one meets seldom."""


def spectral_judge(keras):
    """The critic of a GAN whose weights are all held to a length of one."""
    L = keras.layers
    x = inputs = keras.Input((64, 64, 3))
    for filters in (48, 96, 192):
        x = L.LeakyReLU(0.1)(L.SpectralNormalization(L.Conv2D(filters, 3, padding="same"))(x))
        x = L.LeakyReLU(0.1)(L.SpectralNormalization(L.Conv2D(filters, 4, strides=2, padding="same"))(x))
    return keras.Model(inputs, L.SpectralNormalization(L.Dense(1))(L.Flatten()(x)))


def grown_volumes(keras):
    """Shapes made of small cubes from a vector: Conv3DTranspose alone, with every padding."""
    L = keras.layers
    model = keras.Sequential([L.Input((128,)), L.Dense(4 * 4 * 4 * 128, use_bias=False), L.Reshape((4, 4, 4, 128))])
    for filters, settings in ((96, {"padding": "same"}), (48, {"padding": "valid", "output_padding": 1}), (24, {"padding": "same"})):
        model.add(L.Conv3DTranspose(filters, 4 if filters != 48 else 3, strides=2, use_bias=False, **settings))
        model.add(L.BatchNormalization(momentum=0.9))
        model.add(L.ReLU(negative_slope=0.1))
    for layer in (L.Cropping3D(((2, 2), (3, 1), (2, 2))), L.Conv3D(1, 3, padding="same", activation="sigmoid")):
        model.add(layer)
    return model


def pools_to_size(keras):
    """Pools that are told how large their answer is to be, for pictures of an odd size."""
    L = keras.layers
    x = inputs = keras.Input((90, 110, 3))
    x = L.Conv2D(48, 7, strides=3, padding="valid", activation="relu")(x)
    x = L.Concatenate()([L.AdaptiveAveragePooling2D((14, 16))(x), L.AdaptiveMaxPooling2D((14, 16))(x)])
    x = L.Conv2D(128, 3, padding="same", activation="mish")(x)
    parts = [L.Flatten()(L.AdaptiveAveragePooling2D(size)(x)) for size in (2, 4, 7)]
    return keras.Model(inputs, L.Dense(30, activation="softmax")(L.Dropout(0.5)(L.Concatenate()(parts))))


def kept_state(keras):
    """A recurrent network that goes on where the batch before it ended."""
    L = keras.layers
    inputs = keras.Input(batch_shape=(48, 100, 12))
    x = L.LSTM(96, stateful=True, return_sequences=True)(inputs)
    x, hidden, cell = L.LSTM(96, stateful=True, return_sequences=True, return_state=True)(x)
    y = L.GRU(64, return_sequences=True, go_backwards=True, dropout=0.2)(L.Concatenate()([x, inputs]))
    x = L.Concatenate()([L.GlobalMaxPooling1D()(y), hidden, cell])
    return keras.Model(inputs, L.Dense(4)(x))


def cells_together(keras):
    """Cells of three kinds in one recurrent layer, in both directions, over series with gaps."""
    L = keras.layers
    inputs = keras.Input((60, 20))
    x = L.Masking(0.0)(inputs)
    cells = [L.LSTMCell(64, dropout=0.1), L.GRUCell(64, recurrent_dropout=0.1), L.SimpleRNNCell(64)]
    x = L.Bidirectional(L.RNN(cells, return_sequences=True), merge_mode="sum")(x)
    x, *states = L.Bidirectional(L.LSTM(48, return_state=True), backward_layer=L.LSTM(48, return_state=True, go_backwards=True))(x)
    x = L.Concatenate()([x, *states])
    return keras.Model(inputs, L.Dense(7, activation="softmax")(L.Dense(64, activation="gelu")(x)))


def wild_augmentation(keras):
    """Everything that may be done to a picture before it is learnt from."""
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x = L.RandomContrast(0.3, value_range=(0, 1))(L.RandomFlip()(inputs))
    x = L.RandomShear(0.2, 0.2, fill_mode="reflect")(x)
    x = L.RandomHue(0.1, value_range=(0, 1))(x)
    x = L.RandomErasing(scale=(0.02, 0.2), value_range=(0, 1))(x)
    x = L.RandomGrayscale(0.3)(x)
    for filters in (32, 64, 128):
        x = L.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = L.MaxPooling2D()(L.GroupNormalization(8)(x))
    return keras.Model(inputs, L.Dense(10, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def looked_up(keras):
    """Whole numbers are looked up, crossed, hashed and laid out within the model."""
    L = keras.layers
    age, job = keras.Input((1,), dtype="int64", name="age"), keras.Input((1,), dtype="int64", name="job")
    seen, amounts = keras.Input((20,), dtype="int64", name="seen"), keras.Input((12,), name="amounts")
    known = L.IntegerLookup(vocabulary=list(range(0, 4000, 2)), num_oov_indices=3)(job)
    crossed = L.HashedCrossing(num_bins=600, output_mode="one_hot")((age, job))
    bag = L.CategoryEncoding(num_tokens=4000, output_mode="multi_hot")(seen)
    bins = L.Discretization(bin_boundaries=[0.2, 0.4, 0.6, 0.8], output_mode="int")(amounts)
    vectors = [L.Embedding(4000, 48)(known), L.Embedding(4000, 16)(bins), L.Embedding(4000, 24)(L.Hashing(900)(seen))]
    x = L.Concatenate()([crossed, bag, *(L.Flatten()(vector) for vector in vectors)])
    for units in (384, 192):
        x = L.Dropout(0.3)(L.Dense(units, activation="leaky_relu")(x))
    return keras.Model([age, job, seen, amounts], L.Dense(4, activation="softmax")(x))


def lines_in_time(keras):
    """Lines of sensors that change in time: recurrent convolutions in one dimension, then stretched to a finer line."""
    L = keras.layers
    inputs = keras.Input((16, 80, 4))
    x = L.ConvLSTM1D(32, 5, padding="same", return_sequences=True, dropout=0.1)(inputs)
    x = L.LayerNormalization(axis=[2, 3])(x)
    x = L.ConvLSTM1D(24, 3, strides=2, padding="same", go_backwards=True)(x)
    x = L.Conv1DTranspose(24, 6, strides=4, padding="same", activation="elu")(x)
    return keras.Model(inputs, L.Conv1D(3, 1)(x))


def grouped_series(keras):
    """A grouped residual network over signals of many wires, with a gate for each channel."""
    L = keras.layers
    inputs = keras.Input((1000, 12))
    x = L.Conv1D(64, 15, strides=2, padding="same", use_bias=False)(inputs)
    for filters, stride in ((64, 1), (128, 2), (128, 1), (192, 2)):
        y = L.Activation("silu")(L.BatchNormalization()(x))
        y = L.Conv1D(filters, 1, strides=stride, use_bias=False)(y)
        y = L.Activation("silu")(L.BatchNormalization()(y))
        y = L.Conv1D(filters, 15, groups=16, padding="same", use_bias=False)(y)
        gate = L.Dense(filters // 4, activation="relu")(L.GlobalAveragePooling1D(keepdims=True)(y))
        y = L.Multiply()([y, L.Dense(filters, activation="sigmoid")(gate)])
        short = L.AveragePooling1D(stride, padding="same")(x) if stride > 1 else x
        short = L.Conv1D(filters, 1)(short) if short.shape[-1] != filters else short
        x = L.Add()([short, L.Dropout(0.2)(y)])
    return keras.Model(inputs, L.Dense(24, activation="sigmoid")(L.GlobalMaxPooling1D()(x)))


def shown_scores(keras):
    """Attention that also answers with its scores, over keys and values of other sizes, where some may not be seen."""
    L = keras.layers
    asks, facts = keras.Input((30, 64), name="asks"), keras.Input((50, 96), name="facts")
    notes, seen = keras.Input((50, 40), name="notes"), keras.Input((30, 50), name="seen")
    attention = L.MultiHeadAttention(4, 20, value_dim=28, output_shape=48, dropout=0.1)
    x, scores = attention(asks, notes, key=facts, attention_mask=seen > 0.2, return_attention_scores=True)
    x = L.GroupQueryAttention(12, 8, 2, use_bias=False)(x, L.Dense(48)(facts), attention_mask=seen > 0.1)
    x = L.Dense(10, activation="softmax", name="kinds")(L.LayerNormalization(rms_scaling=False)(x))
    return keras.Model([asks, facts, notes, seen], [x, keras.ops.mean(scores, axis=(1, 3))])


def one_block_again(keras):
    """ALBERT: one block of layers is gone through six times, and its words have few numbers."""
    L, ops = keras.layers, keras.ops
    words, kinds = keras.Input((96,), dtype="int32", name="words"), keras.Input((96,), dtype="int32", name="kinds")
    x = L.Embedding(8000, 64, mask_zero=True)(words) + L.Embedding(8000, 64)(kinds)
    x = L.Dense(192)(L.LayerNormalization(epsilon=1e-12)(x))
    inner = keras.Input((96, 192))
    y = L.LayerNormalization()(inner + L.MultiHeadAttention(4, 48, dropout=0.1)(inner, inner))
    z = L.Dense(192)(L.Dense(768, activation=keras.activations.gelu)(y))
    block = keras.Model(inner, L.LayerNormalization()(y + z), name="block")
    for _ in range(6):
        x = block(x)
    first = L.Dense(192, activation="tanh")(ops.squeeze(x[:, :1], axis=1))
    return keras.Model([words, kinds], [L.Dense(2, activation="softmax")(first), L.Dense(8000)(x[:, 10:30])])
