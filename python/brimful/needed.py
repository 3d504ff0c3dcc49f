"""Libraries that this package uses and does not bring along.

In: the name of a library, and what asks for it. Out: the module, or an `ImportError` of one sentence: what is missing, and what to install.
What a library's own import raises for another reason goes through as it is: it says more than we know.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

#: What to install where the name alone is not it: Keras computes nothing without one of its backends.
_INSTALLED_BY = {"keras": "keras tensorflow", "ray": '"ray[data]"'}
_KERAS_BACKENDS = ("tensorflow", "jax", "torch")
#: Before it, Keras was a part of TensorFlow and had another training loop.
_LEAST_KERAS = 3


def library(name: str, asker: str) -> ModuleType:
    """The module ``name``, such as ``ray.data``, for ``asker``: a name that the user wrote, such as ``brimful.keras``."""
    package = name.partition(".")[0]
    try:
        found = import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_sentence(package, (error.name or package).partition(".")[0], asker), name=error.name) from None
    if package == "keras" and int(found.__version__.partition(".")[0]) < _LEAST_KERAS:
        raise ImportError(f'{asker} needs Keras 3, and this is Keras {found.__version__}: pip install "keras>=3"', name=name)
    return found


def _sentence(wanted: str, missing: str, asker: str) -> str:
    if missing == wanted:
        return f"{asker} needs {wanted}, which is not installed: pip install {_INSTALLED_BY.get(wanted, wanted)}"
    said = f"{asker} needs {wanted}, which needs {missing}, which is not installed: pip install {missing}"
    if wanted == "keras" and missing in _KERAS_BACKENDS:
        return f"{said}, or set KERAS_BACKEND to a backend that you have"
    return said
