"""The job that is shown in other forms: it trains two steps and then wants a matrix of all pairs."""

import torch
from limits import allow_more

torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(40000, 64)
allow_more(800 << 20)
for step, rows in enumerate((256, 256, 40000)):
    z = torch.nn.functional.normalize(model(x[:rows]), dim=1)
    loss = torch.logsumexp(z @ z.T / 0.1, dim=1).mean()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
