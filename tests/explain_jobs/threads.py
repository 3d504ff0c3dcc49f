"""Starts threads or processes until the limit: threads.py python|futures|openblas|fork|tensorflow."""

import sys
import threading
import time

where = sys.argv[1]
if where == "python":
    for _ in range(10000):
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
elif where == "openblas":
    import numpy as np

    a = np.ones((500, 500))
    print((a @ a).sum())
elif where == "fork":
    import multiprocessing

    workers = [multiprocessing.Process(target=time.sleep, args=(3,)) for _ in range(64)]
    for worker in workers:
        worker.start()
elif where == "tensorflow":
    import tensorflow as tf

    print(tf.reduce_sum(tf.ones([1000, 1000]) @ tf.ones([1000, 1000])))
elif where == "futures":
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(200) as pool:
        print(sum(pool.map(lambda i: (time.sleep(0.2), i)[1], range(400))))
