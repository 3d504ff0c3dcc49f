"""Writes an array into shared memory that is larger than /dev/shm, in the main process."""

from multiprocessing import shared_memory

import numpy as np

block = shared_memory.SharedMemory(create=True, size=64 << 20)
images = np.ndarray((64, 1 << 20), "uint8", buffer=block.buf)
for number in range(64):
    images[number] = number
    print("cached image", number, flush=True)
