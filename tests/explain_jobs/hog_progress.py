"""The same under a progress bar, which draws itself over and over."""

from tqdm import tqdm

kept = []
for _ in tqdm(range(200), desc="Tokenizing", mininterval=0):
    kept.append(bytearray(b"x" * (16 << 20)))
