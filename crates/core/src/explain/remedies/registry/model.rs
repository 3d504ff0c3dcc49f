//! What a model and its optimizer keep.

use super::super::code::{BITSANDBYTES, SEVERAL, jax, keras, torch};
use super::super::{Advice, advice};
use crate::report::SameResult;

pub(super) const ADVICE: &[Advice] = &[
    advice(
        "half_precision_weights",
        "Load the weights in 16 bits",
        SameResult::Numerics,
        &[
            torch("AutoModelForCausalLM.from_pretrained(name, dtype='bfloat16')"),
            torch("model.half()"),
            jax("params = jax.tree.map(lambda w: w.astype(jnp.bfloat16), params)"),
        ],
    ),
    advice(
        "int8_weights",
        "Load the weights in 8 or 4 bits (inference, adapters)",
        SameResult::Changed,
        &[torch(
            "AutoModelForCausalLM.from_pretrained(name, quantization_config=BitsAndBytesConfig(load_in_4bit=True))",
        )
        .on(BITSANDBYTES)],
    ),
    advice(
        "shard_model",
        "Spread weights, gradients and state over several devices",
        SameResult::Exact,
        &[
            torch("torchrun --nproc-per-node 4 train.py    # with FSDP: fully_shard(model)").on(SEVERAL),
            torch("AutoModel.from_pretrained(name, device_map='auto')"),
            jax("params = jax.device_put(params, NamedSharding(mesh, PartitionSpec('model')))   # of jax.sharding"),
        ],
    ),
    advice(
        "cpu_offload",
        "Keep what is rarely used on the host",
        SameResult::Exact,
        &[
            torch("pipe.enable_model_cpu_offload()          # diffusers"),
            torch("fully_shard(model, offload_policy=CPUOffloadPolicy())"),
            jax("state = jax.device_put(state, sharding.with_memory_kind('pinned_host'))"),
        ],
    ),
    advice(
        "narrower_layers",
        "Fewer or narrower layers",
        SameResult::Changed,
        &[keras("keras.layers.Dense(512)    # instead of 4096"), jax("flax.linen.Dense(512)      # instead of 4096")],
    ),
    advice(
        "smaller_embeddings",
        "A smaller vocabulary or embedding",
        SameResult::Changed,
        &[keras("keras.layers.Embedding(20_000, 64)"), jax("flax.linen.Embed(20_000, 64)")],
    ),
    advice(
        "eight_bit_optimizer",
        "An optimizer with its state in 8 bits",
        SameResult::Numerics,
        &[torch("optimizer = bitsandbytes.optim.AdamW8bit(model.parameters())").on(BITSANDBYTES)],
    ),
    advice(
        "lighter_optimizer",
        "An optimizer with less state",
        SameResult::Changed,
        &[
            keras("keras.optimizers.SGD(momentum=0.9)"),
            torch("torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)"),
            jax("optax.adafactor(1e-3)      # or optax.sgd(0.1, momentum=0.9)"),
        ],
    ),
    advice(
        "freeze_layers",
        "Train fewer weights: freeze, or adapters",
        SameResult::Changed,
        &[
            torch("for p in model.encoder.parameters(): p.requires_grad_(False)"),
            jax("optax.multi_transform({'train': optax.adam(1e-3), 'freeze': optax.set_to_zero()}, labels)"),
        ],
    ),
    advice(
        "set_to_none",
        "Free gradients between steps",
        SameResult::Exact,
        &[torch("optimizer.zero_grad(set_to_none=True)")],
    ),
    advice(
        "fused_optimizer",
        "An optimizer that updates in place",
        SameResult::Exact,
        &[
            torch("torch.optim.AdamW(model.parameters(), fused=True)"),
            jax("train_step = jax.jit(train_step, donate_argnums=0)    # the old state is given up for the new one"),
        ],
    ),
    advice(
        "save_from_host",
        "Gather and save the state on the host, piece by piece",
        SameResult::Exact,
        &[
            torch("torch.distributed.checkpoint.save(state, checkpoint_id=folder)"),
            torch("torch.load(path, map_location='cpu', mmap=True)"),
            jax("orbax.checkpoint.StandardCheckpointer().save(path, jax.device_get(state))"),
        ],
    ),
    advice(
        "fewer_checkpoints",
        "Keep fewer checkpoints",
        SameResult::Exact,
        &[
            torch("TrainingArguments(save_total_limit=2)"),
            keras("keras.callbacks.ModelCheckpoint(path, save_best_only=True)"),
            jax(
                "orbax.checkpoint.CheckpointManager(path, options=orbax.checkpoint.CheckpointManagerOptions(max_to_keep=2))",
            ),
        ],
    ),
];
