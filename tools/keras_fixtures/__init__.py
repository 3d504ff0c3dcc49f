"""The models of `make_keras_fixtures.py`, by topic; each function makes one.

In: nothing. Out: `MODELS` by name, `ODD` and `ARCHIVES`. Nothing is written here.
"""

# Imported for what they register, in the order in which `expected.json` has them.
from . import structures, layers, sequences, preparation, folded  # noqa: F401, I001
from .odd import ARCHIVES, ODD
from .registry import MODELS

__all__ = ["ARCHIVES", "MODELS", "ODD"]
