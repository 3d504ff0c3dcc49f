"""Trains a network on the CPU for a few steps, inside a control group whose limit is not refused but ends the process.

    fit_host_job.py plain|brimful tensorflow|jax|torch|step|subclass [FOLDER of the group]

KERAS_BACKEND says which framework Keras runs on, ROWS how large a batch is. Out: the losses, as JSON. `step` is `brimful.torch.Step`, `subclass`
a Keras model that has no plan. What was imported and made before
is not counted in the group.
"""

import json
import os
import sys

import numpy as np

how, framework, *group = sys.argv[1:]
ROWS, WIDTH, LAYERS, STEPS = int(os.environ.get("ROWS", 40960)), 128, 12, 5
random = np.random.default_rng(0)
X, Y = random.standard_normal((ROWS, WIDTH), "float32"), random.integers(0, 10, ROWS)


def enter():
    for folder in group:
        with open(f"{folder}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))


def keras_losses():
    import brimful.keras
    import keras

    class Opaque(keras.Model):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def call(self, x):
            return self.inner(x)

    keras.utils.set_random_seed(0)
    dense = [keras.layers.Dense(WIDTH, activation="gelu") for _ in range(LAYERS)]
    model = keras.Sequential([keras.Input((WIDTH,)), *dense, keras.layers.Dense(10, activation="softmax")])
    if framework == "subclass":
        model = Opaque(model)
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    fit = model.fit if how == "plain" else lambda *args, **rest: brimful.keras.fit(model, *args, **rest)
    # Threads and compilers are started by a few samples, before anything counts.
    model.predict(X[:8], verbose=0)
    enter()
    return fit(X, Y, batch_size=ROWS, epochs=STEPS, verbose=2, shuffle=False).history["loss"]


def step_losses():
    import brimful.torch
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 10))
    optimizer, loss = torch.optim.SGD(model.parameters(), 0.1), nn.CrossEntropyLoss()
    batch = torch.from_numpy(X), torch.from_numpy(Y)
    loss(model(batch[0][:8]), batch[1][:8]).backward()
    enter()

    def plain(batch):
        optimizer.zero_grad()
        value = loss(model(batch[0]), batch[1])
        value.backward()
        optimizer.step()
        return float(value)

    step = plain if how == "plain" else brimful.torch.Step(model, loss, optimizer)
    return [step(batch) for _ in range(STEPS)]


print(json.dumps(step_losses() if framework == "step" else keras_losses()), flush=True)
# Where the process is a copy of one that has imported the framework, taking that down would write to each of its pages, and count them here.
os._exit(0)
