//! Rules of `explain` that weigh figures and places against each other, each with a message where it holds and one where it does not.
//!
//! In: messages in their programs' own words, with figures chosen to lie on either side. Checked: what ran out, the cause or that none is named, and
//! figures. Whole logs are checked in `explain_corpus`.

use brimful_core::explain::{Code, Resource, explain};

fn cause(log: &str) -> Option<Code> {
    explain(log.as_bytes()).cause.map(|cause| cause.code)
}

/// PyTorch's message in a container, where it cannot tell which of the processes is itself.
fn listed(processes: &str, allocated: &str) -> String {
    format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 79.11 GiB of which 600.00 MiB is \
         free. {processes} Of the allocated memory {allocated} is allocated by PyTorch, and 700.00 MiB is reserved by PyTorch but unallocated."
    )
}

#[test]
fn a_process_that_leaves_no_room_for_this_one_is_this_one() {
    // 4.6 GiB lie outside the allocator; with another 73 GiB there would be more than there is.
    assert_eq!(cause(&listed("Process 71 has 78.50 GiB memory in use.", "73.20 GiB")), None);
    assert_eq!(cause(&listed("Process 71 has 60.00 GiB memory in use.", "17.00 GiB")), Some(Code::OtherProcess));
    let two = "Process 71 has 40.00 GiB memory in use. Process 72 has 38.40 GiB memory in use.";
    assert_eq!(cause(&listed(two, "37.00 GiB")), Some(Code::OtherProcess));
}

#[test]
fn a_pool_in_pieces_takes_another_segment_where_the_device_has_room() {
    let free = |free: &str, allowed: &str| {
        format!(
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 64.00 MiB. GPU 1 has a total capacity of 63.98 GiB of which {free} is \
             free. {allowed}Of the allocated memory 20.00 GiB is allocated by PyTorch, and 7.00 GiB is reserved by PyTorch but unallocated."
        )
    };
    assert_eq!(cause(&free("60.00 MiB", "36.90 GiB allowed; ")), Some(Code::Fragmentation));
    assert_eq!(cause(&free("36.00 GiB", "")), None);
    // The share it may have is full, whatever the device has.
    assert_eq!(cause(&free("36.00 GiB", "27.00 GiB allowed; ")), Some(Code::Fragmentation));
}

/// PyTorch's older message, of a card with 12 GiB.
fn torch(asked: &str, allocated: &str, reserved: &str) -> String {
    format!(
        "RuntimeError: CUDA out of memory. Tried to allocate {asked} (GPU 0; 12.00 GiB total capacity; {allocated} already allocated; 1.06 MiB \
         free; {reserved} reserved in total by PyTorch)"
    )
}

#[test]
fn a_small_segment_on_a_full_card_does_not_show_fragmentation() {
    assert_eq!(cause(&torch("2.00 MiB", "10.90 GiB", "11.40 GiB")), None);
    assert_eq!(cause(&torch("300.00 MiB", "10.30 GiB", "11.40 GiB")), Some(Code::Fragmentation));
    assert_eq!(cause(&torch("2.00 MiB", "8.90 GiB", "11.40 GiB")), Some(Code::Fragmentation));
}

#[test]
fn a_size_that_cannot_be_addressed_is_of_the_device_that_was_asked() {
    let said = explain(b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.");
    assert_eq!(said.resource, Some(Resource::GpuMemory));
    assert_eq!(said.cause.map(|cause| cause.code), Some(Code::TensorTooLarge));
}

#[test]
fn buffers_of_ggml_are_of_the_backend_they_name() {
    let loading = |backend: &str| {
        explain(
            format!(
                "load_tensors: loading model tensors, this can take a while... (mmap = false)\n\
                 alloc_tensor_range: failed to allocate {backend} buffer of size 837944320\n\
                 llama_model_load: error loading model: unable to allocate {backend} buffer\n"
            )
            .as_bytes(),
        )
    };
    for (backend, expected) in [
        ("CPU", Resource::HostMemory),
        ("CUDA_Host", Resource::HostMemory),
        ("CUDA0", Resource::GpuMemory),
        ("Vulkan0", Resource::GpuMemory),
    ] {
        let said = loading(backend);
        assert_eq!(said.resource, Some(expected), "{backend}");
        assert_eq!(said.cause.map(|cause| cause.code), Some(Code::ModelTooLarge), "{backend}");
        assert_eq!(said.numbers.requested_bytes, Some(837_944_320), "{backend}");
    }
    // What it does without is no failure.
    let pinned = explain(b"ggml_cuda_host_malloc: failed to allocate 1024.00 MiB of pinned memory: out of memory\n");
    assert_eq!(pinned.resource, None);
}

/// A TPU's compiler, with what it breaks down.
fn tpu(breakdown: &str) -> String {
    format!(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. \
         Used 29.90G of 15.48G hbm. Exceeded hbm capacity by 14.42G.\n\n{breakdown}"
    )
}

#[test]
fn a_program_that_is_too_large_is_broken_down() {
    let parts = |program: &str, arguments: &str| {
        tpu(&format!(
            "Total hbm usage >= 30.42G:\n    reserved        530.00M\n    program         {program}\n    arguments       {arguments}\n\n\
             Program hbm requirement {program}:\n    HLO temp         {program} (100.0% utilization)\n"
        ))
    };
    assert_eq!(cause(&parts("13.90G", "16.00G")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&parts("26.90G", " 3.00G")), Some(Code::BatchTooLarge));
    let in_training = format!("  File \"train.py\", line 7, in train_step\n    loss = model(x)\n{}", tpu(""));
    assert_eq!(cause(&in_training), None);
}

#[test]
fn a_request_that_few_devices_could_serve_is_too_large() {
    let xla = |size: &str| {
        format!("RuntimeError: Resource exhausted: Failed to allocate request for {size} on device ordinal 0")
    };
    assert_eq!(cause(&xla("87.48GiB (93935126000B)")), Some(Code::TensorTooLarge));
    assert_eq!(cause(&xla("7.48GiB (8031588843B)")), None);
}

#[test]
fn a_pool_that_is_refused_its_share_asks_for_nine_tenths_of_it() {
    let refused = |bytes: u64| {
        format!(
            "E tensorflow/compiler/xla/stream_executor/rocm/rocm_driver.cc:606] failed to allocate {:.2}TiB ({bytes} bytes) from device: \
             HIP_ERROR_OutOfMemory\n",
            bytes as f64 / (1u64 << 40) as f64
        )
    };
    let asked = 90u64 << 40;
    assert_eq!(cause(&[asked, asked / 10 * 9, asked / 100 * 81].map(refused).concat()), None);
    assert_eq!(cause(&[asked, asked].map(refused).concat()), Some(Code::TensorTooLarge));
    assert_eq!(cause(&refused(asked)), Some(Code::TensorTooLarge));
}

#[test]
fn a_flat_array_may_have_an_entry_for_each_pair() {
    let made = |entries: u64| {
        format!(
            "Traceback (most recent call last):\n  File \"group.py\", line 31, in group\n    labels = grouped(model=name, rows=rows)\n\
             MemoryError: Unable to allocate {:.1} GiB for an array with shape ({entries},) and data type float64\n",
            entries as f64 * 8.0 / (1u64 << 30) as f64
        )
    };
    // 90,000 rows.
    assert_eq!(cause(&made(4_049_955_000)), Some(Code::TensorTooLarge));
    assert_eq!(cause(&made(4_049_955_001)), Some(Code::DatasetInMemory));
    // 4,000 rows are few; a number of pairs may be by chance.
    assert_ne!(cause(&made(7_998_000)), Some(Code::TensorTooLarge));
}

/// TensorFlow's pool, right after the device refused it `refused`.
fn pool(refused: &str, wanted: &str) -> String {
    format!(
        "2019-07-30 03:35:51.1: E tensorflow/stream_executor/cuda/cuda_driver.cc:806] failed to allocate {refused} from device: \
         CUDA_ERROR_OUT_OF_MEMORY: out of memory\n\
         2019-07-30 03:35:51.2: W tensorflow/core/common_runtime/bfc_allocator.cc:267] Allocator (GPU_0_bfc) ran out of memory trying to \
         allocate {wanted}.  Current allocation summary follows.\n"
    )
}

#[test]
fn what_a_pool_was_asked_for_is_not_what_it_asked_for() {
    let said = explain(pool("6.38G (6854984448 bytes)", "16.0KiB").as_bytes());
    assert_eq!(said.numbers.requested_bytes, Some(16 << 10));
    assert_eq!(said.cause.map(|cause| cause.code), Some(Code::OtherProcess));
    assert_eq!(cause(&pool("2.00M (2097152 bytes)", "1.50MiB")), None);
}

#[test]
fn data_that_is_read_onto_the_device_and_kept_is_all_of_it() {
    let reads = |code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"main.py\", line 30, in main\n    scene = Scene(args)\n  \
             File \"scene.py\", line 58, in scans_of\n    {code}\n  File \"scan.py\", line 46, in __init__\n    \
             self.original *= torch.ones((1, self.height, self.width), device=self.kept_on)\n{}",
            torch("20.00 MiB", "11.90 GiB", "11.92 GiB")
        )
    };
    assert_eq!(cause(&reads("scans.append(load_scan(args, scan))")), Some(Code::DataOnDevice));
    assert_eq!(cause(&reads("scan = Scan(args)")), None);
}

#[test]
fn a_limit_counts_where_all_containers_have_it() {
    let killed = |other_limit: &str| {
        let log = format!(
            "CONTAINER ID   NAME    CPU %     MEM USAGE / LIMIT   MEM %     NET I/O       BLOCK I/O     PIDS\n\
             e13422806e16   web     0.03%     485MiB / {other_limit}     9.7%      1GB / 2MB     6MB / 1MB     21\n\
             70543acfcb25   train   0.03%     4.898GiB / 5GiB     97.95%    3GB / 7MB     8MB / 1MB     54\n\
             Memory cgroup out of memory: Killed process 2434089 (python) total-vm:4617472kB, anon-rss:3124824kB\n"
        );
        explain(log.as_bytes()).numbers.capacity_bytes
    };
    assert_eq!(killed("5GiB"), Some(5 << 30));
    assert_eq!(killed("31.2GiB"), None);
}

#[test]
fn whoever_waits_does_not_show_what_failed() {
    let waits = |code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"main.py\", line 47, in func\n    {code}\n\
             ray.exceptions.RayTaskError(OutOfMemoryError): ray::Worker.update() (pid=33148)\n"
        )
    };
    assert_eq!(cause(&waits("output = ray.get(output)")), None);
    assert_eq!(cause(&waits("output = model(batch)")), Some(Code::BatchTooLarge));
}

#[test]
fn weights_that_were_there_do_not_become_too_large() {
    let assigns = |before: &str| {
        format!(
            "{before}tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[2304,384]\n\
             \t [[Node: local3/weights/Assign = Assign[T=DT_FLOAT, _device=\"/job:localhost/replica:0/task:0/gpu:0\"](local3/weights, x)]]\n"
        )
    };
    assert_eq!(cause(&assigns("")), Some(Code::ModelTooLarge));
    assert_ne!(cause(&assigns("step 618220, loss = 0.17\n")), Some(Code::ModelTooLarge));
}

#[test]
fn a_small_array_in_a_formula_is_the_last_straw() {
    let fails = |size: &str, shape: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"merge.py\", line 9, in merge\n    \
             out = mask * face + (1 - mask) * image.astype(np.float32)\n\
             numpy.core._exceptions._ArrayMemoryError: Unable to allocate {size} for an array with shape {shape} and data type float32\n"
        )
    };
    assert_eq!(cause(&fails("42.2 MiB", "(1440, 2560, 3)")), None);
    assert_eq!(cause(&fails("20.6 GiB", "(500, 1440, 2560, 3)")), Some(Code::DatasetInMemory));
}

#[test]
fn what_is_idle_is_known_to_the_places_that_are_written() {
    // 11.40 GiB less 9.74 GiB may be 1.67 GiB: all three are rounded.
    assert_eq!(cause(&torch("1.67 GiB", "9.74 GiB", "11.40 GiB")), Some(Code::Fragmentation));
    assert_eq!(cause(&torch("1.70 GiB", "9.74 GiB", "11.40 GiB")), None);
}

#[test]
fn what_is_neither_this_jobs_nor_free_is_somebody_elses() {
    assert_eq!(cause(&torch("300.00 MiB", "8.90 GiB", "8.95 GiB")), Some(Code::OtherProcess));
    // A context, and what a desktop takes.
    assert_eq!(cause(&torch("300.00 MiB", "10.00 GiB", "10.05 GiB")), None);
    // Without it there would still be too little.
    assert_eq!(cause(&torch("4.00 GiB", "8.90 GiB", "8.95 GiB")), None);
}

#[test]
fn the_weights_of_a_small_layer_fit_on_any_device_that_is_not_full() {
    let makes = |file: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"train.py\", line 97, in train\n    net = build('train')\n  \
             File \"/env/lib/python3.6/site-packages/torch/nn/modules/{file}\", line 41, in __init__\n    \
             out_channels, in_channels // groups, *kernel_size))\nRuntimeError: CUDA error: out of memory\n"
        )
    };
    assert_eq!(cause(&makes("conv.py")), Some(Code::OtherProcess));
    assert_eq!(cause(&makes("sparse.py")), Some(Code::ModelTooLarge));
}

#[test]
fn memory_outside_the_allocator_does_not_outweigh_weights_that_are_loaded() {
    let loading = |allocated: &str| {
        format!(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 72.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 32.75 MiB \
             is free. Including non-PyTorch memory, this process has 23.58 GiB memory in use. Of the allocated memory {allocated} is allocated \
             by PyTorch, and 87.06 MiB is reserved by PyTorch but unallocated.\nLoading checkpoint shards:  33%|###   | 1/3 [00:03<00:06]\n"
        )
    };
    assert_eq!(cause(&loading("16.93 GiB")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&loading("3.10 GiB")), Some(Code::ReservedAtStart));
}

#[test]
fn a_worker_of_dask_that_is_nearly_full_is_at_its_limit() {
    let high = |process: &str| {
        format!(
            "distributed.worker - WARNING - Memory use is high but worker has no data to store to disk.  Perhaps some other process is leaking \
             memory?  Process memory: {process} -- Worker memory limit: 4.00 GiB\n"
        )
    };
    let full = explain(high("3.72 GiB").as_bytes());
    assert_eq!(full.resource, Some(Resource::ContainerLimit));
    assert_eq!(full.cause.map(|cause| cause.code), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(full.numbers.capacity_bytes, Some(4 << 30));
    assert_eq!(explain(high("2.90 GiB").as_bytes()).resource, None);
    let resumed =
        format!("{}distributed.worker - WARNING - Worker is at 54% memory usage. Resuming worker.\n", high("3.72 GiB"));
    assert_eq!(explain(resumed.as_bytes()).resource, None);
}

#[test]
fn what_a_program_reserves_when_it_is_loaded_is_for_what_it_computes() {
    let loads = |program: &str, reservable: &str| {
        format!(
            "RESOURCE_EXHAUSTED: Error loading program{program}: Attempting to reserve 7.04G at the bottom of memory. That was not possible. \
             There are 8.90G free, 0B reserved, and {reservable} reservable.\n"
        )
    };
    assert_eq!(cause(&loads("", "6.90G")), Some(Code::Fragmentation));
    let full = |program: &str| loads(program, "6.90G").replace("8.90G", "6.90G");
    assert_eq!(cause(&full("")), Some(Code::BatchTooLarge));
    assert_eq!(cause(&full(" 'jit_train_step'")), Some(Code::BatchTooLarge));
    // The cache of a serving engine has had its share before.
    let captured = format!(
        "  File \"/vllm/tpu_worker.py\", line 219, in compile_or_warm_up_model\n    self.capture()\n{}",
        full("")
    );
    assert_eq!(cause(&captured), Some(Code::ReservedAtStart));
}

#[test]
fn the_call_above_says_whose_memory_it_was() {
    let fails = |call: &str| {
        format!(
            "{call}(&pointer, size)\n/src/cluster.cc:455 -> out of memory\nfailed to allocate 7739891159 bytes for bounds\n"
        )
    };
    assert_eq!(explain(fails("cudaMalloc").as_bytes()).resource, Some(Resource::GpuMemory));
    assert_eq!(explain(fails("reserve").as_bytes()).resource, Some(Resource::HostMemory));
}

#[test]
fn an_estimator_holds_all_rows() {
    let fits = |code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"bow.py\", line 82, in cluster\n    {code}\n\
             MemoryError: Failed to allocate memory on GPU\n"
        )
    };
    assert_eq!(cause(&fits("centroids = self.kmeans.fit(rows)")), Some(Code::DataOnDevice));
    assert_ne!(cause(&fits("upcast = self.upcaster.fit(rows)")), Some(Code::DataOnDevice));
    assert_eq!(explain(fits("rows.sort()").as_bytes()).resource, Some(Resource::GpuMemory));
}

#[test]
fn an_old_node_says_the_type_of_its_tensor() {
    let said = explain(
        b"ResourceExhaustedError (see above for traceback): OOM when allocating tensor with shape[128,78,600]\n\
          \t [[Node: concat_12 = ConcatV2[N=2, T=DT_FLOAT, Tidx=DT_INT64, _device=\"/gpu:0\"](Reshape_37, Add, axis)]]\n",
    );
    assert_eq!(said.numbers.requested_bytes, Some(128 * 78 * 600 * 4));
}

#[test]
fn a_script_that_evaluates_collects_what_it_predicts() {
    let joins = |script: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"{script}\", line 144, in my_app\n    outputs = torch.cat(outputs, dim=0)\n\
             RuntimeError: [enforce fail at CPUAllocator.cpp:68] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 24053760000 \
             bytes. Error code 12 (Cannot allocate memory)\n"
        )
    };
    assert_eq!(cause(&joins("src/eval_segmentation.py")), Some(Code::EvaluationOrCheckpoint));
    assert_ne!(cause(&joins("src/medieval.py")), Some(Code::EvaluationOrCheckpoint));
    assert_ne!(cause(&joins("src/train_eval.py")), Some(Code::EvaluationOrCheckpoint));
}

/// XLA's pool that has not this much, with so many of the hundred places of its bar in use.
fn bar(asked: &str, stars: usize) -> String {
    format!(
        "W external/tsl/framework/bfc_allocator.cc:497] Allocator (GPU_0_bfc) ran out of memory trying to allocate {asked} (rounded to 7)requested by op \n\
         W external/tsl/framework/bfc_allocator.cc:508] {}{}\n",
        "*".repeat(stars),
        "_".repeat(100 - stars)
    )
}

#[test]
fn an_empty_pool_that_has_too_little_was_made_on_a_full_device() {
    assert_eq!(cause(&bar("1.20GiB", 0)), Some(Code::OtherProcess));
    assert_ne!(cause(&bar("1.20GiB", 80)), Some(Code::OtherProcess));
    assert_ne!(cause(&bar("18.00GiB", 0)), Some(Code::OtherProcess));
}

#[test]
fn a_device_that_was_full_before_the_job_is_somebody_elses() {
    let seen = |used: &str, device: &str| {
        cause(&format!(
            "$ nvidia-smi\n\
             | N/A   54C    P0   246W / 300W |  {used}MiB / 16130MiB |    100%      Default |\n\
             | N/A   38C    P0    39W / 300W |      0MiB / 16130MiB |      0%      Default |\n\
             $ python train.py --device {device}\n\
             RuntimeError: CUDA error: out of memory\n"
        ))
    };
    assert_eq!(seen("15514", "0"), Some(Code::OtherProcess));
    assert_eq!(seen("15514", "1"), None);
    assert_eq!(seen("1551", "0"), None);
}

#[test]
fn what_is_set_up_first_finds_a_full_device() {
    let failed = |file: &str| {
        cause(&format!("RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/{file}:25"))
    };
    assert_eq!(failed("THCTensorRandom.cu"), Some(Code::OtherProcess));
    assert_eq!(failed("THCStorage.cu"), None);
}

#[test]
fn slurm_counts_in_kilobytes_unless_that_is_more_than_there_is() {
    let limit = |used: &str, limit: &str| {
        let said = format!("slurmstepd: error: Job 7 exceeded memory limit ({used} > {limit}), being killed");
        explain(said.as_bytes()).numbers.capacity_bytes
    };
    assert_eq!(limit("4200000", "4194304"), Some(4 << 30));
    assert_eq!(limit("169384386560", "161061273600"), Some(150 << 30));
}

#[test]
fn what_mail_quotes_and_terminals_wrap_is_read_as_a_whole() {
    let quoted = "> tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when\n\
                  > allocating tensor with shape[1024,50785]\n\
                  >      [[Node:\n> gradients/projection/MatMul_1\n> = MatMul[T=DT_FLOAT,\n\
                  > _device=\"/job:localhost/replica:0/task:0/device:GPU:0\"](a, b)]]\n";
    assert_eq!(explain(quoted.as_bytes()).numbers.shape, Some(vec![1024, 50785]));
    let wrapped = "W tensorflow/core/common_runtime/bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying to alloca   \n\
                   te 18.44GiB (rounded to 19805393664)requested by op      \n";
    assert_eq!(explain(wrapped.as_bytes()).resource, Some(Resource::GpuMemory));
    assert_eq!(explain(wrapped.as_bytes()).numbers.requested_bytes.map(|bytes| bytes >> 30), Some(18));
}

#[test]
fn the_kernels_call_trace_says_whose_limit_it_was() {
    let trace = |function: &str| {
        let log = format!(
            "kernel: python invoked oom-killer: gfp_mask=0xd0, order=0\nkernel:  [<ffffffffbe835506>] {function}+0x546/0x570\n"
        );
        cause(&log)
    };
    assert_eq!(trace("mem_cgroup_oom_synchronize"), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(trace("pagefault_out_of_memory"), None);
    // mm/page_alloc.c: no page in the whole machine.
    assert_eq!(trace("__alloc_pages_slowpath.constprop.0"), Some(Code::KernelOomKill));
    // A single allocation that failed is no kill.
    let refused =
        "kernel: python: page allocation failure: order:4, mode:0x40dc0\nkernel:  __alloc_pages_slowpath+0x486/0x570\n";
    assert_eq!(explain(refused.as_bytes()).resource, None);
}

#[test]
fn only_what_a_pool_keeps_tells_what_others_hold() {
    // c10/cuda/CUDAMallocAsyncAllocator.cpp: what its pool keeps beside what is allocated is not said.
    let refused = "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 9.20 GiB\n\
                   Requested               : 2.10 GiB\nDevice limit            : 15.77 GiB\nFree (according to CUDA): 3.12 MiB\n";
    assert_eq!(cause(refused), None);
    assert_eq!(
        cause(&torch("2.10 GiB", "9.20 GiB", "9.20 GiB").replace("12.00 GiB", "15.77 GiB")),
        Some(Code::OtherProcess)
    );
}

#[test]
fn a_small_tensor_on_a_host_without_a_limit_is_the_last_straw() {
    let refused = |shape: &str| {
        format!(
            "W tensorflow/core/framework/op_kernel.cc:1763] OP_REQUIRES failed at cast_op.cc:109 : Resource exhausted: OOM when allocating tensor \
             with shape{shape} and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu\n"
        )
    };
    assert_eq!(cause(&refused("[1,480,640,3]")), None);
    assert_eq!(cause(&refused("[512,480,640,3]")), Some(Code::BatchTooLarge));
}

#[test]
fn weights_that_are_restored_do_not_depend_on_the_batch() {
    let restores = |before: &str| {
        format!(
            "{before}tensorflow.python.framework.errors_impl.InternalError: Dst tensor is not initialized.\n\
             \t [[Node: save/RestoreV2_81/_163 = _Recv[client_terminated=false, recv_device=\"/job:localhost/replica:0/task:0/device:GPU:0\"]()]]\n"
        )
    };
    assert_eq!(cause(&restores("")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&restores("step 4200, loss = 0.21\n")), None);
}

#[test]
fn a_text_that_is_decoded_is_no_model() {
    let decoded = |file: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"main.py\", line 8, in <module>\n    rows = list(source)\n  \
             File \"{file}\", line 322, in decode\nMemoryError\n"
        )
    };
    for file in [
        "<frozen codecs>", "/usr/lib/python3.11/codecs.py", "C:\\Python38-32\\lib\\encodings\\cp1252.py",
        "/usr/lib/python3.11/json/decoder.py",
    ] {
        assert_eq!(cause(&decoded(file)), Some(Code::DatasetInMemory), "{file}");
    }
    // A project's own codec is a model.
    assert_eq!(cause(&decoded("/home/u/speech/codecs.py")), Some(Code::BatchTooLarge));
}

#[test]
fn a_model_that_is_unpickled_is_no_data() {
    let unpickled = |name: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"main.py\", line 3, in <module>\n    \
             {name} = pickle.load(open(path, 'rb'))\nMemoryError\n"
        )
    };
    assert_eq!(cause(&unpickled("model")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&unpickled("self.disease_model")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&unpickled("rows")), Some(Code::DatasetInMemory));
}

#[test]
fn a_shape_of_another_allocation_is_not_this_ones() {
    let log = |asked: &str| {
        format!(
            "W tensorflow: OOM when allocating tensor with shape[64,1024,1024] and type float on /device:GPU:0 by allocator GPU_0_bfc\n\
             RuntimeError: CUDA out of memory. Tried to allocate {asked} (GPU 0; 8.00 GiB total capacity; 7.00 GiB already allocated; \
             3.00 MiB free; 7.10 GiB reserved in total by PyTorch)"
        )
    };
    let figures = |asked: &str| {
        let numbers = explain(log(asked).as_bytes()).numbers;
        (numbers.shape, numbers.requested_bytes)
    };
    // The first one counts, and its shape is what it asked for.
    assert_eq!(figures("256.00 MiB"), (Some(vec![64, 1024, 1024]), Some(256 << 20)));
    assert_eq!(figures("40.00 MiB"), (Some(vec![64, 1024, 1024]), Some(256 << 20)));
}

#[test]
fn an_operation_without_a_path_may_be_anybodys() {
    let eager = |op: &str| {
        let log = format!(
            "ResourceExhaustedError: {{{{function_node __wrapped__{op}_device_/job:localhost/task:0/device:GPU:0}}}} failed to allocate memory [Op:{op}]\n"
        );
        let said = explain(log.as_bytes());
        (said.resource, said.cause.map(|cause| cause.code))
    };
    assert_eq!(eager("AddV2"), (Some(Resource::GpuMemory), None));
    assert_eq!(eager("Conv2D"), (Some(Resource::GpuMemory), Some(Code::BatchTooLarge)));
}

#[test]
fn a_sample_without_a_size_says_nothing_of_the_data() {
    let worker = |error: &str| {
        let log = format!(
            "RuntimeError: Caught MemoryError in DataLoader worker process 1.\nOriginal Traceback (most recent call last):\n  File \
             \"/py/site-packages/torch/utils/data/_utils/worker.py\", line 9, in _worker_loop\n    data = fetcher.fetch(index)\n  File \"ds.py\", line \
             4, in __getitem__\n    view = self.augment(image)\n{error}\n"
        );
        explain(log.as_bytes()).cause.map(|cause| cause.code)
    };
    assert_eq!(worker("MemoryError"), None);
    let large = "MemoryError: Unable to allocate 9.31 GiB for an array with shape (1250000000,) and data type float64";
    assert_eq!(worker(large), Some(Code::DatasetInMemory));
}

#[test]
fn many_columns_of_many_rows_are_data() {
    let dense = |call: &str| {
        let log = format!(
            "  File \"prep.py\", line 3, in <module>\n    {call}\n  File \"/py/site-packages/scipy/sparse/_base.py\", line 12, in toarray\n    return \
             np.zeros(self.shape, dtype=self.dtype)\nMemoryError: Unable to allocate 373. GiB for an array with shape (1000000, 50000) and data type \
             float64\n"
        );
        explain(log.as_bytes()).cause.map(|cause| cause.code)
    };
    assert_eq!(dense("x = OneHotEncoder(sparse_output=False).fit_transform(table)"), Some(Code::DatasetInMemory));
}

#[test]
fn a_file_that_ends_too_soon_is_not_memory() {
    assert_eq!(
        cause(
            "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    read(f)\nEOFError: Ran out of input"
        ),
        Some(Code::NotMemory)
    );
    let host = explain(b"F0101 syncedmem.hpp:33] Check failed: *ptr host allocation of size 8589934592 failed");
    assert_eq!((host.resource, host.numbers.requested_bytes), (Some(Resource::HostMemory), Some(8 << 30)));
    let fine = explain(b"I0101 syncedmem.hpp:33] host allocation of size 8589934592 took 3 ms");
    assert_eq!(fine.resource, None);
}
