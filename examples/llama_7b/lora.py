"""LLaMA with 7 billion parameters, of which only small additions are trained (LoRA), for `brimful plan examples/llama_7b/lora.py:make_model`.

The weights are bfloat16 and have no data here: planning needs none.
"""

from pathlib import Path

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM


class WithLora(nn.Module):
    """A frozen layer, and beside it a product of two narrow ones that is trained."""

    def __init__(self, frozen: nn.Linear, rank: int = 16):
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x))


def make_model():
    """The model with an example batch of one sequence of 512 tokens, and labels."""
    config = AutoConfig.from_pretrained(Path(__file__).parent)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).requires_grad_(False)
        for layer in model.model.layers:
            layer.self_attn.q_proj = WithLora(layer.self_attn.q_proj).to(torch.bfloat16)
            layer.self_attn.v_proj = WithLora(layer.self_attn.v_proj).to(torch.bfloat16)
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    model.config.use_cache = False
    tokens = torch.zeros(1, 512, dtype=torch.int64)
    return model.train(), {"input_ids": tokens, "labels": tokens}
