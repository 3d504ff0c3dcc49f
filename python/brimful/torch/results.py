"""Ops whose results the meta kernels get wrong or cannot know.

In: a call on fake tensors. Out: its result, or NotImplemented where PyTorch's own fake kernel will do. A value that is read from a
tensor without data is taken as one; how many elements a mask selects is taken as all of them. Both are remembered for the notes.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

import torch

RESULTS: dict[str, Callable] = {}


def result(*names: str) -> Callable:
    def register(function: Callable) -> Callable:
        for name in names:
            RESULTS[name] = function
        return function

    return register


@result("aten._local_scalar_dense")
def read_value(recorder, func, args, kwargs) -> Any:
    tensor = args[0]
    constant = getattr(tensor, "constant", None)
    if constant is not None:
        return constant.item()
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.endswith("grad_scaler.py"):
            return 0.0  # no gradient was infinite: the step is taken
        if file.endswith(("/optim/optimizer.py", "/optim/_functional.py")):
            return 1.0  # the step's number
        frame = frame.f_back
    recorder.value_read()
    if tensor.dtype == torch.bool:
        return True
    return 1.0 if tensor.dtype.is_floating_point else 1


@result("aten.nonzero")
def nonzero(recorder, func, args, kwargs) -> Any:
    recorder.bounded[recorder.places.source()] = None
    return torch.empty(args[0].numel(), args[0].dim(), dtype=torch.int64, device=args[0].device)


@result("aten.masked_select")
def masked_select(recorder, func, args, kwargs) -> Any:
    recorder.bounded[recorder.places.source()] = None
    size = torch.broadcast_shapes(args[0].shape, args[1].shape).numel()
    return torch.empty(size, dtype=args[0].dtype, device=args[0].device)


@result("aten.equal", "aten.is_nonzero", "aten.allclose")
def compared(recorder, func, args, kwargs) -> Any:
    recorder.value_read()
    return True


@result("aten._native_multi_head_attention")
def native_attention(recorder, func, args, kwargs) -> Any:
    query = args[0]
    return torch.empty(query.shape, dtype=query.dtype, device=query.device), None


@result("aten._transformer_encoder_layer_fwd")
def encoder_layer(recorder, func, args, kwargs) -> Any:
    return torch.empty(args[0].shape, dtype=args[0].dtype, device=args[0].device)


@result("aten._cudnn_rnn")
def cudnn_rnn(recorder, func, args, kwargs) -> Any:
    from .scratch import rnn

    results = list(func(*args, **kwargs))
    size_bytes = rnn.reserve_bytes(*args, **kwargs)
    results[3] = torch.empty(size_bytes, dtype=torch.uint8, device=args[0].device)
    return tuple(results)


@result("aten._cudnn_rnn_backward")
def cudnn_rnn_backward(recorder, func, args, kwargs) -> Any:
    """PyTorch has no fake kernel for it. The gradients of the weights are pieces of one buffer, as the weights are."""
    tensor, weights, _, _, hx, cx = args[:6]
    flat = torch.empty(sum(weight.numel() for weight in weights), dtype=weights[0].dtype, device=tensor.device)
    gradients, at = [], 0
    for weight in weights:
        gradients.append(flat[at : at + weight.numel()].view(weight.shape))
        at += weight.numel()
    return torch.empty_like(tensor), torch.empty_like(hx), None if cx is None else torch.empty_like(cx), gradients
