"""The size that the first batch starts with: from an earlier run of the same job, or from the plan.

In: the model, the first batch, the room. Out: a `Proposal`, and what was learnt before. The first step verifies it.
"""

from __future__ import annotations

from typing import Any

import torch

from brimful.fitting import learnt
from brimful.fitting.host import TIGHT_SHARE

from . import budget, parts

BFLOAT16 = "computed in bfloat16 with weights in float32 (autocast), as allow='numerics' permits: other rounding"


def is_doubtful(proposal: budget.Proposal, total: int) -> bool:
    """Whether the whole batch fits, as the plan says, but not by much."""
    need = proposal.need_bytes(total) if proposal.size >= total else None
    return need is not None and need > TIGHT_SHARE * proposal.room_bytes


def known_before(model: torch.nn.Module, optimizer: Any, precision: str, batch: Any, total: int) -> learnt.Learnt:
    """What earlier runs of the same job found out."""
    parameter = next(model.parameters())
    return learnt.Learnt(
        {
            "framework": f"torch {torch.__version__}",
            "model": type(model).__qualname__,
            "parameters": [list(parameter.shape) for parameter in model.parameters()],
            "optimizer": type(optimizer).__qualname__,
            "precision": [precision, str(parameter.dtype)],
            "inputs": [list(tensor.shape[1:] if tensor.shape[:1] == (total,) else tensor.shape) for tensor in parts.leaves(batch)],
            "device": torch.cuda.get_device_name(parameter.device) if parameter.device.type == "cuda" else parameter.device.type,
        }
    )


def first(model: Any, loss: Any, optimizer: Any, precision: str, batch: Any, total: int, room: int, before: learnt.Learnt) -> Any:
    """The proposal for the first step."""
    known = before.start(learnt.about(room))
    if known is not None and known >= total:
        return budget.Proposal(total, room)
    proposal = budget.propose(model, batch, loss, optimizer, precision, room)
    # In no room at all only failures count: whether there were any.
    failed_before = before.start(0) is not None
    if known is not None and (known > proposal.size or failed_before):
        proposal.size = min(total, known)
    return proposal
