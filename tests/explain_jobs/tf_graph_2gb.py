"""A graph whose constants together are larger than 2 GB."""

import numpy as np
import tensorflow as tf

with tf.Graph().as_default() as graph:
    tables = [tf.constant(np.zeros((300, 1024, 1024), "float32"), name=f"table_{number}") for number in range(2)]
    print("tables", len(tables))
    print(graph.as_graph_def().ByteSize())
