"""A DataLoader that fails: torch_loader.py collate|workers-collate|killed|shm|fds|good."""

import os
import signal
import sys

import torch
from limits import allow_more
from torch.utils.data import DataLoader, Dataset

where = sys.argv[1]
torch.set_num_threads(1)


class Images(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        if where == "killed" and index == 40:
            os.kill(os.getpid(), signal.SIGKILL)
        if where == "fds":
            return [torch.full((2,), index) for _ in range(8)]
        return torch.zeros(3, 256, 256), index % 10


if __name__ == "__main__":
    workers = 0 if where == "collate" else 2
    if where.endswith("collate"):
        next(iter(DataLoader(Images(), batch_size=2)))
        allow_more(300 << 20)
    batch = {"collate": 512, "workers-collate": 512, "fds": 8}.get(where, 16)
    kept = []
    for step, data in enumerate(DataLoader(Images(), batch_size=batch, num_workers=workers, prefetch_factor=4 if workers else None)):
        if where == "fds":
            kept.append(data)
        print("step", step, flush=True)
        if step == 10 and where != "fds":
            break
    print("done")
