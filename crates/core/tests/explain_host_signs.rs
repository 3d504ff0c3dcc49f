//! Wordings of `explain` for the host's memory, limits and kills, or for either memory, whose meaning lies in what stands around them: each with a
//! message where it holds and one where it does not.
//!
//! In: messages in their programs' own words, with figures, names and code of our own; who has met one is said beside it. Checked: what ran out,
//! the cause or that none is named, and figures. What is only said of devices is `explain_device_signs`'s. Rules that weigh figures are checked in
//! `explain_host_rules`, whole recordings in `explain_corpus`.

use brimful_core::explain::{Code, Explanation, Resource, explain};

fn said(log: &str) -> Explanation {
    explain(log.as_bytes())
}

fn cause(log: &str) -> Option<Code> {
    said(log).cause.map(|cause| cause.code)
}

#[test]
fn a_shape_that_was_typed_is_read() {
    // torch/torch7 issue 423.
    let typed = |sizes: &str| {
        said(&format!(
            "$ Torch: not enough memory: you tried to allocate 58GB. Buy new RAM! at /opt/torch/TH/THGeneral.c:200\n\
             stack traceback:\n\t[C]: in function 'Tensor'\n\t[string \"a = torch.Tensor({sizes})\"]:1: in main chunk\n"
        ))
    };
    let whole = typed("40000, 3 ,256 ,256");
    assert_eq!(whole.numbers.shape, Some(vec![40_000, 3, 256, 256]));
    assert_eq!(whole.cause.map(|cause| cause.code), Some(Code::TensorTooLarge));
    let other = typed("40, 3 ,256 ,256");
    assert_eq!((other.numbers.shape, other.cause.map(|cause| cause.code)), (None, None));
}

#[test]
fn a_cgroup_that_is_counted_out_is_at_its_limit() {
    // From the recording `killed_cgroup_dmesg`, and the same below its limit.
    let full = said("[35905.893074] memory: usage 204800kB, limit 204800kB, failcnt 53\n");
    assert_eq!(full.cause.map(|cause| cause.code), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(full.numbers.capacity_bytes, Some(204_800 << 10));
    assert_eq!(said("[35905.893074] memory: usage 104800kB, limit 204800kB, failcnt 0\n").resource, None);
}

#[test]
fn schedulers_and_clouds_name_the_memory_that_a_job_was_given() {
    // HTCondor's starter, Amazon's ECS (aws/amazon-ecs-agent issue 1187), Google's training service (tensorflow/models issue 9352).
    let condor =
        said("Error from slot1: Job has gone over memory limit of 4096 megabytes. Peak usage: 4200 megabytes.\n");
    assert_eq!(condor.cause.map(|cause| cause.code), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(condor.numbers.capacity_bytes, Some(4 << 30));
    let ecs = "Status reason\tOutOfMemoryError: Container killed due to memory usage\nExit Code\t137\n";
    assert_eq!(cause(ecs), Some(Code::ContainerOrSchedulerLimit));
    let google = "The replica worker 3 ran out-of-memory and exited with a non-zero status of 9(SIGKILL)\n";
    assert_eq!(cause(google), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(cause("The replica worker 3 exited with a non-zero status of 9(SIGKILL)\n"), Some(Code::KernelOomKill));
}

#[test]
fn a_shell_may_begin_with_the_script_and_its_line() {
    // jkjung-avt/hand-detection-tutorial issue 28.
    assert_eq!(cause("./job.sh:  7: 2345 killed              python3 job.py\n"), Some(Code::KernelOomKill));
    assert_eq!(cause("note: 7: 2345 rows killed by the filter\n"), None);
}

#[test]
fn weights_that_are_moved_or_read_are_a_model() {
    // PyTorch's FSDP, safetensors on the host, DeepSpeed's offloaded copies in full precision.
    let moved = |file: &str, function: &str, code: &str, message: &str| {
        format!("  File \"/venv/lib/python3.10/site-packages/{file}\", line 80, in {function}\n    {code}\n{message}\n")
    };
    let cuda = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 172.00 MiB (GPU 3; 39.39 GiB total capacity; 38.50 GiB \
                already allocated; 30.00 MiB free; 38.60 GiB reserved in total by PyTorch)";
    let host = "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate \
                26953113600 bytes. Error code 12 (Cannot allocate memory)";
    let fsdp = "torch/distributed/fsdp/_init_utils.py";
    let states = |code: &str| moved(fsdp, "_move_states_to_device", code, cuda);
    assert_eq!(cause(&states("param.data = param.to(device_from_device_id)")), Some(Code::ModelTooLarge));
    assert_ne!(cause(&states("batch = batch.to(device_from_device_id)")), Some(Code::ModelTooLarge));
    let opened = moved(
        "safetensors/torch.py",
        "load_file",
        "with safe_open(filename, framework=\"pt\", device=device) as f:",
        "OSError: Cannot allocate memory (os error 12)",
    );
    assert_eq!(cause(&opened), Some(Code::ModelTooLarge));
    let copies =
        "self.fp32_partitioned_groups_flat.append(self.fp16_groups[i].to(self.device).clone().float().detach())";
    let offloaded = moved("deepspeed/runtime/zero/stage3.py", "_create_fp32_partitions", copies, host);
    assert_eq!(cause(&offloaded), Some(Code::OptimizerState));
}

#[test]
fn a_process_that_vanished_is_no_error_of_another_kind() {
    // Hugging Face's datasets, docker ps.
    let died = said(
        "RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, disable multiprocessing.\n",
    );
    assert_eq!(died.cause.map(|cause| cause.code), None);
    assert!(died.alternatives.iter().any(|other| other.code == Code::KernelOomKill));
    let listed = |code: &str| {
        format!("3f2a   trainer   \"python t.py\"   2 hours ago    Exited ({code}) 5 minutes ago             job1\n")
    };
    assert_eq!(cause(&listed("137")), Some(Code::KernelOomKill));
    assert_eq!(cause(&listed("1")), None);
}

#[test]
fn what_validates_its_input_does_not_evaluate() {
    let fitted = |function: &str| {
        format!(
            "  File \"/opt/lib/python3.8/site-packages/sklearn/cluster/_kmeans.py\", line 1300, in fit\n    X = self.{function}(X, dtype=np.float64)\n  \
             File \"/opt/lib/python3.8/site-packages/sklearn/utils/validation.py\", line 560, in check_array\n    array = np.asarray(array, dtype=dtype)\n\
             numpy.core._exceptions.MemoryError: Unable to allocate 29.8 GiB for an array with shape (4000000, 1000) and data type float64\n"
        )
    };
    assert_eq!(cause(&fitted("_validate_data")), Some(Code::DatasetInMemory));
}

#[test]
fn what_a_buffer_was_for_stands_below_it() {
    // mozilla-ai/llamafile issue 554.
    let buffer = |what: &str| {
        format!(
            "llama_new_context_with_model: n_ctx      = 65536\n\
             ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 34359738400\n{what}\n\
             llama_init_from_gpt_params: error: failed to create context with model 'small.gguf'\n"
        )
    };
    assert_eq!(
        cause(&buffer("llama_kv_cache_init: failed to allocate buffer for kv cache")),
        Some(Code::BatchTooLarge)
    );
    let weights = buffer("llama_model_load: error loading model: unable to allocate backend buffer");
    assert_eq!(cause(&weights), Some(Code::ModelTooLarge));
}

#[test]
fn old_numpy_refuses_what_cannot_be_addressed_in_fewer_words() {
    // tambetm/simple_dqn issue 21.
    let array = said("    self.frames = np.empty((count, 84, 84), dtype=np.uint8)\nValueError: array is too big.\n");
    assert_eq!(array.resource, Some(Resource::HostMemory));
    assert_eq!(array.cause.map(|cause| cause.code), Some(Code::TensorTooLarge));
    assert_eq!(said("ValueError: the label is too big.\n").resource, None);
}

#[test]
fn a_bus_of_the_machine_is_no_shared_memory() {
    // rwth-i6/returnn issue 1486.
    let card = "pcieport 0000:17:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)\n";
    assert_eq!(said(card).resource, None);
    assert_eq!(said("Bus error (core dumped)\n").resource, Some(Resource::SharedMemory));
}

#[test]
fn the_message_below_a_notebooks_traceback_counts() {
    let raised = |message: &str| {
        said(&format!(
            "MemoryError                               Traceback (most recent call last)\n<ipython-input-3-0123456789ab> in <module>\n\
             ----> 1 rows.sort()\n\n{message}\n"
        ))
    };
    // rmm, cut off in the path of its source.
    let device = raised("MemoryError: std::bad_alloc: CUDA error at: /opt/include/rmm/mr/");
    assert_eq!(device.resource, Some(Resource::GpuMemory));
    assert_eq!(raised("MemoryError: std::bad_alloc").resource, Some(Resource::HostMemory));
    assert_eq!(raised("").resource, Some(Resource::HostMemory));
}

#[test]
fn weights_that_are_set_anew_are_a_model() {
    let fails = |function: &str| {
        cause(&format!(
            "Traceback (most recent call last):\n  File \"vectors.py\", line 9, in <module>\n    vectors = Vectors(corpus, size=500)\n  \
             File \"/usr/lib/python2.7/dist-packages/vectors/models/words.py\", line 524, in {function}\n    \
             self.syn1 = zeros((len(self.vocab), self.size), dtype=REAL)\nMemoryError\n"
        ))
    };
    assert_eq!(fails("reset_weights"), Some(Code::ModelTooLarge));
    assert_ne!(fails("reset_counts"), Some(Code::ModelTooLarge));
}

#[test]
fn what_was_told_before_training_began_is_over() {
    // mlx.core's message, below what a script of its examples prints.
    let told = |last: &str| {
        cause(&format!(
            "Loading datasets\n{last}\nstd::runtime_error: [malloc_or_wait] Unable to allocate 4294967296 bytes.\n"
        ))
    };
    assert_eq!(told("Reading rows"), Some(Code::DatasetInMemory));
    let training = said("Saving model\nTraining\nRuntimeError: CUDA error: out of memory\n");
    assert_eq!(training.cause.map(|cause| cause.code), None);
    let saving = said("Training\nSaving model\nRuntimeError: CUDA error: out of memory\n");
    assert_eq!(saving.cause.map(|cause| cause.code), Some(Code::EvaluationOrCheckpoint));
}

#[test]
fn other_languages_and_libraries_say_whose_memory_it_was() {
    // CUDA_CHECK_RETURN of bitsandbytes.
    let device = said("Error out of memory at line 412 in file /src/bitsandbytes/csrc/pythonInterface.c\n");
    assert_eq!(device.resource, Some(Resource::GpuMemory));
    let host = said(
        "Unhandled exception. System.OutOfMemoryException: Exception of type 'System.OutOfMemoryException' was thrown.\n",
    );
    assert_eq!(host.resource, Some(Resource::HostMemory));
    assert_eq!(said("System.InvalidOperationException: Sequence contains no elements\n").resource, None);
}

#[test]
fn what_the_next_program_says_is_not_what_failed() {
    // examples of fastText: a script goes on after its first program.
    let script = |below: &str| {
        cause(&format!(
            "Read 124M words\nterminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n{below}\n"
        ))
    };
    assert_eq!(script("Model file cannot be opened for loading!"), None);
    let other = "Traceback (most recent call last):\n  File \"eval.py\", line 79, in <module>\n    print(score(rows))\nValueError: no rows";
    assert_eq!(script(other), None);
    assert_eq!(script("Loading checkpoint shards:  33%|###   | 1/3 [00:03<00:06]"), Some(Code::ModelTooLarge));
}

#[test]
fn a_process_that_cannot_be_doubled_does_not_show_what_fills_it() {
    let starts = |file: &str| {
        said(&format!(
            "Traceback (most recent call last):\n  File \"/env/lib/python3.6/site-packages/torch/utils/data/dataloader.py\", line 438, in __init__\n    \
             w.start()\n  File \"/env/lib/python3.6/{file}\", line 19, in __init__\n    self._launch(process_obj)\n\
             OSError: [Errno 12] Cannot allocate memory\n"
        ))
    };
    let forked = starts("multiprocessing/popen_fork.py");
    assert_eq!((forked.resource, forked.cause.map(|cause| cause.code)), (Some(Resource::HostMemory), None));
    assert_eq!(starts("site-packages/pandas/read.py").cause.map(|cause| cause.code), Some(Code::DatasetInMemory));
}

#[test]
fn resources_that_are_exhausted_have_names() {
    // docker events.
    let event = |what: &str| {
        said(&format!("2026-01-02T03:04:05.000-05:00 container {what} 0123456789ab (image=train, name=job)\n"))
    };
    assert_eq!(event("oom").cause.map(|cause| cause.code), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(event("start").resource, None);
    // TensorFlow 0.12, in its saver.
    let file =
        said("W tensorflow/core/framework/op_kernel.cc:975] Resource exhausted: /data/model-700.data-00000-of-00001\n");
    assert_eq!(file.cause.map(|cause| cause.code), Some(Code::DiskFull));
    // tensorflow/c/c_api_internal.cc
    let graph = said(
        "ResourceExhaustedError: Failed to allocate memory to serialize message of type 'tensorflow.GraphDef' and size 5000000000\n",
    );
    assert_eq!((graph.resource, graph.numbers.requested_bytes), (Some(Resource::HostMemory), Some(5_000_000_000)));
    // rmm
    assert_eq!(said("MemoryError: std::bad_alloc: out_of_memory\n").resource, Some(Resource::GpuMemory));
    let refused = said(
        "ERROR 1: Failed to allocate GPU, trying again...\nFailed to initialize NVML: Driver/library version mismatch\n",
    );
    assert_eq!(refused.cause.map(|cause| cause.code), Some(Code::NotMemory));
}
