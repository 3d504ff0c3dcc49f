"""A PyTorch training loop whose batch is too large for the memory.

    python torch_loop.py              a step keeps the activations of 65,536 rows for its gradients
    python torch_loop.py --brimful    a step keeps those of one part at a time: the same gradients

Both make the same updates and end with the same weights.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--brimful", action="store_true", help="train inside the memory that there is")
parser.add_argument("--float64", action="store_true", help="train in double precision")
parser.add_argument("--result", type=Path, help="write the losses and the number of updates to this JSON file")
parser.add_argument("--weights", help="write the final weights to this .npz file")
args = parser.parse_args()

torch.set_default_dtype(torch.float64 if args.float64 else torch.float32)
torch.manual_seed(10)
model = nn.Sequential(nn.Linear(10, 2_000), nn.ReLU(), nn.Linear(2_000, 100), nn.ReLU(), nn.Linear(100, 2))
optimizer = torch.optim.Adam(model.parameters())
loss_of = nn.MSELoss()


def train_step(batch):
    x, y = batch
    optimizer.zero_grad()
    loss = loss_of(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


if args.brimful:
    import brimful.torch

    step = brimful.torch.Step(model, loss_of, optimizer)
else:
    step = train_step

losses = [step((torch.rand(65_536, 10), torch.rand(65_536, 2))) for _ in range(3)]
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")

if args.result:
    updates = next(iter(optimizer.state.values()))["step"]
    args.result.write_text(json.dumps({"losses": losses, "updates": int(updates)}))
if args.weights:
    np.savez(args.weights, *[parameter.detach().numpy() for parameter in model.parameters()])
