"""A PyTorch loop with 65,536 rows in a step."""

import brimful.torch
import torch
from torch import nn

torch.manual_seed(10)
model = nn.Sequential(nn.Linear(10, 2_000), nn.ReLU(), nn.Linear(2_000, 10), nn.ReLU(), nn.Linear(10, 2))
optimizer = torch.optim.Adam(model.parameters())
loss_of = nn.MSELoss()
batches = [(torch.rand(65_536, 10), torch.rand(65_536, 2)) for _ in range(2)]

train_step = brimful.torch.Step(model, loss_of, optimizer)

losses = [train_step(batch) for batch in batches]
print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
