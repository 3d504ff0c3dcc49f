//! Runtimes of other devices, serving engines and services that run a container: each with a message where the rule holds and one where it does not.
//!
//! In: messages in their programs' own words, with figures, names and code of our own. Checked: what ran out, the cause or that none is named, and
//! figures.

use brimful_core::bytes::{GIB, MIB};
use brimful_core::explain::{Code, Explanation, Resource, explain};

fn said(log: &str) -> Explanation {
    explain(log.as_bytes())
}

fn cause(log: &str) -> Option<Code> {
    said(log).cause.map(|cause| cause.code)
}

#[test]
fn directml_and_openvino_say_what_they_could_not_allocate() {
    let vae = said(
        "  File \"C:\\sd\\venv\\lib\\site-packages\\torch\\nn\\modules\\conv.py\", line 456, in _conv_forward\n    return F.conv2d(input, weight)\n\
         RuntimeError: Could not allocate tensor with 754974720 bytes. There is not enough GPU video memory available!\n",
    );
    assert_eq!(
        (vae.resource, vae.numbers.requested_bytes, vae.cause.map(|cause| cause.code)),
        (Some(Resource::GpuMemory), Some(754_974_720), Some(Code::BatchTooLarge))
    );
    assert_eq!(said("INFO: GPU video memory: 8176 MB\n").resource, None);
    let one = said(
        "[GPU] Exceeded max size of memory object allocation: requested 7516192768 bytes, but max alloc size supported by device is 4294959104 \
         bytes.Please try to reduce batch size or use lower precision.\n",
    );
    assert_eq!((one.numbers.requested_bytes, one.numbers.capacity_bytes), (Some(7 * GIB), Some(4_294_959_104)));
    assert_eq!(one.cause.map(|cause| cause.code), Some(Code::TensorTooLarge));
}

#[test]
fn a_buffer_of_metal_has_a_largest_size() {
    let log = "RuntimeError: [metal::malloc] Attempting to allocate 32212254720 bytes which is greater than the maximum allowed buffer size of \
               15032385536 bytes.\n";
    let refused = said(log);
    assert_eq!((refused.numbers.requested_bytes, refused.numbers.capacity_bytes), (Some(30 * GIB), Some(14 * GIB)));
    assert_eq!(refused.cause.map(|cause| cause.code), Some(Code::TensorTooLarge));
    assert_eq!(said("[metal::malloc] Resource limit (499000) exceeded.\n").resource, None);
}

#[test]
fn engines_count_tokens_and_weights() {
    let tokens = "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 4096 tokens.\nAvailable tokens: 1100\n";
    assert_eq!((said(tokens).resource, cause(tokens)), (Some(Resource::GpuMemory), Some(Code::BatchTooLarge)));
    assert_eq!(cause("RuntimeError: Insufficient VRAM for model and cache\n"), Some(Code::ModelTooLarge));
    assert_eq!(cause("Prefill batch. #new-seq: 1, #new-token: 7, token usage: 0.00\n"), None);
}

#[test]
fn services_name_the_memory_of_a_container() {
    let limit = |log: &str| {
        let said = said(log);
        assert_eq!(said.cause.map(|cause| cause.code), Some(Code::ContainerOrSchedulerLimit), "{log}");
        assert_eq!(said.resource, Some(Resource::ContainerLimit), "{log}");
        said.numbers.capacity_bytes
    };
    let report = |used: u32| {
        format!("REPORT RequestId: 7c\tDuration: 9 ms\tMemory Size: 2048 MB\tMax Memory Used: {used} MB\t\n")
    };
    let killed = "RequestId: 7c Error: Runtime exited with error: signal: killed\n";
    assert_eq!(limit(&format!("{killed}{}", report(2048))), Some(2048 * MIB));
    assert_eq!(said(&report(611)).resource, None);
    assert_eq!(
        limit("Memory limit of 1024 MiB exceeded with 1061 MiB used. Consider increasing the memory limit.\n"),
        Some(GIB)
    );
    assert_eq!(said("Memory limit of 1024 MiB is set for this service\n").resource, None);
    assert_eq!(limit("heroku[worker.1]: Error R15 (Memory quota vastly exceeded)\n"), None);
    assert_eq!(limit("Ran out of memory (used over 512MB) while running your code.\n"), Some(512 * MIB));
    assert_eq!(limit("Memory limit exceeded (16Gi)\n"), Some(16 * GIB));
    assert_eq!(limit("State: OUT_OF_MEMORY (exit code 0)\nMemory Efficiency: 99.81% of 24.00 GB\n"), Some(24 * GIB));
    assert_eq!(said("State: COMPLETED (exit code 0)\nMemory Efficiency: 99.81% of 24.00 GB\n").resource, None);
}

#[test]
fn a_worker_that_timed_out_was_killed_by_its_master() {
    let killed = "[2026-05-04 10:11:12 +0000] [7] [ERROR] Worker (pid:31) was sent SIGKILL! Perhaps out of memory?\n";
    assert_eq!((said(killed).resource, cause(killed)), (Some(Resource::HostMemory), Some(Code::KernelOomKill)));
    let late = format!("[2026-05-04 10:11:11 +0000] [7] [CRITICAL] WORKER TIMEOUT (pid:31)\n{killed}");
    assert_eq!((said(&late).resource, cause(&late)), (None, Some(Code::NotMemory)));
}

#[test]
fn libraries_say_what_they_asked_for() {
    let asked = |log: &str| {
        let said = said(log);
        (said.resource, said.numbers.requested_bytes)
    };
    let host = Some(Resource::HostMemory);
    let device = Some(Resource::GpuMemory);
    let failed = "tcmalloc: large alloc 34359738368 bytes == (nil) @  0x7f01 0x5a11\nterminate called after throwing an instance of 'std::bad_alloc'\n";
    assert_eq!(asked(failed), (host, Some(32 * GIB)));
    assert_eq!(asked("tcmalloc: large alloc 34359738368 bytes == 0x55c1e000 @  0x7f01\n"), (None, None));
    assert_eq!(asked("MemoryError: Error assigning 536870912 bytes\n"), (host, Some(GIB / 2)));
    let java = "# Native memory allocation (mmap) failed to map 4294967296 bytes for committing reserved memory.\n";
    assert_eq!(asked(java), (host, Some(4 * GIB)));
    let mapped =
        "RuntimeError: unable to mmap 8589934592 bytes from file <./m/weights.bin>: Cannot allocate memory (12)\n";
    assert_eq!(asked(mapped), (host, Some(8 * GIB)));
    let trees = "xgboost.core.XGBoostError: [10:00:00] /w/src/common/device_helpers.cuh:428: Memory allocation error on worker 2: Caching allocator\n\
                 - Free memory: 104857600\n- Requested memory: 1073741824\n";
    assert_eq!(asked(trees), (device, Some(GIB)));
    let index = "RuntimeError: Error in virtual void* faiss::gpu::StandardGpuResourcesImpl::allocMemory(const faiss::gpu::AllocRequest&): Error: 'err == \
                 cudaSuccess' failed: StandardGpuResources: alloc fail type FlatData dev 0 space Device stream 0x55 size 2147483648 bytes (cudaMalloc \
                 error out of memory [2])\n";
    assert_eq!(asked(index), (device, Some(2 * GIB)));
    assert_eq!(
        asked("[10:00:00] src/storage/./pooled_storage_manager.h:62: Memory allocation failed.\n"),
        (device, None)
    );
}

#[test]
fn limits_of_other_kinds_have_their_own_words() {
    let kryo = said(
        "SparkException: Kryo serialization failed: Buffer overflow. Available: 0, required: 33554432. To avoid this, increase it.\n",
    );
    assert_eq!((kryo.resource, kryo.numbers.requested_bytes), (Some(Resource::MessageSize), Some(32 * MIB)));
    assert_eq!(
        cause("BLAS : Program is Terminated. Because you tried to allocate too many memory regions.\n"),
        Some(Code::Threads)
    );
    let join = "SparkException: Not enough memory to build and broadcast the table to all worker nodes.\n";
    assert_eq!((said(join).resource, cause(join)), (Some(Resource::HostMemory), Some(Code::ContainerOrSchedulerLimit)));
}

#[test]
fn what_goes_on_without_the_device_is_no_failure() {
    assert_eq!(
        said("WARNING: CUDA OutOfMemoryError in TaskAlignedAssigner, using CPU\n10 epochs completed in 1.2 hours.\n")
            .resource,
        None
    );
    assert_eq!(said("WARNING: CUDA OutOfMemoryError in TaskAlignedAssigner\n").resource, Some(Resource::GpuMemory));
}

#[test]
fn gaudi_and_mindspore_name_their_device() {
    let gaudi = said(
        "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::1073741824 (1024)MB\n",
    );
    assert_eq!((gaudi.resource, gaudi.numbers.requested_bytes), (Some(Resource::GpuMemory), Some(GIB)));
    let device = said(
        "RuntimeError: Device(id:0) memory isn't enough and alloc failed, kernel name: Default/net/Conv2D-op7, alloc size: 2147483648B.\n",
    );
    assert_eq!((device.resource, device.numbers.requested_bytes), (Some(Resource::GpuMemory), Some(2 * GIB)));
    let host = said(
        "RuntimeError: Memory isn't enough and alloc failed, kernel name: Default/net/MatMul-op1, alloc size: 1073741824B.\n",
    );
    assert_eq!(host.resource, Some(Resource::HostMemory));
    assert_eq!(said("[INFO] PT_DEVMEM pool size 96 GB\n").resource, None);
}

#[test]
fn a_model_that_is_skipped_for_want_of_memory_does_not_end_the_run() {
    assert_eq!(
        said("\tNot enough memory to train model... Skipping ExtraTrees.\nFitting model: CatBoost ...\n").resource,
        None
    );
    assert_eq!(said("MemoryError: Not enough memory to train this system\n").resource, Some(Resource::HostMemory));
}

#[test]
fn llama_says_what_the_host_did_not_have() {
    let cache = said(
        "ggml_aligned_malloc: insufficient memory (attempted to allocate 16384.00 MB)\n\
         llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n",
    );
    assert_eq!((cache.resource, cache.numbers.requested_bytes), (Some(Resource::HostMemory), Some(16 * GIB)));
    assert_eq!(cache.cause.map(|cause| cause.code), Some(Code::BatchTooLarge));
}

#[test]
fn whoever_was_killed_may_stand_behind_a_bar() {
    for log in [
        " 31%|###      | 331/1063 [01:06<03:59,  3.06it/s]Killed\n",
        "**Killed**\n",
        "train.service: Main process exited, code=killed, status=9/KILL\n",
    ] {
        assert_eq!((said(log).resource, cause(log)), (Some(Resource::HostMemory), Some(Code::KernelOomKill)), "{log}");
    }
    assert_eq!(said("train.service: Main process exited, code=killed, status=15/TERM\n").resource, None);
    let old = "Task in /docker/7c1 killed as a result of limit of /docker/7c1\n";
    assert_eq!(
        (said(old).resource, cause(old)),
        (Some(Resource::ContainerLimit), Some(Code::ContainerOrSchedulerLimit))
    );
    let queue = said(
        "job 77.1 exceeds job hard limit \"h_vmem\" of queue \"all.q@n3\" (8600000000.00000 > limit:8589934592.00000) - sending SIGKILL\n",
    );
    assert_eq!((queue.resource, queue.numbers.capacity_bytes), (Some(Resource::ContainerLimit), Some(8 * GIB)));
}

#[test]
fn a_kernel_that_vanished_after_a_large_allocation_had_no_memory() {
    let died = "KernelRestarter: restarting kernel (1/5), keep random ports\n";
    assert_eq!((said(died).resource, cause(died)), (None, None));
    let large = format!("tcmalloc: large alloc 12884901888 bytes == 0x7f8880000000 @ 0x7f94\n{died}");
    assert_eq!((said(&large).resource, cause(&large)), (Some(Resource::HostMemory), Some(Code::KernelOomKill)));
}

#[test]
fn a_banner_of_a_container_is_no_failure() {
    let banner = "NOTE: The SHMEM allocation limit is set to the default of 64MB.  This may be insufficient for PyTorch.\n   docker run --gpus all --ipc=host \
                  --ulimit memlock=-1 --ulimit stack=67108864 ...\n";
    assert_eq!(said(banner).resource, None);
    assert_eq!(cause(&format!("{banner}KeyError: 'labels'\n")), Some(Code::NotMemory));
    let refused = "libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.\n    This will severely limit memory registrations: error\n";
    assert_eq!(said(refused).resource, None);
    assert_eq!(said("ibv_create_cq failed, increase RLIMIT_MEMLOCK\n").resource, Some(Resource::HostMemory));
}

#[test]
fn bodies_and_messages_have_limits() {
    let body = "requests.exceptions.HTTPError: 413 Client Error: Request Entity Too Large for url: https://tracking.example/api\n";
    assert_eq!((said(body).resource, cause(body)), (Some(Resource::MessageSize), Some(Code::MessageSize)));
    assert_eq!(
        cause("requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://x.example\n"),
        Some(Code::NotMemory)
    );
    let frame = said(
        "ConnectionClosedError: sent 1009 (message too big) frame with 2097152 bytes exceeds limit of 1048576 bytes\n",
    );
    assert_eq!((frame.numbers.requested_bytes, frame.numbers.capacity_bytes), (Some(2 * MIB), Some(MIB)));
    let segment = "OSError: [Errno 28] No space left on device: '/psm_7c1f'\n";
    assert_eq!(
        (said(segment).resource, cause(segment)),
        (Some(Resource::SharedMemory), Some(Code::WorkerSharedMemory))
    );
}

#[test]
fn exit_codes_end_sentences() {
    for log in ["##[error]Process completed with exit code 137.\n", "Process 2 exit with status code 137.\n"] {
        assert_eq!(cause(log), Some(Code::KernelOomKill), "{log}");
    }
    assert_eq!(said("exit code 137.5\n").resource, None);
}

#[test]
fn devices_below_other_programs_say_it_in_their_words() {
    let physics = said("/w/PxgCudaDeviceMemoryAllocator fail to allocate memory 268435456 bytes!! Result = 2\n");
    assert_eq!((physics.resource, physics.numbers.requested_bytes), (Some(Resource::GpuMemory), Some(GIB / 4)));
    assert_eq!(
        said("lightgbm.basic.LightGBMError: Memory Object Allocation Failure\n").resource,
        Some(Resource::GpuMemory)
    );
}

#[test]
fn a_web_ui_counts_before_it_asks() {
    let refused = said(
        "Traceback (most recent call last):\n  File \"/sd/modules/processing.py\", line 7, in process_images_inner\n    samples = p.sample(p.c)\n\
         RuntimeError: Not enough memory, use lower resolution (max approx. 832x832). Need: 2.5GB free, Have:1.5GB free\n",
    );
    assert_eq!((refused.resource, refused.numbers.requested_bytes), (Some(Resource::GpuMemory), Some(5 * GIB / 2)));
    assert_eq!(refused.numbers.free_bytes, Some(3 * GIB / 2));
    assert_eq!(refused.cause.map(|cause| cause.code), Some(Code::BatchTooLarge));
}

#[test]
fn a_server_says_what_it_was_at() {
    let rehearsed = "{\"level\":\"ERROR\",\"fields\":{\"message\":\"Server error: CUDA out of memory. Tried to allocate 608.00 MiB. GPU 0 has a total \
                     capacity of 14.58 GiB of which 99.56 MiB is free.\"},\"spans\":[{\"max_prefill_tokens\":\"4096\",\"name\":\"warmup\"}]}\n";
    assert_eq!(cause(rehearsed), Some(Code::BatchTooLarge));
    assert_eq!(cause(&rehearsed.replace("warmup", "prefill")), None);
    // The line of the failure itself, however long it is.
    let loaded = format!(
        "E0501 model_lifecycle.cc:638] failed to load 'net' version 1: Internal: Exception during initialization: {}/core/bfc_arena.cc:376 Failed to \
         allocate memory for requested buffer of size 205520896\n",
        "/onnxruntime".repeat(24)
    );
    assert_eq!((cause(&loaded), said(&loaded).numbers.requested_bytes), (Some(Code::ModelTooLarge), Some(205_520_896)));
}

#[test]
fn whoever_does_not_answer_is_killed_by_kubernetes() {
    let probe = "  Normal   Killing    3m    kubelet  Container api failed liveness probe, will be restarted\n      Reason:       Error\n      Exit Code:    137\n";
    assert_eq!((said(probe).resource, cause(probe)), (None, Some(Code::NotMemory)));
    let both = probe.replace("Reason:       Error", "Reason:       OOMKilled");
    assert_eq!(cause(&both), Some(Code::ContainerOrSchedulerLimit));
}

#[test]
fn shells_say_killed_in_many_languages() {
    for line in [
        "./go.sh : ligne 7 : 4417 Processus arrêté      python3 fit.py",
        "./go.sh: riga 7:  4417 Ucciso   python3 fit.py",
    ] {
        assert_eq!(cause(line), Some(Code::KernelOomKill), "{line}");
    }
    assert_eq!(
        cause(
            "Processus arrêté par l'utilisateur avant la fin de la deuxième époque, avec une perte de 0,31 et une précision de 0,87 sur les données de test"
        ),
        None
    );
}

#[test]
fn video_memory_has_a_short_name() {
    assert_eq!(said("ERROR: not enough VRAM: 11.2 GiB needed, 7.6 GiB free\n").resource, Some(Resource::GpuMemory));
    assert_eq!(
        said("Tip: if you have not enough VRAM, pass --lowvram, see the manual for how to use it\n").resource,
        None
    );
}

#[test]
fn pages_about_memory_report_nothing() {
    let page = "# Out of memory errors\nIf you see `CUDA out of memory`, use fewer images at a time.\n";
    assert_eq!(said(page).resource, None);
    assert_eq!(
        said("RuntimeError: CUDA out of memory. If you want more, buy more.\n").resource,
        Some(Resource::GpuMemory)
    );
}

#[test]
fn tensorrt_goes_on_without_a_kernel_while_there_are_others() {
    let refused = "[E] Error[1]: [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)\n\
                   [W] [TRT] Requested amount of GPU memory (3221225472 bytes) could not be allocated. There may not be enough free memory for \
                   allocation to succeed.\n";
    let skipped = "[W] [TRT] Skipping tactic 4 due to insufficient memory on requested size of 3221225472 detected for tactic 0x3e8.\n";
    let built = said(&format!("{refused}{skipped}[I] Engine built in 88.2 sec.\n"));
    assert_eq!((built.resource, built.cause.is_some()), (None, false));
    assert_eq!(built.not_failures.len(), 1);
    assert_eq!(said(skipped).resource, None);
    let failed = said(&format!(
        "{refused}[E] Error[10]: Error Code 10: Internal Error (Could not find any implementation for node {{ForeignNode[a...b]}}.)\n\
         [E] Failed to create engine from model or file.\n"
    ));
    assert_eq!(failed.numbers.requested_bytes, Some(3 * GIB));
    assert_eq!(failed.cause.map(|cause| cause.code), Some(Code::WorkspaceOrHandle));
    // Without a word of what it was for, there is no cause; a kernel that is missing for another reason is none either.
    assert_eq!((said(refused).resource, cause(refused)), (Some(Resource::GpuMemory), None));
    assert_eq!(said("[E] [TRT] Could not find any implementation for node Resize_7.\n").resource, None);
}

#[test]
fn an_engine_is_read_before_it_has_a_context() {
    let of = |line: &str| {
        cause(&format!(
            "[W] [TRT] Requested amount of GPU memory (9663676416 bytes) could not be allocated. There may not be enough free memory for \
             allocation to succeed.\n{line}\n"
        ))
    };
    let context =
        "[E] [TRT] 2: [executionContext.cpp::ExecutionContext::470] Error Code 2: OutOfMemory (no further information)";
    assert_eq!(of(context), Some(Code::BatchTooLarge));
    let read =
        "[E] [TRT] 2: [runtime.cpp::deserializeCudaEngine::50] Error Code 2: OutOfMemory (no further information)";
    assert_eq!(of(read), Some(Code::ModelTooLarge));
}

#[test]
fn a_layout_of_processors_shows_whose_memory_it_was() {
    let log = |node: &str| {
        said(&format!(
            "[E:onnxruntime:, sequential_executor.cc:339 Execute] Non-zero status code returned while running Conv node. Name:'{node}' Status Message: \
             bfc_arena.cc:330 onnxruntime::BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 268435456\n"
        ))
    };
    assert_eq!(
        (log("Conv_7_nchwc").resource, log("Conv_7_nchwc").numbers.requested_bytes),
        (Some(Resource::HostMemory), Some(GIB / 4))
    );
    assert_eq!(log("Conv_7").resource, Some(Resource::GpuMemory));
}

#[test]
fn a_limit_in_json_is_one_of_kubernetes() {
    let capacity = |size: &str| {
        let log = format!("\"reason\": \"OOMKilled\"\n\"limits\": {{\"cpu\": \"4\", \"memory\": \"{size}\"}}\n");
        said(&log).numbers.capacity_bytes
    };
    assert_eq!((capacity("8Gi"), capacity("512 MB")), (Some(8 * GIB), None));
}

#[test]
fn thrust_opencl_and_catboost_say_where_it_was() {
    let thrust = "terminate called after throwing an instance of 'thrust::system::system_error'\n  what():  parallel_for failed: out of memory\n";
    assert_eq!(said(thrust).resource, Some(Resource::GpuMemory));
    let opencl = "lightgbm.basic.LightGBMError: Out of Host Memory\n";
    assert_eq!(said(opencl).resource, Some(Resource::HostMemory));
    let old = "what() -> \"catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h:305: Error: Out of memory. Requested 2048.5; Free 512.25\"\n";
    assert_eq!(said(old).numbers.requested_bytes, Some(2_148_007_936));
    let engine = "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.61.\n";
    assert_eq!(cause(engine), Some(Code::ReservedAtStart));
    let builder = "[TensorRT] INFO: Some tactics do not have sufficient workspace memory to run.\n[TensorRT] ERROR: Try increasing the workspace \
                   size with IBuilderConfig::setMaxWorkspaceSize()\n[TensorRT] ERROR: (Could not find any implementation for node conv7)\n";
    assert_eq!(cause(builder), Some(Code::WorkspaceOrHandle));
}
