"""What stands between a batch in parts and the same result.

In: a Keras model. Out: findings, each with a code and one sentence; some forbid taking the batch in parts at all. What only the numbers
show (losses and layers that couple samples) is `probe`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras


@dataclass(frozen=True)
class Finding:
    """Something about the user's model that the user should know when its batch is taken in parts."""

    code: str
    text: str
    #: Whether the batch may be taken in parts all the same.
    splits: bool = True


#: Keras's losses that give one number for a batch.
OF_THE_BATCH = (keras.losses.dice, keras.losses.tversky, keras.losses.circle)
#: What parts draw.
DRAWS = "draws random numbers: the parts draw others than the whole batch would, equal in distribution only"


def batch_norms(model: Any) -> list:
    """Layers that normalise by the statistics of the batch in training."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable]


def _draws(layer: Any) -> bool:
    """Whether a layer draws random numbers in training."""
    if getattr(layer, "rate", None) == 0 and not hasattr(layer, "stddev"):
        return False
    recurrent = (getattr(layer, "dropout", 0) or 0) == 0 and (getattr(layer, "recurrent_dropout", 0) or 0) == 0
    if hasattr(layer, "dropout") and recurrent:
        return False
    return bool(getattr(layer, "_seed_generators", None)) or any(
        isinstance(value, keras.random.SeedGenerator) for value in vars(layer).values()
    )


def own_metrics(model: Any) -> list[str]:
    """Metrics that do not add up over parts, or of which nobody knows: those that are not Keras's own, and those with one number for the batch."""
    # What a model was compiled with is one metric that holds the others.
    each = [single for metric in model.metrics for single in getattr(metric, "metrics", [metric])]
    return [metric.name for metric in each if not _adds_up(metric)]


def _adds_up(metric: Any) -> bool:
    function = getattr(metric, "_fn", None)
    if not type(metric).__module__.startswith("keras.") or not (getattr(function, "__module__", None) or "keras.").startswith("keras."):
        return False
    if isinstance(function, keras.losses.Loss) or function in OF_THE_BATCH:
        return False
    # Along the batch, as correlations of columns are.
    axis = (getattr(metric, "_fn_kwargs", None) or {}).get("axis")
    return 0 not in (axis if isinstance(axis, (tuple, list)) else [axis])


def _names(layers: list) -> str:
    return ", ".join(layer.name for layer in layers[:3]) + (f" and {len(layers) - 3} more" if len(layers) > 3 else "")


def look(model: Any) -> list[Finding]:
    """All findings about a model."""
    found = []
    layers = list(model._flatten_layers(include_self=False))
    norms = batch_norms(model)
    if norms:
        text = (
            f"BatchNorm ({_names(norms)}) normalises each part by its own statistics: the gradients are not those of the whole batch; "
            "its moving averages keep their speed"
        )
        found.append(Finding("batch_norm", text))
    random = [layer for layer in layers if _draws(layer)]
    if random:
        found.append(Finding("random", f"{_names(random)} {DRAWS}"))
    spectral = [layer for layer in layers if isinstance(layer, keras.layers.SpectralNormalization)]
    if spectral:
        text = f"{_names(spectral)} changes its weights whenever it is called, so once for each part instead of once for the batch"
        found.append(Finding("spectral_norm", text))
    stateful = [layer for layer in layers if getattr(layer, "stateful", False) is True and isinstance(layer, keras.layers.RNN)]
    if stateful:
        text = f"{_names(stateful)} keeps a state for each row of the batch: the batch cannot be taken in parts"
        found.append(Finding("stateful", text, splits=False))
    return found
