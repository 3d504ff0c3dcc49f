//! Reports as they are written down: a native program's words above the frames of its caller, titles that were two lines, three letters for a full
//! device, templates of changes.
//!
//! In: texts of our own, with names and figures of our own, each beside one that says something else. Checked: what ran out and the cause, or that
//! none is named.

#[path = "support/explained.rs"]
mod explained;

use brimful_core::explain::{Code, Resource};
use explained::{cause, nothing, said};

/// The frames of whoever asked llama.cpp for a model.
const CALLER: &str = "Traceback (most recent call last):\n  File \"/srv/chat/app.py\", line 9, in <module>\n    model = Llama(path)\n  \
                      File \"/srv/venv/lib/python3.11/site-packages/pydantic/main.py\", line 212, in __init__\n    self.load_model(path)\n\
                      ValueError: Could not load the model\n";

#[test]
fn what_ggml_could_not_make_is_said_above_the_frames_of_its_caller() {
    let refused = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 310.00 MiB on device 1: cudaMalloc failed: out of memory\n";
    let compute = format!("{refused}llama_new_context_with_model: failed to allocate compute buffers\n{CALLER}");
    assert_eq!(cause(&compute), Some(Code::BatchTooLarge));
    let cache = format!(
        "The model fails to load:\n{refused}llama_kv_cache_init: failed to allocate buffer for kv cache\n{CALLER}"
    );
    assert_eq!(cause(&cache), Some(Code::BatchTooLarge));
    let weights = format!("{refused}llama_model_load: error loading model: unable to allocate CUDA1 buffer\n{CALLER}");
    assert_eq!(cause(&weights), Some(Code::ModelTooLarge));
}

#[test]
fn a_product_that_fails_is_no_handle_that_was_not_made() {
    let failed = |call: &str| format!("RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `{call}`\n");
    assert_eq!(cause(&failed("cublasCreate(handle)")), Some(Code::WorkspaceOrHandle));
    assert!(nothing(&failed("cublasSgemm( handle, opa, opb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc)")));
    assert!(nothing("# CUBLAS_STATUS_INTERNAL_ERROR\n"));
}

#[test]
fn a_scheduler_may_be_named_beside_what_it_did() {
    let told = "After two hours all of them are killed because of a Slurm out-of-memory error.\n";
    assert_eq!(
        (said(told).resource, cause(told)),
        (Some(Resource::ContainerLimit), Some(Code::ContainerOrSchedulerLimit))
    );
    assert!(nothing("# Tell a Slurm OOM from a timeout\n"));
}

#[test]
fn two_lines_may_become_one_title() {
    let message = "No available memory for the cache blocks.";
    let title = format!("# raise ValueError(\"{message}\") ValueError: {message}\n");
    assert_eq!(cause(&title), Some(Code::ReservedAtStart));
    assert!(nothing("raise MemoryError(\"CUDA out of memory: too many rows\")\n"));
}

#[test]
fn three_letters_need_somebody_who_had_it_and_a_device() {
    let step = "Traceback (most recent call last):\n  File \"fit.py\", line 8, in fit\n    optimizer.step()\n  \
                File \"/venv/lib/python3.9/site-packages/torch/optim/adam.py\", line 90, in step\n    exp_avg = torch.zeros_like(p)\n";
    assert_eq!(cause(&format!("It runs for a while, but then we are facing OOM:\n{step}")), Some(Code::OptimizerState));
    assert_eq!(said("I hit an OOM on a GPU with 24 GB.\n").resource, Some(Resource::GpuMemory));
    assert!(nothing("I hit an OOM in the build.\n"));
    assert!(nothing("We moved the zoom to the bottom of the room on the GPU page.\n"));
    assert!(nothing("How do I get rid of an OOM on a GPU?\n"));
    assert!(nothing("The GPU plugin handles an OOM for us.\n"));
}

#[test]
fn templates_of_changes_show_what_is_said_now() {
    let message = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n";
    assert!(nothing(&format!("## Why are these changes needed?\n\nThe message is clearer:\n\n```\n{message}```\n")));
    assert_eq!(cause(message), Some(Code::ContainerOrSchedulerLimit));
}

#[test]
fn a_trainer_that_runs_a_batch_is_inside_of_a_step() {
    let frames = |code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"run.py\", line 3, in <module>\n    trainer.fit(model)\n  \
             File \"/venv/site-packages/lightning/trainer/loop.py\", line 71, in run_epoch\n    {code}\n\
             RuntimeError: CUDA out of memory. Tried to allocate 48.00 MiB (GPU 0; 11.00 GiB total capacity; 9.91 GiB already allocated; \
             31.00 MiB free; 10.02 GiB reserved in total by PyTorch)\n"
        )
    };
    assert_eq!(cause(&frames("result = self.run_training_batch(batch)")), Some(Code::BatchTooLarge));
    assert_eq!(cause(&frames("self.dispatch(plugin)")), None);
    assert_eq!(cause(&frames("loss = self.scaler.step(self._optimizer, closure)")), Some(Code::OptimizerState));
}

#[test]
fn whoever_saw_memory_used_up_had_none_left() {
    let gone = "The usage of RAM goes up constantly until the script crashes.\n";
    assert_eq!((said(gone).resource, cause(gone)), (Some(Resource::HostMemory), Some(Code::Leak)));
    let killed = "After it took all 48 GB of RAM the process is killed. Has anybody seen this?\n";
    assert_eq!(said(killed).resource, Some(Resource::HostMemory));
    let ran =
        "After nine hours on four nodes of the cluster in the cellar we ran out of memory, and the run was lost.\n";
    assert_eq!(said(ran).resource, Some(Resource::HostMemory));
    assert!(nothing("The RAM that is used keeps increasing during training; is that a leak?\n"));
    assert!(nothing("The pod is killed if it takes all of its RAM.\n"));
    assert!(nothing("The viewer crashed twice, and all windows were gone.\n"));
}

#[test]
fn what_an_evaluation_keeps_is_no_leak() {
    let mut log = String::from("# CUDA out of memory during validation\n\n");
    for step in 0..12 {
        log += &format!("Evaluation  [{}/900]  eta: 0:01:10  max mem: {} MB\n", step * 10, 9000 + step * 300);
    }
    assert_eq!(cause(&log), Some(Code::EvaluationOrCheckpoint));
    let training = log.replace("Evaluation ", "Training ").replace(" during validation", "");
    assert_eq!(cause(&training), Some(Code::Leak));
}

#[test]
fn a_memory_error_may_be_two_words() {
    let arrays = "# Memory error when loading all arrays into memory\n";
    assert_eq!((said(arrays).resource, cause(arrays)), (Some(Resource::HostMemory), Some(Code::DatasetInMemory)));
    let file = "The file rows.npy has 31 GB. When I read it with np.load( ) I got a memory error.\n";
    assert_eq!(cause(file), Some(Code::DatasetInMemory));
    assert_eq!(cause("# Memory error\n\nI run it on a laptop.\n"), None);
    assert!(nothing("Our reader keeps two copies, which might lead to a memory error with large files.\n"));
    assert!(nothing("# CUDA illegal memory error in the second epoch\n"));
}

#[test]
fn a_driver_that_counts_below_zero_counts_nothing() {
    let log = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 210.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes \
               is free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 6.90 GiB is \
               allocated by PyTorch, and 180.00 MiB is reserved by PyTorch but unallocated.\n";
    assert_eq!((said(log).numbers.process_bytes, cause(log)), (None, None));
}

#[test]
fn threads_and_titles_of_changes_report_nothing_of_their_own() {
    let thread = "someone/tool · pull request #12 · merged · Python\n# Ask before the queue is drained\n\n";
    assert!(nothing(&format!("{thread}The worker was OOMKilled in the older release, and nobody saw it.\n")));
    let line = "slurmstepd: error: Detected 3 oom_kill events in StepId=91.0.\n";
    assert_eq!(cause(&format!("{thread}{line}")), Some(Code::ContainerOrSchedulerLimit));
    assert!(nothing(
        "queue(slurm): add a state for OUT_OF_MEMORY\n\nThe job is killed with SIGKILL then, and says no more.\n"
    ));
    assert!(nothing("The daemon of slurm has no OUT_OF_MEMORY in its list of states.\n"));
    assert_eq!(cause("train(rank0): RuntimeError: CUDA error: out of memory in loss.backward()\n"), None);
    assert_eq!(said("train(rank0): RuntimeError: CUDA error: out of memory\n").resource, Some(Resource::GpuMemory));
}

#[test]
fn whoever_tried_several_batches_knows_which_is_too_large() {
    let full = "# CUDA out of memory on one card\n\n";
    assert_eq!(cause(&format!("{full}It runs, but when I set batch_size=64 it failed.\n")), Some(Code::BatchTooLarge));
    assert_eq!(cause(&format!("{full}I still had it, it failed even with a batch size of 8.\n")), None);
    assert_eq!(cause(&format!("{full}When I set batch_size=1 it failed.\n")), None);
}

#[test]
fn a_dask_worker_says_what_it_may_have() {
    let log = "distributed.worker - INFO -               Threads:                          2\n\
               distributed.worker - INFO -                Memory:                    6.00 GiB\n\
               distributed.nanny - WARNING - Worker exceeded 95% memory budget. Restarting\n";
    assert_eq!((cause(log), said(log).numbers.capacity_bytes), (Some(Code::ContainerOrSchedulerLimit), Some(6 << 30)));
}

#[test]
fn a_list_of_reasons_has_happened_to_nobody() {
    let list = "- The container got OOM-killed because its share is small.\n- The node was drained.\n";
    assert!(nothing(&format!("The same error can also happen when:\n\n{list}")));
    let own = format!("My runs ended for the following reasons:\n\n{list}");
    assert_eq!(cause(&own), Some(Code::ContainerOrSchedulerLimit));
}

#[test]
fn people_name_the_kernels_killer() {
    assert_eq!(cause("The tests took too much, and the OOM killer was triggered.\n"), Some(Code::KernelOomKill));
    assert_eq!(cause("# Two tests end with OOM (Killed: 9) on the small machine\n"), Some(Code::KernelOomKill));
    assert!(nothing("A job that is killed by the OOM killer usually leaves a line in the kernel's log.\n"));
}

#[test]
fn sources_of_a_library_that_grows_trees_name_it() {
    let log = "../src/tree/updater_gpu_hist.cu:612: Exception in gpu_hist: ../src/common/device_helpers.cuh:431: Memory allocation error on worker 0: \
               std::bad_alloc: cudaErrorMemoryAllocation: out of memory\n- Free memory: 1048576\n- Requested memory: 8388608\n";
    assert_eq!((cause(log), said(log).numbers.requested_bytes), (Some(Code::DataOnDevice), Some(8 << 20)));
}

#[test]
fn a_pool_in_pieces_has_a_tenth_of_them_idle() {
    let full = |asked: &str, allocated: &str, reserved: &str| {
        format!(
            "RuntimeError: CUDA out of memory. Tried to allocate {asked} (GPU 0; 12.00 GiB total capacity; {allocated} already allocated; 0.20 GiB \
             free; {reserved} reserved in total by PyTorch)\n"
        )
    };
    assert_eq!(cause(&full("200.00 MiB", "7.00 GiB", "11.00 GiB")), Some(Code::Fragmentation));
    assert_eq!(cause(&full("200.00 MiB", "10.70 GiB", "11.00 GiB")), None);
    // With what lies beside the pool it would have been enough.
    assert_eq!(cause(&full("3.10 GiB", "8.00 GiB", "11.00 GiB")), Some(Code::Fragmentation));
    assert_eq!(cause(&full("4.10 GiB", "8.00 GiB", "11.00 GiB")), None);
}

#[test]
fn what_somebody_tried_is_no_second_attempt_of_the_job() {
    let log = "# RuntimeError: CUDA error: out of memory\n\nI've tried reducing batch size, and nothing helps.\n";
    assert_eq!(said(log).resource, Some(Resource::GpuMemory));
    let job =
        "RuntimeError: CUDA error: out of memory\nreducing batch size to 16\nepoch 1: loss 0.3\nTraining finished\n";
    assert!(nothing(job));
}

#[test]
fn a_call_of_lambda_that_is_killed_had_a_limit() {
    let log = "REPORT RequestId: 7f-1 Duration: 912.1 ms Billed Duration: 913 ms Memory Size: 1024 MB Max Memory Used: 1001 MB\n\
               Error: Runtime exited with error: signal: killed\nRuntime.ExitError\n";
    assert_eq!(
        (said(log).resource, cause(log)),
        (Some(Resource::ContainerLimit), Some(Code::ContainerOrSchedulerLimit))
    );
    assert_eq!(said(log).numbers.capacity_bytes, Some(1 << 30));
    assert!(nothing("REPORT RequestId: 7f-1 Memory Size: 1024 MB Max Memory Used: 640 MB\n"));
}

#[test]
fn a_packed_program_shows_no_code_where_it_makes_its_model() {
    let frames = |function: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"app\\main.py\", line 40, in run\n  File \"speech\\transcribe.py\", line 88, in {function}\n\
             RuntimeError: CUDA failed with error out of memory\n"
        )
    };
    assert_eq!(cause(&frames("__init__")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&frames("init")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&frames("segments")), None);
}

#[test]
fn whoever_has_it_says_what_it_was() {
    let full = "I get CUDA error: out of memory on a small card.\n";
    assert_eq!(cause(&format!("{full}I think the large model is too big for it.\n")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&format!("{full}I think the images for the model are too big.\n")), None);
    assert_eq!(cause(&format!("{full}It fails after a few trials of the search.\n")), Some(Code::Leak));
    assert_eq!(cause(&format!("{full}All of the memory is freed before.\n")), None);
    assert_eq!(cause("# Memory error on doing pd.merge() with two csv files\n"), Some(Code::DatasetInMemory));
    let title = "# GPU Out of Memory when repeatedly running the same net on one card of the cluster\n";
    assert_eq!((said(title).resource, cause(title)), (Some(Resource::GpuMemory), Some(Code::Leak)));
    let next = "I'm facing various OOM here.\nNot all of the GPU is given back.\n";
    assert_eq!(said(next).resource, Some(Resource::GpuMemory));
}

#[test]
fn a_title_in_three_letters_needs_the_frames_of_a_model() {
    let step = "Traceback (most recent call last):\n  File \"sft.py\", line 8, in main\n    trainer.train()\n  \
                File \"/venv/lib/python3.9/site-packages/torch/_tensor.py\", line 626, in backward\n    torch.autograd.backward(self)\n";
    assert_eq!(cause(&format!("# [BUG] OOM with two shards\n\n{step}")), Some(Code::BatchTooLarge));
    assert!(nothing("# [BUG] OOM with two shards\n\nThe build needs too much.\n"));
    assert!(nothing(&format!("# The launcher should report an OOM\n\n{step}")));
}

#[test]
fn no_context_could_be_made_on_a_device_that_was_full_before() {
    let log = "# CUDA_ERROR_OUT_OF_MEMORY\n\nI run the chat and see this:\n\nE direct_session.cc:135] Internal: failed initializing StreamExecutor for \
               CUDA device ordinal 0: Internal: failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY; total memory reported: 8589934592\n";
    assert_eq!((cause(log), said(log).numbers.capacity_bytes), (Some(Code::OtherProcess), Some(8 << 30)));
}

#[test]
fn what_is_called_says_where_it_was() {
    assert_eq!(
        cause("I get a CUDA OOM as soon as I use the predict function on all rows.\n"),
        Some(Code::EvaluationOrCheckpoint)
    );
    assert_eq!(cause("I get a CUDA OOM as soon as I use all rows.\n"), None);
    let wraps = "# OutOfMemoryError: CUDA out of memory.\n\nTraceback (most recent call last):\n  \
                 File \"/venv/site-packages/torch/distributed/fsdp/wrap.py\", line 317, in _wrap\n    return wrapper_cls(module, **kwargs)\n";
    assert_eq!(cause(wraps), Some(Code::ModelTooLarge));
    assert!(nothing(
        "LSF normally ends such jobs and writes TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\n"
    ));
}

#[test]
fn a_title_or_the_frames_of_a_model_name_the_device() {
    let said_so = "The out of memory error always appears in the second stage of the training.\n";
    assert_eq!(said(said_so).resource, Some(Resource::HostMemory));
    let titled = format!("# There are GPU out of memory errors in every run\n\n{said_so}");
    assert_eq!(said(&titled).resource, Some(Resource::GpuMemory));
    let frames = "Traceback (most recent call last):\n  File \"/venv/site-packages/torch/nn/modules/linear.py\", line 9, in forward\n    return x\n";
    assert_eq!(said(&format!("{said_so}{frames}")).resource, Some(Resource::GpuMemory));
}

#[test]
fn small_letters_and_other_scripts_may_begin_a_title() {
    assert_eq!(
        said("# mps always goes OOM on the second run\n\nIt is the GPU of a laptop.\n").resource,
        Some(Resource::GpuMemory)
    );
    assert!(nothing("# Improve the OOM message of a GPU\n"));
    let save = "  File \"/job/save.py\", line 21, in save_ckpt\n    state = model.state_dict()\n  \
                File \"/venv/site-packages/torch/nn/modules/module.py\", line 2224, in state_dict\n    hook(self)\n";
    assert_eq!(cause(&format!("# 训练时遇到OOM问题\n\n{save}")), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(said("# The sharded writer runs into CPU OOM\n").resource, Some(Resource::HostMemory));
}

#[test]
fn what_causes_it_stands_before_it() {
    assert_eq!(cause("# Checkpointing causes CUDA OOM\n"), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause("# Validation throws CUDA OOM\n"), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause("# Training throws CUDA OOM\n"), None);
}

#[test]
fn titles_end_with_it_too() {
    let title = "# The tfrecord files are loaded into memory at once, yielding out-of-memory\n";
    assert_eq!((said(title).resource, cause(title)), (Some(Resource::HostMemory), Some(Code::DatasetInMemory)));
    let came = "I run the small config on one card only, but it came out of memory on the GPU in the first minute of the run.\n";
    assert_eq!(said(came).resource, Some(Resource::GpuMemory));
    assert!(nothing("# A guide to jobs that are large, with remarks on out-of-memory\n"));
}

#[test]
fn when_it_was_may_be_said_in_more_words() {
    let refused = "\n\n> RuntimeError: CUDA error: out of memory\n";
    assert_eq!(
        cause(&format!("# Our net is out of memory at validation time{refused}")),
        Some(Code::EvaluationOrCheckpoint)
    );
    assert_eq!(cause(&format!("# Our net is out of memory at night{refused}")), None);
    assert_eq!(cause("# CUDA error: out of memory when trying to validate\n"), Some(Code::EvaluationOrCheckpoint));
}
