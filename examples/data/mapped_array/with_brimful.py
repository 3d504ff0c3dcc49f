"""Goes through 100,000 rows of 1,000 numbers once, in random order."""

import sys

import brimful.data

total = 0.0
for chunk in brimful.data.open(f"{sys.argv[1]}/rows.npy").batches(1024, memory="96MiB", shuffle="global"):
    total += chunk.sum()
print(f"sum {total:.3f}")
