"""Goes through the same array once, in an order that is as random, and holds no more than the budget."""

import sys

import brimful.data

total = 0.0
for chunk in brimful.data.open(f"{sys.argv[1]}/rows.npy").batches(1024, memory="96MiB", shuffle="global"):
    total += chunk.sum()
print(f"sum {total:.3f}")
