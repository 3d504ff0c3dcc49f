"""A language model whose weights do not fit, made by transformers."""

from limits import allow_more
from transformers import AutoModelForCausalLM, GPT2Config

allow_more(1000 << 20)
model = AutoModelForCausalLM.from_config(GPT2Config(n_embd=1600, n_layer=48, n_head=25))
print(model.num_parameters())
