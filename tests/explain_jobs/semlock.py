"""A queue between processes needs a semaphore in /dev/shm, which is full."""

import multiprocessing

with open("/dev/shm/left_by_another_job", "wb") as file:
    try:
        file.write(b"x" * (1 << 20))
    except OSError:
        pass
queue = multiprocessing.Queue()
print(queue)
