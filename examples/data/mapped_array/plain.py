"""Goes through 100,000 rows of 1,000 numbers once, in random order."""

import sys

import numpy as np

rows = np.load(f"{sys.argv[1]}/rows.npy", mmap_mode="r")
order = np.random.default_rng(0).permutation(len(rows))
total = 0.0
for first in range(0, len(rows), 1024):
    chunk = rows[order[first : first + 1024]]
    total += chunk.sum()
    del chunk
print(f"sum {total:.3f}")
