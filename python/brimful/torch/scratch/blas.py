"""Matrix products through cuBLAS and cuBLASLt: the workspaces that their handles keep.

In: one call of a matrix product. Out: its results, copies of operands whose strides cuBLAS cannot read, then the workspace of the
calling thread's handle at its first use (forward and backward run on threads of their own), and cuBLASLt's workspace at the first
product with a fused bias. Their sizes are PyTorch's defaults, or those that `brimful calibrate` measured. Not counted:
`CUBLAS_WORKSPACE_CONFIG` and `CUBLASLT_WORKSPACE_SIZE`, which change these sizes.
"""

from __future__ import annotations

from . import Call, Program, rule
from .pointwise import argument, dtype_name, is_tensor, size_bytes

CUBLAS_BYTES_HOPPER = 32 << 20
CUBLAS_BYTES = 4096 * 2 * 1024 + 16 * 8 * 1024  # :4096:2:16:8, before Hopper
CUBLAS_LT_BYTES = 1 << 20
LT_DTYPES = ("float64", "float32", "float16", "bfloat16")


def keep_cublas(program: Program, call: Call, lt: bool = False) -> None:
    """The workspaces of this thread's handle; cuBLASLt uses cuBLAS's handle, so that comes with its workspace too."""
    thread = "backward" if call.backward else "forward"
    default_bytes = CUBLAS_BYTES_HOPPER if call.gpu.capability >= (9, 0) else CUBLAS_BYTES
    cublas_bytes = default_bytes if call.gpu.cublas_bytes is None else call.gpu.cublas_bytes
    lt_bytes = CUBLAS_LT_BYTES if call.gpu.cublas_lt_bytes is None else call.gpu.cublas_lt_bytes
    if not call.gpu.keeps_cublas:
        program.scratch(lt_bytes if lt else cublas_bytes, "cublas workspace")
        return
    if cublas_bytes:
        program.keep(f"cublas {thread}", cublas_bytes)
    if lt and lt_bytes:  # none where it shares cuBLAS's
        program.keep(f"cublaslt {thread}", lt_bytes)


def _readable(matrix) -> bool:
    """Whether cuBLAS can read a (batched) matrix in place: rows or columns without gaps, at a leading stride of their length."""
    rows, columns = matrix.shape[-2:]
    row_step, column_step = matrix.stride()[-2:]
    return (column_step == 1 and row_step >= max(1, columns)) or (row_step == 1 and column_step >= max(1, rows))


def _copies(program: Program, *matrices) -> list[int]:
    return [
        program.take(size_bytes(matrix), "operand copy")
        for matrix in matrices
        if is_tensor(matrix) and len(matrix.shape) >= 2 and matrix.numel() and not (_readable(matrix) or matrix.is_contiguous())
    ]


def _fuses_bias(bias, left, right, call: Call) -> bool:
    """Whether `addmm` adds its bias within cuBLASLt rather than copying it into the result first."""
    return (
        is_tensor(bias)
        and is_tensor(right)
        and len(bias.shape) == 1
        and len(right.shape) == 2
        and bias.is_contiguous()
        and bias.shape[0] == right.shape[1]
        and min(right.shape) > 1
        and call.kwargs.get("beta", 1) == 1
        and dtype_name(bias.dtype) in LT_DTYPES
    )


def _product(call: Call, left, right, lt: bool = False) -> Program:
    program = Program()
    program.outs(call)
    if not (is_tensor(left) and is_tensor(right)) or left.numel() == 0 or right.numel() == 0:
        return program  # an empty product is filled, not multiplied
    copies = _copies(program, left, right)
    keep_cublas(program, call, lt)
    for copy in reversed(copies):
        program.free(copy)
    return program


@rule("aten.mm", "aten.bmm", "aten.mv", "aten.dot", "aten.vdot", "aten._int_mm")
def product(call: Call) -> Program:
    return _product(call, argument(call, 0, "self"), argument(call, 1, "mat2"))


@rule("aten.addmm", "aten.addmm_", "aten._addmm_activation", "aten.baddbmm", "aten.baddbmm_", "aten.addmv", "aten.addbmm")
def add_product(call: Call) -> Program:
    bias, left, right = (argument(call, i, name) for i, name in enumerate(("self", "mat1", "mat2")))
    lt = "addmm" in call.op and not call.op.endswith("_") and _fuses_bias(bias, left, right, call)
    return _product(call, left, right, lt)


@rule("aten._scaled_mm")
def scaled_product(call: Call) -> Program:
    return _product(call, argument(call, 0, "self"), argument(call, 1, "mat2"), lt=True)
