"""Arrays that do not fit: numpy_jobs.py huge|load|stack|astype|onehot|bytes|list|negative|too_big."""

import os
import sys

import numpy as np
from limits import allow_more

where = sys.argv[1]
MB = 1 << 20
if where == "huge":
    samples = 400000
    similarity = np.zeros((samples, samples))
    print(similarity.shape)
elif where == "load":
    path = os.path.join(os.environ["WORK"], "train.npy")
    np.lib.format.open_memmap(path, mode="w+", dtype="float32", shape=(50000, 32, 32, 3)).flush()
    allow_more(300 * MB)
    x_train = np.load(path)
    print(x_train.shape)
elif where == "stack":
    images = [np.zeros((256, 256, 3), "uint8") for _ in range(2000)]
    allow_more(200 * MB)
    x_train = np.stack(images)
    print(x_train.shape)
elif where == "astype":
    images = np.zeros((10000, 64, 64, 3), "uint8")
    allow_more(300 * MB)
    x_train = images.astype("float64") / 255
    print(x_train.shape)
elif where == "onehot":
    words = np.zeros((3000, 200), "int32")
    allow_more(500 * MB)
    one_hot = np.eye(20000, dtype="float32")[words]
    print(one_hot.shape)
elif where == "bytes":
    allow_more(200 * MB)
    with open("/dev/zero", "rb") as file:
        data = file.read(400 * MB)
    print(len(data))
elif where == "list":
    allow_more(300 * MB)
    rows = []
    while True:
        rows.append([0.0] * 1000)
elif where == "negative":
    allow_more(300 * MB)
    scores = np.random.rand(20000, 16)
    kernel = np.exp(-((scores[:, None, :] - scores[None, :, :]) ** 2).sum(-1))
    print(kernel.shape)
elif where == "too_big":
    table = np.zeros((1 << 40, 1 << 30))
    print(table.shape)
