"""Trains a small network with an address space that ends where it is told: torch_train.py forward|backward|optimizer|model|leak|evaluate|attention|overflow."""

import sys

import torch
from limits import allow_more, resident_mb
from torch import nn

where = sys.argv[1]
torch.set_num_threads(1)
MB = 1 << 20


def main():
    if where == "model":
        allow_more(400 * MB)
        model = nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(12)])
        print(sum(p.numel() for p in model.parameters()))
    elif where == "overflow":
        print(torch.zeros(1 << 40, 1 << 30).shape)
    elif where == "attention":
        allow_more(1000 * MB)
        attention = nn.MultiheadAttention(64, 8, batch_first=True)
        tokens = torch.randn(1, 65536, 64)
        print(attention(tokens, tokens, tokens, need_weights=True)[0].shape)
    else:
        train()


def train():
    width = 2048 if where == "optimizer" else 256
    batch = 8 if where == "optimizer" else 16384
    model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(width, width), nn.Tanh())], nn.Linear(width, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(batch, width), torch.randn(batch, 1)
    # One small step loads what is loaded late.
    warm = nn.Linear(8, 8)
    warm_optimizer = torch.optim.AdamW(warm.parameters())
    warm(torch.randn(2, 8)).sum().backward()
    warm_optimizer.step()
    allow_more({"forward": 100, "backward": 208, "optimizer": 160, "evaluate": 500, "leak": 900}[where] * MB)
    losses = []
    for step in range(1000):
        loss = nn.functional.mse_loss(model(x), y)
        if where == "leak":
            losses.append(loss + 0.01 * sum(losses))
            print(f"step {step} loss {loss:.4f} rss {resident_mb():.0f} MB", flush=True)
            continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}", flush=True)
        if where == "evaluate" and step == 2:
            validate(model, width)


@torch.no_grad()
def validate(model, width):
    model.eval()
    print("validating")
    everything = torch.zeros(1, width).expand(600000, width)
    print("val_loss", model(everything).mean().item())


main()
