"""Models for the check on a GPU, written out in PyTorch's own modules: no other package is needed.

Each entry of `MODELS`: a function that makes the model, one that makes a batch of so many samples on the CPU, and how many are asked for.
"""

from __future__ import annotations

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, wide: int, narrow: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(wide, narrow, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(inplace=True),
            nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(inplace=True),
            nn.Conv2d(narrow, 4 * narrow, 1, bias=False), nn.BatchNorm2d(4 * narrow),
        )  # fmt: skip
        same = stride == 1 and wide == 4 * narrow
        self.short = (
            nn.Identity() if same else nn.Sequential(nn.Conv2d(wide, 4 * narrow, 1, stride, bias=False), nn.BatchNorm2d(4 * narrow))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu_(self.path(x) + self.short(x))


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    wide = 64
    for index, (narrow, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            layers.append(Bottleneck(wide, narrow, 2 if block == 0 and index > 0 else 1))
            wide = 4 * narrow
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, 1000))


class Language(nn.Module):
    """About GPT-2 small: causal layers, a vocabulary of 32,000, 512 tokens."""

    def __init__(self, width: int = 768, layers: int = 12, words: int = 32000, length: int = 512) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 12, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.layers(hidden, mask=self.mask, is_causal=True)).transpose(1, 2)


class UNet(nn.Module):
    def __init__(self, width: int = 32, classes: int = 4) -> None:
        super().__init__()
        sizes = [width << level for level in range(5)]
        self.down = nn.ModuleList(self._block(before, after) for before, after in zip([3, *sizes], sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(large, small, 2, 2) for large, small in zip(sizes[:0:-1], sizes[-2::-1]))
        self.join = nn.ModuleList(self._block(2 * small, small) for small in sizes[-2::-1])
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _block(before: int, after: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(8, after), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for index, block in enumerate(self.down):
            x = block(x if index == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        kept.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.head(x)


def pictures(rows: int) -> tuple:
    return torch.randn(rows, 3, 224, 224), torch.randint(0, 1000, (rows,))


def texts(rows: int) -> tuple:
    return torch.randint(0, 32000, (rows, 512)), torch.randint(0, 32000, (rows, 512))


def masks(rows: int) -> tuple:
    return torch.randn(rows, 3, 256, 256), torch.randint(0, 4, (rows, 256, 256))


MODELS = {"resnet50": (resnet50, pictures, 640), "language": (Language, texts, 96), "unet": (UNet, masks, 256)}
