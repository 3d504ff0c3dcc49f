"""Doubles a table of 100,000 rows and 40 columns, 10,000 rows at a time, and sums it."""

import sys

import brimful.data

total = 0.0
table = brimful.data.open(f"{sys.argv[1]}/table.csv", dtype="float64")
for chunk in table.batches(10_000, memory="64MiB"):
    total += (chunk * 2).sum()
print(f"sum {total:.3f}")
