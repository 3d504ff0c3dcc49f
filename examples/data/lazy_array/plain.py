"""Doubles an array of 10,000 × 10,000 numbers."""

import sys

import dask.array as da
import numpy as np

square = da.from_array(np.load(f"{sys.argv[1]}/square.npy", mmap_mode="r"), chunks=(1000, 1000))
doubled = (square * 2).compute()
np.save(f"{sys.argv[1]}/doubled_plain.npy", doubled)
print(f"sum {doubled.sum():.3f}")
