"""An object larger than Ray's object store, whose place for spilled objects is full."""

import numpy as np
import ray

ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80 << 20)
kept = []
for number in range(8):
    kept.append(ray.put(np.zeros(40 << 20, "uint8")))
    print("put", number, flush=True)
