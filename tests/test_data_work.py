"""Work on files larger than memory: rows mapped, filtered, chosen and scaled, arithmetic with arrays, SQL; beside NumPy's own answers."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from brimful import data

ROWS = 30_011


@pytest.fixture(scope="module")
def x(tmp_path_factory):
    rng = np.random.default_rng(3)
    # A mean that is large beside the deviation, where sums of squares lose their digits.
    made = (rng.normal(size=(ROWS, 5)) * [1, 2, 0, 4, 0.01] + [0, 1e4, 7, -3, 1e6]).astype("float64")
    made[5, 0] = np.nan
    return made


@pytest.fixture(scope="module")
def file(x, tmp_path_factory):
    path = tmp_path_factory.mktemp("work") / "x.npy"
    np.save(path, x)
    return path


def left_in(folder):
    return sorted(os.listdir(folder))


def test_map_writes_what_the_function_makes(file, x, tmp_path):
    made = data.open(file).map(lambda rows: np.float32(rows[:, 1:3] * 2), tmp_path / "new.npy", memory="2MiB")
    assert (np.load(tmp_path / "new.npy") == np.float32(x[:, 1:3] * 2)).all()
    assert made.rows == ROWS and left_in(tmp_path) == ["new.npy"]


def test_filter_keeps_rows(file, x, tmp_path):
    made = data.open(file).filter(lambda rows: rows[:, 3] > 0, tmp_path / "new.npy", memory="2MiB")
    kept = np.load(tmp_path / "new.npy")
    assert np.array_equal(kept, x[x[:, 3] > 0], equal_nan=True) and made.rows == len(kept)


@pytest.mark.parametrize("asked", ({"rows": 1000}, {"fraction": 0.25}, {"rows": ROWS}, {"rows": 1}))
def test_a_sample_has_exactly_so_many_rows_each_once_in_order(file, x, tmp_path, asked):
    numbered = tmp_path / "n.npy"
    np.save(numbered, np.arange(ROWS, dtype="float64")[:, None])
    made = data.open(numbered).sample(tmp_path / "s.npy", seed=4, memory="2MiB", **asked)
    rows = np.load(tmp_path / "s.npy")[:, 0]
    assert made.rows == len(rows) == asked.get("rows", round(ROWS / 4)) and (np.diff(rows) > 0).all()
    other = data.open(numbered).sample(tmp_path / "t.npy", seed=5, memory="2MiB", **asked)
    assert len(rows) == ROWS or (np.load(tmp_path / "t.npy")[:, 0] != rows).any() and other.rows == made.rows


def test_every_row_is_as_likely_in_a_sample(tmp_path):
    np.save(tmp_path / "n.npy", np.arange(20, dtype="float64")[:, None])
    counts = np.zeros(20)
    for seed in range(400):
        data.open(tmp_path / "n.npy").sample(tmp_path / "s.npy", rows=5, seed=seed, memory="1MiB")
        counts[np.load(tmp_path / "s.npy")[:, 0].astype(int)] += 1
    # 100 times each but for chance: chi-squared with 19 degrees of freedom, one in a million is 63.
    assert ((counts - 100) ** 2 / 75).sum() < 63


def test_standardize_gives_mean_0_and_deviation_1_and_leaves_what_is_not_known(file, x, tmp_path):
    made = data.open(file, dtype="float64").standardize(tmp_path / "new.npy", memory="2MiB")
    assert np.allclose(made.mean, np.nanmean(x, axis=0), rtol=1e-12) and np.allclose(made.std, np.nanstd(x, axis=0), rtol=1e-6)
    written = np.load(tmp_path / "new.npy")
    assert written.dtype == np.float64 and np.isnan(written[5, 0]) and np.isnan(written).sum() == 1
    assert np.allclose(np.nanmean(written, axis=0), 0, atol=1e-6)
    assert np.allclose(np.nanstd(written, axis=0)[[0, 1, 3, 4]], 1, atol=1e-6) and (written[:, 2] == 0).all()


def test_labels_go_into_a_file_of_their_own(tmp_path):
    records = np.zeros(100, dtype=[("a", "f4", (3,)), ("y", "i4")])
    records["a"], records["y"] = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100)
    np.save(tmp_path / "r.npy", records)
    ds = data.open(tmp_path / "r.npy", labels="y")
    ds.filter(lambda x, y: y % 2 == 0, (tmp_path / "x.npy", tmp_path / "y.npy"), memory="1MiB")
    assert (np.load(tmp_path / "y.npy") == np.arange(0, 100, 2)).all() and (np.load(tmp_path / "x.npy") == records["a"][::2]).all()
    for work in (
        ds.standardize,
        lambda out, memory: ds.filter(lambda x, y: y > 0, out, memory),
        lambda out, memory: ds.map(lambda x, y: (x, y), out),
    ):
        with pytest.raises(data.DataError, match=r'out=\("x.npy", "y.npy"\)'):
            work(tmp_path / "one.npy", memory="1MiB")
    assert left_in(tmp_path) == ["r.npy", "x.npy", "y.npy"]


def test_tables_keep_their_names_from_text_to_parquet_and_back(tmp_path):
    pytest.importorskip("pyarrow")
    lines = "\n".join(f"{row},{row * 0.5},{row % 3},{'ab'[row % 2]}" for row in range(5000))
    (tmp_path / "t.csv").write_text(f"a,b,y,text\n{lines}\n")
    ds = data.open(tmp_path / "t.csv", labels="y", dtype="float64")
    kept = ds.filter(lambda x, y: x[:, 0] % 2 == 0, tmp_path / "kept.parquet", memory="4MiB")
    assert (kept.rows, kept.columns, kept.format) == (2500, ["a", "b", "y"], "parquet")
    x, y = next(iter(kept.batches(2500, memory="4MiB")))
    assert (x[:, 0] == np.arange(0, 5000, 2)).all() and (x[:, 1] == x[:, 0] / 2).all() and (y == x[:, 0] % 3).all()
    made = ds.map(lambda columns, y: {"sum": columns["a"] + columns["b"]}, tmp_path / "sum.parquet", memory="4MiB", separate=True)
    assert made.columns == ["sum"] and made.rows == 5000
    assert sorted(np.concatenate([batch[:, 0].copy() for batch in made.batches(64, memory="4MiB", shuffle="global")])) == [
        1.5 * row for row in range(5000)
    ]
    scaled = ds.standardize(tmp_path / "scaled.parquet", memory="4MiB").dataset
    assert scaled.columns == ["a", "b", "y"] and abs(next(iter(scaled.batches(5000, memory="4MiB")))[0].mean()) < 1e-6


def test_a_table_is_written_as_parquet(file, x, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    with data_sink(tmp_path / "t.parquet") as sink:
        sink.put({"a": np.arange(3), "b": np.ones((3, 2), "float32")})
        sink.put({"a": np.arange(2), "b": np.ones((2, 2), "float32")})
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table["a"].to_pylist() == [0, 1, 2, 0, 1] and table["b"].to_pylist()[0] == [1.0, 1.0]


def data_sink(path):
    from brimful.data.output import output

    return output(path, [], [])


@pytest.mark.parametrize("case", ("function", "mask", "shape", "objects", "name", "folder"))
def test_what_fails_leaves_nothing_under_the_final_name(file, tmp_path, case):
    ds, out, calls = data.open(file), tmp_path / "new.npy", []

    def fails(rows):
        calls.append(1)
        if len(calls) > 1:
            raise ZeroDivisionError
        return rows

    with pytest.raises((data.DataError, ZeroDivisionError)):
        if case == "function":
            ds.map(fails, out, memory="2MiB")
        elif case == "mask":
            ds.filter(lambda rows: rows[:, 0], out, memory="2MiB")
        elif case == "shape":
            ds.map(lambda rows: rows[:, : 1 + len(calls)] if calls.append(1) is None else rows, out, memory="2MiB")
        elif case == "objects":
            ds.map(lambda rows: rows.astype(object), out, memory="2MiB")
        elif case == "name":
            ds.map(fails, tmp_path / "new.txt", memory="2MiB")
        else:
            ds.map(fails, tmp_path / "nowhere" / "new.npy", memory="2MiB")
    assert left_in(tmp_path) == []


def test_a_full_disk_is_said_and_leaves_nothing(file, tmp_path):
    script = f"""
import resource, signal, numpy as np
from brimful import data
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    data.open({str(file)!r}).map(lambda rows: rows, {str(tmp_path / "new.npy")!r}, memory="2MiB")
except data.FileUnreadable as error:
    print("said", error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.stdout.startswith("said ") and "too large" in run.stdout and "new.npy" in run.stdout, run.stderr
    assert left_in(tmp_path) == []


ARITHMETIC = {
    "scale": lambda a, b: a * 2 + 1,
    "between": lambda a, b: (a - b) / (abs(b) + 1),
    "power": lambda a, b: a**2 - b**0.5,
    "compare": lambda a, b: (a > b) & ~(a == 0),
    "reversed": lambda a, b: 1 / (2 + b) - 3 * a,
    "ufuncs": lambda a, b: np.maximum(np.sqrt(b), np.exp(-np.square(a))),
    "row": lambda a, b: (a - np.arange(4)) * np.float32(2),
    "shared": lambda a, b: (lambda c: c * c + c)(a + b),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(20_001, 4)).astype("float32"), rng.random(size=(20_001, 4))
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", b)
    return folder, a, b


@pytest.mark.parametrize("case", ARITHMETIC)
def test_arithmetic_is_numpy_s(pair, case, tmp_path):
    folder, a, b = pair
    lazy = ARITHMETIC[case](data.array(folder / "a.npy"), data.array(folder / "b.npy"))
    expected = ARITHMETIC[case](a, b)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype) and "not computed" in repr(lazy)
    saved = lazy.save(tmp_path / "c.npy", memory="4MiB")
    assert np.array_equal(np.load(tmp_path / "c.npy"), expected) and saved.shape == expected.shape


@pytest.mark.parametrize("axis", (None, 0))
@pytest.mark.parametrize("name", ("sum", "mean", "std", "var", "min", "max"))
def test_reductions_are_numpy_s(pair, name, axis):
    folder, a, b = pair
    lazy = data.array(folder / "a.npy", memory="4MiB") * 3 + data.array(folder / "b.npy")
    expected = getattr(a * 3 + b, name)(axis=axis)
    assert np.allclose(getattr(lazy, name)(axis=axis), expected, rtol=1e-9)
    assert np.allclose(getattr(np, name)(lazy, axis=axis), expected, rtol=1e-9)
    if name in ("std", "var"):
        assert np.allclose(getattr(lazy, name)(axis=axis, ddof=1), getattr(a * 3 + b, name)(axis=axis, ddof=1), rtol=1e-9)


@pytest.mark.parametrize("shape", ((7,), (100, 3, 2), (50, 1)))
@pytest.mark.parametrize("kind", ("int64", "uint8", "float32", "bool"))
def test_arrays_of_any_shape_and_type(tmp_path, shape, kind):
    array = (np.arange(np.prod(shape)) % 200).astype(kind).reshape(shape)
    np.save(tmp_path / "a.npy", array)
    lazy = data.array(tmp_path / "a.npy", memory="2MiB")
    assert (lazy.shape, lazy.dtype, lazy.size, lazy.nbytes) == (array.shape, array.dtype, array.size, array.nbytes)
    assert lazy.sum() == array.sum() and (lazy.max(axis=0) == array.max(axis=0)).all()
    (lazy + lazy).save(tmp_path / "b.npy")
    assert np.array_equal(np.load(tmp_path / "b.npy"), array + array)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a, folder: a + np.ones(4), "does not fit one row"),
        (lambda a, folder: np.asarray(a), "not held in memory"),
        (lambda a, folder: a.sum(axis=1), "axis is 1"),
        (lambda a, folder: a.save(folder / "a.txt"), "ends in .npy"),
        (lambda a, folder: a.sum(dtype="float32"), "dtype"),
    ],
)
def test_what_arrays_in_files_cannot_is_said(tmp_path, call, said):
    np.save(tmp_path / "a.npy", np.ones((5, 3)))
    with pytest.raises(data.DataError, match=said):
        call(data.array(tmp_path / "a.npy", memory="2MiB"), tmp_path)


def test_arrays_of_other_shapes_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((5, 3)))
    np.save(tmp_path / "b.npy", np.ones((6, 3)))
    with pytest.raises(data.DataError, match="different shapes"):
        data.array(tmp_path / "a.npy") + data.array(tmp_path / "b.npy")


def test_work_stays_inside_the_budget(tmp_path):
    array = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", "float32", (500_000, 200))
    array[:] = 1.5
    del array
    script = f"""
import json, re
import numpy as np
from brimful import data
status = lambda name: int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
own = status("VmHWM")
a = data.array({str(tmp_path / "x.npy")!r}, memory="64MiB")
(np.sqrt(a) * 2 + a).save({str(tmp_path / "y.npy")!r})
total = float((a + 1).mean())
data.open({str(tmp_path / "x.npy")!r}).standardize({str(tmp_path / "z.npy")!r}, memory="64MiB")
print(json.dumps([own, status("VmHWM"), total]))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    own, peak, mean = json.loads(run.stdout)
    assert mean == 2.5 and peak <= own + 1.05 * (64 << 20), (own >> 20, peak >> 20)


def test_sql_asks_duckdb_under_the_budget(tmp_path):
    pytest.importorskip("duckdb")
    lines = "\n".join(f"{row},{row % 7}" for row in range(10_000))
    (tmp_path / "t.csv").write_text(f"a,b\n{lines}\n")
    with data.sql(f"select b, sum(a) as total from '{tmp_path}/t.csv' group by b order by b", memory="256MiB") as query:
        assert query.columns == ["b", "total"]
        limit = query._connection.sql("select current_setting('memory_limit')").fetchall()[0][0]
        assert limit == "160.0 MiB"
        found = [*query.batches()]
        saved = query.save(tmp_path / "sums.parquet")
        assert (saved.rows, saved.columns) == (7, ["b", "total"])
    assert np.concatenate([batch["b"] for batch in found]).tolist() == [*range(7)]
    assert int(np.concatenate([batch["total"] for batch in found]).sum()) == sum(range(10_000))
    with pytest.raises(data.DataError, match="nothere"):
        data.sql("select * from nothere", memory="256MiB")
    with pytest.raises(data.DataError, match="begins with select"):
        data.sql("create table t (a int)", memory="256MiB")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "npy", "parquet"])
def test_ray_data_reads_the_same_rows(tmp_path, kind):
    """Only where Ray is installed: it is an extra, and large."""
    ray, pyarrow = pytest.importorskip("ray"), pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    numbers = np.arange(3000, dtype="float32").reshape(1000, 3)
    file = tmp_path / f"rows.{kind}"
    if kind == "npy":
        np.save(file, numbers)
    elif kind == "jsonl":
        file.write_text("".join(f'{{"a": {a}, "b": {b}, "c": {c}}}\n' for a, b, c in numbers))
    elif kind == "csv":
        file.write_text("a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in numbers))
    else:
        columns = {name: numbers[:, at] for at, name in enumerate("abc")}
        parquet.write_table(pyarrow.table(columns), file)
    wanted = {} if kind == "npy" else {"columns": ["a"], "labels": ["c"]}
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    found = data.open(file, **wanted).to_ray()
    rows = found.take_all()
    if kind == "npy":
        assert np.array_equal(np.sort([row["data"][0] for row in rows]), numbers[:, 0])
    else:
        assert found.schema().names == ["a", "c"]
        assert sorted((row["a"], row["c"]) for row in rows) == [(a, c) for a, _, c in numbers.tolist()]


@pytest.mark.parametrize(
    ("missing", "call", "said"),
    [
        ("duckdb", "data.sql('select 1')", "pip install duckdb"),
        ("pyarrow", "data.open(path).map(lambda x: x, path + '.parquet', memory='2MiB')", "pip install pyarrow"),
        ("pyarrow", "data.open(path).batches(2, memory='2MiB').as_arrow()", "pip install pyarrow"),
        ("ray", "data.open(path).to_ray()", "pip install"),
        ("torch", "data.open(path).batches(2, memory='2MiB', to='torch')", "pip install torch"),
    ],
)
def test_what_is_not_installed_is_said(file, missing, call, said):
    script = f"""
import sys
sys.modules[{missing!r}] = None
from brimful import data
path = {str(file)!r}
try:
    {call}
except data.DataError as error:
    print("said", error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.stdout.startswith("said ") and said in run.stdout, run.stderr
