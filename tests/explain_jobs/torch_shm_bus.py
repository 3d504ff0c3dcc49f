"""Workers of a DataLoader that fill a shared block of memory larger than /dev/shm: torch_shm_bus.py [tensors]."""

import sys
from multiprocessing import shared_memory

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Cached(Dataset):
    def __init__(self):
        self.block = shared_memory.SharedMemory(create=True, size=64 << 20)
        self.images = np.ndarray((64, 1 << 20), "uint8", buffer=self.block.buf)

    def __len__(self):
        return 64

    def __getitem__(self, index):
        self.images[index] = index
        if "tensors" in sys.argv:
            return [torch.tensor(self.images[index, :16]) for _ in range(40)]
        return int(self.images[index].sum())


if __name__ == "__main__":
    collate = None if "tensors" in sys.argv else list
    for step, _ in enumerate(DataLoader(Cached(), batch_size=4, num_workers=2, collate_fn=collate)):
        print("step", step, flush=True)
