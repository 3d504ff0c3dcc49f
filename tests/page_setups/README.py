import brimful  # noqa: F401 (the page uses it)
import stand_in
import torch

stand_in.train()
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 10))
