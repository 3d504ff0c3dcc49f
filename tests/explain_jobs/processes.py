"""Processes that are killed by the kernel or cannot be made: processes.py pool|futures|subprocess|code|spawn."""

import concurrent.futures
import multiprocessing
import subprocess
import sys

where = sys.argv[1]


def tokenize(number):
    kept = []
    while number == 3:
        kept.append(bytearray(b"x" * (16 << 20)))
    return number


def train(rank):
    tokenize(3 * rank)


def main():
    if where == "futures":
        with concurrent.futures.ProcessPoolExecutor(2) as pool:
            for number in pool.map(tokenize, range(8)):
                print("tokenized", number, flush=True)
    elif where == "pool":
        # A Pool makes a new worker and waits for the lost task for ever; the wait here ends.
        with multiprocessing.Pool(2) as pool:
            print(pool.map_async(tokenize, range(8), chunksize=1).get(timeout=20))
    elif where == "subprocess":
        subprocess.run([sys.executable, "hog.py"], check=True)
    elif where == "code":
        process = subprocess.Popen([sys.executable, "hog.py"])
        print("preprocessing returned", process.wait())
    elif where == "spawn":
        import torch.multiprocessing

        torch.multiprocessing.spawn(train, nprocs=2)


if __name__ == "__main__":
    main()
