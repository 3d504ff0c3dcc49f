from pathlib import Path

import stand_in

stand_in.train()
# Takes inputs of any shape: pages name several.
Path("model.py").write_text("""\
import torch

class Any(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(1, 4)

    def forward(self, x):
        return self.head(x.flatten(1).mean(1, keepdim=True))

def make_model():
    return Any()
""")
