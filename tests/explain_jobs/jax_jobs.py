"""JAX on the CPU without memory: jax_jobs.py eager|jit|async|train|closure."""

import sys

import jax
import jax.numpy as jnp
from limits import allow_more

where = sys.argv[1]
jax.block_until_ready(jax.jit(lambda x: (x @ x).sum())(jnp.ones((8, 8))))
jax.block_until_ready(jax.random.normal(jax.random.key(0), (8,)))

if where == "eager":
    allow_more(500 << 20)
    table = jnp.zeros((100000, 100000), jnp.float32)
    print(table.shape)
elif where == "jit":
    x = jnp.ones((4096, 256))
    allow_more(400 << 20)

    @jax.jit
    def layer(x):
        scores = jnp.einsum("id,jd->ij", jnp.tile(x, (8, 1)), jnp.tile(x, (8, 1)))
        return jax.nn.softmax(scores) @ jnp.tile(x, (8, 1))

    print(layer(x).sum())
elif where == "async":
    step = jax.jit(lambda x: jnp.sort(jnp.outer(x, x), axis=0))
    x = jnp.ones((30000,))
    allow_more(600 << 20)
    result = step(x)
    print("dispatched")
    result.block_until_ready()
    print("ready")
elif where == "train":
    keys = jax.random.split(jax.random.key(1), 6)
    params = [jax.random.normal(key, (512, 512)) * 0.02 for key in keys]
    batch = jnp.ones((32768, 512))

    def loss(params, x):
        for w in params:
            x = jnp.tanh(x @ w)
        return (x**2).mean()

    @jax.jit
    def train_step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return [p - 0.1 * g for p, g in zip(params, grads, strict=True)], value

    allow_more(300 << 20)
    for step in range(3):
        params, value = train_step(params, batch)
        print("step", step, "loss", value)
elif where == "compile":
    allow_more(20 << 20)

    @jax.jit
    def deep(x):
        for i in range(3000):
            x = jnp.sin(x) * i + jnp.cos(x[::-1])
        return x

    print(deep(jnp.ones(1000)).sum())
