"""A task that takes more than its Dask worker may have: dask_worker.py nanny|paused."""

import sys
import time

import dask
import numpy as np
from distributed import Client, LocalCluster


def load(i):
    kept = []
    for _ in range(60):
        kept.append(np.ones(1 << 20))
        time.sleep(0.02)
    return sum(a.sum() for a in kept) + i


def part(i):
    return np.full(5 << 20, float(i))


if __name__ == "__main__":
    if sys.argv[1] == "paused":
        dask.config.set({f"distributed.worker.memory.{name}": False for name in ("target", "spill", "terminate")})
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, memory_limit="300MiB", dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        if sys.argv[1] == "paused":
            parts = client.map(part, range(9))
            time.sleep(5)
            print([p.status for p in parts])
            del parts
            time.sleep(3)
            print(client.submit(sum, [1, 2]).result())
        else:
            print(client.gather(client.map(load, range(2))))
