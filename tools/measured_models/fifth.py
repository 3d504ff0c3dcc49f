"""The models and jobs of the fifth table. Batches follow from the models' inputs, targets from outputs and losses."""

from . import images, sequences, tables

CLASSES, YES, NUMBERS = "sparse_categorical_crossentropy", "binary_crossentropy", "mse"

# name: builder, loss of each output
MODELS = {
    "dense_autoencoder": (tables.dense_autoencoder, NUMBERS),
    "deep_and_cross": (tables.deep_and_cross, YES),
    "variational": (tables.variational, YES),
    "house_prices": (tables.house_prices, "huber"),
    "self_normalizing": (tables.self_normalizing, CLASSES),
    "siamese_text": (sequences.siamese_text, YES),
    "deep_char_cnn": (sequences.deep_char_cnn, CLASSES),
    "gru_translation": (sequences.gru_translation, CLASSES),
    "masked_tagger": (sequences.masked_tagger, CLASSES),
    "bag_of_words": (sequences.bag_of_words, CLASSES),
    "word_model": (sequences.word_model, "from logits"),
    "wavenet": (sequences.wavenet, CLASSES),
    "inception_time": (sequences.inception_time, CLASSES),
    "forecast_transformer": (sequences.forecast_transformer, "mae"),
    "conformer": (sequences.conformer, CLASSES),
    "ecg_autoencoder": (sequences.ecg_autoencoder, NUMBERS),
    "point_net": (sequences.point_net, CLASSES),
    "simple_rnn": (sequences.simple_rnn, CLASSES),
    "discriminator": (images.discriminator, YES),
    "wide_resnet": (images.wide_resnet, CLASSES),
    "transfer_learning": (images.transfer_learning, CLASSES),
    "fine_tuning": (images.fine_tuning, CLASSES),
    "squeeze_net": (images.squeeze_net, CLASSES),
    "super_resolution": (images.super_resolution, "mae"),
    "style_transfer": (images.style_transfer, NUMBERS),
    "unet_3d": (images.unet_3d, CLASSES),
    "attention_unet": (images.attention_unet, CLASSES),
    "keyword_spotting": (images.keyword_spotting, CLASSES),
    "face_embedding": (images.face_embedding, CLASSES),
    "feature_pyramid": (images.feature_pyramid, [YES, "huber"]),
    "attributes": (images.attributes, ["mae", CLASSES, YES]),
    "mlp_mixer": (images.mlp_mixer, "categorical_crossentropy"),
    "video_lstm": (images.video_lstm, CLASSES),
    "EfficientNetB1-112": (images.application("EfficientNetB1", 112), CLASSES),
    "InceptionV3-150": (images.application("InceptionV3", 150), CLASSES),
    "DenseNet201-80": (images.application("DenseNet201", 80), CLASSES),
    "MobileNetV2-160": (images.application("MobileNetV2", 160, alpha=1.4), CLASSES),
    "ResNet50-160": (images.application("ResNet50", 160, classes=1000), CLASSES),
    "EfficientNetV2B2-112": (images.application("EfficientNetV2B2", 112), CLASSES),
}

# A model's file is compiled with the optimizer of its first job; settings beside the name are those of that optimizer.
JOBS = [
    ("dense_autoencoder", 512, "adam", "float32"),
    ("deep_and_cross", 512, "adagrad", "float32"),
    ("variational", 128, "adam", "float32"),
    ("house_prices", 512, "adafactor", "float32"),
    ("self_normalizing", 256, "nadam", "float32"),
    ("siamese_text", 128, "adamw", "float32"),
    ("deep_char_cnn", 64, "sgd", "float32", {"momentum": 0.9}),
    ("gru_translation", 48, "nadam", "float32"),
    ("masked_tagger", 64, "adam", "float32"),
    ("bag_of_words", 256, "adam", "float32"),
    ("word_model", 32, "adam", "float32", {"clipnorm": 1.0}),
    ("wavenet", 16, "adam", "float32"),
    ("inception_time", 64, "adam", "float32"),
    ("forecast_transformer", 128, "adam", "float32"),
    ("conformer", 16, "adamw", "float32"),
    ("conformer", 16, "adamw", "mixed_bfloat16"),
    ("ecg_autoencoder", 64, "rmsprop", "float32"),
    ("point_net", 32, "adam", "float32"),
    ("simple_rnn", 256, "rmsprop", "float32"),
    ("discriminator", 128, "adam", "float32", {"beta_1": 0.5}),
    ("wide_resnet", 64, "sgd", "float32", {"momentum": 0.9, "nesterov": True}),
    ("wide_resnet", 128, "adam", "mixed_bfloat16"),
    ("transfer_learning", 32, "adam", "float32"),
    ("fine_tuning", 32, "adam", "float32"),
    ("squeeze_net", 64, "adagrad", "float32"),
    ("super_resolution", 16, "adam", "float32"),
    ("style_transfer", 8, "adam", "float32"),
    ("unet_3d", 4, "adam", "float32"),
    ("attention_unet", 16, "adam", "float32"),
    ("keyword_spotting", 128, "nadam", "float32"),
    ("face_embedding", 64, "lion", "float32"),
    ("feature_pyramid", 16, "adamw", "float32"),
    ("attributes", 64, "adamw", "float32"),
    ("mlp_mixer", 32, "lion", "float32"),
    ("mlp_mixer", 32, "lion", "mixed_bfloat16"),
    ("video_lstm", 16, "rmsprop", "float32"),
    ("EfficientNetB1-112", 16, "lion", "float32"),
    ("InceptionV3-150", 32, "rmsprop", "float32"),
    ("DenseNet201-80", 16, "adam", "float32"),
    ("MobileNetV2-160", 32, "sgd", "float32", {"momentum": 0.9}),
    ("ResNet50-160", 48, "sgd", "float32", {"momentum": 0.9}),
    ("EfficientNetV2B2-112", 32, "adafactor", "float32"),
]


def loss_of(keras, name):
    """What `compile` is given for a loss of this table."""
    if isinstance(name, list):
        return [loss_of(keras, each) for each in name]
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True) if name == "from logits" else name


def batch_of(numpy, model, loss, batch):
    """Random inputs and targets: tokens where an input is of whole numbers, else numbers between 0 and 1."""
    vocabulary = min([layer.input_dim for layer in model.layers if hasattr(layer, "input_dim")], default=0)

    def column(tensor):
        shape = (batch, *tensor.shape[1:])
        if "int" in tensor.dtype:
            return numpy.random.randint(0, vocabulary, shape).astype(tensor.dtype)
        return numpy.random.rand(*shape).astype("f")

    def target(tensor, loss):
        shape = (batch, *tensor.shape[1:])
        if loss in (CLASSES, "from logits"):
            return numpy.random.randint(0, shape[-1], shape[:-1])
        if loss == YES:
            return numpy.random.randint(0, 2, shape).astype("f")
        if loss == "categorical_crossentropy":
            return numpy.eye(shape[-1], dtype="f")[numpy.random.randint(0, shape[-1], shape[:-1])]
        return numpy.random.rand(*shape).astype("f")

    losses = loss if isinstance(loss, list) else [loss]
    x, y = [column(tensor) for tensor in model.inputs], [target(*pair) for pair in zip(model.outputs, losses)]
    return x if len(x) > 1 else x[0], y if len(y) > 1 else y[0]
