"""Models of the eleventh table that are built on a network of `keras.applications`."""


def frozen_efficient(keras):
    """A frozen backbone that pools by itself, and a head."""
    L = keras.layers
    settings = {"include_top": False, "weights": None, "input_shape": (128, 128, 3), "pooling": "avg"}
    backbone = keras.applications.EfficientNetB0(**settings)
    backbone.trainable = False
    model = keras.Sequential([backbone, L.BatchNormalization(), L.Dense(256, activation="relu"), L.Dropout(0.45)])
    model.add(L.Dense(47, activation="softmax"))
    return model


def top_of_vgg(keras):
    """VGG16 as a layer of another model: only its last block learns."""
    L = keras.layers
    backbone = keras.applications.VGG16(weights=None, include_top=False, input_shape=(100, 100, 3))
    for layer in backbone.layers:
        layer.trainable = layer.name.startswith("block5")
    inputs = keras.Input((100, 100, 3))
    x = L.Flatten()(backbone(inputs))
    x = L.Dropout(0.5)(L.Dense(256, activation="relu")(x))
    return keras.Model(inputs, L.Dense(1, activation="sigmoid")(x))


def labelled_streets(keras):
    """DeepLab on ResNet50: what its middle and its first layers see, put together, and made again without the stage that is not used."""
    L = keras.layers

    def block(x, filters=96, size=3, rate=1, bias=False):
        settings = {"dilation_rate": rate, "padding": "same", "use_bias": bias, "kernel_initializer": "he_normal"}
        return L.ReLU()(L.BatchNormalization()(L.Conv2D(filters, size, **settings)(x)))

    inputs = keras.Input((128, 128, 3))
    backbone = keras.applications.ResNet50(weights=None, include_top=False, input_tensor=inputs)
    x = backbone.get_layer("conv4_block6_2_relu").output
    whole = block(L.AveragePooling2D(pool_size=(x.shape[1], x.shape[2]))(x), size=1, bias=True)
    whole = L.UpSampling2D((x.shape[1], x.shape[2]), interpolation="bilinear")(whole)
    x = block(L.Concatenate()([whole, block(x, size=1), *(block(x, rate=rate) for rate in (6, 12, 18))]), size=1)
    x = L.UpSampling2D(4, interpolation="bilinear")(x)
    early = block(backbone.get_layer("conv2_block3_2_relu").output, 48, 1)
    x = block(block(L.Concatenate()([x, early])))
    model = keras.Model(inputs, L.Conv2D(20, 1)(L.UpSampling2D(4, interpolation="bilinear")(x)))
    return keras.Model.from_config(model.get_config())


def both_backbones(keras):
    """Two backbones look at one picture, one of them frozen."""
    L = keras.layers
    inputs = keras.Input((96, 96, 3))
    scaled = L.Rescaling(1 / 127.5, offset=-1)(inputs)
    dense = keras.applications.DenseNet121(weights=None, include_top=False, input_shape=(96, 96, 3), pooling="max")
    mobile = keras.applications.MobileNetV2(weights=None, include_top=False, input_shape=(96, 96, 3), pooling="avg")
    dense.trainable = False
    x = L.Dropout(0.3)(L.Concatenate()([dense(scaled), mobile(scaled)]))
    return keras.Model(inputs, L.Dense(120, activation="softmax")(x))


def same_faces(keras):
    """Two pictures through one small backbone; how far apart they are says whether they are of one person."""
    L, ops = keras.layers, keras.ops
    backbone = keras.applications.MobileNet(weights=None, include_top=False, input_shape=(96, 96, 3), alpha=0.5, pooling="avg")
    tower = keras.Sequential([backbone, L.Dense(128), L.UnitNormalization()], name="tower")
    pair = [keras.Input((96, 96, 3), name=name) for name in ("left", "right")]
    left, right = (tower(picture) for picture in pair)
    return keras.Model(pair, L.Dense(1, activation="sigmoid")(ops.abs(left - right)))


def watched_signs(keras):
    """A film's frames through a frozen backbone, and a recurrent layer over what it saw."""
    L = keras.layers
    settings = {"weights": None, "include_top": False, "input_shape": (64, 64, 3), "pooling": "avg", "alpha": 0.5}
    backbone = keras.applications.MobileNetV2(**settings)
    backbone.trainable = False
    inputs = keras.Input((8, 64, 64, 3))
    x = L.GRU(96, return_sequences=True)(L.TimeDistributed(backbone)(inputs))
    x = L.Dense(32, activation="relu")(L.Dropout(0.4)(L.GRU(48)(x)))
    return keras.Model(inputs, L.Dense(26, activation="softmax")(x))


def chest_pictures(keras):
    """X-rays of one channel and fourteen findings that may all be there."""
    settings = {"weights": None, "input_shape": (112, 112, 1), "classes": 14, "classifier_activation": "sigmoid"}
    return keras.applications.DenseNet121(**settings)


def given_tensor(keras):
    """A backbone built on a tensor that is there already, without pooling, and a head of convolutions."""
    L = keras.layers
    inputs = keras.Input((128, 128, 3))
    scaled = keras.applications.inception_v3.preprocess_input(inputs * 255.0)
    backbone = keras.applications.InceptionV3(weights=None, include_top=False, input_tensor=L.GaussianNoise(0.05)(scaled))
    x = L.Conv2D(256, 1, activation="relu")(backbone.output)
    x = L.Concatenate()([L.GlobalAveragePooling2D()(x), L.GlobalMaxPooling2D()(x)])
    return keras.Model(inputs, L.Dense(5, activation="softmax")(L.Dropout(0.4)(x)))
