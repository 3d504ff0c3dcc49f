"""What CUDA runs where the CPU runs something else, put in the place of the CPU's choice while a step is captured.

In: calls of composite ops on fake tensors. Out: calls of the ops that CUDA would dispatch to, with their own gradients. Real tensors
(of another thread, say) take PyTorch's own way. One function for each op; `installed` registers them and takes them out again.
"""

from __future__ import annotations

import contextlib
import os
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
        _dropout_states.clear()
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
    choice = attention_kernel(gpu, query, key, value, attn_mask, dropout_p, enable_gqa, is_causal)
    needs_gradient = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
    if choice == "flash":
        width = query.shape[-1]
        padding = -width % 8
        if padding:
            scale = width**-0.5 if scale is None else scale
            query, key, value = (torch.nn.functional.pad(part, (0, padding)) for part in (query, key, value))
        out = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., :width] if padding else out
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = _additive(attn_mask, query.dtype)
    if choice == "math":
        grouped = {"enable_gqa": enable_gqa} if VERSION >= (2, 5) else {}
        return aten._scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, **grouped)[0]
    if choice == "cudnn":
        return aten._scaled_dot_product_cudnn_attention(
            query, key, value, attn_mask, needs_gradient, dropout_p, is_causal, False, scale=scale
        )[0]
    if key.shape[1] != query.shape[1]:  # the kernel itself has no groups
        heads = query.shape[1]
        key, value = (
            part.expand(-1, heads, -1, -1) if part.shape[1] == 1 else part.repeat_interleave(heads // part.shape[1], 1)
            for part in (key, value)
        )
    if attn_mask is not None:
        attn_mask = _aligned(attn_mask, (query.shape[0], query.shape[1], query.shape[2], key.shape[2]))
    return aten._scaled_dot_product_efficient_attention(query, key, value, attn_mask, needs_gradient, dropout_p, is_causal, scale=scale)[0]


def _additive(mask, dtype):
    """A mask of booleans as numbers to add (`convert_boolean_attn_mask` in aten/src/ATen/native/transformers/attention.cpp)."""
    if VERSION < (2, 5):
        return aten.zeros_like(mask, dtype=dtype).masked_fill_(aten.logical_not(mask), float("-inf"))
    zero, excluded = (aten.scalar_tensor(number, dtype=dtype, device=mask.device) for number in (0.0, float("-inf")))
    return aten.where(mask, zero, excluded)


def _aligned(mask, shape):
    """The mask as the efficient kernel wants it: expanded, in rows whose starts are aligned (`preprocess_mask`). The padding is a
    copy, seen at the mask's own width; before PyTorch 2.5 it was made of the expanded mask."""
    width = mask.shape[-1]
    if VERSION < (2, 5):
        mask = mask.expand(shape)
        if shape[-1] % 16:
            return torch.nn.functional.pad(mask, (0, -shape[-1] % 16))[..., : shape[-1]]
        return mask.contiguous() if any(stride % 16 for stride in mask.stride()[:3]) else mask
    if mask.stride(-1) != 1 or any(stride % 8 for stride in mask.stride()[:-1]):
        mask = torch.nn.functional.pad(mask, (0, 8 - width % 8))[..., :width]
    return mask.expand(shape)


def attention_kernel(
    gpu, query, key, value, mask, dropout_p, enable_gqa, is_causal=False, version: tuple[int, int] = VERSION, environment=os.environ
) -> str:
    """The kernel that PyTorch chooses on CUDA: cudnn, flash, efficient or math.

    In: the GPU and the call. Out: the first in the order of preference whose conditions hold, as `select_sdp_backend` in
    aten/src/ATen/native/transformers/cuda/sdp_utils.cpp has them; math where none does, for which PyTorch may raise an error. The
    conditions are those of 2.11; where the source or its history tells that another version differs, so does this. From 2.12 on the
    versions are estimates, from the dates of the changes. Not counted: nested tensors, FlashAttention 3."""
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4 or 0 in query.shape or 0 in key.shape:
        return "math"
    if query.shape[0] != key.shape[0] or query.shape[0] != value.shape[0]:
        return "math"
    if mask is not None and mask.stride(-1) != 1:
        return "math"
    flags = torch.backends.cuda
    strided = any(part.stride(-1) != 1 for part in (query, key, value))
    if strided and query.shape[3] != 1:
        return "math"
    call = (gpu, query, key, value, mask, dropout_p, enable_gqa)
    for choice in _attention_order(gpu, version, environment):
        if choice == "cudnn":
            if flags.cudnn_sdp_enabled() and _fits_cudnn(*call, version, environment):
                return choice
        elif choice == "flash":
            if flags.flash_sdp_enabled() and _fits_flash(*call, is_causal, version):
                return choice
        elif choice == "efficient":
            if flags.mem_efficient_sdp_enabled() and not strided and _fits_efficient(*call, version):
                return choice
        elif flags.math_sdp_enabled():
            return choice
    return "math"


_DEFAULT_ORDER = ("flash", "efficient", "math", "cudnn")
_BACKENDS = ("math", "flash", "efficient", "cudnn")  # by their numbers in SDPBackend


def _attention_order(gpu, version, environment) -> tuple[str, ...]:
    """The order of preference: the user's (`sdpa_kernel(..., set_priority=True)`), or PyTorch's for the GPU."""
    read = getattr(torch._C, "_get_sdp_priority_order", None)
    if read is not None:
        order = tuple(_BACKENDS[number] for number in read() if 0 <= number < len(_BACKENDS))
        if order != _DEFAULT_ORDER:
            return order
    if _prefers_cudnn(gpu, version, environment):
        return ("cudnn", "flash", "efficient", "math")
    return _DEFAULT_ORDER


def _prefers_cudnn(gpu, version, environment) -> bool:
    """`check_prefer_cudnn_attention`. 2.5.0 preferred it too, which 2.5.1 took back."""
    major, minor = gpu.capability
    if version >= (2, 10):
        if environment.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1" or gpu.cudnn < (9, 15):  # 9.15.1; no wheel has 9.15.0
            return False
        return major in (9, 10) and minor in ((0, 3) if version >= (2, 11) else (0,))
    if version >= (2, 9):
        return environment.get("TORCH_CUDNN_SDPA_PREFERRED") != "0" and gpu.cudnn >= (9, 9) and major in (9, 10) and minor == 0
    if version >= (2, 6):
        return environment.get("TORCH_CUDNN_SDPA_PREFERRED") == "1" and gpu.cudnn >= (9, 0) and major >= 9
    return False


def _newest_capability(version) -> tuple[int, int]:
    """The newest GPU that the fused kernels were built for."""
    return (12, 1) if version >= (2, 7) else (9, 0)


def _heads_fit(query, key, value, enable_gqa, version, groups: bool, same_heads: bool = True) -> bool:
    heads, key_heads, value_heads = query.shape[1], key.shape[1], value.shape[1]
    if heads == key_heads == value_heads:
        return True
    if enable_gqa and groups:
        return heads % key_heads == 0 and heads % value_heads == 0 and (not same_heads or key_heads == value_heads)
    return version >= (2, 14) and key_heads == value_heads == 1  # one head for all is broadcast without being asked


def _fits_cudnn(gpu, query, key, value, mask, dropout_p, enable_gqa, version, environment) -> bool:
    if version < (2, 5) and environment.get("TORCH_CUDNN_SDPA_ENABLED") != "1" or gpu.cudnn < (9, 0):
        return False
    if query.dtype not in (torch.float16, torch.bfloat16) or not (8, 0) <= gpu.capability <= _newest_capability(version):
        return False
    if torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled():
        return False
    if dropout_p and (9, 11) <= gpu.cudnn < (9, 14) and version >= (2, 9):
        return False
    if version >= (2, 12) and (dropout_p * 16) % 1:  # cuDNN knows sixteenths
        return False
    width, value_width = query.shape[3], value.shape[3]
    limit = _cudnn_width_limit(gpu, width, value_width, version)
    if width % 8 or value_width % 8 or width > limit or value_width > limit:
        return False
    queries, keys = query.shape[2], key.shape[2]
    if keys == 1 or queries == 1 and (dropout_p or version < (2, 9)):
        return False
    if mask is not None and not _cudnn_takes_mask(mask, query, key):
        return False
    return version < (2, 7) or _heads_fit(query, key, value, enable_gqa, version, groups=True, same_heads=False)


def _cudnn_width_limit(gpu, width: int, value_width: int, version) -> int:
    hopper, blackwell = gpu.capability == (9, 0), gpu.capability[0] == 10
    if version >= (2, 14):
        if (hopper or blackwell) and gpu.cudnn >= (9, 23):
            return 256
        return 192 if (hopper or blackwell) and (width, value_width) == (192, 128) else 128
    if hopper and version >= (2, 9) and gpu.cudnn >= (9, 10):
        return 256
    return 192 if blackwell and version >= (2, 11) and (width, value_width) == (192, 128) else 128


def _cudnn_takes_mask(mask, query, key) -> bool:
    if mask.requires_grad or mask.dim() not in (2, 4):
        return False
    wanted = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return all(size in (1, other) for size, other in zip(reversed(mask.shape), reversed(wanted)))


def _fits_flash(gpu, query, key, value, mask, dropout_p, enable_gqa, is_causal, version) -> bool:
    capability, width = gpu.capability, query.shape[3]
    if mask is not None or query.dtype not in (torch.float16, torch.bfloat16):
        return False
    if not (8, 0) <= capability <= _newest_capability(version):
        return False
    if width > 256 or key.shape[3] != width or value.shape[3] != width:
        return False
    if is_causal and query.shape[2] != key.shape[2]:  # the kernel aligns its mask at the other corner
        return False
    small = (8, 6) <= capability <= (8, 9) or capability in ((12, 0), (12, 1))  # little shared memory for backward
    if small and (192 < width <= 224 or width > 224 and dropout_p):
        if torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value)):
            return False
    return _heads_fit(query, key, value, enable_gqa, version, groups=True)


def _fits_efficient(gpu, query, key, value, mask, dropout_p, enable_gqa, version) -> bool:
    capability, half = gpu.capability, query.dtype in (torch.float16, torch.bfloat16)
    ampere = capability >= (8, 0)
    if query.dtype not in (torch.float16, torch.float32) and not (ampere and query.dtype == torch.bfloat16):
        return False
    if not (5, 0) <= capability <= _newest_capability(version):
        return False
    alignment = (8 if half else 4) if ampere else 8 if half and capability >= (7, 0) else 1
    width = query.shape[3]
    if key.shape[3] != width or width % alignment or value.shape[3] % alignment:
        return False
    return _heads_fit(query, key, value, enable_gqa, version, groups=version >= (2, 14))


# --- recurrent layers ---

# What cuDNN keeps for its random numbers, once for a process; measured on an H200 with cuDNN 9.19.
DROPOUT_STATE_BYTES = 6_488_064
_dropout_states: list = []


def _dropout_state(device: torch.device) -> torch.Tensor:
    if not _dropout_states:
        _dropout_states.append(torch.empty(DROPOUT_STATE_BYTES, dtype=torch.uint8, device=device))
    return _dropout_states[0]


MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}


def _recurrent(mode: str, packed: bool) -> Callable:
    def run(gpu, operator, tensor, *args):
        # The two overloads differ in where the sizes of the steps are, and in whether the batch may come first.
        if packed:
            sizes, hx, params, has_biases, layers, dropout, train, bidirectional = args
            steps, batch_first = sizes.tolist(), False
        else:
            hx, params, has_biases, layers, dropout, train, bidirectional, batch_first = args
            steps = []
        states = list(hx) if mode == "lstm" else [hx, None]
        hidden = states[0].shape[-1]
        if mode == "lstm" and states[1].shape[-1] != hidden:
            return operator.decompose(tensor, *args)
        # The weights are pieces of one buffer on the device; which one is named here makes no difference.
        weights, stride = list(params), 4 if has_biases else 2
        state = _dropout_state(tensor.device) if dropout and train else None
        results = aten._cudnn_rnn(
            tensor,
            weights,
            stride,
            weights[0].detach(),
            states[0],
            states[1],
            MODES[mode],
            hidden,
            0,
            layers,
            batch_first,
            dropout,
            train,
            bidirectional,
            steps,
            state,
        )
        return (results[0], results[1], results[2]) if mode == "lstm" else (results[0], results[1])

    return run


for _mode in MODES:
    KERNELS[f"{_mode}.input"] = _recurrent(_mode, packed=False)
    KERNELS[f"{_mode}.data"] = _recurrent(_mode, packed=True)


@kernel("lstm_cell")
def lstm_cell(gpu, operator, tensor, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    gates = aten.linear(tensor, w_ih), aten.linear(hx[0], w_hh)
    results = aten._thnn_fused_lstm_cell(*gates, hx[1], b_ih, b_hh)
    return results[0], results[1]


@kernel("gru_cell")
def gru_cell(gpu, operator, tensor, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    gates = aten.linear(tensor, w_ih), aten.linear(hx, w_hh)
    return aten._thnn_fused_gru_cell(*gates, hx, b_ih, b_hh)[0]
