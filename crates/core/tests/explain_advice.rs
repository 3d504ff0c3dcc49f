//! Whom advice is for: code of the framework that failed, commands of the accelerator that it ran on.
//!
//! In: messages in the form that programs give them. Checked: the code of the remedies, and that none is for somebody else.

use brimful_core::explain::{Code, Explanation, explain};
use brimful_core::report::Style;

fn said(log: &str) -> Explanation {
    explain(log.as_bytes())
}

fn cause(log: &str) -> Option<Code> {
    said(log).cause.map(|cause| cause.code)
}

/// The code of all remedies, a line each.
fn code(log: &str) -> String {
    let remedies = said(log).remedies;
    let lines = remedies.iter().flat_map(|advice| advice.apply.iter().map(|snippet| snippet.code));
    lines.map(|line| format!("{line}\n")).collect()
}

fn headline(log: &str) -> String {
    said(log).to_text(Style { colour: false, width: 100 }).lines().next().unwrap_or("").to_owned()
}

fn step(error: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"train.py\", line 10, in <module>\n    state = train_step(state, batch)\n{error}\n"
    )
}

const JAX: &str = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 34359738368 bytes.";

#[test]
fn a_job_in_jax_gets_code_in_jax() {
    let log = step(JAX);
    assert_eq!(cause(&log), Some(Code::BatchTooLarge));
    let told = code(&log);
    for name in ["optax.MultiSteps", "jnp.bfloat16", "jax.checkpoint", "train_step(state, x[", "MEM_FRACTION=.95"] {
        assert!(told.contains(name), "{name}: {told}");
    }
    for name in ["keras", "torch", "tf."] {
        assert!(!told.contains(name), "{name}: {told}");
    }
}

#[test]
fn the_error_knows_better_than_the_pool_below_it_whose_job_it_was() {
    let pool = "2024-05-01 10:00:00.0: W external/xla/xla/tsl/framework/bfc_allocator.cc:497] Allocator (GPU_0_bfc) ran out of memory trying to \
                allocate 32.00GiB (rounded to 34359738368)requested by op \n";
    let told = code(&format!("{pool}{}", step(JAX)));
    assert!(told.contains("optax.MultiSteps") && !told.contains("keras") && !told.contains("tf."), "{told}");
    // TensorFlow's own error, and the pool alone, are TensorFlow's.
    let own = "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__Conv2D}} OOM when allocating tensor with \
               shape[256,64,224,224] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Conv2D]";
    for log in [format!("{pool}{}", step(own)), pool.to_owned()] {
        let told = code(&log);
        assert!(told.contains("brimful fit --") && !told.contains("optax"), "{told}");
    }
}

#[test]
fn keras_on_jax_is_still_keras() {
    let frames = "  File \"/usr/lib/python3.11/site-packages/keras/src/utils/traceback_utils.py\", line 122, in error_handler\n    raise e.with_traceback(filtered_tb) from None\n";
    let log = step(&format!("{frames}{JAX}")).replace("state = train_step(state, batch)", "model.fit(x, y)");
    let told = code(&log);
    assert!(told.contains("model.fit(x, y, batch_size=16)") && !told.contains("optax"), "{told}");
    assert!(told.contains("jax.checkpoint") && !told.contains("tf."), "{told}");
}

#[test]
fn a_tpu_is_no_gpu() {
    let log = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used \
               20.15G of 15.48G hbm. Exceeded hbm capacity by 4.67G.\n\nTotal hbm usage >= 20.67G:\n    reserved        530.00M \n    program          \
               18.15G \n    arguments         2.00G \n";
    assert_eq!(headline(log), "TPU memory ran out: the batch, or its activations, are too large (likely).");
    let told = code(log);
    assert!(told.contains("optax.MultiSteps"), "{told}");
    // Its memory is not shared by a fraction, and NVIDIA's libraries are not there.
    assert!(!told.contains("cudnn") && !told.contains("MEM_FRACTION"), "{told}");
    assert!(headline(&step(JAX)).starts_with("GPU memory ran out"));
}

#[test]
fn commands_are_those_of_the_accelerator() {
    let mps = "RuntimeError: MPS backend out of memory (MPS allocated: 17.97 GB, other allocations: 384.00 KB, max allowed: 18.13 GB). Tried to allocate \
               200.00 MB on private pool.\n";
    let discrete = |name: &str| {
        format!(
            "torch.OutOfMemoryError: {name} out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 15.98 GiB of which 120.00 MiB is \
             free. Of the allocated memory 15.20 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.\n"
        )
    };
    let (cuda, hip, xpu, npu) = (discrete("CUDA"), discrete("HIP"), discrete("XPU"), discrete("NPU"));
    for (log, autocast, tool) in [
        (cuda.as_str(), "autocast('cuda'", "nvidia-smi"),
        // PyTorch calls AMD's devices cuda, too.
        (&hip, "autocast('cuda'", "rocm-smi"),
        (&xpu, "autocast('xpu'", "xpu-smi"),
        (&npu, "autocast('npu'", "npu-smi"),
        (mps, "autocast('mps'", "top -o mem"),
    ] {
        let told = code(log);
        assert!(told.contains(autocast) && told.contains(tool), "{log}{told}");
        assert_eq!(told.matches("autocast(").count(), 1, "{told}");
        assert_eq!(told.contains("nvidia-smi"), tool == "nvidia-smi", "{told}");
    }
}

#[test]
fn what_other_jobs_hold_is_shown_by_the_accelerators_own_tool() {
    let full = "RuntimeError: MPS backend out of memory (MPS allocated: 6.10 GiB, other allocations: 14.20 GiB, max allowed: 20.40 GiB). Tried to \
                allocate 310.00 MiB on private pool.\n";
    assert_eq!(cause(full), Some(Code::OtherProcess));
    let told = code(full);
    assert!(told.contains("torch.mps.set_per_process_memory_fraction"), "{told}");
    assert!(!told.contains("cuda") && !told.contains("CUDA") && !told.contains("nvidia"), "{told}");
    // Where the size of the device is missing, the way to it is not NVIDIA's either.
    let cut = "RuntimeError: HIP out of memory. Tried to allocate 256.00 MiB\n";
    let how: Vec<&str> = said(cut).missing.iter().map(|missing| missing.how).collect();
    assert!(how.iter().any(|how| how.contains("rocm-smi")) && !how.concat().contains("nvidia"), "{how:?}");
}

#[test]
fn a_job_on_the_host_needs_no_tool_of_a_device() {
    let log = step(
        "jax.errors.JaxRuntimeError: INTERNAL: Error dispatching computation: Out of memory allocating 1367643664 bytes.",
    );
    let told = code(&log);
    assert!(told.contains("optax.MultiSteps") && !told.contains("cudnn") && !told.contains("MEM_FRACTION"), "{told}");
}
