"""Doubles an array of 10,000 × 10,000 numbers."""

import sys

import brimful.data

square = brimful.data.array(f"{sys.argv[1]}/square.npy", memory="64MiB")
doubled = (square * 2).save(f"{sys.argv[1]}/doubled_brimful.npy")
print(f"sum {doubled.sum():.3f}")
