"""Says what a Python process of a watched job trains: its steps, phases, and what frameworks' allocators hold.

    agent.install()

In: `BRIMFUL_RUN` in the environment, JSON with the path of a socket, or `attach`. Out: datagrams to that socket (`link`). PyTorch,
TensorFlow, Keras 3 and JAX are followed from their import by whoever imports them; none is imported here, and a process that uses none
sends nothing. Nothing of the job's arguments or environment is sent. No device is ever waited for, and no memory of the job's is held.
Not followed: Keras 2, TensorFlow 1, training functions of JAX that nobody marks as steps (see `jax_steps`).

This package imports nothing of `brimful` but `brimful.hooks`: in a job it is loaded without the rest, by Pythons that may not have it.
"""

from __future__ import annotations

import os

from brimful.hooks import call_after_import

TYPE_CHECKING = False  # Every process of a job imports this: `typing` and its like would take longer than all the rest.
if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["attach", "detach", "install"]

_installed = False


def install() -> None:
    """Follows what is imported from now on, and what is already. A second call changes nothing."""
    global _installed
    if _installed:
        return
    _installed = True
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    # What these functions need is imported when they are called: processes without a framework do not pay for it.
    call_after_import(
        {
            "torch": _torch,
            "torch.utils.data.dataloader": _torch_loader,
            "keras": _framework,
            "keras.src.callbacks.callback_list": _keras_callbacks,
            "keras.src.backend.tensorflow.trainer": _keras_trainer,
            "keras.src.backend.jax.trainer": _keras_trainer,
            "keras.src.backend.torch.trainer": _keras_trainer,
            "keras.src.saving.saving_api": _keras_saving,
            "keras.src.optimizers.base_optimizer": _keras_optimizer,
            "tensorflow": _tensorflow,
            "tensorflow.python.eager.polymorphic_function.polymorphic_function": _tensorflow_function,
            "tensorflow.python.data.ops.iterator_ops": _tensorflow_data,
            "jax": _jax,
        },
        otherwise="is not followed",
    )


def attach(path: str) -> None:
    """Sends to this socket, too, from now on."""
    from .link import link

    install()
    link.attach(path)


def detach(path: str) -> None:
    """Sends what is still to be sent, and no more to this socket."""
    from .link import link
    from .progress import progress

    progress.flush()
    link.detach(path)


def _after_fork() -> None:
    import sys

    # What is not loaded has nothing to forget.
    for name in ("link", "progress"):
        module = sys.modules.get(f"{__name__}.{name}")
        if module is not None:
            getattr(module, name).begin_in_child()


def _framework(module: ModuleType) -> None:
    from .link import link

    link.framework(module.__name__, str(getattr(module, "__version__", "")))


# `from . import torch_loops` would import `brimful` itself, which a job's Python may not have, and load its extension where it has.


def _torch(module: ModuleType) -> None:
    from .torch_loops import follow

    _framework(module)
    follow(module)


def _torch_loader(module: ModuleType) -> None:
    from .torch_loops import follow_loaders

    follow_loaders(module)


def _keras_callbacks(module: ModuleType) -> None:
    from .keras_trainer import follow_batches

    follow_batches(module)


def _keras_trainer(module: ModuleType) -> None:
    from .keras_trainer import follow_trainer

    follow_trainer(module)


def _keras_saving(module: ModuleType) -> None:
    from .keras_trainer import follow_saving

    follow_saving(module)


def _keras_optimizer(module: ModuleType) -> None:
    from .keras_loops import follow

    follow(module)


def _tensorflow(module: ModuleType) -> None:
    from .tensorflow_steps import follow

    _framework(module)
    follow(module)


def _tensorflow_function(module: ModuleType) -> None:
    from .tensorflow_steps import follow_functions

    follow_functions(module)


def _tensorflow_data(module: ModuleType) -> None:
    from .tensorflow_steps import follow_iterators

    follow_iterators(module)


def _jax(module: ModuleType) -> None:
    from .jax_steps import follow

    _framework(module)
    follow(module)
