//! What a training step or an evaluation takes at a time.

use super::super::code::{CUDA, HOST, MPS, NPU, ROCM, SEVERAL, TPU, XPU, any, jax, keras, torch};
use super::super::{Advice, advice};
use crate::report::SameResult;

pub(super) const ADVICE: &[Advice] = &[
    advice(
        "micro_batches",
        "Take the batch in parts and update once",
        SameResult::Exact,
        &[
            keras("brimful fit -- python train.py        # Keras, as it stands"),
            torch("step = brimful.torch.Step(model, loss, optimizer)   # PyTorch: step(batch)"),
            jax("optimizer = optax.MultiSteps(optimizer, every_k_schedule=4)   # JAX: in four parts"),
        ],
    ),
    advice(
        "mixed_precision",
        "Compute in 16 bits, keep weights in 32",
        SameResult::Numerics,
        &[
            keras("keras.mixed_precision.set_global_policy('mixed_float16')"),
            torch("with torch.autocast('cuda', dtype=torch.bfloat16): ...").on(CUDA),
            torch("with torch.autocast('cuda', dtype=torch.bfloat16): ...   # ROCm's devices have CUDA's name")
                .on(ROCM),
            torch("with torch.autocast('mps', dtype=torch.bfloat16): ...").on(MPS),
            torch("with torch.autocast('xpu', dtype=torch.bfloat16): ...").on(XPU),
            torch("with torch.autocast('npu', dtype=torch.bfloat16): ...").on(NPU),
            torch("with torch.autocast('cpu', dtype=torch.bfloat16): ...").on(HOST),
            torch("with torch.autocast('xla', dtype=torch.bfloat16): ...").on(TPU),
            jax("flax.linen.Dense(512, dtype=jnp.bfloat16)   # every layer; param_dtype stays float32"),
        ],
    ),
    advice(
        "activation_checkpointing",
        "Compute activations again instead of keeping them",
        SameResult::Exact,
        &[
            torch("model.gradient_checkpointing_enable()        # transformers"),
            torch("torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"),
            jax("block = jax.checkpoint(block)                # of Flax: flax.linen.remat(Block)"),
        ],
    ),
    advice(
        "smaller_batch",
        "A smaller batch",
        SameResult::Changed,
        &[
            keras("model.fit(x, y, batch_size=16)"),
            torch("DataLoader(dataset, batch_size=16)"),
            jax("for start in range(0, len(x), 16): state = train_step(state, x[start : start + 16])"),
        ],
    ),
    advice(
        "smaller_inputs",
        "Smaller images or shorter sequences",
        SameResult::Changed,
        &[
            any("tokenizer(text, truncation=True, max_length=512)"),
            keras("tf.image.resize(image, (128, 128))"),
            jax("jax.image.resize(images, (len(images), 128, 128, 3), 'bilinear')"),
        ],
    ),
    advice(
        "efficient_attention",
        "Attention that does not write out its S×S matrix",
        SameResult::Numerics,
        &[
            torch("torch.nn.functional.scaled_dot_product_attention(q, k, v)"),
            torch("AutoModel.from_pretrained(name, attn_implementation='sdpa')"),
            jax("jax.nn.dot_product_attention(q, k, v, implementation='cudnn')").on(CUDA),
            jax("jax.experimental.pallas.ops.tpu.flash_attention.flash_attention(q, k, v)").on(TPU),
        ],
    ),
    advice(
        "check_shape",
        "Check the shape: is one dimension a mistake?",
        SameResult::Changed,
        &[any("print(x.shape, x.dtype)   # broadcasting (n,) against (n, 1) gives (n, n)")],
    ),
    advice(
        "chunk_computation",
        "Compute in chunks and join the results",
        SameResult::Exact,
        &[
            torch("out = torch.cat([f(part) for part in x.split(1024)])"),
            jax("out = jax.lax.map(f, x, batch_size=1024)    # f of one row"),
        ],
    ),
    advice(
        "float32",
        "Compute in float32 instead of float64",
        SameResult::Numerics,
        &[keras("keras.config.set_floatx('float32')"), jax("jax.config.update('jax_enable_x64', False)")],
    ),
    advice(
        "bfloat16",
        "Weights and activations in bfloat16",
        SameResult::Changed,
        &[
            keras("keras.config.set_dtype_policy('bfloat16')"),
            jax("params = jax.tree.map(lambda w: w.astype(jnp.bfloat16), params)"),
        ],
    ),
    advice(
        "data_parallel",
        "Split the batch over several devices",
        SameResult::Exact,
        &[
            keras("keras.distribution.set_distribution(keras.distribution.DataParallel())"),
            torch("torchrun --nproc-per-node 2 train.py    # with DistributedDataParallel").on(SEVERAL),
            jax("batch = jax.device_put(batch, NamedSharding(mesh, PartitionSpec('data')))   # of jax.sharding"),
        ],
    ),
    advice(
        "smaller_evaluation_batch",
        "A smaller batch for evaluation",
        SameResult::Exact,
        &[
            keras("model.evaluate(x, y, batch_size=8)"),
            torch("TrainingArguments(per_device_eval_batch_size=4, eval_accumulation_steps=8)"),
            jax(
                "for start in range(0, len(x), 8): scores.append(jax.device_get(evaluate(params, x[start : start + 8])))",
            ),
        ],
    ),
    advice(
        "inference_mode",
        "No graph in evaluation",
        SameResult::Exact,
        &[torch("with torch.inference_mode(): model.eval(); ...")],
    ),
    advice(
        "move_results_to_host",
        "Move predictions to the host as they come",
        SameResult::Exact,
        &[torch("predictions.append(model(x).cpu())"), jax("predictions.append(jax.device_get(predict(params, x)))")],
    ),
    advice(
        "batches_to_device",
        "Move a batch at a time to the device",
        SameResult::Exact,
        &[
            torch("for x, y in loader: x, y = x.to(device), y.to(device)"),
            keras("with tf.device('CPU'): dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)"),
            jax("for x, y in batches: state = train_step(state, jax.device_put((x, y)))   # x, y of NumPy"),
        ],
    ),
    advice(
        "detach_results",
        "Keep numbers, not tensors with their graphs",
        SameResult::Exact,
        &[
            torch("total += loss.item()        # not: total += loss"),
            jax("losses.append(float(loss))  # not: losses.append(loss)"),
        ],
    ),
    advice(
        "stable_signatures",
        "Call compiled functions with tensors, not with Python numbers",
        SameResult::Exact,
        &[keras("@tf.function(input_signature=[tf.TensorSpec([None, 784])])")],
    ),
    advice(
        "stable_shapes",
        "Pad batches to a few sizes, the largest first",
        SameResult::Changed,
        &[torch(
            "DataLoader(dataset, collate_fn=collate)   # pads to a multiple of 64: docs/remedies/stable_shapes.md",
        )],
    ),
];
