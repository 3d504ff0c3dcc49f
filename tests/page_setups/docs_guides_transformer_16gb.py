import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2)
model = LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(0, 64, (4, 12))
loader = [{"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}] * 2
