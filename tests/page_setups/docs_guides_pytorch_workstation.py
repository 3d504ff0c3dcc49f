import shutil

import stand_in
import torch

shutil.copy("fixtures/logs/gpu_torch_forward.log", "train.log")
stand_in.train(text="import sys\nsys.stderr.write(open('train.log').read())\nsys.exit(1)\n")
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
optimizer = torch.optim.AdamW(model.parameters())
loader = [(torch.randn(16, 3, 2, 2), torch.randint(0, 4, (16,))) for _ in range(2)]
