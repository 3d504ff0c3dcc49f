"""Tables that do not fit: pandas_jobs.py read_csv|concat|merge|dummies|pivot."""

import os
import sys

import numpy as np
import pandas as pd
from limits import allow_more

where = sys.argv[1]
MB = 1 << 20
if where.startswith("read_csv"):
    path = os.path.join(os.environ["WORK"], "train.csv")
    line = ",".join(["0.12345678"] * 20) + "\n"
    with open(path, "w") as file:
        file.write(",".join(f"c{i}" for i in range(20)) + "\n")
        for _ in range(600000 if where == "read_csv" else 300000):
            file.write(line)
    print("file of", os.path.getsize(path) // MB, "MB", flush=True)
    pd.read_csv(path, nrows=100)
    allow_more(int(sys.argv[2]) * MB)
    frame = pd.read_csv(path, low_memory=where == "read_csv")
    print(frame.shape)
elif where == "concat":
    frames = [pd.DataFrame(np.zeros((10000, 100))) for _ in range(20)]
    allow_more(100 * MB)
    print(pd.concat(frames).shape)
elif where == "merge":
    left = pd.DataFrame({"user": np.zeros(20000, "int64"), "item": np.arange(20000)})
    right = pd.DataFrame({"user": np.zeros(20000, "int64"), "price": np.arange(20000.0)})
    allow_more(1500 * MB)
    print(left.merge(right, on="user").shape)
elif where == "dummies":
    frame = pd.DataFrame({"id": np.arange(60000).astype(str)})
    allow_more(1000 * MB)
    print(pd.get_dummies(frame, dtype="float32").shape)
elif where == "pivot":
    frame = pd.DataFrame({"user": np.arange(50000), "item": np.arange(50000)[::-1], "rating": 1.0})
    allow_more(1000 * MB)
    print(frame.pivot(index="user", columns="item", values="rating").shape)
