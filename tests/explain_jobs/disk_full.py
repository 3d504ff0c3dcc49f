"""Writes more than the disk holds: disk_full.py torch|numpy|text|keras ENDING|tensorflow|safetensors|datasets."""

import os
import sys

where = sys.argv[1]
path = os.path.join(os.environ["WORK"], "disk", "model")
if where == "torch":
    import torch

    model = torch.nn.Linear(1024, 1024)
    for epoch in range(5):
        torch.save(model.state_dict(), f"{path}_{epoch}.pt")
        print("saved epoch", epoch)
elif where == "numpy":
    import numpy as np

    np.save(path + ".npy", np.ones((2000, 1000)))
elif where == "text":
    with open(path + ".log", "w") as log:
        for step in range(1000000):
            log.write(f"step {step}\n")
elif where == "keras":
    import keras
    import numpy as np

    model = keras.Sequential([keras.layers.Input((512,)), keras.layers.Dense(512)])
    model.compile("sgd", "mse")
    x = np.zeros((64, 512), "float32")
    model.fit(x, x, epochs=6, verbose=2, callbacks=[keras.callbacks.ModelCheckpoint(path + "_{epoch}" + sys.argv[2])])
elif where == "tensorflow":
    import tensorflow as tf

    checkpoint = tf.train.Checkpoint(weights=tf.Variable(tf.ones([1024, 1024])))
    for _ in range(5):
        print("saved", checkpoint.save(path))
elif where == "safetensors":
    import torch
    from safetensors.torch import save_file

    save_file({"weight": torch.ones(2048, 2048)}, path + ".safetensors")
    print("saved")
elif where == "datasets":
    import datasets

    table = datasets.Dataset.from_dict({"text": [str(i) for i in range(200000)]})
    table.map(lambda row: {"long": row["text"] * 20}, cache_file_name=path + ".arrow")
