"""Puts tensors into shared memory until it is full: torch_share.py STRATEGY."""

import sys

import torch

torch.multiprocessing.set_sharing_strategy(sys.argv[1])
kept = []
for _ in range(1000):
    kept.append(torch.zeros(4 << 20, dtype=torch.uint8).share_memory_())
    print("shared", len(kept) * 4, "MiB", flush=True)
