"""Writes model files with real Keras (`conftest.saved` starts it).

    python save_models.py FOLDER

FOLDER gets `NAME.keras` and `NAME.h5` (compiled) and `NAME.json` for every case, and what newcomers hand over by mistake:
`subclassed.keras`, `only.weights.h5` and the SavedModel `exported`. `parameters.json` has what Keras itself counts.
"""

import json
import sys
from pathlib import Path

import keras
from keras_models import CASES


class Subclassed(keras.Model):
    """A model whose graph is in Python code."""

    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(8)
        self.out = keras.layers.Dense(1)

    def call(self, inputs):
        return self.out(self.hidden(inputs))

    def get_config(self):
        return {}


def main(folder):
    parameters = {}
    for name, case in CASES.items():
        model = case.build(keras)
        (folder / f"{name}.json").write_text(model.to_json())
        model.compile(case.optimizer, case.loss, jit_compile=False)
        model.save(folder / f"{name}.keras")
        model.save(folder / f"{name}.h5")
        parameters[name] = model.count_params()
    (folder / "parameters.json").write_text(json.dumps(parameters))
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.save_weights(folder / "only.weights.h5")
    model.export(folder / "exported", verbose=False)
    subclassed = Subclassed()
    subclassed(keras.ops.zeros((1, 4)))
    subclassed.save(folder / "subclassed.keras")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
