"""Opens a file for every shard and closes none: open_files.py files|processes."""

import os
import subprocess
import sys

where = sys.argv[1]
kept = []
for number in range(5000):
    if where == "files":
        kept.append(open(os.path.join(os.environ["WORK"], f"shard_{number:04d}.txt"), "w"))
    else:
        kept.append(subprocess.Popen(["sleep", "20"], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
