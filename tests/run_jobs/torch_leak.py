"""Adds up losses with their graphs, as PyTorch programs do by mistake to print a mean, and so keeps the activations of each step.

torch_leak.py STEPS KEPT_BYTES       KEPT_BYTES is 0 for the same program without the mistake
"""

import sys
import time

import torch
from truth import Truth

steps, kept_bytes = int(sys.argv[1]), int(sys.argv[2])
BATCH = 256
width = max(kept_bytes // (4 * BATCH), 16)

torch.set_num_threads(1)
body = [torch.nn.Linear(16, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU()]
body = torch.nn.Sequential(*body)
head = torch.nn.Linear(256, width)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], 1e-3)
inputs = torch.rand(BATCH, 16)
total, truth = 0.0, Truth()
for number in range(1, steps + 1):
    outputs = head(body(inputs))
    loss = outputs.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    # A second term, to be printed only: its graph holds the outputs, and the sum holds the graph.
    drift = torch.sigmoid(outputs.detach().requires_grad_()).mean()
    total += drift if kept_bytes else drift.item()
    truth.step(number)
    # A step lasts some ten milliseconds, as steps do. Work would last as long, but take the cores.
    time.sleep(0.01)
truth.say()
