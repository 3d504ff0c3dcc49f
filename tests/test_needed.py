"""A library that is not installed: one sentence says which, who needs it and what to install, as an ImportError."""

import os
import subprocess
import sys

import pytest

#: A Python in which some libraries are not installed, whatever the environment has.
HIDING = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
try:
    {code}
except ImportError as error:
    print(type(error).__name__, isinstance(error, ValueError), error, sep="|")
"""
OPEN = "from brimful import data; import numpy; numpy.save('rows.npy', numpy.ones((8, 2))); rows = data.open('rows.npy')"
CASES = {
    "keras": (["keras"], "import brimful.keras; brimful.keras.fit", "brimful.keras needs keras", "keras tensorflow"),
    "from keras": (["keras"], "from brimful.keras import plan", "brimful.keras needs keras", "keras tensorflow"),
    "torch": (["torch"], "import brimful.torch; brimful.torch.Step", "brimful.torch needs torch", "torch"),
    "plan": (["torch"], "import brimful; brimful.plan(object(), (8, 3))", "brimful.torch needs torch", "torch"),
    "numpy": (["numpy"], "import brimful; brimful.data.open", "brimful.data needs numpy", "numpy"),
}
#: The hand-overs of `brimful.data`, whose errors are a `DataError` as well.
DATA = {
    "to torch": (["torch"], "rows.batches(4, to='torch')", 'to="torch" needs torch', "torch"),
    "to jax": (["jax"], "rows.batches(4, to='jax')", 'to="jax" needs jax', "jax"),
    "to tensorflow": (["tensorflow"], "rows.batches(4, to='tensorflow')", 'to="tensorflow" needs tensorflow', "tensorflow"),
    "tf.data": (["tensorflow"], "rows.batches(4).as_tf()", "as_tf() needs tensorflow", "tensorflow"),
    "Keras": (["keras"], "rows.batches(4).as_keras()", "as_keras() needs keras", "keras tensorflow"),
    "Arrow": (["pyarrow"], "rows.batches(4).as_arrow()", "as_arrow() needs pyarrow", "pyarrow"),
    "DuckDB": (["duckdb"], "data.sql('select 1')", "brimful.data.sql needs duckdb", "duckdb"),
    "Ray Data": (["ray"], "rows.to_ray()", "to_ray() needs ray", '"ray[data]"'),
}


def said(hidden, code, folder, **variables):
    """The error's class, whether it is a ValueError too, and what it says; its last line is all that a person reads."""
    script = HIDING.format(hidden=hidden, code=code)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, env={**os.environ, **variables})
    assert run.returncode == 0, run.stderr
    return run.stdout.strip().split("|")


@pytest.mark.parametrize("case", CASES)
def test_what_needs_a_library_says_so(case, tmp_path):
    hidden, code, needs, wanted = CASES[case]
    kind, _, text = said(hidden, code, tmp_path)
    assert kind in ("ModuleNotFoundError", "ImportError")
    assert text == f"{needs}, which is not installed: pip install {wanted}"


@pytest.mark.parametrize("case", DATA)
def test_a_hand_over_says_so_as_an_error_of_the_data_too(case, tmp_path):
    hidden, code, needs, wanted = DATA[case]
    kind, is_value_error, text = said(hidden, f"{OPEN}; {code}", tmp_path)
    assert (kind, is_value_error) == ("LibraryMissing", "True")
    assert text == f"{needs}, which is not installed: pip install {wanted}"


def test_keras_without_its_backend(tmp_path):
    pytest.importorskip("keras")
    _, _, text = said(["jax"], "from brimful.keras import fit", tmp_path, KERAS_BACKEND="jax")
    assert text == (
        "brimful.keras needs keras, which needs jax, which is not installed: pip install jax, "
        "or set KERAS_BACKEND to a backend that you have"
    )


def test_keras_2_is_too_old(tmp_path):
    (tmp_path / "keras.py").write_text("__version__ = '2.15.0'")
    _, _, text = said([], "from brimful.keras import fit", tmp_path)
    assert text == 'brimful.keras needs Keras 3, and this is Keras 2.15.0: pip install "keras>=3"'
