//! Rules of `explain` that weigh figures and places against each other where a device's memory ran out, each with a message where it holds and one
//! where it does not.
//!
//! In: messages in their programs' own words, with figures chosen to lie on either side. Checked: what ran out, the cause or that none is named, and
//! figures. The host's memory is `explain_host_rules`'s; whole logs are checked in `explain_corpus`.

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
