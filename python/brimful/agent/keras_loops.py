"""Training loops of the user's own with Keras 3's optimizers.

In: Keras's module of optimizers. Out: `progress`. On PyTorch, and where TensorFlow runs eagerly, each `apply` (`apply_gradients` comes to it,
too) is an update. Inside a `tf.function` it only runs while that is traced: `tensorflow_steps` then counts the calls of the function. Inside
`jax.jit` it cannot be seen how often it runs, and nothing is counted.
"""

from __future__ import annotations

import sys

from brimful.hooks import without_this_frame

from .around import replace
from .progress import progress, safely

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def follow(module: ModuleType) -> None:
    """Notices updates in the way that fits Keras's backend."""
    backend = module.backend.backend()
    if backend == "tensorflow":
        from .tensorflow_steps import updated

        _notice(module.BaseOptimizer, updated)
    elif backend == "torch":
        _notice(module.BaseOptimizer, _updated_in_torch, sys.modules["torch"].compiler.is_compiling)
    elif backend == "jax":
        in_stateless_scope = module.backend.in_stateless_scope

        def updated(optimizer: Any) -> None:
            # In such a scope a function is traced, or its caller keeps the state: both may be of many runs.
            if not in_stateless_scope():
                progress.updated(optimizer)

        _notice(module.BaseOptimizer, updated)


def _updated_in_torch(optimizer: Any) -> None:
    progress.updated(optimizer)


def _notice(owner: type, notice: Callable[[Any], None], is_compiling: Callable[[], bool] = lambda: False) -> None:
    def make(original: Any) -> Any:
        def followed(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(self, *args, **kwargs)
            try:
                result = original(self, *args, **kwargs)
            except BaseException as error:
                without_this_frame(error)
                raise
            safely(notice, self)
            return result

        # TensorFlow would rewrite the function to translate its conditions, of which it has none for tensors.
        followed.autograph_info__ = {}
        return followed

    replace(owner, "apply", make)
