"""Convolutions: what cuDNN and PyTorch around it ask of the allocator.

In: a call of aten.convolution or aten.convolution_backward. Out: its results, the copies of arguments that are not laid out as
cuDNN needs them, and the workspace of each cuDNN call, in order. The order and the copies follow PyTorch's source. Which algorithm
cuDNN takes cannot be known without the GPU: its workspace has one of a few forms (`form_bytes`: copies in channels-last order for
tensor cores, one partial result per sample or per split, Winograd or FFT tiles), and decision trees in cudnn_convolutions.json say
which. They were learned by tools/learn_conv_workspaces.py from calls recorded on an NVIDIA H200 with cuDNN 9.19 and TF32 allowed;
other GPUs (capability other than 9.0), other versions and float64 get the same forms, unmeasured. Not counted: what
`torch.backends.cudnn.benchmark` tries out, and convolutions that PyTorch runs without cuDNN (other than depthwise ones).
"""

from __future__ import annotations

import json
from pathlib import Path

from . import Call, Program, reduction, rule

# The allocator's simulation knows it: where it cannot be had, cuDNN's next algorithm is tried.
WORKSPACE = "cudnn_workspace"
FORWARD, GRAD_INPUT, GRAD_WEIGHT = "forward", "grad_input", "grad_weight"
WINOGRAD_POINT_BYTES = 4 * 36  # a tile of 4x4 results of a 3x3 kernel is 6x6 float32
FFT_TILE_BYTES = 8 * 32 * 17  # a tile of 32x32 real numbers is 32x17 complex ones
SMALL_BYTES = 1024  # descriptors that some kernels keep in a workspace
MIB = 1 << 20


class Problem:
    """One convolution as cuDNN sees it; a transposed convolution is the gradient of the one that has x as its input.

    x (input), y (output) and w (weight) are named by their role in that convolution. Pixels are products of all spatial dims.
    """

    __slots__ = ("n", "c", "k", "c_group", "k_group", "x_pixels", "y_pixels", "tiles", "w_pixels", "stride", "groups",
                 "item_bytes", "bfloat16", "x_bytes", "y_bytes", "w_bytes")  # fmt: skip

    def __init__(self, x_shape, y_shape, w_shape, stride: int, groups: int, item_bytes: int, bfloat16: bool) -> None:
        self.n, self.c = x_shape[0], x_shape[1]
        self.k, self.groups = w_shape[0], groups
        self.c_group, self.k_group = w_shape[1], w_shape[0] // groups
        x_pixels = y_pixels = w_pixels = 1
        x_tiles = y_tiles = 1
        for length in x_shape[2:]:
            x_pixels *= length
            x_tiles *= (length + 3) // 4
        for length in y_shape[2:]:
            y_pixels *= length
            y_tiles *= (length + 3) // 4
        for length in w_shape[2:]:
            w_pixels *= length
        self.x_pixels, self.y_pixels, self.w_pixels = x_pixels, y_pixels, w_pixels
        self.tiles = (x_tiles, y_tiles)
        self.stride, self.item_bytes, self.bfloat16 = stride, item_bytes, bfloat16
        self.x_bytes = item_bytes * self.n * self.c * x_pixels
        self.y_bytes = item_bytes * self.n * self.k * y_pixels
        self.w_bytes = item_bytes * self.k * self.c_group * w_pixels


FEATURES = (
    "n", "c", "k", "c_group", "k_group", "x_pixels", "y_pixels", "w_pixels", "stride", "groups", "bfloat16", "c_alignment",
    "k_alignment", "x_bytes", "y_bytes", "w_bytes", "x_per_y", "rows_y", "rows_x", "depth", "multiplications", "tiles_y", "tiles_x",
    "tiles_w", "rows_per_depth", "x_pixels_alignment", "y_pixels_alignment", "samples_per_copies", "padding",
)  # fmt: skip


def features(p: Problem) -> tuple:
    """What the trees may ask about a convolution, in the order of FEATURES. Rows and depth are those of its matrix product."""
    n, c, k, c_group, k_group, w_pixels, groups = p.n, p.c, p.k, p.c_group, p.k_group, p.w_pixels, p.groups
    rows_y, rows_x, depth = n * p.y_pixels, n * p.x_pixels, c_group * w_pixels
    c_tiles, k_tiles = (c_group + 127) // 128, (k_group + 127) // 128
    return (
        n, c, k, c_group, k_group, p.x_pixels, p.y_pixels, w_pixels, p.stride, groups, p.bfloat16, min(c_group & -c_group, 16),
        min(k_group & -k_group, 16), p.x_bytes, p.y_bytes, p.w_bytes, p.x_bytes / (p.y_bytes or 1), rows_y, rows_x, depth,
        rows_y * depth * k, (rows_y + 127) // 128 * k_tiles * groups, (rows_x + 127) // 128 * c_tiles * groups,
        k_tiles * ((depth + 127) // 128) * groups, rows_y / (depth or 1), min(p.x_pixels & -p.x_pixels, 16),
        min(p.y_pixels & -p.y_pixels, 16), n * p.w_bytes / ((p.x_bytes + p.y_bytes) or 1), p.y_pixels * p.stride**2 >= p.x_pixels,
    )  # fmt: skip


def form_bytes(form: str, direction: str, p: Problem) -> int:
    """Bytes of a workspace of this form, less what a kernel adds to it (splits of the sum, descriptors)."""
    if form == "none":
        return 0
    if form == "copies":  # of all three in channels-last order; a kernel of one pixel has no order
        return p.x_bytes + p.y_bytes + (p.w_bytes if p.w_pixels > 1 and direction != GRAD_WEIGHT else 0)
    if form == "xyw":
        return p.x_bytes + p.y_bytes + p.w_bytes
    if form == "xw":
        return p.x_bytes + p.w_bytes
    if form == "yw":
        return p.y_bytes + p.w_bytes
    if form == "x":
        return p.x_bytes
    if form == "y":
        return p.y_bytes
    if form in ("padded", "filled"):  # channels are filled up to what a tensor core loads at once: 16 bytes
        step = max(16 // p.item_bytes, 1)
        c, k = -(-p.c // step) * step, -(-p.k // step) * step
        c_group = c if p.groups == 1 else p.c_group
        w = p.w_pixels * c_group * k if direction != GRAD_WEIGHT else 0
        only = form == "filled"  # tensors that lie in channels-last order are copied only where they have to be filled up
        x = 0 if only and c == p.c else p.x_pixels * c
        y = 0 if only and k == p.k else p.y_pixels * k
        return p.item_bytes * (p.n * (x + y) + (w if x or y else 0))
    if form == "padded_groups":  # input and output channels of a group are filled up to the same power of two
        channels = 1 << (max(p.c_group, p.k_group, 16 // p.item_bytes, 1) - 1).bit_length()
        w = p.w_pixels * channels * channels if p.w_pixels > 1 or channels > min(p.c_group, p.k_group) else 0
        return p.item_bytes * p.groups * (p.n * (p.x_pixels + p.y_pixels) * channels + w)
    if form == "per_sample":  # one float32 weight gradient for each sample, added up at the end
        return 4 * p.n * p.k * p.c_group * p.w_pixels
    if form == "winograd":
        tiles = p.tiles[0 if direction == GRAD_INPUT else 1]
        return WINOGRAD_POINT_BYTES * (p.n * tiles * (p.c + p.k) + p.c * p.k)
    if form == "fft":
        return FFT_TILE_BYTES * (2 * p.n * (p.c + p.k) + p.c * p.k)
    return 8 * (p.x_bytes + p.y_bytes + p.w_bytes)  # "bound"


MULTIPROCESSORS = 132  # of the H200, on which the forms were recorded


def split_bytes(p: Problem) -> int:
    """Partial sums of a weight gradient whose tiles are fewer than the multiprocessors: each works on a part of the sum. Exact for a
    third of the recorded convolutions; others take other tiles, with sums of the same order."""
    columns = p.c_group * p.w_pixels
    side = 128 if p.k >= 128 and columns >= 128 else 64
    tiles = -(-p.k // side) * -(-columns // side)
    splits = MULTIPROCESSORS // tiles
    return splits * tiles * side * side * 4 if splits > 1 else 0


_trees: dict[str, list] | None = None


def choose(direction: str, p: Problem, channels_last: bool) -> tuple[str, int]:
    """The form of the workspace, and the bytes that come on top of it."""
    global _trees
    if _trees is None:
        _trees = json.loads(Path(__file__).with_name("cudnn_convolutions.json").read_text())["trees"]
    nodes = _trees[f"{direction}/{'half' if p.item_bytes == 2 else 'float32'}/{'nhwc' if channels_last else 'nchw'}"]
    values, node = features(p), nodes[0]
    while len(node) == 4:
        node = nodes[node[2] if values[node[0]] <= node[1] else node[3]]
    form, extra_bytes, splits = node
    # `splits` counts float32 copies of the weight. Small convolutions do not split into more than they are.
    tensors_bytes = p.x_bytes + p.y_bytes + p.w_bytes
    extra_bytes = min(extra_bytes + int(splits * 4 * p.k * p.c_group * p.w_pixels), max(8 * tensors_bytes, SMALL_BYTES))
    if direction == GRAD_WEIGHT and form == "copies" and p.w_pixels > 1:
        extra_bytes = max(extra_bytes, split_bytes(p))
    # An odd shape gets no more than this; 43 of 40,117 recorded workspaces were larger, most of them of kernels of 5x5 and more.
    if form_bytes(form, direction, p) > 8 * tensors_bytes + 64 * MIB:
        return "bound", extra_bytes + 64 * MIB
    return form, extra_bytes


def workspace_bytes(memory: dict, direction: str, p: Problem, channels_last: bool) -> int:
    """The workspace of one cuDNN call. Its form stays the same for other batch sizes of the same job, so that sizes stay affine."""
    if p.n <= 0 or p.x_bytes <= 0 or p.y_bytes <= 0 or p.w_bytes <= 0:
        return 0
    layer = (p.c, p.k, p.x_pixels, p.y_pixels, p.w_pixels, p.stride, p.groups, p.item_bytes, p.bfloat16)
    key = ("cudnn", direction, layer, channels_last)
    choice = memory.get(key)
    if choice is None:
        choice = memory[key] = choose(direction, p, channels_last)
    form, extra_bytes = choice
    return form_bytes(form, direction, p) + extra_bytes


# --- how PyTorch calls cuDNN ---


class Layout:
    """How a tensor lies in memory. PyTorch runs a convolution over one dim as one over two, of which the first has length 1."""

    __slots__ = ("shape", "stride", "size_bytes", "channels_last")

    def __init__(self, tensor) -> None:
        shape, stride = tuple(tensor.shape), tuple(tensor.stride())
        if len(shape) == 3:
            shape, stride = (shape[0], shape[1], 1, shape[2]), (stride[0], stride[1], shape[2] * stride[2], stride[2])
        self.shape, self.stride = shape, stride
        self.size_bytes = tensor.numel() * tensor.element_size()
        self.channels_last = tensor.element_size() <= 4 and _prefers_channels_last(shape, stride)


def _prefers_channels_last(shape, stride) -> bool:
    """What `suggest_memory_format` says: whether the strides are in channels-last order, plain order where both fit."""
    rank = len(shape)
    if rank not in (4, 5) or stride[1] == 0:
        return False
    least = 0
    for dim in (1, *range(rank - 1, 1, -1), 0):
        if stride[dim] < least or (dim == 0 and least == stride[1]):
            return False
        least = stride[dim] * max(shape[dim], 1)
    return True


def _is_laid_out(layout: Layout, channels_last: bool) -> bool:
    """Whether `contiguous(memory_format)` would return the tensor itself."""
    shape, stride = layout.shape, layout.stride
    expected, last = 1, len(shape) - 1
    for dim in (1, *range(last, 1, -1), 0) if channels_last else range(last, -1, -1):
        if shape[dim] != 1:
            if stride[dim] != expected:
                return False
            expected *= shape[dim]
    return True


def _copy(program: Program, layout: Layout, channels_last: bool) -> int | None:
    return None if _is_laid_out(layout, channels_last) else program.take(layout.size_bytes, "contiguous copy")


def _release(program: Program, *names: int | None) -> None:
    for name in names:
        if name is not None:
            program.free(name)


def _is_depthwise_kernel(x, w, stride, dilation, transposed: bool, groups: int, channels_last: bool) -> bool:
    """Whether PyTorch takes its own depthwise kernel, which has no workspace, instead of cuDNN."""
    shape = x.shape
    if transposed or channels_last or groups <= 1 or len(shape) not in (3, 4, 5) or shape[1] != groups or w.shape[0] % groups:
        return False
    if len(shape) == 5 or not str(x.dtype).endswith("float16") or str(x.dtype).endswith("bfloat16"):
        return True
    if groups < 32 or any(step != 1 for step in dilation):
        return True
    height, width, side = (1 if len(shape) == 3 else shape[2]), shape[-1], w.shape[-1]
    step = stride[-1]
    if height == 1 and step == 1:
        return False
    if len(shape) == 3 or stride[0] != step or w.shape[2] != side or side not in (1, 3, 5) or width < 7 or step not in (1, 2):
        return True
    if step == 1:
        return False
    if shape[0] == 1:
        return side == 1 and width > 28
    if side == 1:
        return not (shape[0] <= 16 and groups >= 128 and width <= 7)
    return not (groups >= 512 or (groups >= 256 and width >= 28))


def _problem(x, y, w, stride, transposed: bool, groups: int) -> Problem:
    if transposed:
        x, y = y, x
    step = max(stride) if stride else 1
    return Problem(x.shape, y.shape, w.shape, step, max(groups, 1), x.element_size(), str(x.dtype).endswith("bfloat16"))


def _argument(call: Call, position: int, name: str, default=None):
    return call.args[position] if position < len(call.args) else call.kwargs.get(name, default)


@rule("aten.convolution")
def convolution(call: Call) -> Program:
    """The copy of the input, the result, the copy of the weight, the workspace. The bias is added in place."""
    program = Program()
    x, w = _argument(call, 0, "input"), _argument(call, 1, "weight")
    if not call.outputs or x.numel() == 0 or w.numel() == 0 or len(x.shape) != len(w.shape) or len(x.shape) < 3:
        program.outs(call)
        return program
    stride, dilation = _argument(call, 3, "stride", (1,)), _argument(call, 5, "dilation", (1,))
    transposed, groups = _argument(call, 6, "transposed", False), _argument(call, 8, "groups", 1)
    x_layout, w_layout = Layout(x), Layout(w)
    channels_last = x_layout.channels_last or w_layout.channels_last
    x_copy = _copy(program, x_layout, channels_last)
    program.outs(call)
    if not _is_depthwise_kernel(x, w, stride, dilation, transposed, groups, channels_last):
        w_copy = _copy(program, w_layout, channels_last)
        p = _problem(x, call.outputs[0], w, stride, transposed, groups)
        program.scratch(workspace_bytes(call.memory, GRAD_INPUT if transposed else FORWARD, p, channels_last), WORKSPACE)
        _release(program, w_copy)
    _release(program, x_copy)
    return program


@rule("aten.convolution_backward")
def convolution_backward(call: Call) -> Program:
    """Gradients of input, weight and bias one after the other; each cuDNN call makes its own copies and has its own workspace."""
    program = Program()
    grad, x, w = _argument(call, 0, "grad_output"), _argument(call, 1, "input"), _argument(call, 2, "weight")
    if x.numel() == 0 or grad.numel() == 0 or w.numel() == 0 or len(x.shape) != len(w.shape) or len(x.shape) < 3:
        program.outs(call)
        return program
    stride, dilation = _argument(call, 4, "stride", (1,)), _argument(call, 6, "dilation", (1,))
    transposed, groups = _argument(call, 7, "transposed", False), _argument(call, 9, "groups", 1)
    # The results that are there keep the order of the mask.
    results: list[int | None] = []
    for wanted in tuple(_argument(call, 10, "output_mask", (True, True, True)))[:3]:
        results.append(sum(result is not None for result in results) if wanted else None)
    for_input, for_weight, for_bias = results
    grad_layout, x_layout, w_layout = Layout(grad), Layout(x), Layout(w)
    channels_last = x_layout.channels_last or w_layout.channels_last
    x_copy = _copy(program, x_layout, channels_last)
    if _is_depthwise_kernel(x, w, stride, dilation, transposed, groups, channels_last):
        for result in (for_weight, for_input):  # the gradient of the input gets its memory when its kernel runs
            if result is not None:
                program.out(result)
                _release(program, _copy(program, grad_layout, False))
    else:
        # The gradient is brought to the order of the input once, if the order differs; a plain slice is copied for each cuDNN call.
        fits = _is_laid_out(grad_layout, channels_last)
        once = not fits and (transposed or grad_layout.channels_last != channels_last)
        grad_copy = program.take(grad_layout.size_bytes, "contiguous copy") if once else None
        p = _problem(x, grad, w, stride, transposed, groups)
        if for_input is not None:
            program.out(for_input)
            w_copy = _copy(program, w_layout, channels_last)
            again = None if once else _copy(program, grad_layout, channels_last)
            direction = FORWARD if transposed else GRAD_INPUT
            program.scratch(workspace_bytes(call.memory, direction, p, channels_last), WORKSPACE)
            _release(program, again, w_copy)
        if for_weight is not None:
            again = None if once else _copy(program, grad_layout, channels_last)
            program.out(for_weight)
            program.scratch(workspace_bytes(call.memory, GRAD_WEIGHT, p, channels_last), WORKSPACE)
            _release(program, again)
        _release(program, grad_copy)
    _release(program, x_copy)
    if for_bias is not None:
        program.out(for_bias)
        dims = frozenset(dim for dim in range(len(grad.shape)) if dim != 1)
        half = grad.element_size() == 2
        reduction.reduce(program, grad.shape, grad.stride(), dims, 4 if half else grad.element_size(), call.gpu, 8 if half else 4)
    return program
