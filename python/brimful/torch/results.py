"""Ops whose results the meta kernels get wrong or cannot know.

In: a call on fake tensors. Out: its result, or NotImplemented where PyTorch's own fake kernel will do. A value that is read from a
tensor without data is taken as one; how many elements a mask selects is taken as all of them. Both are remembered for the notes.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

import torch

from .scratch import rnn

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
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == "cpu":
        with torch._C._DisableTorchDispatch():
            return func(tensor)
    if recorder.optimizing:
        return 1.0  # the step's number: not zero, which it is divided by
    constant = getattr(tensor, "constant", None)
    if constant is not None:
        return constant.item()
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith(("grad_scaler.py", "clip_grad.py")):
            return 0.0  # no gradient was infinite: the step is taken
        frame = frame.f_back
    recorder.value_read()
    if tensor.dtype == torch.bool:
        return True
    return 1.0 if tensor.dtype.is_floating_point else 1


@result("aten.lift_fresh")
def from_data(recorder, func, args, kwargs) -> Any:
    """Numbers that the code writes down stay as they are: host tensors with their values."""
    if type(args[0]) is not torch.Tensor or args[0].device.type != "cpu":
        return NotImplemented
    return recorder.host.made(args[0])


@result("prim.device")
def device(recorder, func, args, kwargs) -> Any:
    return getattr(args[0], "fake_device", NotImplemented)


# --- kernels of cuDNN: simple shapes, for which PyTorch's fake kernels take a millisecond each ---


def _output_shape(tensor, weight, stride, padding, dilation, transposed, output_padding, groups) -> list[int]:
    dims = tensor.dim() - 2
    inner = weight.shape[0] if transposed else weight.shape[1] * groups
    if tensor.shape[1] != inner:
        raise RuntimeError(f"a convolution with weight {list(weight.shape)} got an input with {tensor.shape[1]} channels")
    shape = [tensor.shape[0], weight.shape[1] * groups if transposed else weight.shape[0]]
    for dim in range(dims):
        size, kernel = tensor.shape[2 + dim], (weight.shape[2 + dim] - 1) * _at(dilation, dim)
        if transposed:
            size = (size - 1) * _at(stride, dim) - 2 * _at(padding, dim) + kernel + _at(output_padding, dim) + 1
        else:
            size = (size + 2 * _at(padding, dim) - kernel - 1) // _at(stride, dim) + 1
        if size < 0:
            raise RuntimeError(f"a convolution with weight {list(weight.shape)} has no output for {list(tensor.shape)}")
        shape.append(size)
    return shape


def _at(values, dim: int) -> int:
    return values[dim] if len(values) > 1 else values[0]


def _format(*tensors) -> torch.memory_format:
    """cuDNN works in the format of either of them, if it is one with the channels last."""
    for tensor in tensors:
        for like, dims in ((torch.channels_last, 4), (torch.channels_last_3d, 5)):
            if tensor.dim() == dims and tensor.is_contiguous(memory_format=like) and not tensor.is_contiguous():
                return like
    return torch.contiguous_format


@result("aten.convolution")
def convolution(recorder, func, args, kwargs) -> Any:
    tensor, weight = args[0], args[1]
    if kwargs or len(args) != 9 or tensor.dim() != weight.dim():
        return NotImplemented
    return recorder.empty(_output_shape(tensor, weight, *args[3:9]), tensor.dtype, _format(tensor, weight))


@result("aten.convolution_backward")
def convolution_backward(recorder, func, args, kwargs) -> Any:
    _, tensor, weight, bias = args[:4]
    if kwargs or len(args) != 11:
        return NotImplemented
    like, mask = _format(tensor, weight), args[10]
    return (
        recorder.empty(tensor.shape, tensor.dtype, like) if mask[0] else None,
        recorder.empty(weight.shape, weight.dtype, like) if mask[1] else None,
        recorder.empty(bias if bias else [weight.shape[0]], weight.dtype) if mask[2] else None,
    )


@result("aten.cudnn_batch_norm")
def cudnn_batch_norm(recorder, func, args, kwargs) -> Any:
    tensor, weight = args[0], args[1]
    return (
        recorder.empty(tensor.shape, tensor.dtype, _format(tensor)),
        recorder.empty(weight.shape, weight.dtype),
        recorder.empty(weight.shape, weight.dtype),
        recorder.empty([0], torch.uint8),
    )


@result("aten.cudnn_batch_norm_backward")
def cudnn_batch_norm_backward(recorder, func, args, kwargs) -> Any:
    tensor, weight = args[0], args[2]
    return (
        recorder.empty(tensor.shape, tensor.dtype, _format(tensor)),
        recorder.empty(weight.shape, weight.dtype),
        recorder.empty(weight.shape, weight.dtype),
    )


@result("aten.nonzero")
def nonzero(recorder, func, args, kwargs) -> Any:
    recorder.bounded[recorder.places.source()] = None
    return torch.empty(args[0].numel(), args[0].dim(), dtype=torch.int64, device=args[0].device)


@result("aten.masked_select")
def masked_select(recorder, func, args, kwargs) -> Any:
    recorder.bounded[recorder.places.source()] = None
    size = torch.broadcast_shapes(args[0].shape, args[1].shape).numel()
    return torch.empty(size, dtype=args[0].dtype, device=args[0].device)


@result("aten.index")
def masked_index(recorder, func, args, kwargs) -> Any:
    """A mask as an index selects an unknown number of elements: all of them are counted."""
    indices = args[1]
    if not any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
        return NotImplemented
    recorder.bounded[recorder.places.source()] = None
    positions: list = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            positions += [recorder.empty([index.numel()], torch.int64) for _ in range(index.dim())]
        else:
            positions.append(index)
    return func(args[0], positions)


@result("aten._unique2", "aten.unique_dim", "aten.unique_consecutive")
def unique(recorder, func, args, kwargs) -> Any:
    """How many values differ cannot be known: all of them are counted."""
    recorder.bounded[recorder.places.source()] = None
    tensor = args[0]
    whole = tensor.shape if func._schema.name.endswith("unique_dim") else [tensor.numel()]
    return recorder.empty(whole, tensor.dtype), recorder.empty(tensor.shape, torch.int64), recorder.empty([tensor.numel()], torch.int64)


@result("aten._ctc_loss")
def ctc_loss(recorder, func, args, kwargs) -> Any:
    """Targets are taken to be as long as the longest can be."""
    steps, batch = args[0].shape[:2]
    longest = args[1].shape[-1] if args[1].dim() > 1 else max(1, args[1].numel() // max(1, batch))
    return recorder.empty([batch], args[0].dtype), recorder.empty([batch, steps, 2 * longest + 1], args[0].dtype)


@result("aten._ctc_loss_backward")
def ctc_loss_backward(recorder, func, args, kwargs) -> Any:
    return recorder.empty(args[1].shape, args[1].dtype)


@result("aten._thnn_fused_gru_cell")
def gru_cell(recorder, func, args, kwargs) -> Any:
    hidden = args[2]
    return recorder.empty(hidden.shape, hidden.dtype), recorder.empty([hidden.shape[0], 5 * hidden.shape[1]], hidden.dtype)


@result("aten._thnn_fused_gru_cell_backward")
def gru_cell_backward(recorder, func, args, kwargs) -> Any:
    batch, width = args[0].shape
    gates = [recorder.empty([batch, 3 * width], args[0].dtype) for _ in range(2)]
    biases = [recorder.empty([3 * width], args[0].dtype) if args[2] else None for _ in range(2)]
    return (*gates, recorder.empty([batch, width], args[0].dtype), *biases)


@result("aten._pack_padded_sequence")
def packed(recorder, func, args, kwargs) -> Any:
    """How long each sequence is cannot be known: each is taken to be as long as the longest."""
    tensor, batch_first = args[0], args[2]
    recorder.bounded[recorder.places.source()] = None
    batch, steps = tensor.shape[:2] if batch_first else (tensor.shape[1], tensor.shape[0])
    with torch._C._DisableTorchDispatch():
        sizes = torch.full((steps,), batch, dtype=torch.int64)
    return recorder.empty([steps * batch, *tensor.shape[2:]], tensor.dtype), sizes


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
    """cuDNN works with the steps first; the reserve's size, which PyTorch's fake kernel does not know, comes from `scratch.rnn`."""
    if kwargs or len(args) < 15:
        return NotImplemented
    tensor, hx, cx, hidden, batch_first, both = args[0], args[4], args[5], args[7], args[10], args[13]
    batch_first = batch_first and tensor.dim() == 3
    leading = list(tensor.shape[:-1])
    output = recorder.empty([*(reversed(leading) if batch_first else leading), hidden * (2 if both else 1)], tensor.dtype)
    return (
        output.transpose(0, 1) if batch_first else output,
        recorder.empty(hx.shape, tensor.dtype),
        recorder.empty([0] if cx is None else cx.shape, tensor.dtype),
        recorder.empty([rnn.reserve_bytes(*args)], torch.uint8),
        recorder.empty([0], tensor.dtype),
    )


@result("aten._cudnn_rnn_backward")
def cudnn_rnn_backward(recorder, func, args, kwargs) -> Any:
    """PyTorch has no fake kernel for it. The gradients of the weights are pieces of one buffer, as the weights are."""
    tensor, weights, _, _, hx, cx = args[:6]
    flat = torch.empty(sum(weight.numel() for weight in weights), dtype=weights[0].dtype, device=tensor.device)
    gradients, at = [], 0
    for weight in weights:
        gradients.append(flat[at : at + weight.numel()].view(weight.shape))
        at += weight.numel()
    steps_first = tensor.transpose(0, 1).contiguous().transpose(0, 1) if args[14] and tensor.dim() == 3 else torch.empty_like(tensor)
    return steps_first, torch.empty_like(hx), None if cx is None else torch.empty_like(cx), gradients
