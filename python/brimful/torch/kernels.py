"""What CUDA runs where the CPU runs something else, put in the place of the CPU's choice while a step is captured.

In: calls of composite ops on fake tensors. Out: calls of the ops that CUDA would dispatch to, with their own gradients. Real tensors
(of another thread, say) take PyTorch's own way. One function for each op; `installed` registers them and takes them out again.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import torch
from torch._subclasses import FakeTensor

aten = torch.ops.aten
KERNELS: dict[str, Callable] = {}
VERSION = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def kernel(name: str) -> Callable:
    def register(function: Callable) -> Callable:
        KERNELS[name] = function
        return function

    return register


@contextlib.contextmanager
def installed(gpu) -> Iterator[None]:
    """CUDA's choices, for a GPU, as long as the context lasts."""
    library = torch.library.Library("aten", "IMPL")
    try:
        for name, function in KERNELS.items():
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(aten, packet), overload or "default", None)
            if operator is not None:
                library.impl(operator, _guarded(operator, function, gpu), "AutogradCPU")
        yield
    finally:
        library._destroy()


def _guarded(operator, function: Callable, gpu) -> Callable:
    def chosen(*args: Any, **kwargs: Any) -> Any:
        if not isinstance(args[0], FakeTensor):
            return operator.decompose(*args, **kwargs)
        return function(gpu, operator, *args, **kwargs)

    return chosen


@kernel("dropout")
def dropout(gpu, operator, tensor, p, train):
    if not train or p == 0 or tensor.numel() == 0:
        return tensor
    if p == 1:
        return operator.decompose(tensor, p, train)
    return aten.native_dropout(tensor, p, train)[0]


if hasattr(aten, "_fused_rms_norm"):

    @kernel("rms_norm")
    def rms_norm(gpu, operator, tensor, normalized_shape, weight=None, eps=None):
        if weight is not None and weight.dtype != tensor.dtype:
            return operator.decompose(tensor, normalized_shape, weight, eps)
        return aten._fused_rms_norm(tensor, normalized_shape, weight, eps)[0]


# Larger batches than this go to PyTorch's own kernel (`MAX_CUDNN_BATCH` in aten/src/ATen/native/Normalization.cpp).
CUDNN_BATCH_NORM_BATCH = 880_801


@kernel("batch_norm")
def batch_norm(gpu, operator, tensor, weight, bias, mean, var, training, momentum, eps, cudnn):
    plain = tensor.dim() >= 3 and (tensor.is_contiguous() or tensor.dim() == 3)
    stated = weight is not None and bias is not None and (training or (mean is not None and var is not None))
    half = tensor.dtype in (torch.float16, torch.bfloat16)
    same = weight is not None and (weight.dtype == torch.float32 if half else weight.dtype == tensor.dtype)
    if cudnn and plain and stated and same and training and tensor.shape[0] <= CUDNN_BATCH_NORM_BATCH:
        return aten.cudnn_batch_norm(tensor, weight, bias, mean, var, training, momentum, eps)[0]
    return aten.native_batch_norm(tensor, weight, bias, mean, var, training, momentum, eps)[0]


# --- attention ---


@kernel("scaled_dot_product_attention")
def attention(gpu, operator, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    choice = attention_kernel(gpu, query, key, value, attn_mask, dropout_p, enable_gqa)
    needs_gradient = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
    if choice == "math":
        return aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
        )[0]
    if choice == "flash":
        width = query.shape[-1]
        padding = -width % 8
        if padding:
            scale = width**-0.5 if scale is None else scale
            query, key, value = (torch.nn.functional.pad(part, (0, padding)) for part in (query, key, value))
        out = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., :width] if padding else out
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.where(attn_mask, 0.0, float("-inf")).to(query.dtype)
    if attn_mask is not None:
        shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        if choice == "efficient" and attn_mask.shape[-1] % 16:
            attn_mask = _aligned(attn_mask)
        attn_mask = attn_mask.expand(shape)
    if choice == "cudnn":
        return aten._scaled_dot_product_cudnn_attention(
            query, key, value, attn_mask, needs_gradient, dropout_p, is_causal, False, scale=scale
        )[0]
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, needs_gradient, dropout_p, is_causal, scale=scale
    )[0]


def _aligned(mask):
    """The efficient kernel wants rows of 16 elements: a padded copy, seen at its own width."""
    width = mask.shape[-1]
    return torch.nn.functional.pad(mask, (0, -width % 16))[..., :width]


def attention_kernel(gpu, query, key, value, mask, dropout_p, enable_gqa) -> str:
    """The kernel that PyTorch chooses on CUDA (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp)."""
    flags = torch.backends.cuda
    if query.dim() != 4 or mask is not None and mask.requires_grad:
        return "math"
    half = query.dtype in (torch.float16, torch.bfloat16)
    width = query.shape[-1]
    grouped = enable_gqa and query.shape[1] != key.shape[1]
    dense = all(part.stride(-1) == 1 for part in (query, key, value)) and (mask is None or mask.stride(-1) in (0, 1))
    same_width = width == value.shape[-1] == key.shape[-1]
    empty = any(0 in part.shape for part in (query, key, value))
    if empty or not dense:
        return "math"
    ampere = gpu.capability >= (8, 0)
    cudnn_fits = half and ampere and flags.cudnn_sdp_enabled() and width % 8 == 0 and value.shape[-1] % 8 == 0
    cudnn_fits = cudnn_fits and max(width, value.shape[-1]) <= (256 if gpu.capability[0] == 9 else 128)
    cudnn_fits = cudnn_fits and query.shape[2] > 1
    # PyTorch prefers cuDNN's kernel on Hopper and later (`check_prefer_cudnn_attention`).
    if cudnn_fits and VERSION >= (2, 5) and gpu.capability[0] in (9, 10):
        return "cudnn"
    if half and ampere and mask is None and same_width and width <= 256 and flags.flash_sdp_enabled():
        return "flash"
    aligned = width % (8 if half else 4) == 0 and value.shape[-1] % (8 if half else 4) == 0
    if flags.mem_efficient_sdp_enabled() and not grouped and aligned and query.dtype != torch.float64:
        return "efficient"
    return "cudnn" if cudnn_fits else "math"


# --- recurrent layers ---

MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}


def _recurrent(mode: str) -> Callable:
    def run(gpu, operator, tensor, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first):
        states = list(hx) if mode == "lstm" else [hx, None]
        hidden = states[0].shape[-1]
        weights, stride = list(params), 4 if has_biases else 2
        cell = states[1].shape[-1] if mode == "lstm" else hidden
        if cell != hidden:
            return operator.decompose(tensor, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first)
        elements = sum(weight.numel() for weight in weights)
        flat = torch.empty(0, dtype=weights[0].dtype, device=weights[0].device).new_empty_strided((elements,), (0,))
        state = torch.empty(0, dtype=torch.uint8, device=tensor.device) if dropout and train else None
        results = aten._cudnn_rnn(
            tensor, weights, stride, flat, states[0], states[1], MODES[mode], hidden, 0, layers, batch_first, dropout, train,
            bidirectional, [], state,
        )
        return (results[0], results[1], results[2]) if mode == "lstm" else (results[0], results[1])

    return run


for _mode in MODES:
    KERNELS[f"{_mode}.input"] = _recurrent(_mode)


@kernel("lstm_cell")
def lstm_cell(gpu, operator, tensor, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    gates = aten.linear(tensor, w_ih), aten.linear(hx[0], w_hh)
    results = aten._thnn_fused_lstm_cell(*gates, hx[1], b_ih, b_hh)
    return results[0], results[1]


@kernel("gru_cell")
def gru_cell(gpu, operator, tensor, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    gates = aten.linear(tensor, w_ih), aten.linear(hx, w_hh)
    return aten._thnn_fused_gru_cell(*gates, hx, b_ih, b_hh)[0]
