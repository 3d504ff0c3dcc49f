"""The models and jobs of the second, third and fourth table, with the kinds of their inputs and targets.

Out: for each model its builder and what a batch for it is made of; losses by kind of target. Batches follow from these kinds, not from
the models.
"""

from . import earlier_images as images
from . import earlier_sequences as sequences
from . import earlier_tables as tables


def application(name, side, classes=100, **settings):
    def build(keras):
        make = getattr(keras.applications, name)
        return make(weights=None, classes=classes, input_shape=(side, side, 3), **settings)

    return build, "image", (side, side, 3), "classes"


# name: builder, kind of input, shape of one sample, kind of target
MODELS = {
    "DenseNet121-96": application("DenseNet121", 96),
    "Xception-128": application("Xception", 128),
    "MobileNetV3Small-128": application("MobileNetV3Small", 128),
    "EfficientNetV2B0-128": application("EfficientNetV2B0", 128),
    "ConvNeXtTiny-96": application("ConvNeXtTiny", 96),
    "ResNet50V2-96": application("ResNet50V2", 96),
    "gru_text": (sequences.gru_text, "tokens", (100, 5000), "classes6"),
    "bilstm_tagger": (sequences.bilstm_tagger, "tokens", (80, 8000), "tags12"),
    "conv1d_audio": (sequences.conv1d_audio, "image", (4000, 1), "classes10"),
    "autoencoder": (images.autoencoder, "image", (96, 96, 3), "same"),
    "causal_lm": (sequences.causal_lm, "tokens", (96, 4000), "tags4000"),
    "group_norm_unet": (images.group_norm_unet, "image", (96, 96, 3), "same"),
    "video_conv3d": (images.video_conv3d, "image", (16, 48, 48, 3), "classes5"),
    "tabular": (tables.tabular, "tabular", (60, 50000), "number"),
    "separable": (images.separable, "image", (112, 112, 3), "classes20"),
    "mlp_tanh": (tables.mlp_tanh, "image", (784,), "classes10"),
    "MobileNet-128": application("MobileNet", 128),
    "ResNet101-64": application("ResNet101", 64),
    "vision_transformer": (images.vision_transformer, "image", (96, 96, 3), "classes10"),
    "text_cnn": (sequences.text_cnn, "tokens", (200, 10000), "classes4"),
    "stacked_lstm": (sequences.stacked_lstm, "image", (60, 32), "number"),
    "plain_cnn": (images.plain_cnn, "image", (128, 128, 3), "classes10"),
    "VGG19-64": application("VGG19", 64),
    "ResNet152V2-64": application("ResNet152V2", 64),
    "DenseNet169-64": application("DenseNet169", 64),
    "NASNetMobile-96": application("NASNetMobile", 96),
    "EfficientNetV2S-96": application("EfficientNetV2S", 96),
    "MobileNetV3Large-160": application("MobileNetV3Large", 160),
    "ConvNeXtSmall-64": application("ConvNeXtSmall", 64),
    "InceptionResNetV2-128": application("InceptionResNetV2", 128),
    "EfficientNetB3-96": application("EfficientNetB3", 96),
    "bigru_attention": (sequences.bigru_attention, "tokens", (80, 12000), "classes5"),
    "tcn": (sequences.tcn, "image", (512, 8), "number"),
    "seq2seq": (sequences.seq2seq, "pair of tokens", (64, 48, 6000), "tags6000"),
    "unet_batch_norm": (images.unet_batch_norm, "image", (112, 112, 3), "mask"),
    "deconvolution": (images.deconvolution, "image", (64, 64, 3), "same"),
    "siamese": (images.siamese, "pair of images", (96, 96, 1), "yes"),
    "two_heads": (images.two_heads, "image", (96, 96, 3), "label and box"),
    "conv3d_batch_norm": (images.conv3d_batch_norm, "image", (24, 24, 24, 1), "classes8"),
    "conv_lstm": (images.conv_lstm, "image", (8, 32, 32, 1), "mask"),
    "squeeze_resnet": (images.squeeze_resnet, "image", (64, 64, 3), "classes10"),
    "wide_mlp": (tables.wide_mlp, "image", (300,), "classes20"),
    "recommender": (tables.recommender, "pair of tokens", (1, 1, 15000), "yes"),
    "text_encoder": (sequences.text_encoder, "tokens", (128, 10000), "classes3"),
    "lstm_forecast": (sequences.lstm_forecast, "image", (120, 16), "numbers24"),
    "cifar_cnn": (images.cifar_cnn, "image", (32, 32, 3), "classes10"),
    "speech_cnn_gru": (sequences.speech_cnn_gru, "image", (160, 40, 1), "classes35"),
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
