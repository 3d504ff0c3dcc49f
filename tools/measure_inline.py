"""Measures a Keras training step whose kernels TensorFlow's executor runs first come, first served, as it does on a GPU.

    python tools/measure_inline.py OUT.jsonl

In: models of `fixtures/models`. Out: a line for each job: its settings and the most that the allocator handed out at once. The executor
treats a GPU's kernels as cheap and keeps them all on the thread that made them ready; on a CPU a session that is told to use the
caller's thread does the same, in the BFC allocator, where it can be measured without a GPU. So Keras's own step is traced and run
in such a session. What the process holds beside the session's variables (the model that was traced) is taken off.
"""

import json
import sys
from pathlib import Path

from measure_tensorflow import in_a_process_of_its_own

MODELS = Path(__file__).resolve().parent.parent / "fixtures" / "models"
#: Model, batch, optimizer, and the loss that its output is made for.
JOBS = [
    ("keras/seed_cnn256", 8, "sgd", "binary_crossentropy"),
    ("keras/seed_cnn28", 64, "adam", "sparse_categorical_crossentropy"),
    ("keras/transformer", 16, "adam", "sparse_categorical_crossentropy"),
    ("keras/unet", 4, "adam", "binary_crossentropy"),
    ("keras/VGG16-96", 4, "sgd", "sparse_categorical_crossentropy"),
    ("keras/MobileNetV2-128", 4, "sgd", "sparse_categorical_crossentropy"),
    ("keras/ResNet50-128", 4, "sgd", "sparse_categorical_crossentropy"),
    ("keras/EfficientNetB0-128", 4, "adam", "sparse_categorical_crossentropy"),
    ("keras/InceptionV3-128", 8, "adam", "sparse_categorical_crossentropy"),
    ("keras_measured/autoencoder", 16, "adam", "binary_crossentropy"),
    ("keras_measured/cifar_cnn", 128, "adam", "sparse_categorical_crossentropy"),
    ("keras_measured/group_norm_unet", 4, "sgd", "binary_crossentropy"),
    ("keras_measured/mlp_tanh", 512, "adam", "sparse_categorical_crossentropy"),
    ("keras_measured/plain_cnn", 16, "adam", "sparse_categorical_crossentropy"),
    ("keras_measured/separable", 16, "sgd", "sparse_categorical_crossentropy"),
    ("keras_measured/siamese", 16, "adam", "binary_crossentropy"),
    ("keras_measured/squeeze_resnet", 16, "sgd", "sparse_categorical_crossentropy"),
    ("keras_measured/tcn", 32, "adam", "mse"),
    ("keras_measured/text_cnn", 64, "adam", "sparse_categorical_crossentropy"),
]


def batch_of(numpy, model, batch, loss):
    """Numbers that a model of this kind takes and gives: small enough for any table of embeddings."""
    random = numpy.random.default_rng(0)
    inputs = []
    for tensor in model.inputs:
        whole = any(layer.__class__.__name__ == "Embedding" for layer in model.layers) or not tensor.dtype.startswith("float")
        values = random.integers(0, 50, (batch, *tensor.shape[1:])) if whole else random.random((batch, *tensor.shape[1:]))
        inputs.append(values.astype(tensor.dtype))
    shape = model.outputs[0].shape[1:]
    if loss.startswith("sparse"):
        return inputs, random.integers(0, shape[-1], (batch, *shape[:-1]))
    return inputs, random.integers(0, 2, (batch, *shape)).astype("float32")


def in_session(tf, traced, arrays):
    """The traced step in a session of its own: what to run first, what then, what to feed, and the bytes of its variables."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        replaced, variable_bytes = {}, 0
        for outer, inner in traced.graph.captures:
            if outer.dtype != tf.resource:
                replaced[inner.name] = tf.constant(outer.numpy())
                continue
            known = next(variable for variable in traced.variables if variable.handle is outer)
            # Zeros of one shape would share their memory until the first step.
            start = v1.truncated_normal_initializer(stddev=0.01) if len(known.shape) > 1 else tf.zeros_initializer()
            name = f"variable_{len(replaced)}"
            own = v1.get_variable(name, known.shape, known.dtype, start, use_resource=True)
            variable_bytes += own.dtype.size * own.shape.num_elements()
            replaced[inner.name] = own.handle
        feeds = {}
        for argument, array in zip(traced.inputs, arrays):
            placeholder = v1.placeholder(argument.dtype, argument.shape)
            replaced[argument.name] = placeholder
            feeds[placeholder] = array
        ends = [tensor.name for tensor in traced.outputs] + [op.name for op in traced.graph.control_outputs]
        found = tf.import_graph_def(traced.graph.as_graph_def(), replaced, ends, name="")
        run = [end.op if isinstance(end, tf.Tensor) else end for end in found]
        return v1.Session(), v1.global_variables_initializer(), run, feeds, variable_bytes


def measure(path, batch, optimizer, loss):
    import keras
    import numpy
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    model = keras.models.model_from_json((MODELS / f"{path}.json").read_text())
    model.compile(optimizer, loss, jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    inputs, targets = batch_of(numpy, model, batch, loss)
    arrays = [*inputs, targets]

    @tf.function
    def step(*tensors):
        return model.train_step((tensors[0] if len(inputs) == 1 else list(tensors[:-1]), tensors[-1]))

    traced = step.get_concrete_function(*[tf.TensorSpec(array.shape, array.dtype) for array in arrays])
    session, initialize, run, feeds, variable_bytes = in_session(tf, traced, arrays)
    with session:
        session.run(initialize)
        here = tf.compat.v1.RunOptions(inter_op_thread_pool=-1)
        session.run(run, feeds, here)
        between = tf.config.experimental.get_memory_info("CPU:0")["current"]
        peaks = []
        for _ in range(3):
            tf.config.experimental.reset_memory_stats("CPU:0")
            session.run(run, feeds, here)
            peaks.append(tf.config.experimental.get_memory_info("CPU:0")["peak"])
    row = {"model": path, "batch": batch, "opt": optimizer, "loss": loss, "peak_bytes": max(peaks) - between + variable_bytes}
    print("ROW " + json.dumps(row))


def main():
    if sys.argv[1] == "--child":
        return measure(*json.loads(sys.argv[2]))
    with open(sys.argv[1], "w") as out:
        for job in JOBS:
            row = in_a_process_of_its_own(__file__, job)
            print(row, flush=True)
            out.write(row + "\n")


if __name__ == "__main__":
    main()
