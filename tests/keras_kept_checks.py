"""What Keras does around a step, and must still do where the step is not its own: errors, warnings, metrics with masks, methods of a
model's own, and what is not made where nothing is trained.

In: nothing; each check makes its own data. Out: by name, functions that give what was found. All in float32.
"""

import brimful.keras
import keras
import numpy as np
from brimful.keras.api import ORIGINAL
from keras import layers
from keras_fit_checks import BATCH, arrays, compared, network
from keras_fit_job import force


def masked_metrics():
    """Each word's class, some words masked: the metrics of training are Keras's own, which counts masks on two backends of three."""
    words = np.random.default_rng(2).integers(1, 9, (21, 6))
    words[:, 4:] = 0

    def tagger():
        keras.utils.set_random_seed(3)
        inside = [layers.Embedding(9, 4, mask_zero=True), layers.Dense(3, activation="softmax")]
        model = keras.Sequential([layers.Input((6,)), *inside])
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"], weighted_metrics=["accuracy"])
        return model

    result = compared(lambda: (words, words % 3), tagger, batch_size=BATCH, validation_data=(words, words % 3), kinds=("train", "test"))
    force(BATCH)
    whole = brimful.keras.fit(tagger(), words, words % 3, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
    plain = ORIGINAL["fit"](tagger(), words, words % 3, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
    assert np.allclose(whole.history["accuracy"], plain.history["accuracy"]), (whole.history, plain.history)
    return result


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


CHECKS = [masked_metrics]
if keras.backend.backend() == "torch":
    CHECKS.append(several_steps_are_refused)
