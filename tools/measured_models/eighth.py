"""The models and jobs of the eighth table. Losses and batches are made as for the fifth."""

from . import eighth_models as models
from . import images
from .fifth import CLASSES, NUMBERS, YES

# name: builder, loss of each output
MODELS = {
    "next_blocks": (models.next_blocks, CLASSES),
    "excited": (models.excited, CLASSES),
    "fully_convolutional": (models.fully_convolutional, CLASSES),
    "radar": (models.radar, YES),
    "augmented": (models.augmented, CLASSES),
    "depth_map": (models.depth_map, "mae"),
    "news_gru": (models.news_gru, CLASSES),
    "many_filters": (models.many_filters, CLASSES),
    "encoder_lm": (models.encoder_lm, "from logits"),
    "grouped_attention": (models.grouped_attention, CLASSES),
    "wave_autoencoder": (models.wave_autoencoder, NUMBERS),
    "stacked_gru": (models.stacked_gru, NUMBERS),
    "noisy_table": (models.noisy_table, YES),
    "multi_task": (models.multi_task, [CLASSES, "mse", YES]),
    "locally_normalized": (models.locally_normalized, CLASSES),
    "video_blocks": (models.video_blocks, CLASSES),
    "Xception-112": (images.application("Xception", 112), CLASSES),
    "ConvNeXtTiny-64": (images.application("ConvNeXtTiny", 64), CLASSES),
    "MobileNetV3Large-96": (images.application("MobileNetV3Large", 96), CLASSES),
    "NASNetMobile-64": (images.application("NASNetMobile", 64), CLASSES),
    "ResNet152-64": (images.application("ResNet152", 64), CLASSES),
    "InceptionResNetV2-96": (images.application("InceptionResNetV2", 96), CLASSES),
}

# A model's file is compiled with the optimizer of its first job; settings beside the name are those of that optimizer.
JOBS = [
    ("next_blocks", 32, "adamw", "float32"),
    ("excited", 64, "adam", "float32"),
    ("fully_convolutional", 8, "sgd", "float32", {"momentum": 0.9}),
    ("radar", 8, "adam", "float32"),
    ("augmented", 64, "rmsprop", "float32"),
    ("depth_map", 8, "adam", "float32"),
    ("depth_map", 8, "adam", "mixed_bfloat16"),
    ("news_gru", 64, "adam", "float32"),
    ("many_filters", 128, "adam", "float32"),
    ("encoder_lm", 16, "adam", "float32"),
    ("encoder_lm", 16, "adamw", "mixed_bfloat16"),
    ("grouped_attention", 32, "adamw", "float32", {"clipnorm": 1.0}),
    ("wave_autoencoder", 64, "adam", "float32"),
    ("stacked_gru", 64, "adam", "float32"),
    ("noisy_table", 2048, "adam", "float32"),
    ("multi_task", 64, "nadam", "float32"),
    ("locally_normalized", 32, "sgd", "float32", {"momentum": 0.9, "nesterov": True}),
    ("video_blocks", 8, "adam", "float32"),
    ("Xception-112", 16, "adam", "float32"),
    ("ConvNeXtTiny-64", 8, "adamw", "float32"),
    ("MobileNetV3Large-96", 32, "rmsprop", "float32"),
    ("NASNetMobile-64", 16, "adam", "float32"),
    ("ResNet152-64", 16, "sgd", "float32", {"momentum": 0.9}),
    ("InceptionResNetV2-96", 8, "adagrad", "float32"),
]
