"""Doubles the same table in batches, which threads parse ahead as far as the budget goes."""

import sys

import brimful.data

total = 0.0
table = brimful.data.open(f"{sys.argv[1]}/table.csv", dtype="float64")
for chunk in table.batches(10_000, memory="64MiB"):
    total += (chunk * 2).sum()
print(f"sum {total:.3f}")
