"""A convolutional network for `brimful plan examples/torch_cnn.py:make_model --input 3x224x224`."""

import torch
from torch import nn


def make_model(width: int = 64) -> nn.Module:
    """Four stages of convolutions, each of half the size and twice the channels."""
    stages, channels = [], 3
    for stage in range(4):
        out = width << stage
        stages += [nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
        channels = out
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def make_trained():
    """The model with an example batch: images, and labels for the loss."""
    return make_model(), (torch.zeros(16, 3, 224, 224), torch.zeros(16, dtype=torch.int64))
