"""Keras inside the budget on a GPU: the size that is chosen against the largest that works, and recovery from real failures.

    KERAS_BACKEND=torch python tools/check_keras_fit_gpu.py OUT.jsonl [SECTION...]
    KERAS_BACKEND=jax XLA_CLIENT_MEM_FRACTION=0.06 python tools/check_keras_fit_gpu.py OUT.jsonl

The limit is PyTorch's fraction of the device, or JAX's own. Lines are written as they are found. A batch is taken in equal parts: two sizes that give
as many parts are the same job, so batches are many times what fits, and `part` and `largest_part` are what is really taken at a time.
"""

import json
import os
import sys
import tempfile
import time

import brimful.keras
import keras
import numpy as np
from brimful.fitting import lines, sizing
from brimful.keras import planning

FRACTION = 0.06
OUT = sys.argv[1]
BACKEND = keras.backend.backend()
PROPOSE = planning.propose


def write(what, **found):
    with open(OUT, "a") as file:
        file.write(json.dumps({"backend": BACKEND, "what": what, **found}) + "\n")
    print(BACKEND, what, found, flush=True)


def convolutions():
    x = keras.Input((128, 128, 3))
    y = x
    for filters in (64, 64, 128):
        y = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(y)
        y = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(y)
        y = keras.layers.MaxPooling2D(2)(y)
    y = keras.layers.Dense(10, activation="softmax")(keras.layers.GlobalAveragePooling2D()(y))
    return keras.Model(x, y), lambda rows: np.random.default_rng(0).random((rows, 128, 128, 3), "float32"), 4096


def attention():
    x = keras.Input((256,), dtype="int32")
    y = keras.layers.Embedding(8000, 256)(x)
    for _ in range(4):
        y = keras.layers.LayerNormalization()(y + keras.layers.MultiHeadAttention(8, 32)(y, y))
        y = keras.layers.LayerNormalization()(y + keras.layers.Dense(256)(keras.layers.Dense(1024, activation="gelu")(y)))
    y = keras.layers.Dense(10, activation="softmax")(keras.layers.GlobalAveragePooling1D()(y))
    return keras.Model(x, y), lambda rows: np.random.randint(0, 8000, (rows, 256)), 4096


def fit(make, steps=3, size=None, injected=None, data=None):
    """Trains a new model; its job. With a size, that one is taken instead of the one that would be chosen; with data, the two batches of them
    are taken in each epoch: the next batch is on the device, too, as in any epoch."""
    os.environ["BRIMFUL_CACHE"] = tempfile.mkdtemp()
    keras.utils.set_random_seed(0)
    model, inputs, batch = make()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    x, y = (inputs(batch * steps), np.random.randint(0, 10, batch * steps)) if data is None else data
    planning.propose = PROPOSE if size is None else lambda *args, **kwargs: planning.Proposal(size)
    if injected is not None:
        injected(brimful.keras.api.job_of(model, "auto", "exact").backend)
    brimful.keras.fit(model, x, y, batch_size=batch, epochs=1 if data is None else steps // 2, verbose=0, shuffle=False)
    return model, model.__dict__["_brimful_job"].kinds["train"]


def works(make, size, data):
    with lines.quiet():
        return fit(make, steps=2, size=size, data=data)[1].failures == 0


def taken(size, asked):
    return max(end - begin for begin, end in sizing.parts(asked, size))


def limit_bytes():
    """What the allocator may hold."""
    if BACKEND == "torch":
        import torch

        return int(torch.cuda.get_per_process_memory_fraction() * torch.cuda.get_device_properties(0).total_memory)
    import jax

    return jax.local_devices()[0].memory_stats()["bytes_limit"]


def sizes(make):
    """The chosen size against the largest that goes through two steps without a failure, to within a fiftieth."""
    begin = time.time()
    _, inputs, batch = make()
    data = inputs(2 * batch), np.random.randint(0, 10, 2 * batch)
    kind = fit(make, steps=6, data=data)[1]
    chosen, failures = kind.last_size, kind.failures
    write("chosen", model=make.__name__, chosen=chosen, failures=failures, seconds=round(time.time() - begin))
    low, high = chosen, chosen * 10 // 9 + 1
    # What is asked is answered first: whether a tenth more works.
    more = works(make, high, data)
    write("a tenth more", model=make.__name__, size=high, part=taken(high, kind.size.asked), works=more)
    while more:
        low, high = high, high * 5 // 4 + 1
        more = works(make, high, data)
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (middle, high) if works(make, middle, data) else (low, middle)
    write(
        "sizes",
        model=make.__name__,
        chosen=chosen,
        largest=low,
        ratio=round(chosen / low, 3),
        part=taken(chosen, kind.size.asked),
        largest_part=taken(low, kind.size.asked),
        peaks=kind.size.peaks,
        limit=limit_bytes(),
        failures=failures,
        seconds=round(time.time() - begin),
    )


class Hog:
    """Takes the memory away before chosen calls of the backend, and gives it back when the call has failed."""

    def __init__(self, backend, every, names=("gradients", "update")):
        self.backend, self.every, self.calls, self.failures = backend, every, 0, 0
        for name in names:
            setattr(backend, name, self.around(getattr(backend, name)))

    def around(self, call):
        def hogged(*args, **kwargs):
            self.calls += 1
            if self.calls % self.every:
                return call(*args, **kwargs)
            held = self.take()
            try:
                return call(*args, **kwargs)
            except Exception:
                self.failures += 1
                raise
            finally:
                del held

        return hogged

    def take(self):
        """Pieces of what is free, until hardly anything is."""
        held, size = [], 1 << 30
        # What JAX refuses it refuses after ten seconds: half of what it has it gives.
        while BACKEND == "jax" and (free := largest_free_bytes()) > 1 << 20:
            held.append(piece(free // 2))
        while BACKEND == "torch" and size >= 1 << 20:
            try:
                held.append(piece(size))
            except Exception:
                size //= 2
        return held


def largest_free_bytes():
    import jax

    return jax.local_devices()[0].memory_stats()["largest_free_block_bytes"]


class PatientHog(Hog):
    """Gives it back only when the failure was noticed: a step that is begun ahead fails later."""

    def __init__(self, backend, every):
        self.held = []
        super().__init__(backend, every, ("begin",))
        release = backend.release

        def released():
            self.failures += bool(self.held)
            self.held.clear()
            release()

        backend.release = released

    def around(self, call):
        def hogged(*args):
            self.calls += 1
            if self.calls % self.every == 0:
                self.held += self.take()
            return call(*args)

        return hogged


def piece(size):
    if BACKEND == "torch":
        import torch

        return torch.empty(size, dtype=torch.uint8, device="cuda")
    import jax

    return jax.block_until_ready(jax.numpy.zeros(size, "uint8"))


def few_images():
    return *convolutions()[:2], 64


def failures():
    """In parts: memory that is away before a part or an update. Few of them on JAX, which waits ten seconds for memory before it fails."""
    every, steps = (11, 4) if BACKEND == "jax" else (3, 10)
    injected("failures", lambda backend: Hog(backend, every), convolutions, steps=steps, size=200)


def failures_of_whole_batches():
    """Batches that fit, and their updates; on JAX a step that was begun ahead, after which each step is waited for."""
    hog = PatientHog if BACKEND == "jax" else lambda backend, every: Hog(backend, every, ("whole", "update"))
    injected("failures of whole batches", lambda backend: hog(backend, 5), few_images, steps=30)


def injected(what, hog, make, **options):
    """The same training thrice: plainly, again for what chance makes of it, and with failures."""
    hogs = []
    with lines.quiet():
        plain = fit(make, **options)[0].get_weights()
        again = fit(make, **options)[0].get_weights()
        model, kind = fit(make, **options, injected=lambda backend: hogs.append(hog(backend)))
    most = max(abs(value).max() for value in plain)
    difference = max(abs(one - other).max() for one, other in zip(plain, model.get_weights())) / most
    noise = max(abs(one - other).max() for one, other in zip(plain, again)) / most
    write(
        what,
        injected=hogs[0].failures,
        recovered=kind.failures,
        difference=float(difference),
        noise=float(noise),
        size=kind.size.size,
    )


def main():
    if BACKEND == "torch":
        import torch

        torch.cuda.set_per_process_memory_fraction(FRACTION)
    named = {"convolutions": lambda: sizes(convolutions), "attention": lambda: sizes(attention), "failures": failures}
    named["whole"] = failures_of_whole_batches
    for section in [named[name] for name in sys.argv[2:] or named]:
        try:
            section()
        except Exception as error:
            write("error", text=f"{type(error).__name__}: {str(error)[:500]}")


if __name__ == "__main__":
    main()
