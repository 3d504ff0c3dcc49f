"""The models of the second, third and fourth table: what goes in and comes out is said beside each."""


def application(name, side, classes=100, **settings):
    def build(keras):
        make = getattr(keras.applications, name)
        return make(weights=None, classes=classes, input_shape=(side, side, 3), **settings)

    return build, "image", (side, side, 3), "classes"


def gru_text(keras):
    L = keras.layers
    return keras.Sequential(
        [L.Input((100,)), L.Embedding(5000, 64), L.GRU(96, return_sequences=True), L.GRU(48), L.Dense(6, activation="softmax")]
    )


def bilstm_tagger(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((80,)),
            L.Embedding(8000, 100),
            L.Bidirectional(L.LSTM(64, return_sequences=True)),
            L.TimeDistributed(L.Dense(32, activation="relu")),
            L.Dense(12, activation="softmax"),
        ]
    )


def conv1d_audio(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((4000, 1)),
            L.Conv1D(32, 9, strides=2, padding="same", activation="relu"),
            L.BatchNormalization(),
            L.MaxPooling1D(4),
            L.Conv1D(64, 5, padding="same", activation="relu"),
            L.SpatialDropout1D(0.2),
            L.MaxPooling1D(4),
            L.Conv1D(128, 3, padding="causal", activation="elu"),
            L.GlobalMaxPooling1D(),
            L.Dense(10, activation="softmax"),
        ]
    )


def autoencoder(keras):
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x = L.Conv2D(32, 3, strides=2, padding="same", activation="swish")(inputs)
    x = L.Conv2D(64, 3, strides=2, padding="same", activation="swish")(x)
    x = L.Conv2D(128, 3, strides=2, padding="same", activation="swish")(x)
    x = L.Conv2DTranspose(64, 3, strides=2, padding="same", activation="swish")(x)
    x = L.UpSampling2D(2)(x)
    x = L.Conv2D(32, 3, padding="same", activation="leaky_relu")(x)
    x = L.UpSampling2D(2, interpolation="bilinear")(x)
    return keras.Model(inputs, L.Conv2D(3, 3, padding="same")(x))


def causal_lm(keras):
    L = keras.layers
    inputs = keras.Input((96,))
    x = L.Embedding(4000, 192)(inputs)
    for _ in range(3):
        y = L.LayerNormalization()(x)
        y = L.MultiHeadAttention(6, 32, dropout=0.1)(y, y, use_causal_mask=True)
        x = L.Add()([x, L.Dropout(0.1)(y)])
        y = L.LayerNormalization()(x)
        y = L.Dense(768, activation="relu")(y)
        x = L.Add()([x, L.Dense(192)(y)])
    return keras.Model(inputs, L.Dense(4000, activation="softmax")(x))


def group_norm_unet(keras):
    L = keras.layers

    def block(x, channels):
        for _ in range(2):
            x = L.Conv2D(channels, 3, padding="same", use_bias=False)(x)
            x = L.GroupNormalization(8)(x)
            x = L.Activation("silu")(x)
        return x

    inputs = keras.Input((96, 96, 3))
    a = block(inputs, 24)
    b = block(L.AveragePooling2D(2)(a), 48)
    c = block(L.AveragePooling2D(2)(b), 96)
    y = block(L.Concatenate()([L.UpSampling2D()(c), b]), 48)
    y = block(L.Concatenate()([L.UpSampling2D()(y), a]), 24)
    return keras.Model(inputs, L.Conv2D(3, 1)(y))


def video_conv3d(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((16, 48, 48, 3)),
            L.Conv3D(16, 3, padding="same", activation="relu"),
            L.MaxPooling3D(2),
            L.Conv3D(32, 3, padding="same", activation="relu"),
            L.MaxPooling3D(2),
            L.GlobalAveragePooling3D(),
            L.Dense(5, activation="softmax"),
        ]
    )


def tabular(keras):
    L = keras.layers
    numbers, category = keras.Input((60,), name="numbers"), keras.Input((1,), name="category")
    x = L.Concatenate()([numbers, L.Flatten()(L.Embedding(50000, 32)(category))])
    for units in (1024, 512, 256):
        x = L.Dense(units, kernel_regularizer="l2")(x)
        x = L.BatchNormalization()(x)
        x = L.Activation("selu")(x)
        x = L.Dropout(0.3)(x)
    return keras.Model([numbers, category], L.Dense(1)(x))


def separable(keras):
    L = keras.layers
    inputs = keras.Input((112, 112, 3))
    x = L.Rescaling(1 / 255)(inputs)
    x = L.Conv2D(32, 3, strides=2, use_bias=False, padding="same")(x)
    for channels in (64, 128, 256):
        y = L.SeparableConv2D(channels, 3, padding="same", use_bias=False)(x)
        y = L.BatchNormalization()(y)
        y = L.ReLU()(y)
        y = L.SeparableConv2D(channels, 3, padding="same")(y)
        y = L.MaxPooling2D(3, strides=2, padding="same")(y)
        x = L.Add()([y, L.Conv2D(channels, 1, strides=2, padding="same")(x)])
    return keras.Model(inputs, L.Dense(20, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def mlp_tanh(keras):
    L = keras.layers
    return keras.Sequential(
        [L.Input((784,)), L.Dense(2048, activation="tanh"), L.Dense(2048, activation="gelu"), L.Dense(10, activation="softmax")]
    )


def vision_transformer(keras):
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x = L.Conv2D(128, 8, strides=8)(inputs)
    x = L.Reshape((144, 128))(x)
    for _ in range(4):
        y = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([x, L.MultiHeadAttention(4, 32)(y, y)])
        y = L.LayerNormalization(epsilon=1e-6)(x)
        y = L.Dense(512, activation="gelu")(y)
        x = L.Add()([x, L.Dense(128)(L.Dropout(0.1)(y))])
    return keras.Model(inputs, L.Dense(10, activation="softmax")(L.GlobalAveragePooling1D()(x)))


def text_cnn(keras):
    L = keras.layers
    inputs = keras.Input((200,))
    x = L.SpatialDropout1D(0.2)(L.Embedding(10000, 128)(inputs))
    towers = [L.GlobalMaxPooling1D()(L.Conv1D(128, size, activation="relu")(x)) for size in (3, 4, 5)]
    return keras.Model(inputs, L.Dense(4, activation="softmax")(L.Dropout(0.5)(L.Concatenate()(towers))))


def stacked_lstm(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((60, 32)),
            L.LSTM(128, return_sequences=True),
            L.Dropout(0.2),
            L.LSTM(128, return_sequences=True),
            L.LSTM(64),
            L.Dense(1),
        ]
    )


def plain_cnn(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((128, 128, 3))])
    for channels in (32, 64, 128):
        model.add(L.Conv2D(channels, 3, padding="same", use_bias=False))
        model.add(L.BatchNormalization())
        model.add(L.Activation("relu"))
        model.add(L.MaxPooling2D())
    model.add(L.Flatten())
    model.add(L.Dense(256, activation="relu"))
    model.add(L.Dense(10, activation="softmax"))
    return model


def bigru_attention(keras):
    L = keras.layers
    inputs = keras.Input((80,))
    x = L.Embedding(12000, 96)(inputs)
    x = L.Bidirectional(L.GRU(64, return_sequences=True))(x)
    x = L.Attention()([x, x])
    x = L.Dropout(0.3)(L.GlobalAveragePooling1D()(x))
    return keras.Model(inputs, L.Dense(5, activation="softmax")(x))


def tcn(keras):
    L = keras.layers
    inputs = keras.Input((512, 8))
    x = L.Conv1D(64, 1)(inputs)
    for dilation in (1, 2, 4, 8, 16):
        y = L.Conv1D(64, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        y = L.LayerNormalization()(y)
        y = L.SpatialDropout1D(0.1)(y)
        y = L.Conv1D(64, 3, padding="causal", dilation_rate=dilation, activation="relu")(y)
        x = L.Add()([x, y])
    return keras.Model(inputs, L.Dense(1)(L.GlobalAveragePooling1D()(x)))


def seq2seq(keras):
    L = keras.layers
    source, target = keras.Input((64,), name="source"), keras.Input((48,), name="target")
    x = L.Embedding(6000, 128)(source)
    for _ in range(2):
        x = L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(4, 32)(x, x)]))
        y = L.Dense(128)(L.Dense(384, activation="relu")(x))
        x = L.LayerNormalization()(L.Add()([x, L.Dropout(0.1)(y)]))
    y = L.Embedding(6000, 128)(target)
    for _ in range(2):
        y = L.LayerNormalization()(L.Add()([y, L.MultiHeadAttention(4, 32)(y, y, use_causal_mask=True)]))
        y = L.LayerNormalization()(L.Add()([y, L.MultiHeadAttention(4, 32)(y, x)]))
        z = L.Dense(128)(L.Dense(384, activation="relu")(y))
        y = L.LayerNormalization()(L.Add()([y, L.Dropout(0.1)(z)]))
    return keras.Model([source, target], L.Dense(6000, activation="softmax")(y))


def unet_batch_norm(keras):
    L = keras.layers

    def block(x, channels):
        for _ in range(2):
            x = L.Conv2D(channels, 3, padding="same")(x)
            x = L.BatchNormalization()(x)
            x = L.Activation("relu")(x)
        return x

    inputs = keras.Input((112, 112, 3))
    levels, x = [], inputs
    for channels in (16, 32, 64):
        x = block(x, channels)
        levels.append(x)
        x = L.MaxPooling2D()(x)
    x = L.Dropout(0.3)(block(x, 128))
    for channels in (64, 32, 16):
        x = L.Conv2DTranspose(channels, 2, strides=2, padding="same")(x)
        x = block(L.Concatenate()([x, levels.pop()]), channels)
    return keras.Model(inputs, L.Conv2D(1, 1, activation="sigmoid")(x))


def deconvolution(keras):
    L = keras.layers
    inputs = keras.Input((64, 64, 3))
    x = inputs
    for channels in (32, 64, 128):
        x = L.Conv2D(channels, 4, strides=2, padding="same", use_bias=False)(x)
        x = L.BatchNormalization()(x)
        x = L.LeakyReLU(0.2)(x)
    x = L.Dense(256)(L.Flatten()(x))
    x = L.Reshape((8, 8, 128))(L.Dense(8 * 8 * 128, activation="relu")(x))
    for channels in (128, 64, 32):
        x = L.Conv2DTranspose(channels, 4, strides=2, padding="same")(x)
        x = L.BatchNormalization()(x)
        x = L.ReLU()(x)
    return keras.Model(inputs, L.Conv2D(3, 3, padding="same", activation="tanh")(x))


def siamese(keras):
    L = keras.layers
    tower = keras.Sequential(
        [
            L.Input((96, 96, 1)),
            L.Conv2D(32, 5, activation="relu"),
            L.MaxPooling2D(),
            L.Conv2D(64, 3, activation="relu"),
            L.MaxPooling2D(),
            L.Conv2D(64, 3, activation="relu"),
            L.Flatten(),
            L.Dense(128, activation="sigmoid"),
        ]
    )
    left, right = keras.Input((96, 96, 1), name="left"), keras.Input((96, 96, 1), name="right")
    x = L.Multiply()([tower(left), tower(right)])
    return keras.Model([left, right], L.Dense(1, activation="sigmoid")(x))


def two_heads(keras):
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    x = inputs
    for channels in (24, 48, 96, 192):
        x = L.Conv2D(channels, 3, padding="same", activation="relu")(x)
        x = L.Conv2D(channels, 3, strides=2, padding="same")(x)
        x = L.BatchNormalization()(x)
        x = L.ReLU()(x)
    x = L.GlobalAveragePooling2D()(x)
    label = L.Dense(30, activation="softmax", name="label")(L.Dense(256, activation="relu")(x))
    box = L.Dense(4, name="box")(L.Dense(128, activation="relu")(x))
    return keras.Model(inputs, [label, box])


def conv3d_batch_norm(keras):
    L = keras.layers
    inputs = keras.Input((24, 24, 24, 1))
    x = inputs
    for channels in (16, 32, 64):
        x = L.Conv3D(channels, 3, padding="same", use_bias=False)(x)
        x = L.BatchNormalization()(x)
        x = L.Activation("relu")(x)
        x = L.AveragePooling3D(2)(x)
    x = L.Dropout(0.4)(L.Flatten()(x))
    return keras.Model(inputs, L.Dense(8, activation="softmax")(x))


def conv_lstm(keras):
    L = keras.layers
    return keras.Sequential(
        [
            L.Input((8, 32, 32, 1)),
            L.ConvLSTM2D(16, 3, padding="same", return_sequences=True),
            L.BatchNormalization(),
            L.ConvLSTM2D(16, 3, padding="same"),
            L.Conv2D(1, 3, padding="same", activation="sigmoid"),
        ]
    )


def squeeze_resnet(keras):
    L = keras.layers
    inputs = keras.Input((64, 64, 3))
    x = L.Conv2D(48, 3, padding="same", activation="relu")(inputs)
    for channels, stride in ((48, 1), (96, 2), (192, 2)):
        y = L.Conv2D(channels, 3, strides=stride, padding="same", use_bias=False)(x)
        y = L.ReLU()(L.BatchNormalization()(y))
        y = L.Conv2D(channels, 3, padding="same", use_bias=False)(y)
        y = L.BatchNormalization()(y)
        z = L.GlobalAveragePooling2D(keepdims=True)(y)
        z = L.Conv2D(channels, 1, activation="sigmoid")(L.Conv2D(channels // 8, 1, activation="relu")(z))
        y = L.Multiply()([y, z])
        x = L.ReLU()(L.Add()([y, L.Conv2D(channels, 1, strides=stride)(x)]))
    return keras.Model(inputs, L.Dense(10, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def wide_mlp(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((300,))])
    for units in (1536, 1536, 768):
        model.add(L.Dense(units))
        model.add(L.BatchNormalization())
        model.add(L.Activation("relu"))
        model.add(L.Dropout(0.4))
    model.add(L.Dense(20, activation="softmax"))
    return model


def recommender(keras):
    L = keras.layers
    user, item = keras.Input((1,), name="user"), keras.Input((1,), name="item")
    u, v = L.Flatten()(L.Embedding(40000, 64)(user)), L.Flatten()(L.Embedding(15000, 64)(item))
    x = L.Concatenate()([u, v, L.Multiply()([u, v])])
    for units in (512, 256, 128):
        x = L.Dropout(0.2)(L.Dense(units, activation="relu")(x))
    return keras.Model([user, item], L.Dense(1, activation="sigmoid")(x))


def text_encoder(keras):
    L = keras.layers
    inputs = keras.Input((128,))
    x = L.Embedding(10000, 192)(inputs)
    for _ in range(3):
        a = L.MultiHeadAttention(6, 32)(x, x)
        x = L.LayerNormalization()(L.Add()([x, L.Dropout(0.1)(a)]))
        f = L.Dense(192)(L.Dense(768, activation="gelu")(x))
        x = L.LayerNormalization()(L.Add()([x, L.Dropout(0.1)(f)]))
    return keras.Model(inputs, L.Dense(3, activation="softmax")(L.Dense(192, activation="tanh")(L.GlobalAveragePooling1D()(x))))


def lstm_forecast(keras):
    L = keras.layers
    inputs = keras.Input((120, 16))
    x = L.LSTM(96, return_sequences=True)(inputs)
    x = L.LSTM(48)(x)
    return keras.Model(inputs, L.Dense(24)(L.Dense(64, activation="relu")(x)))


def cifar_cnn(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((32, 32, 3))])
    for channels in (32, 64, 128):
        for _ in range(2):
            model.add(L.Conv2D(channels, 3, padding="same", activation="relu"))
        model.add(L.MaxPooling2D())
        model.add(L.Dropout(0.25))
    model.add(L.Flatten())
    model.add(L.Dense(512, activation="relu"))
    model.add(L.Dropout(0.5))
    model.add(L.Dense(10, activation="softmax"))
    return model


def speech_cnn_gru(keras):
    L = keras.layers
    inputs = keras.Input((160, 40, 1))
    x = L.Conv2D(24, 5, strides=(2, 2), padding="same", activation="relu")(inputs)
    x = L.BatchNormalization()(x)
    x = L.Conv2D(48, 3, strides=(1, 2), padding="same", activation="relu")(x)
    x = L.Reshape((80, 480))(x)
    x = L.GRU(128, return_sequences=True)(x)
    x = L.GRU(128)(x)
    return keras.Model(inputs, L.Dense(35, activation="softmax")(x))


# name: builder, kind of input, shape of one sample, kind of target
MODELS = {
    "DenseNet121-96": application("DenseNet121", 96),
    "Xception-128": application("Xception", 128),
    "MobileNetV3Small-128": application("MobileNetV3Small", 128),
    "EfficientNetV2B0-128": application("EfficientNetV2B0", 128),
    "ConvNeXtTiny-96": application("ConvNeXtTiny", 96),
    "ResNet50V2-96": application("ResNet50V2", 96),
    "gru_text": (gru_text, "tokens", (100, 5000), "classes6"),
    "bilstm_tagger": (bilstm_tagger, "tokens", (80, 8000), "tags12"),
    "conv1d_audio": (conv1d_audio, "image", (4000, 1), "classes10"),
    "autoencoder": (autoencoder, "image", (96, 96, 3), "same"),
    "causal_lm": (causal_lm, "tokens", (96, 4000), "tags4000"),
    "group_norm_unet": (group_norm_unet, "image", (96, 96, 3), "same"),
    "video_conv3d": (video_conv3d, "image", (16, 48, 48, 3), "classes5"),
    "tabular": (tabular, "tabular", (60, 50000), "number"),
    "separable": (separable, "image", (112, 112, 3), "classes20"),
    "mlp_tanh": (mlp_tanh, "image", (784,), "classes10"),
    "MobileNet-128": application("MobileNet", 128),
    "ResNet101-64": application("ResNet101", 64),
    "vision_transformer": (vision_transformer, "image", (96, 96, 3), "classes10"),
    "text_cnn": (text_cnn, "tokens", (200, 10000), "classes4"),
    "stacked_lstm": (stacked_lstm, "image", (60, 32), "number"),
    "plain_cnn": (plain_cnn, "image", (128, 128, 3), "classes10"),
    "VGG19-64": application("VGG19", 64),
    "ResNet152V2-64": application("ResNet152V2", 64),
    "DenseNet169-64": application("DenseNet169", 64),
    "NASNetMobile-96": application("NASNetMobile", 96),
    "EfficientNetV2S-96": application("EfficientNetV2S", 96),
    "MobileNetV3Large-160": application("MobileNetV3Large", 160),
    "ConvNeXtSmall-64": application("ConvNeXtSmall", 64),
    "InceptionResNetV2-128": application("InceptionResNetV2", 128),
    "EfficientNetB3-96": application("EfficientNetB3", 96),
    "bigru_attention": (bigru_attention, "tokens", (80, 12000), "classes5"),
    "tcn": (tcn, "image", (512, 8), "number"),
    "seq2seq": (seq2seq, "pair of tokens", (64, 48, 6000), "tags6000"),
    "unet_batch_norm": (unet_batch_norm, "image", (112, 112, 3), "mask"),
    "deconvolution": (deconvolution, "image", (64, 64, 3), "same"),
    "siamese": (siamese, "pair of images", (96, 96, 1), "yes"),
    "two_heads": (two_heads, "image", (96, 96, 3), "label and box"),
    "conv3d_batch_norm": (conv3d_batch_norm, "image", (24, 24, 24, 1), "classes8"),
    "conv_lstm": (conv_lstm, "image", (8, 32, 32, 1), "mask"),
    "squeeze_resnet": (squeeze_resnet, "image", (64, 64, 3), "classes10"),
    "wide_mlp": (wide_mlp, "image", (300,), "classes20"),
    "recommender": (recommender, "pair of tokens", (1, 1, 15000), "yes"),
    "text_encoder": (text_encoder, "tokens", (128, 10000), "classes3"),
    "lstm_forecast": (lstm_forecast, "image", (120, 16), "numbers24"),
    "cifar_cnn": (cifar_cnn, "image", (32, 32, 3), "classes10"),
    "speech_cnn_gru": (speech_cnn_gru, "image", (160, 40, 1), "classes35"),
}

JOBS = [
    ("DenseNet121-96", 4, "adam", "float32"),
    ("DenseNet121-96", 16, "sgd", "float32"),
    ("Xception-128", 8, "adam", "float32"),
    ("MobileNetV3Small-128", 16, "adam", "float32"),
    ("EfficientNetV2B0-128", 8, "rmsprop", "float32"),
    ("ConvNeXtTiny-96", 4, "adamw", "float32"),
    ("ConvNeXtTiny-96", 16, "sgd", "float32"),
    ("ResNet50V2-96", 16, "nadam", "float32"),
    ("ResNet50V2-96", 16, "adam", "mixed_bfloat16"),
    ("gru_text", 64, "adam", "float32"),
    ("gru_text", 256, "sgd", "float32"),
    ("bilstm_tagger", 64, "adam", "float32"),
    ("conv1d_audio", 64, "adam", "float32"),
    ("autoencoder", 16, "adam", "float32"),
    ("autoencoder", 64, "sgd", "float32"),
    ("causal_lm", 8, "adamw", "float32"),
    ("causal_lm", 32, "adam", "float32"),
    ("causal_lm", 32, "adam", "mixed_bfloat16"),
    ("group_norm_unet", 8, "adam", "float32"),
    ("video_conv3d", 8, "adam", "float32"),
    ("tabular", 1024, "adam", "float32"),
    ("tabular", 4096, "lion", "float32"),
    ("separable", 16, "adam", "float32"),
    ("mlp_tanh", 2048, "adafactor", "float32"),
    ("mlp_tanh", 512, "adamax", "float32"),
    ("MobileNet-128", 16, "adam", "float32"),
    ("ResNet101-64", 8, "sgd", "float32"),
    ("vision_transformer", 16, "adamw", "float32"),
    ("text_cnn", 64, "adam", "float32"),
    ("stacked_lstm", 64, "rmsprop", "float32"),
    ("plain_cnn", 32, "adam", "float32"),
    ("plain_cnn", 32, "adam", "mixed_bfloat16"),
    ("VGG19-64", 8, "adam", "float32"),
    ("ResNet152V2-64", 8, "sgd", "float32"),
    ("DenseNet169-64", 16, "rmsprop", "float32"),
    ("NASNetMobile-96", 8, "adam", "float32"),
    ("EfficientNetV2S-96", 8, "adam", "float32"),
    ("MobileNetV3Large-160", 8, "nadam", "float32"),
    ("ConvNeXtSmall-64", 4, "sgd", "float32"),
    ("InceptionResNetV2-128", 4, "sgd", "float32"),
    ("EfficientNetB3-96", 8, "adamw", "float32"),
    ("bigru_attention", 64, "adam", "float32"),
    ("tcn", 32, "adam", "float32"),
    ("seq2seq", 32, "adam", "float32"),
    ("seq2seq", 32, "adamw", "mixed_bfloat16"),
    ("unet_batch_norm", 8, "adam", "float32"),
    ("unet_batch_norm", 8, "adam", "mixed_bfloat16"),
    ("deconvolution", 32, "adam", "float32"),
    ("siamese", 32, "rmsprop", "float32"),
    ("two_heads", 32, "adam", "float32"),
    ("conv3d_batch_norm", 4, "sgd", "float32"),
    ("conv_lstm", 8, "adam", "float32"),
    ("squeeze_resnet", 32, "sgd", "float32"),
    ("squeeze_resnet", 32, "adam", "mixed_bfloat16"),
    ("wide_mlp", 512, "adamw", "float32"),
    ("wide_mlp", 1024, "adafactor", "float32"),
    ("recommender", 4096, "adagrad", "float32"),
    ("text_encoder", 16, "adam", "mixed_bfloat16"),
    ("text_encoder", 32, "lion", "float32"),
    ("lstm_forecast", 128, "adam", "float32"),
    ("cifar_cnn", 128, "adam", "float32"),
    ("cifar_cnn", 64, "nadam", "mixed_bfloat16"),
    ("speech_cnn_gru", 32, "rmsprop", "float32"),
]


LOSSES = {
    "same": "mse",
    "number": "mse",
    "numbers": "mse",
    "mask": "binary_crossentropy",
    "yes": "binary_crossentropy",
    "label and box": ["sparse_categorical_crossentropy", "mse"],
}


def batch_of(numpy, kind, shape, target, batch):
    if kind == "tokens":
        x = numpy.random.randint(0, shape[1], (batch, shape[0]))
    elif kind == "tabular":
        x = [numpy.random.rand(batch, shape[0]).astype("f"), numpy.random.randint(0, shape[1], (batch, 1))]
    elif kind == "pair of tokens":
        x = [numpy.random.randint(0, shape[2], (batch, length)) for length in shape[:2]]
    elif kind == "pair of images":
        x = [numpy.random.rand(batch, *shape).astype("f") for _ in range(2)]
    else:
        x = numpy.random.rand(batch, *shape).astype("f")
    if target == "same":
        y = x
    elif target == "mask":
        y = numpy.random.randint(0, 2, (batch, *shape[-3:-1], 1)).astype("f")
    elif target == "yes":
        y = numpy.random.randint(0, 2, (batch, 1)).astype("f")
    elif target == "label and box":
        y = [numpy.random.randint(0, 30, (batch,)), numpy.random.rand(batch, 4).astype("f")]
    elif target.startswith("numbers"):
        y = numpy.random.rand(batch, int(target[7:])).astype("f")
    elif target == "number":
        y = numpy.random.rand(batch, 1).astype("f")
    elif target.startswith("tags"):
        y = numpy.random.randint(0, int(target[4:]), (batch, shape[-2]))
    else:
        y = numpy.random.randint(0, int(target[7:] or 100), (batch,))
    return x, y
