"""Models that Keras's own answers do not describe, where the tests say what is expected of them, and archives of compiled ones."""

import keras
from keras import layers as L
from keras import ops


class Widen(L.Layer):
    """A custom layer with a weight and another output shape than its input's."""

    # As a script defines its own: Keras then writes no module.
    __module__ = "__main__"

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 2 * shape[-1]))

    def call(self, x):
        return ops.matmul(x, self.kernel)


class Cell(L.Layer):
    """A custom recurrent cell."""

    # As a script defines its own: Keras then writes no module.
    __module__ = "__main__"

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], self.units))

    def call(self, x, states):
        y = ops.matmul(x, self.kernel) + states[0]
        return y, [y]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def custom():
    def squash(x):
        return ops.tanh(x) * 2

    i = keras.Input((10, 6))
    x = Widen()(i)
    x = L.Lambda(lambda x: x[:, ::2])(x)
    x = L.Dense(8, activation=squash)(x)
    x = L.RNN(Cell(5), return_sequences=True)(x)
    return keras.Model(i, ops.nan_to_num(ops.median(x, axis=1)))


def custom_sequential():
    return keras.Sequential([L.Input((10, 6)), Widen(), L.Flatten(), L.Dense(2)])


def quantized():
    m = keras.Sequential([L.Input((16,)), L.Dense(8), L.Dense(4)])
    m.quantize("int8")
    return m


# Models that Keras's own answers do not describe: the tests say what is expected of them.
ODD = [custom, custom_sequential, quantized]


def compiled(**kwargs):
    m = keras.Sequential([L.Input((4,)), L.Dense(3), L.Dense(2)])
    m.compile(**kwargs)
    # A step builds the metrics and the optimizer: both are then written out.
    m.train_on_batch(keras.ops.ones((2, 4)), keras.ops.ones((2, 2)))
    return m


ARCHIVES = {
    "compiled_adam": lambda: compiled(
        optimizer="adam", loss="mse", metrics=["mae", keras.metrics.RootMeanSquaredError()], jit_compile=False
    ),
    "compiled_sgd": lambda: compiled(
        optimizer=keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01, global_clipnorm=1.0),
        loss=keras.losses.MeanSquaredError(),
    ),
    "compiled_scaled": lambda: compiled(
        optimizer=keras.optimizers.LossScaleOptimizer(
            keras.optimizers.Adam(amsgrad=True, use_ema=True, gradient_accumulation_steps=4, clipnorm=1.0)
        ),
        loss=["mse"],
    ),
}
