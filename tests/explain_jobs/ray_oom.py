"""A Ray task that Ray's memory monitor kills; the threshold is low, so that little memory is needed."""

import ray


@ray.remote(max_retries=0)
def preprocess():
    kept = []
    while True:
        kept.append(bytearray(b"x" * (64 << 20)))


ray.init(num_cpus=1, include_dashboard=False, object_store_memory=100 << 20)
print(ray.get(preprocess.remote()))
