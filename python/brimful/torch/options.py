"""What `--input`, `--loss` and `--optimizer` say, as `brimful.plan` takes it.

In: texts of the command line, and the user's module. Out: an example batch without data, a loss, an optimizer. `--input` has no batch:
`3x224x224`, `512:int64`, `input_ids=512:int64`; an empty shape, as in `label=:int64`, is one number for each sample.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from . import inputs as given
from . import optimizers, steps
from .refusal import Refusal

# Names of torch.nn.functional whose class in torch.nn is called otherwise.
_CLASSES = {"binary_cross_entropy": "BCELoss", "binary_cross_entropy_with_logits": "BCEWithLogitsLoss"}


def example(specs: list[str], batch: int, model: torch.nn.Module) -> Any:
    """The example batch that `--input` describes: a tensor, a tuple, or a dict where inputs have names."""
    parts = [_part(spec, batch) for spec in specs]
    names = [name for name, _, _ in parts]
    if any(names) and not all(names):
        raise Refusal("some --input have a name and some have none: name all of them, or none, in the order of the model's forward")
    if len(set(names)) < len(names) and any(names):
        raise Refusal(f"--input {max(names, key=names.count)} is given twice: give each input once")
    tensors = []
    for index, (name, shape, dtype) in enumerate(parts):
        # Unnamed ones after the first that forward does not take are labels, as in brimful.plan.
        dtype = dtype or given._dtype(model, name or ("" if index == 0 else "label"), shape)
        tensors.append(torch.empty(shape, dtype=dtype, device="meta"))
    if any(names):
        return dict(zip(names, tensors))
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def _part(spec: str, batch: int) -> tuple[str, tuple, torch.dtype | None]:
    name, equals, rest = spec.partition("=")
    if not equals:
        name, rest = "", spec
    sizes, colon, kind = rest.partition(":")
    fields = sizes.lower().split("x") if sizes else []
    wrong = (equals and not name.isidentifier()) or not all(field.isdecimal() and int(field) > 0 for field in fields)
    if wrong or not (fields or colon):
        raise Refusal(f"--input {spec} is no shape: write sizes without the batch, such as 3x224x224, 512:int64 or input_ids=512:int64")
    dtype = getattr(torch, kind, None) if colon else None
    if colon and not isinstance(dtype, torch.dtype):
        raise Refusal(f"--input {spec}: '{kind}' is not a dtype of PyTorch, such as int64, float32 or bool")
    return name, (batch, *(int(field) for field in fields)), dtype


def optimizer(name: str | None, module: Any) -> Any:
    """The name as `brimful.plan` takes it, or the user's function of the parameters."""
    if name is None:
        return "adamw"
    own = getattr(module, name, None)
    if callable(own):
        return own
    try:
        optimizers.maker(name)
    except ValueError as error:
        raise Refusal(
            f"--optimizer: {error}".replace("give the optimizer itself", "a function of the parameters in the model's file")
        ) from None
    return name


class NamedLoss(torch.nn.Module):
    """One of PyTorch's losses on the labels that the inputs have, or on labels that suit the output."""

    def __init__(self, loss: torch.nn.Module, has_labels: bool) -> None:
        super().__init__()
        self.loss = loss
        self.has_labels = has_labels

    def forward(self, outputs: Any, target: Any) -> torch.Tensor:
        if not isinstance(outputs, torch.Tensor):
            leaves = torch.utils._pytree.tree_leaves(outputs.get("logits", outputs) if isinstance(outputs, Mapping) else outputs)
            outputs = next(leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad)
        labels = target if self.has_labels else self._labels(outputs)
        if isinstance(self.loss, torch.nn.CrossEntropyLoss):
            outputs, labels = steps.classes_first(outputs, labels)
        return self.loss(outputs, labels)

    def _labels(self, outputs: torch.Tensor) -> torch.Tensor:
        if isinstance(self.loss, (torch.nn.CrossEntropyLoss, torch.nn.NLLLoss)):
            shape = (outputs.shape[0], *outputs.shape[2:]) if outputs.dim() > 1 else ()
            return torch.empty(shape, dtype=torch.int64, device=outputs.device)
        return torch.empty_like(outputs, requires_grad=False)


def loss(name: str | None, module: Any, model: torch.nn.Module, batch: Any) -> Any:
    """A function of (outputs, inputs) of the user's, or one of PyTorch's losses by its name."""
    if name is None:
        return None
    own = getattr(module, name, None)
    if callable(own):
        return own
    classes = {_bare(key): value for key, value in vars(torch.nn).items() if inspect.isclass(value) and key.endswith("Loss")}
    found = classes.get(_bare(_CLASSES.get(name, name)))
    if found is None:
        raise Refusal(f"--loss {name} is not a loss of PyTorch, such as cross_entropy or mse_loss, and not a function of the model's file")
    try:
        made = found()
    except TypeError:
        raise Refusal(f"--loss {name} needs settings: write a function of (outputs, inputs) in the model's file and name that") from None
    return NamedLoss(made, _has_labels(model, batch))


def _bare(name: str) -> str:
    return name.lower().replace("_", "").removesuffix("loss")


def _has_labels(model: torch.nn.Module, batch: Any) -> bool:
    """Whether the inputs hold more than the model's forward takes."""
    if isinstance(batch, Mapping):
        names = given._names(model)
        return names is not None and not names.issuperset(batch)
    count = given._positional(model, optional=False)
    return isinstance(batch, (tuple, list)) and not given._is_shape(batch) and count is not None and len(batch) > count
