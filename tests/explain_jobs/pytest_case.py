"""A test that runs out of memory; not a test of this project, `pytest` must be told its name."""

import torch
from limits import allow_more


def attention(tokens):
    scores = tokens @ tokens.T
    return torch.softmax(scores, -1) @ tokens


def test_short():
    assert attention(torch.zeros(16, 8)).shape == (16, 8)


def test_long():
    allow_more(500 << 20)
    assert attention(torch.zeros(50000, 8)).shape == (50000, 8)
