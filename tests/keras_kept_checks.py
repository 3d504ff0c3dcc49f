"""What Keras does around a step, and must still do where the step is not its own: errors, warnings, metrics with masks, methods of a
model's own, and what is not made where nothing is trained.

In: nothing; each check makes its own data. Out: by name, functions that give what was found. All in float32.
"""

import brimful.keras
import keras
from brimful.keras.api import ORIGINAL
from keras_fit_checks import arrays, network


def several_steps_are_refused():
    """PyTorch has no steps_per_execution in Keras, which says so; to go on would lose all batches but the first."""
    (x, y), said = arrays(), []
    for way in (ORIGINAL, vars(brimful.keras.api)):
        for name in ("fit", "evaluate", "predict"):
            try:
                way[name](network(steps_per_execution=3), x, *([y] if name != "predict" else []), batch_size=8, verbose=0)
            except ValueError as error:
                said.append(str(error))
    assert len(said) == 6 and len({*said}) == 1, said
    return {"said": said[0]}


CHECKS = []
if keras.backend.backend() == "torch":
    CHECKS.append(several_steps_are_refused)
