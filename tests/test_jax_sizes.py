"""Which programs JAX's compiler is asked about when a size is looked for."""

import os
import subprocess
import sys

import pytest

#: A backend of a model that XLA compiles. What is counted is how often a whole batch would be compiled.
PROGRAM = """
import sys, types
from brimful.keras.backends import jax, jax_sizes

rows, start = int(sys.argv[1]), int(sys.argv[2])
asked = []
backend = object.__new__(jax.Backend)
backend.__dict__.update(model=types.SimpleNamespace(run_eagerly=False, jit_compile=True), joint=True, gives=False, _made={})
backend.used_bytes = lambda: 0
jax_sizes.whole_bytes = lambda backend, data: asked.append(backend.joint) or 2.0**40
job = types.SimpleNamespace(rule_for=lambda data, rows: None)
assert backend.proposed(job, ([],), rows, start, 2**30) is None
print(len(asked))
"""


@pytest.mark.parametrize(("start", "times"), [(64, 0), (65, 2)])
def test_a_batch_that_is_far_too_large_is_not_compiled_as_a_whole(start, times):
    """With eight parts or more, by the plan; otherwise both as one program and as two."""
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", PROGRAM, "512", str(start)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.splitlines()[-1]) == times
