"""JAX on a GPU: `python gpu_jax.py NAME` runs out in one way each. The share of the device is set by the environment."""

import subprocess
import sys
import time

import jax
import jax.numpy as jnp


def loss(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return jnp.mean(x**2)


@jax.jit
def train_step(weights, x):
    value, gradients = jax.value_and_grad(loss)(weights, x)
    return value, [w - 0.1 * g for w, g in zip(weights, gradients)]


def train():
    weights = [jnp.ones((2048, 2048)) * 0.01 for _ in range(8)]
    for step, rows in enumerate((1024, 200_000)):
        value, weights = train_step(weights, jnp.ones((rows, 2048)))
        print("step", step, "loss", value, flush=True)


def huge():
    x = jnp.ones((300_000, 300_000))
    print(x.sum())


def data():
    import numpy as np

    x_train = np.ones((500_000, 3, 32, 32), dtype=np.float32)
    x_train = jnp.asarray(x_train)
    print(x_train.shape)


def hold():
    x = jnp.ones((8, 8))
    print("holding", x.sum(), flush=True)
    time.sleep(600)


def second():
    process = subprocess.Popen([sys.executable, __file__, "hold"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    process.stdout.readline()
    try:
        train()
    finally:
        process.kill()


def held(mib_left):
    """Another process, PyTorch's, that leaves so much of the device."""
    code = (
        "import sys, time, torch; free, _ = torch.cuda.mem_get_info(); "
        f"x = torch.empty(free - ({mib_left} << 20), dtype=torch.uint8, device='cuda'); print('holding', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    process.stdout.readline()
    return process


def beside():
    process = held(1500)
    try:
        weights = [jnp.ones((2048, 2048)) * 0.01 for _ in range(8)]
        for step in range(10, 24):
            value, weights = train_step(weights, jnp.ones((1 << step, 2048)))
            print("step", step, "loss", value, flush=True)
    finally:
        process.kill()


def context():
    process = held(100)
    try:
        print(jnp.ones((8, 8)).sum())
    finally:
        process.kill()


def kept():
    """Results of all steps are kept on the device."""
    weights, results = [jnp.ones((1024, 1024)) * 0.01 for _ in range(4)], []
    for step in range(10_000):
        value, weights = train_step(weights, jnp.ones((256, 1024)))
        results.append(jnp.tanh(jnp.ones((2048, 2048)) * value))
        if step % 20 == 0:
            print("step", step, "loss", value, flush=True)


def with_torch():
    import torch

    x = jnp.ones((8, 8))
    print("JAX has its share", x.sum(), flush=True)
    y = torch.empty(60 << 30, dtype=torch.uint8, device="cuda")
    print(y.shape)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
