"""What a step is made of, for each framework that Keras runs on: one file each, chosen by the backend that Keras has.

Each has the same names: `keep` and `put_back` for the small state that a forward pass changes; `forward`, `part`, `whole`, `counts`, `gradients`, `doubted`, `set_aside`,
`join`, `update`, `undo` and `finish` for training; `test_whole`, `test_part`, `predict` for the rest; `used_bytes`, `peak_bytes`, `reset_peak`, `limit_bytes`,
`release` and `rest` for the memory; `seeds` and `set_seeds` for what draws random numbers; `asked` for calls outside a step.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import keras

BACKENDS = {"tensorflow": "tensorflow", "jax": "jax", "torch": "torch"}


def make(model: Any) -> Any:
    """The backend of a model."""
    name = keras.backend.backend()
    if name not in BACKENDS:
        raise ValueError(f"Keras runs on {name}: brimful trains on {', '.join(BACKENDS)}")
    return import_module(f"{__name__}.{BACKENDS[name]}").Backend(model)
