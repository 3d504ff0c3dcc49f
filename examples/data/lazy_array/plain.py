"""Doubles an array by Dask: lazily, but what `compute` gives is the whole array."""

import sys

import dask.array as da
import numpy as np

square = da.from_array(np.load(f"{sys.argv[1]}/square.npy", mmap_mode="r"), chunks=(1000, 1000))
doubled = (square * 2).compute()
np.save(f"{sys.argv[1]}/doubled_plain.npy", doubled)
print(f"sum {doubled.sum():.3f}")
