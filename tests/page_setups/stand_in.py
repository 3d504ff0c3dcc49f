"""Scripts that pages speak of, for commands that run them: how Brimful trains with real frameworks is tested elsewhere."""

import stat
from pathlib import Path

#: A job of some steps that takes arguments and holds a little memory.
TRAIN = """\
import sys, time
rows = []
for step in range(5):
    rows.append(bytearray(1 << 20))
    print("step", step, "of", *sys.argv[1:])
    time.sleep(0.05)
"""


def train(name="train.py", text=TRAIN):
    """Writes a training script; one for a shell can be called."""
    file = Path(name)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
