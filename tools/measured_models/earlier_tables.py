"""Models of rows of numbers and categories, of the second, third and fourth table. In: Keras. Out: a model that is not compiled."""


def tabular(keras):
    L = keras.layers
    numbers, category = keras.Input((60,), name="numbers"), keras.Input((1,), name="category")
    x = L.Concatenate()([numbers, L.Flatten()(L.Embedding(50000, 32)(category))])
    for units in (1024, 512, 256):
        x = L.Dense(units, kernel_regularizer="l2")(x)
        x = L.BatchNormalization()(x)
        x = L.Activation("selu")(x)
        x = L.Dropout(0.3)(x)
    return keras.Model([numbers, category], L.Dense(1)(x))


def mlp_tanh(keras):
    L = keras.layers
    return keras.Sequential(
        [L.Input((784,)), L.Dense(2048, activation="tanh"), L.Dense(2048, activation="gelu"), L.Dense(10, activation="softmax")]
    )


def wide_mlp(keras):
    L = keras.layers
    model = keras.Sequential([L.Input((300,))])
    for units in (1536, 1536, 768):
        model.add(L.Dense(units))
        model.add(L.BatchNormalization())
        model.add(L.Activation("relu"))
        model.add(L.Dropout(0.4))
    model.add(L.Dense(20, activation="softmax"))
    return model


def recommender(keras):
    L = keras.layers
    user, item = keras.Input((1,), name="user"), keras.Input((1,), name="item")
    u, v = L.Flatten()(L.Embedding(40000, 64)(user)), L.Flatten()(L.Embedding(15000, 64)(item))
    x = L.Concatenate()([u, v, L.Multiply()([u, v])])
    for units in (512, 256, 128):
        x = L.Dropout(0.2)(L.Dense(units, activation="relu")(x))
    return keras.Model([user, item], L.Dense(1, activation="sigmoid")(x))
