"""Models as such: nested, shared, frozen, with several inputs, in other precisions."""

import keras
from keras import layers as L

from .registry import fixture


@fixture
def nested():
    inner = keras.Sequential([L.Input((16,)), L.Dense(8, activation="relu"), L.Dense(8)], name="encoder")
    i = keras.Input((16,))
    j = keras.Input((16,), name="other")
    deep = keras.Model(i0 := keras.Input((8,)), L.Dense(4, name="head")(i0), name="deep")
    x = L.Add()([inner(i), inner(j)])
    return keras.Model([i, j], [deep(x), x])


@fixture
def shared():
    i = keras.Input((10, 6))
    dense, drop = L.Dense(6, activation="tanh"), L.Dropout(0.5)
    x = drop(dense(drop(dense(i))))
    y = dense(L.Reshape((10, 6))(L.Flatten()(x)))
    return keras.Model(i, L.Concatenate()([x, y]))


@fixture
def several_inputs_and_outputs():
    inputs = {"b": keras.Input((4,), name="b"), "a": keras.Input((6,), name="a"), "c": keras.Input((3,), dtype="int32", name="c")}
    e = L.Flatten()(L.Embedding(11, 5)(inputs["c"]))
    x = L.Concatenate()([L.Dense(7)(inputs["a"]), L.Dense(5)(inputs["b"]), e])
    return keras.Model(inputs, {"z": L.Dense(2, name="last")(x), "y": L.Dense(3, activation="softmax", name="first")(x)})


@fixture
def dictionary_call():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    inner = keras.Model(
        {"p": (p := keras.Input((4,), name="p")), "q": (q := keras.Input((4,), name="q"))}, L.Subtract()([p, q]), name="inner"
    )
    return keras.Model([a, b], L.Dense(2)(inner({"q": L.Dense(4)(a), "p": b})))


@fixture
def sequential_without_input():
    m = keras.Sequential([L.Dense(12, activation="relu"), L.Dense(3)])
    m.build((None, 20))
    return m


@fixture
def sequential_of_models():
    i = keras.Input((8, 8, 3), name="image")
    base = keras.Model(i, L.GlobalAveragePooling2D()(L.Conv2D(4, 3)(i)), name="base")
    return keras.Sequential([base, keras.Sequential([L.Dense(6), L.ReLU()], name="middle"), L.Dense(2)])


@fixture
def adapted():
    """Low-rank adaptations: frozen kernels, two trained factors each."""
    i = keras.Input((6,), dtype="int32")
    layers = L.Embedding(20, 8), L.Dense(7), L.EinsumDense("abc,cd->abd", output_shape=(6, 5), bias_axes="d"), L.Conv1D(4, 3)
    x = i
    for layer in layers:
        x = layer(x)
        layer.enable_lora(2)
    return keras.Model(i, x)


@fixture
def frozen():
    base = keras.Sequential([L.Input((8, 8, 3)), L.Conv2D(4, 3), L.BatchNormalization(), L.ReLU(6.0)], name="base")
    base.trainable = False
    i = keras.Input((8, 8, 3))
    x = base(i)
    x = L.Conv2D(4, 3, trainable=False)(x)
    return keras.Model(i, L.Dense(2)(L.GlobalMaxPooling2D()(x)))


@fixture
def order():
    """Branches of unequal depth: what runs when decides what is alive."""
    i = keras.Input((32, 32, 3))
    a = L.Conv2D(4, 1, name="a")(i)
    b = L.Conv2D(4, 3, padding="same", name="b2")(L.Conv2D(4, 1, name="b1")(i))
    c = L.Conv2D(4, 1, name="c3")(L.Conv2D(4, 1, name="c2")(L.MaxPooling2D(3, 1, "same", name="c1")(i)))
    d = L.Concatenate(name="join")([c, a, b])
    e = L.Conv2D(2, 1, name="side")(a)
    f = L.Add(name="sum")([L.Conv2D(2, 1, name="main")(d), e])
    return keras.Model(i, [f, L.GlobalAveragePooling2D(name="aux")(b)])


@fixture
def regularized():
    i = keras.Input((12,))
    x = L.Dense(8, kernel_regularizer="l2", bias_regularizer="l1", activity_regularizer="l2")(i)
    x = L.ActivityRegularization(l2=0.1)(x)
    return keras.Model(i, L.Dense(2, kernel_regularizer=keras.regularizers.L1L2(0.1, 0.2))(x))


def policy_model(policy):
    keras.config.set_dtype_policy(policy)
    try:
        i = keras.Input((16, 16, 3))
        x = L.Rescaling(1 / 255)(i)
        x = L.Conv2D(8, 3, activation="relu")(x)
        x = L.BatchNormalization()(x)
        x = L.LayerNormalization()(x)
        x = L.GlobalAveragePooling2D()(x)
        t = keras.Input((10,), dtype="int32")
        e = L.GRU(8, recurrent_initializer="glorot_uniform")(L.Embedding(50, 8)(t))
        x = L.Concatenate()([x, e])
        x = keras.Sequential([L.Dense(8), L.Dropout(0.1)], name="tail")(x)
        return keras.Model([i, t], L.Dense(4, activation="softmax", dtype="float32")(x))
    finally:
        keras.config.set_dtype_policy("float32")


@fixture
def mixed_float16():
    return policy_model("mixed_float16")


@fixture
def mixed_bfloat16():
    return policy_model("mixed_bfloat16")


@fixture
def bfloat16():
    return policy_model("bfloat16")


@fixture
def variable_length():
    i = keras.Input((None, 8))
    x = L.TimeDistributed(L.Dense(6))(i)
    x = L.LSTM(5, return_sequences=True)(x)
    return keras.Model(i, L.Dense(2)(x))
