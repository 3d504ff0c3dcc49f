"""Two ranks on gloo, one of which runs out of memory: torchrun_job.py one|interleaved|hog."""

import sys
import time

import torch
import torch.distributed as dist
from limits import allow_more

where = sys.argv[1]
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
print(f"rank {rank} of {dist.get_world_size()} is up", flush=True)
model = torch.nn.Linear(1024, 4096)
kept = []
while where == "hog" and rank == 1:
    kept.append(bytearray(b"x" * (16 << 20)))
if rank == 1:
    allow_more(100 << 20)
for step in range(5):
    x = torch.randn(16 if step < 2 else 16384, 1024)
    if where == "interleaved":
        for part in range(40):
            sys.stdout.write(f"rank {rank} step {step} part {part} loss 0.{part:02d}")
            sys.stdout.write("\n")
            time.sleep(0.001)
    loss = model(x).pow(2).mean()
    loss.backward()
    total = loss.detach().clone()
    dist.all_reduce(total)
    print(f"rank {rank} step {step} loss {total.item():.4f}", flush=True)
