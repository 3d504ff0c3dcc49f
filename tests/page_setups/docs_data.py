from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import stand_in

numbers = np.random.default_rng(0)
Path("train").mkdir()
names = [*(f"c{number}" for number in range(10)), "y"]
for part in range(2):
    rows = numbers.normal(size=(20_000, 10)).round(5)
    lines = [",".join([*map(str, row), str(number % 5)]) for number, row in enumerate(rows)]
    text = "\n".join([",".join(names), *lines]) + "\n"
    Path(f"train/{part}.csv").write_text(text)
    Path("train.csv").write_text(text)
    table = pyarrow.table(dict(zip(names, [*rows.T, np.arange(len(rows)) % 5])))
    pyarrow.parquet.write_table(table, f"train/{part}.parquet")
    pyarrow.parquet.write_table(table, "train.parquet")
stand_in.train()
