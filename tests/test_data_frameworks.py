"""Batches of `brimful.data` as tensors of PyTorch, JAX and TensorFlow, as Keras takes them, and as Arrow: the same memory, the same rows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from brimful import data

HERE = Path(__file__).parent
ROWS = 1003


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    path = tmp_path_factory.mktemp("frameworks") / "records.npy"
    rng = np.random.default_rng(2)
    made = np.zeros(ROWS, dtype=[("a", "f4", (4,)), ("place", "i4"), ("y", "f4"), ("flag", "?")])
    made["a"], made["place"], made["flag"] = rng.normal(size=(ROWS, 4)), np.arange(ROWS), np.arange(ROWS) % 2 == 0
    made["y"] = made["a"].sum(axis=1)
    np.save(path, made)
    return path


def addresses(loader, pointer):
    """Where each array of the first batches lies, before and after the hand-over."""
    found = []
    for fields in loader._raw(None):
        before = [field.ctypes.data for field in fields]
        after = [pointer(loader._convert(field)) for field in fields]
        found.append((before, after))
        fields.clear()
    return found


@pytest.mark.parametrize("to", ("numpy", "torch", "jax", "tensorflow"))
def test_the_arrays_lie_where_they_were_decoded(records, to):
    if to == "tensorflow":
        # TensorFlow shows no address: what is written into the array is seen in the tensor.
        loader = data.open(records, columns=["a"]).batches(64, memory="2MiB", to=to)
        for fields in loader._raw(None):
            tensor = loader._convert(fields[0])
            fields[0][0, 0] = 12345
            assert float(tensor[0, 0]) == 12345
            del tensor
            fields.clear()
        return
    pointer = {
        "numpy": lambda array: array.ctypes.data,
        "torch": lambda tensor: tensor.data_ptr(),
        "jax": lambda a: a.unsafe_buffer_pointer(),
    }
    loader = data.open(records, columns=["a"], labels="y").batches(64, memory="2MiB", to=to)
    seen = addresses(loader, pointer[to])
    assert len(seen) == 16 and all(before == after and all(place % 64 == 0 for place in before) for before, after in seen)


@pytest.mark.parametrize("to", ("numpy", "torch", "jax", "tensorflow"))
def test_every_framework_gets_the_same_rows(records, to):
    loader = data.open(records, columns=["a"], labels="place").batches(100, memory="2MiB", shuffle=True, seed=2, to=to)
    expected = data.open(records, columns=["a"], labels="place").batches(100, memory="2MiB", shuffle=True, seed=2)
    wanted = [(x.copy(), y.copy()) for x, y in expected]
    # More epochs than the budget has batches: each returns to it.
    for _ in range(3):
        for x, y in loader:
            assert type(x).__module__.split(".")[0].replace("jaxlib", "jax") == to
            del x, y
    for (x, y), (a, b) in zip(loader.epoch(0), wanted):
        assert (np.asarray(x) == a).all() and (np.asarray(y) == b).all()
        del x, y


@pytest.mark.parametrize("to", ("torch", "jax", "tensorflow"))
def test_who_keeps_every_tensor_is_told(records, to):
    loader = data.open(records, columns=["a"]).batches(4, memory="800KiB", to=to)
    assert loader.plan.batch_slots < len(loader)
    with pytest.raises(data.BudgetHeldByCaller):
        list(loader)


@pytest.mark.parametrize("to", ("torch", "jax", "tensorflow"))
def test_all_types_go_over(tmp_path, to):
    kinds = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
    made = np.zeros(10, dtype=[(kind, kind) for kind in kinds])
    for kind in kinds:
        made[kind] = np.arange(10) % 2
    np.save(tmp_path / "kinds.npy", made)
    for batch in data.open(tmp_path / "kinds.npy").batches(5, memory="2MiB", separate=True, to=to):
        assert [*batch] == [*kinds]
        for kind, array in batch.items():
            expected = {"int64": "int32", "float64": "float32"}.get(kind, kind) if to == "jax" else kind
            assert str(np.asarray(array).dtype) == expected and np.asarray(array).astype(int).tolist() in ([0, 1, 0, 1, 0], [1, 0, 1, 0, 1])


def test_a_tf_dataset_knows_its_shape_and_is_the_next_epoch_each_time(records):
    loader = data.open(records, columns=["a"], labels="place").batches(100, memory="2MiB", shuffle=True, seed=2)
    expected = data.open(records, columns=["a"], labels="place").batches(100, memory="2MiB", shuffle=True, seed=2)
    dataset = loader.as_tf()
    x, y = dataset.element_spec
    assert (x.shape.as_list(), x.dtype.name, y.shape.as_list(), y.dtype.name) == ([None, 4], "float32", [None], "int32")
    assert int(dataset.cardinality()) == len(loader) == 11
    for epoch in range(3):
        places = np.concatenate([labels.numpy() for _, labels in dataset])
        assert (places == np.concatenate([labels.copy() for _, labels in expected.epoch(epoch)])).all()
        assert sorted(places) == [*range(ROWS)]
    assert loader.stats().peak_bytes <= 2 << 20


def test_nothing_of_the_data_is_in_the_graph(records):
    import tensorflow as tf

    dataset = data.open(records, columns=["a"]).batches(100, memory="2MiB").as_tf()

    @tf.function
    def total():
        found = 0.0
        for x in dataset:
            found += tf.reduce_sum(x)
        return found

    expected = np.load(records)["a"].sum()
    assert abs(float(total()) - expected) < 1e-2
    assert total.get_concrete_function().graph.as_graph_def().ByteSize() < 100_000


@pytest.mark.parametrize("backend", ("tensorflow", "jax", "torch"))
def test_keras_takes_a_loader_as_it_is(records, backend):
    environment = {**os.environ, "KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, str(HERE / "data_keras_job.py"), str(records)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-3000:]
    seen = json.loads(run.stdout.splitlines()[-1])
    assert seen["loss"][-1] < seen["loss"][0] and abs(seen["validated"]) < 1e-6
    assert seen["generator"] == seen["as_keras"] == seen["resumed"] == 0.0 and seen["brimful"] < 1e-6
    assert seen["middle"] < 1e-6 and "epochs=1" in seen["middle_said"]
    assert seen["predicted"] == [ROWS, 1]
    # Both loaders' budgets are part of the job's.
    assert seen["model_bytes"] == (512 - 4) << 20


def test_arrow_reads_it_without_copies(records):
    pa = pytest.importorskip("pyarrow")
    loader = data.open(records, columns=["a", "place", "flag"]).batches(100, memory="2MiB", separate=True)
    reader = loader.as_arrow()
    assert [str(kind) for kind in reader.schema.types] == ["fixed_size_list<item: float>[4]", "int32", "bool"]
    table = reader.read_all() if loader.plan.batch_slots >= len(loader) else None
    assert table is None or table["place"].to_pylist() == [*range(ROWS)]
    del table
    again = data.open(records, columns=["place"]).batches(100, memory="2MiB", separate=True)
    fields = next(again._raw(None))
    from brimful.data import arrow

    assert arrow.column(pa, fields[0]).buffers()[1].address == fields[0].ctypes.data


def test_what_reads_arrow_reads_a_loader(records):
    duckdb = pytest.importorskip("duckdb")
    loader = data.open(records, columns=["place"]).batches(100, memory="2MiB", separate=True)  # noqa: F841 -- DuckDB finds it by its name
    stream = loader.as_arrow()  # noqa: F841
    assert duckdb.sql("select count(*), sum(place) from stream").fetchall() == [(ROWS, ROWS * (ROWS - 1) // 2)]


def test_pinned_copies_are_counted(records):
    torch = pytest.importorskip("torch")
    ds = data.open(records, columns=["a"])
    if not torch.cuda.is_available():
        with pytest.raises(data.DataError, match="needs a GPU"):
            ds.batches(64, memory="2MiB", to="torch", pin=True)
        return
    loader = ds.batches(64, memory="2MiB", to="torch", pin=True)
    on_device = []
    for batch in loader:
        assert batch.is_pinned()
        on_device.append(batch.to("cuda", non_blocking=True))
        del batch
    assert (torch.cat(on_device).cpu().numpy() == np.load(records)["a"]).all()
    assert 0 < loader.stats().pinned_peak_bytes <= (2 << 20) // 4 and loader._pins.live_bytes == 0
    small = ds.batches(1, memory="700KiB", to="torch", pin=True)
    small._pins.most_bytes = 4 * small._pins.batch_bytes
    kept = []
    with pytest.raises(data.BudgetHeldByCaller, match="pinned"):
        for batch in small:
            kept.append(batch)
    state, rows = small.state(), len(kept)
    del kept, batch
    small.resume(state)
    assert rows + sum(len(batch) for batch in small) == ROWS
    for memory in ("4MiB", "5MiB"):
        with pytest.raises(data.BelowFloor, match="pinned") as refused:
            ds.batches(100_000, memory=memory, to="torch", pin=True)
        assert refused.value.memory_bytes == int(memory[0]) << 20 < refused.value.floor_bytes
