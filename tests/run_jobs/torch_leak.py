"""Keeps the loss of each step with its graph, as PyTorch programs do by mistake to draw a curve, and with it the step's activations.

    torch_leak.py STEPS KEPT_BYTES       KEPT_BYTES is 0 for the same program without the mistake
"""

import sys

import torch

steps, kept_bytes = int(sys.argv[1]), int(sys.argv[2])
BATCH = 256
width = max(kept_bytes // (4 * BATCH), 16)

model = torch.nn.Sequential(torch.nn.Linear(16, width), torch.nn.Sigmoid(), torch.nn.Linear(width, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
inputs = torch.rand(BATCH, 16)
losses = []
for _ in range(steps):
    loss = model(inputs).square().mean()
    loss.backward(retain_graph=bool(kept_bytes))
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss if kept_bytes else loss.item())
print(f"kept {len(losses)} losses")
