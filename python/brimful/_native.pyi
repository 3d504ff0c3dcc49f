"""What the package takes from Rust. `tests/test_native_stub.py` compares this file with the extension."""

from collections.abc import Sequence
from typing import Final, TypedDict, final

__version__: Final[str]

class Peaks(TypedDict):
    """The peaks of a replay, in bytes, and whether it ran out of the limit."""

    allocated: int
    reserved: int
    requested: int
    failed: bool

@final
class Capture:
    """What a few training steps ask of PyTorch's CUDA allocator."""

    def __new__(cls, strings: list[str], batch_a: int, rows_a: bytes, batch_b: int, rows_b: bytes | None) -> Capture: ...
    @property
    def paired(self) -> bool: ...
    def plan(self, request_json: str) -> str: ...
    def text(self, request_json: str, width: int, colour: bool) -> str: ...
    def peaks(self, batch: int, conf: str | None = None, limit_bytes: int | None = None) -> Peaks: ...

@final
class Explainer:
    """Reads a log, a piece at a time."""

    def __new__(cls) -> Explainer: ...
    def push(self, data: bytes) -> None: ...
    def finish(self) -> Explanation: ...

@final
class Explanation:
    """What a log says about a failure."""

    def json(self) -> str: ...
    def text(self, width: int, colour: bool) -> str: ...

def device(name: str) -> str: ...
def keras_plan(model_json: str, request_json: str) -> str: ...
def main(argv: Sequence[str]) -> int: ...
