"""A checkpoint of 128 MiB with too little memory beside it: torch_checkpoint.py load|best."""

import copy
import os
import sys

import torch
from limits import allow_more
from torch import nn

torch.set_num_threads(1)
path = os.path.join(os.environ["WORK"], "checkpoint.pt")
model = nn.Sequential(*[nn.Linear(2048, 2048, bias=False) for _ in range(8)])
torch.save({"epoch": 3, "model": model.state_dict()}, path)
print("saved", os.path.getsize(path), "bytes")
allow_more(60 << 20)
if sys.argv[1] == "best":
    print("epoch 3 val_loss 0.4213, the best so far")
    best = copy.deepcopy(model.state_dict())
checkpoint = torch.load(path, map_location="cpu")
model.load_state_dict(checkpoint["model"])
print("resumed from epoch", checkpoint["epoch"])
