"""A preprocessing job that takes more and more resident memory: hog.py [MIB]."""

import sys

kept = []
for number in range(int(sys.argv[1]) // 16 if len(sys.argv) > 1 else 1000):
    kept.append(bytearray(b"x" * (16 << 20)))
    if number % 4 == 0:
        print(f"loaded shard {number}", flush=True)
print("done")
