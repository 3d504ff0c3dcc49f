"""Layers over time: recurrent ones, attention, embeddings that are used twice."""

import keras
from keras import layers as L

from .registry import fixture


@fixture
def recurrent():
    i = keras.Input((12,))
    e = L.Embedding(30, 8, mask_zero=True)(i)
    a = L.LSTM(7, return_sequences=True, dropout=0.2)(e)
    b = L.GRU(6, return_sequences=True, reset_after=False, recurrent_dropout=0.1)(a)
    c, s = L.SimpleRNN(5, return_state=True)(b)
    d = L.RNN([L.LSTMCell(4), L.GRUCell(3)], return_sequences=True)(a)
    f = L.RNN(L.SimpleRNNCell(6), go_backwards=True)(d)
    g, h, k = L.LSTM(5, return_state=True, unroll=True)(b, initial_state=[c, s])
    return keras.Model(i, [c, s, d, f, g, h, k])


@fixture
def bidirectional():
    i = keras.Input((9, 4))
    a = L.Bidirectional(L.LSTM(5, return_sequences=True))(i)
    b = L.Bidirectional(L.GRU(5, return_sequences=True), merge_mode="sum")(a)
    c = L.Bidirectional(L.LSTM(3), merge_mode="ave")(b)
    d = L.Bidirectional(L.SimpleRNN(3), merge_mode=None)(b)
    e = L.Bidirectional(L.LSTM(3, return_state=True), merge_mode="mul", backward_layer=L.LSTM(3, return_state=True, go_backwards=True))(b)
    return keras.Model(i, [c, *d, *e])


@fixture
def time_distributed():
    i = keras.Input((4, 12, 12, 3))
    x = L.TimeDistributed(L.Conv2D(4, 3, activation="relu"))(i)
    x = L.TimeDistributed(keras.Sequential([L.Input((10, 10, 4)), L.MaxPooling2D(2), L.BatchNormalization(), L.Flatten()], name="each"))(x)
    x = L.TimeDistributed(L.Dense(6))(x)
    return keras.Model(i, L.LSTM(3)(x))


@fixture
def conv_lstm():
    i = keras.Input((5, 12, 10, 3))
    x = L.ConvLSTM2D(4, 3, padding="same", return_sequences=True)(i)
    x, h, c = L.ConvLSTM2D(3, 3, return_state=True)(x)
    j = keras.Input((5, 12, 3))
    y = L.ConvLSTM1D(4, 3, use_bias=False)(j)
    k = keras.Input((3, 6, 6, 6, 2))
    z = L.ConvLSTM3D(2, 2, strides=2)(k)
    return keras.Model([i, j, k], [x, h, c, y, z])


@fixture
def attention():
    q, v = keras.Input((10, 16)), keras.Input((14, 12))
    k = keras.Input((14, 9))
    a = L.MultiHeadAttention(2, 8, value_dim=6, dropout=0.1)(q, v, k)
    # Keras states the scores' shape as if the key were as long as the query: here it is.
    b, s = L.MultiHeadAttention(4, 5, output_shape=20, use_bias=False)(q, q, return_attention_scores=True)
    c = L.MultiHeadAttention(2, 4)(q, q, use_causal_mask=True)
    g = L.MultiHeadAttention(2, 4, use_gate=True)(q, q)
    v2 = L.Dense(16)(v)
    d = L.GroupQueryAttention(4, 6, 2)(q, v2)
    e = L.Attention(use_scale=True, dropout=0.2)([q, v2])
    f = L.AdditiveAttention()([q, v2])
    h = L.Attention(score_mode="concat")([q, v2, L.Dense(16)(k)])
    m = keras.Input((10, 14), dtype="bool")
    w = L.MultiHeadAttention(2, 4)(q, v, attention_mask=m)
    image = keras.Input((4, 5, 8))
    r = L.MultiHeadAttention(2, 4, attention_axes=(2,))(image, image)
    return keras.Model([q, v, k, m, image], [a, b, s, c, g, d, e, f, h, w, r])


@fixture
def tied_weights():
    i = keras.Input((6,), dtype="int32")
    table = L.ReversibleEmbedding(40, 8)
    x = L.Dense(8)(table(i))
    untied = L.ReversibleEmbedding(20, 8, tie_weights=False, logit_soft_cap=5.0)
    y = L.Dense(8)(untied(i))
    return keras.Model(i, [table(x, reverse=True), untied(y, reverse=True)])
