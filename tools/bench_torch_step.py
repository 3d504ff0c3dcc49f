"""What `brimful.torch.Step` costs beside a plain loop.

In: nothing, or the number of rounds. Out: medians of ratios, for a convolutional network and a transformer, on the GPU if there is one.
Both sides run in one process, in turns, on models of their own. `unsplit`: the batch fits; plain is forward, backward, the optimizer's
step and reading the loss. `split in 4`: a quarter of the batch at a time, against plain training with that quarter as the batch, four
updates for our one; and against a plain loop that accumulates four quarters and updates once.
"""

from __future__ import annotations

import copy
import os
import statistics
import sys
import tempfile
import time
import warnings

import torch
from torch import nn

ROUNDS = 15
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Transformer(nn.Module):
    def __init__(self, width: int, layers: int, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(tokens))).transpose(1, 2)


def cnn(width: int) -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for index in range(6):
        layers += [
            nn.Conv2d(channels, width << (index // 2), 3, stride=1 + index % 2, padding=1),
            nn.BatchNorm2d(width << (index // 2)),
            nn.ReLU(),
        ]
        channels = width << (index // 2)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def cases(large: bool) -> dict:
    rows, side, words = (256, 128, 1000) if large else (64, 48, 200)
    images = (torch.randn(rows, 3, side, side), torch.randint(0, 10, (rows,)))
    length = 256 if large else 32
    tokens = (torch.randint(0, words, (rows, length)), torch.randint(0, words, (rows, length)))
    return {
        "cnn": (lambda: cnn(64 if large else 16), images),
        "transformer": (lambda: Transformer(512 if large else 64, 6 if large else 2, words), tokens),
    }


def plain(model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple, pieces: int, updates: int) -> None:
    """A loop as everyone writes it; with several pieces as many updates, or one."""
    loss = nn.CrossEntropyLoss()
    parts = list(zip(*(tensor.chunk(pieces) for tensor in batch)))
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for inputs, targets in parts:
        value = loss(model(inputs), targets)
        (value if updates > 1 else value / pieces).backward()
        total = total + value.detach()
        if updates > 1:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    if updates == 1:
        optimizer.step()
    float(total)


def timed(action) -> float:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    action()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def ratio(ours, theirs, rounds: int) -> tuple[float, float]:
    """The median of our time over theirs, each measured in turns, and their median time."""
    for _ in range(3):
        ours(), theirs()
    pairs = []
    for index in range(rounds):
        # Who goes first takes turns, too.
        first, second = (ours, theirs) if index % 2 else (theirs, ours)
        one, two = timed(first), timed(second)
        pairs.append((one, two) if index % 2 else (two, one))
    return statistics.median(mine / other for mine, other in pairs), statistics.median(other for _, other in pairs)


def measure(rounds: int = ROUNDS) -> list[dict]:
    """One entry for each case."""
    from brimful.fitting import lines, sizing
    from brimful.torch import Step, budget

    sizing.PATIENCE_STEPS = 1 << 30  # there is room for more, and the size is to stay
    warnings.simplefilter("ignore")
    results = []
    plan = budget.propose
    for name, (make, batch) in cases(DEVICE.type == "cuda").items():
        batch = tuple(tensor.to(DEVICE) for tensor in batch)
        rows = batch[0].shape[0]
        model = make().to(DEVICE)
        for label, size, pieces, updates in (
            ("unsplit", rows, 1, 1),
            ("split in 4", rows // 4, 4, 4),
            ("split in 4, one update", rows // 4, 4, 1),
        ):
            budget.propose = lambda *_: budget.Proposal(size, 1 << 50)
            mine, other = copy.deepcopy(model), copy.deepcopy(model)
            optimizers = [torch.optim.AdamW(one.parameters()) for one in (mine, other)]
            with lines.quiet(), tempfile.TemporaryDirectory() as folder:
                os.environ["BRIMFUL_CACHE"] = folder
                step = Step(mine, nn.CrossEntropyLoss(), optimizers[0])
                step(batch)
                for micro in step._sizes.values():
                    micro.too_large = size + 1
                found, seconds = ratio(lambda: step(batch), lambda: plain(other, optimizers[1], batch, pieces, updates), rounds)
                assert (step.split_steps > 0) == (pieces > 1)
            results.append({"case": name, "what": label, "ratio": round(found, 4), "plain_ms": round(1000 * seconds, 2)})
    budget.propose = plan
    return results


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print(f"on {DEVICE.type}, medians of {rounds} rounds")
    for result in measure(rounds):
        print(f"  {result['case']:12} {result['what']:24} {result['ratio']:.3f} of plain ({result['plain_ms']:.1f} ms)")


if __name__ == "__main__":
    main()
