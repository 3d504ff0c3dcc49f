import shutil

import stand_in

shutil.copy("fixtures/logs/gpu_torch_forward.log", "train.log")
stand_in.train(text="import sys\nsys.stderr.write(open('train.log').read())\nsys.exit(1)\n")


def train():
    raise MemoryError("Unable to allocate 7.45 GiB for an array with shape (1000000, 1000) and data type float64")
