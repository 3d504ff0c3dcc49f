"""Mixed precision for a model that is already built: the last resort of `allow="numerics"`.

In: a model that computes in float32. Out: the same model, which computes in bfloat16 and keeps its weights in float32. Its range is that of
float32, so no loss needs scaling. What changes is the rounding of results and gradients; the saved model says so, too.
"""

from __future__ import annotations

from typing import Any

import keras

POLICY = "mixed_bfloat16"
TEXT = "the model computes in bfloat16 from here on, with weights in float32: the same model, other rounding"


def lower(model: Any) -> bool:
    """Lets the layers that compute in float32 compute in bfloat16; whether there were any."""
    layers = [layer for layer in model._flatten_layers() if getattr(getattr(layer, "dtype_policy", None), "name", None) == "float32"]
    for layer in layers:
        layer.dtype_policy = keras.DTypePolicy(POLICY)
    return bool(layers)
