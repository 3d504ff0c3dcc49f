"""CUDA's autocast rules on the device that is planned for.

In: code under `torch.autocast("cuda", …)`. Out: the same casts as on CUDA, of which the CPU's own autocast knows only some. The list
of ops comes from PyTorch itself (what is registered for AutocastCUDA), so a newer version brings its own; their policies are those
of aten/src/ATen/autocast_mode.h. Casts of weights are cached by PyTorch as usual.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import torch
from torch._subclasses import FakeTensor

aten = torch.ops.aten
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

LOWER = set(
    "_convolution convolution cudnn_convolution cudnn_convolution_transpose addmv addr mv einsum chain_matmul linalg_multi_dot "
    "_thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell prelu linalg_vecdot "
    "_scaled_dot_product_flash_attention".split()
)
SET_DTYPE = set("prod softmax log_softmax cumprod cumsum sum norm linalg_vector_norm linalg_matrix_norm".split())
PROMOTE = set("addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add".split())
# For these the CPU's rule is CUDA's, and the CPU's own kernel stays.
SAME_ON_CPU = set(
    "_convolution.deprecated addbmm addmm baddbmm bmm cdist conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input "
    "conv_transpose3d.input linear matmul mm scaled_dot_product_attention".split()
)

# The dtypes of the regions that were entered while it was installed last.
used: list[torch.dtype] = []


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Autocast for CUDA means autocast for the planned device, with CUDA's rules, as long as the context lasts."""
    library = torch.library.Library("aten", "IMPL")
    original = torch.amp.autocast_mode.autocast.__init__

    def begin(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        original(self, device_type, dtype, enabled, cache_enabled)
        if enabled and device_type == "cpu":
            used.append(self.fast_dtype)

    made_before: dict[int, list] = {}
    enter, leave = torch.amp.autocast_mode.autocast.__enter__, torch.amp.autocast_mode.autocast.__exit__

    def enter_region(self):
        if self.device != "cuda":
            return enter(self)
        # Made before the capture, as decorators are. Where there is no GPU, PyTorch has switched it off then and there.
        region = torch.amp.autocast_mode.autocast("cuda", self.fast_dtype, self._enabled or not torch.cuda.is_available())
        made_before.setdefault(id(self), []).append(region)
        enter(region)
        return self

    def leave_region(self, *error):
        regions = made_before.get(id(self))
        return leave(regions.pop() if self.device == "cuda" and regions else self, *error)

    used.clear()
    try:
        for operator, function in _kernels():
            library.impl(operator, function, "AutocastCPU")
        torch.amp.autocast_mode.autocast.__init__ = begin
        torch.amp.autocast_mode.autocast.__enter__ = enter_region
        torch.amp.autocast_mode.autocast.__exit__ = leave_region
        yield
    finally:
        torch.amp.autocast_mode.autocast.__init__ = original
        torch.amp.autocast_mode.autocast.__enter__ = enter
        torch.amp.autocast_mode.autocast.__exit__ = leave
        library._destroy()


def _kernels() -> Iterator[tuple[Any, Callable]]:
    listed = torch._C._dispatch_get_registrations_for_dispatch_key
    on_cuda = {name.removeprefix("aten::") for name in listed("AutocastCUDA") if name.startswith("aten::")}
    on_cpu = {name.removeprefix("aten::") for name in listed("AutocastCPU") if name.startswith("aten::")}
    for name in sorted(on_cuda | on_cpu):
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(aten, packet, None), overload or "default", None)
        if operator is None or name in SAME_ON_CPU or packet == "binary_cross_entropy":
            continue
        if name not in on_cuda:
            yield operator, _plain(operator)
        elif packet == "_cudnn_rnn":
            yield operator, _recurrent(operator)
        elif packet in LOWER:
            yield operator, _casting(operator, lambda tensors: torch.get_autocast_dtype("cpu"))
        elif packet in PROMOTE:
            yield operator, _casting(operator, _widest)
        elif packet in SET_DTYPE and any(argument.name == "dtype" for argument in operator._schema.arguments):
            yield operator, _dtype_set(operator)
        else:
            yield operator, _casting(operator, lambda tensors: torch.float32)


def _eligible(value: Any) -> bool:
    return isinstance(value, FakeTensor) and value.dtype.is_floating_point and value.dtype != torch.float64


def _widest(tensors: list) -> torch.dtype:
    return torch.float32 if any(tensor.dtype == torch.float32 for tensor in tensors) else torch.get_autocast_dtype("cpu")


def _mapped(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if _eligible(value) and value.dtype != dtype else value
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, dtype) for item in value)
    return value


def _casting(operator, choose: Callable) -> Callable:
    def cast(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            tensors = [value for value in torch.utils._pytree.tree_leaves((args, kwargs)) if _eligible(value)]
            dtype = choose(tensors)
            return operator(*_mapped(args, dtype), **{key: _mapped(value, dtype) for key, value in kwargs.items()})

    return cast


def _dtype_set(operator) -> Callable:
    position = [argument.name for argument in operator._schema.arguments].index("dtype")
    by_keyword = operator._schema.arguments[position].kwarg_only

    def widen(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            stated = kwargs.get("dtype") if by_keyword or len(args) <= position else args[position]
            if _eligible(args[0]) and stated is None:
                if not by_keyword and len(args) > position:
                    args = (*args[:position], torch.float32, *args[position + 1 :])
                else:
                    kwargs = {**kwargs, "dtype": torch.float32}
            return operator(*args, **kwargs)

    return widen


def _plain(operator) -> Callable:
    """CUDA has no rule: the op runs as it is, and what it is made of under autocast."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd"):
            return operator.decompose(*args, **kwargs)
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return operator(*args, **kwargs)

    return run


def _recurrent(operator) -> Callable:
    """cuDNN's recurrent kernels run in float16, with the weights copied into one buffer of that type."""

    def run(tensor, weights, stride, flat, hx, cx, *rest: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            if not any(_eligible(part) for part in (tensor, *weights)):
                return operator(tensor, weights, stride, flat, hx, cx, *rest)
            half = torch.float16
            copies = [weight.to(half) for weight in weights]
            return operator(tensor.to(half), copies, stride, copies[0].detach(), hx.to(half), None if cx is None else cx.to(half), *rest)

    return run
