"""Training loops that are not taken over, noticed by the optimizer's update.

In: the modules of Keras, PyTorch and TensorFlow, when they have been imported. Out: `seen` knows the user's line that updates weights.
Nothing of the update changes. Not noticed: loops without an optimizer of these (JAX with optax, weights assigned by hand).
"""

from __future__ import annotations

import functools

from . import methods, seen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

#: The kinds of loops, as `closing` words them.
KERAS, TORCH, KERAS_2, TENSORFLOW_1 = "keras", "torch", "keras 2", "tensorflow 1"

#: Where versions of Keras 2 keep the class `Model`.
_KERAS_2_MODULES = (
    "keras.engine.training",
    "keras.src.engine.training",
    "tf_keras.src.engine.training",
    "tensorflow.python.keras.engine.training",
)
#: Where it keeps its optimizers; in Keras 3 one of these modules has other classes.
_KERAS_2_OPTIMIZERS = ("keras.optimizers.optimizer", "keras.src.optimizers.optimizer", "tf_keras.src.optimizers.optimizer")


def hooks() -> dict[str, Callable[[ModuleType], None]]:
    """The functions to call after the import of each module."""
    keras_2 = {**dict.fromkeys(_KERAS_2_MODULES, _keras_2), **dict.fromkeys(_KERAS_2_OPTIMIZERS, _keras_2_optimizer)}
    return {
        "keras.src.optimizers.base_optimizer": _keras,
        "torch.optim.optimizer": _torch,
        "tensorflow.python.training.optimizer": _tensorflow_1,
        **keras_2,
    }


def _keras(module: ModuleType) -> None:
    seen.framework("keras")
    # `apply_gradients` comes here too.
    _notice(module.BaseOptimizer, "apply", KERAS)


def _torch(module: ModuleType) -> None:
    seen.framework("torch")

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not methods.inside():
            seen.step(TORCH)

    # torch.compile runs it as it is, and does not try to translate how a stack is read.
    after_step._torchdynamo_disable = True
    module.register_optimizer_step_post_hook(after_step)


def _tensorflow_1(module: ModuleType) -> None:
    seen.framework("tensorflow")
    _notice(module.Optimizer, "apply_gradients", TENSORFLOW_1)


def _keras_2(module: ModuleType) -> None:
    # Keras 3 has no module of these names; TensorFlow brings one along that scripts do not use.
    for name in methods.NAMES:
        _notice(module.Model, name, KERAS_2)


def _keras_2_optimizer(module: ModuleType) -> None:
    if hasattr(module, "_BaseOptimizer"):
        _notice(module.Optimizer, "apply_gradients", KERAS_2)


def _notice(owner: type, name: str, kind: str) -> None:
    """The same method, which first says that it was called."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def noticed(*args: Any, **kwargs: Any) -> Any:
        if not methods.inside():
            seen.step(kind)
        return original(*args, **kwargs)

    # TensorFlow would rewrite the function to translate its conditions, of which it has none for tensors.
    noticed.autograph_info__ = {}
    setattr(owner, name, noticed)
