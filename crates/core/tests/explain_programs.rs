//! Programs outside Python, options that set a limit, and runs that go on: each with a message where the rule holds and one where it does not.
//!
//! In: messages in their programs' own words, with figures, names and code of our own. Checked: what ran out, the cause or that none is named,
//! and figures. DuckDB, Node and Spark are recorded, too (`explain_corpus`).

use brimful_core::bytes::{GIB, MIB};
use brimful_core::explain::{Code, Confidence, Explanation, Resource, explain};

fn said(log: &str) -> Explanation {
    explain(log.as_bytes())
}

fn cause(log: &str) -> Option<Code> {
    said(log).cause.map(|cause| cause.code)
}

#[test]
fn julia_says_what_its_pool_has() {
    let full = said(
        "ERROR: LoadError: Out of GPU memory trying to allocate 2.500 GiB\n\
         Effective GPU memory usage: 98.40% (7.872 GiB/8.000 GiB)\nMemory pool usage: 6.500 GiB (7.250 GiB reserved)\n\n\
         Stacktrace:\n  [1] macro expansion\n",
    );
    assert_eq!(full.resource, Some(Resource::GpuMemory));
    let numbers = &full.numbers;
    assert_eq!((numbers.requested_bytes, numbers.capacity_bytes), (Some(5 * GIB / 2), Some(8 * GIB)));
    assert_eq!((numbers.allocated_bytes, numbers.reserved_bytes), (Some(13 * GIB / 2), Some(29 * GIB / 4)));
    assert_eq!(said("Effective GPU memory usage: 12.00% (0.960 GiB/8.000 GiB)\n").resource, None);
}

#[test]
fn matlab_counts_in_doubles_unless_it_cannot() {
    let log = |sizes: &str, size: &str| {
        said(&format!(
            "Error using ones\nRequested {sizes} ({size}) array exceeds maximum array size preference (31.8GB). This might cause MATLAB to \
             become unresponsive.\n"
        ))
    };
    let doubles = log("100000x90000", "67.1GB");
    assert_eq!(doubles.cause.map(|cause| cause.code), Some(Code::TensorTooLarge));
    let numbers = &doubles.numbers;
    assert_eq!((numbers.requested_bytes, numbers.shape.clone()), (Some(72_000_000_000), Some(vec![100_000, 90_000])));
    assert_eq!(numbers.dtype.as_deref(), Some("float64"));
    let singles = log("100000x90000x2", "67.1GB");
    assert_eq!((singles.numbers.dtype, singles.numbers.requested_bytes.map(|bytes| bytes / GIB)), (None, Some(67)));
    assert_eq!(log("ax", "").numbers.shape, None);
}

#[test]
fn a_model_that_is_larger_than_the_machine_is_named() {
    let refused = said(
        "level=WARN msg=\"model request too large for system\" requested=\"40.0 GiB\" available=9126805504 total=\"15.5 GiB\"\n\
         level=INFO msg=\"NewLlamaServer failed\" error=\"model requires more system memory (40.0 GiB) than is available (8.5 GiB)\"\n",
    );
    assert_eq!(
        (refused.resource, refused.cause.map(|cause| cause.code)),
        (Some(Resource::HostMemory), Some(Code::ModelTooLarge))
    );
    let numbers = &refused.numbers;
    assert_eq!((numbers.requested_bytes, numbers.capacity_bytes), (Some(40 * GIB), Some(31 * GIB / 2)));
}

#[test]
fn metal_has_a_size_that_it_recommends() {
    let log = |last: &str| {
        format!(
            "ggml_metal_init: recommendedMaxWorkingSetSize  = 17179.87 MB\n\
             ggml_backend_metal_log_allocated_size: allocated buffer, size =  4000.00 MiB, ( 4000.00 / 16384.00)\n\
             ggml_backend_metal_log_allocated_size: allocated buffer, size =  5000.00 MiB, ( {last} / 16384.00)\n\
             ggml_metal_graph_compute: command buffer 0 failed with status 5\n\
             error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)\n"
        )
    };
    assert_eq!(cause(&log("18000.00")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&log("9000.00")), None);
}

#[test]
fn options_that_set_a_limit_count_for_what_they_limit() {
    let heap = "java.lang.OutOfMemoryError: Java heap space\n";
    assert_eq!(said(&format!("java -Xmx6g -jar trees.jar\n{heap}")).numbers.capacity_bytes, Some(6 * GIB));
    let gpu = "RuntimeError: CUDA out of memory. Tried to allocate 64.00 MiB\n";
    assert_eq!(said(&format!("java -Xmx6g -jar trees.jar\n{gpu}")).numbers.capacity_bytes, None);
    let killed = "slurmstepd: error: Detected 2 oom_kill events in StepId=88.batch. Some of the step tasks have been OOM Killed.\n";
    assert_eq!(said(&format!("#SBATCH --mem=20G\n{killed}")).numbers.capacity_bytes, Some(20 * GIB));
    assert_eq!(said(&format!("#SBATCH --mem=3000\n{killed}")).numbers.capacity_bytes, Some(3000 * MIB));
    assert_eq!(said(&format!("convert --mem=20G\n{killed}")).numbers.capacity_bytes, None);
}

#[test]
fn df_says_how_large_shared_memory_is() {
    let bus = "RuntimeError: DataLoader worker (pid 41) is killed by signal: Bus error. It is possible that dataloader's workers are out of \
               shared memory. Please try to raise your shared memory limit.\n";
    let human = said(&format!("{bus}$ df -h /dev/shm\nshm    64M   64M     0 100% /dev/shm\n"));
    assert_eq!(human.numbers.capacity_bytes, Some(64 * MIB));
    let blocks = said(&format!("{bus}$ df /dev/shm\ntmpfs    65536  65536   0 100% /dev/shm\n"));
    assert_eq!(blocks.numbers.capacity_bytes, Some(64 * MIB));
    let other = said(&format!("{bus}$ df -h\n/dev/sda1   200G   20G   180G  10% /\n"));
    assert_eq!(other.numbers.capacity_bytes, None);
}

#[test]
fn a_search_for_the_largest_batch_ends_with_a_failure_and_goes_on() {
    let search = "INFO: Batch size 16 succeeded, trying batch size 32\n\
                  caught: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 7.79 GiB\n\
                  INFO: Batch size 32 failed, trying batch size 24\n";
    let goes_on =
        format!("{search}INFO: Finished batch size finder, will continue with full run using batch size 24\n");
    assert_eq!(said(&goes_on).resource, None);
    assert_eq!(said(search).resource, Some(Resource::GpuMemory));
    let tried = "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 7.79 GiB\n\
                 AutoBatch: Using batch-size 11 for CUDA:0 4.60G/7.79G (59%)\n40 epochs completed in 0.911 hours.\n";
    assert_eq!(said(tried).resource, None);
    let later = format!("{goes_on}Epoch 0:  5%\nRuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB\n");
    assert_eq!(said(&later).numbers.requested_bytes, Some(GIB));
}

#[test]
fn an_algorithm_that_is_replaced_is_no_failure() {
    let falls_back = "W xla/service/gpu/autotuning/conv_algorithm_picker.cc:700] None of the algorithms provided by cuDNN heuristics worked; \
                      trying fallback algorithms.\nepoch 1 loss 0.5\n";
    assert_eq!(said(falls_back).resource, None);
    let failed =
        format!("{falls_back}UNKNOWN: Failed to determine best cudnn convolution algorithm for: %cudnn-conv.3\n");
    assert_eq!(cause(&failed), Some(Code::WorkspaceOrHandle));
}

#[test]
fn a_pool_asks_the_device_for_other_sizes_than_it_was_asked_for() {
    let log = said(
        "E cuda_executor.cc:1000 failed to allocate 1.50GiB (1610612736 bytes) from device: RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: \
         out of memory\n\njaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 3.00GiB (3221225472B) on \
         device ordinal 0\n",
    );
    assert_eq!(log.numbers.requested_bytes, Some(3 * GIB));
}

#[test]
fn a_table_of_a_tpu_may_end_before_its_details() {
    let table = |used: &str, program: &str, arguments: &str| {
        cause(&format!(
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used {used} of 15.48G hbm. Exceeded hbm \
             capacity by 4.02G.\n\nTotal hbm usage >= 20.02G:\n    reserved        530.00M\n    program          {program}\n    arguments        \
             {arguments}\n"
        ))
    };
    assert_eq!(table("19.50G", "16.10G", " 3.40G"), Some(Code::BatchTooLarge));
    assert_eq!(table("19.50G", "19.50G", "    0B"), Some(Code::BatchTooLarge));
    assert_eq!(table("19.50G", " 2.90G", "16.60G"), Some(Code::ModelTooLarge));
    assert_eq!(cause("    program          16.10G\n    arguments         3.40G\n"), None);
}

#[test]
fn xla_says_that_it_ran_a_program() {
    let ran = "XlaRuntimeError: INTERNAL: Execution of replica 0 failed: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7516192768 bytes.\n";
    assert_eq!(cause(ran), Some(Code::BatchTooLarge));
    let last_straw = ran.replace("7516192768", "4096");
    assert_eq!(cause(&last_straw), None);
    assert_eq!(
        cause("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7516192768 bytes.\n"),
        None
    );
}

#[test]
fn what_jax_computes_fails_where_it_is_looked_at() {
    let at = |code: &str| {
        cause(&format!(
            "Traceback (most recent call last):\n  File \"run.py\", line 40, in <module>\n    {code}\nXlaRuntimeError: RESOURCE_EXHAUSTED: Out of \
             memory while trying to allocate 201326592 bytes.\n"
        ))
    };
    assert_eq!(at("state, loss = update(state, rows)"), Some(Code::BatchTooLarge));
    assert_eq!(at("print(loss)"), None);
}

#[test]
fn the_instruction_that_is_tuned_is_not_what_was_asked_for() {
    let tuned = |asked: &str| {
        said(&format!(
            "INTERNAL: Autotuning failed for HLO: %dot.4 = f32[16384,16384]{{1,0}} fusion(%a, %b), kind=kCustom with error: RESOURCE_EXHAUSTED: Failed to \
             allocate request for {asked} on device ordinal 0\n"
        ))
    };
    let copies = tuned("3.00GiB (3221225472B)");
    assert_eq!((copies.numbers.requested_bytes, &copies.numbers.shape), (Some(3 * GIB), &None));
    assert_eq!(copies.cause.map(|cause| cause.code), Some(Code::WorkspaceOrHandle));
    assert_eq!(tuned("1.00GiB (1073741824B)").numbers.shape, Some(vec![16384, 16384]));
}

#[test]
fn a_batch_that_is_halved_to_nothing_says_no_cause() {
    let zero = "  File \"/site-packages/accelerate/utils/memory.py\", line 150, in decorator\n    raise RuntimeError(\"No executable batch size found, \
                reached zero.\")\nRuntimeError: No executable batch size found, reached zero.\n";
    assert_eq!((said(zero).resource, cause(zero)), (Some(Resource::GpuMemory), None));
}

#[test]
fn a_message_may_be_cut_off_before_it_says_so() {
    let cut = said(
        "has a total capacity of 11.76 GiB of which 45.00 MiB is free. Including non-PyTorch memory, this process has 11.70 GiB memory in use. Of the \
         allocated memory 11.20 GiB is allocated by PyTorch, and 180.00 MiB is reserved by PyTorch but unallocated.\n",
    );
    assert_eq!(cut.resource, Some(Resource::GpuMemory));
    assert!(cut.numbers.capacity_bytes.is_some_and(|bytes| bytes.abs_diff(12_627_203_850) < MIB));
    assert_eq!(said("memory: 11.20 GiB allocated, 11.40 GiB reserved\n").resource, None);
}

#[test]
fn workers_of_dask_die_of_more_than_memory() {
    let died = "distributed.scheduler.KilledWorker: Attempted to run task ('sum-77', 3) on 4 different workers, but all those workers died while \
                running it.\n";
    let confidence = |log: &str| said(log).cause.map(|cause| (cause.code, cause.confidence));
    let limit = Code::ContainerOrSchedulerLimit;
    assert_eq!(confidence(died), Some((limit, Confidence::Likely)));
    let exceeded = "distributed.nanny.memory - WARNING - Worker tcp://127.0.0.1:4021 (pid=71) exceeded 95% memory budget. Restarting...\n";
    assert_eq!(confidence(&format!("{exceeded}{died}")), Some((limit, Confidence::Certain)));
    assert_eq!(confidence(&format!("Segmentation fault (core dumped)\n{died}")), None);
}

#[test]
fn a_table_of_slurm_has_what_was_asked_for() {
    let row = |asked: &str, used: &str| {
        said(&format!(
            "JobID      JobName      State     ReqMem     MaxRSS ExitCode\n5512       embed   OUT_OF_ME+ {asked:>10} {used:>10} 0:125\n"
        ))
        .numbers
        .capacity_bytes
    };
    assert_eq!(row("48G", ""), Some(48 * GIB));
    assert_eq!(row("48Gn", "50210432K"), Some(48 * GIB));
    assert_eq!(row("", "50210432K"), None);
    assert_eq!(row("", "47.88G"), None);
}

#[test]
fn a_pool_of_rmm_says_what_it_could_not_give() {
    let log = "MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/include/rmm/mr/device/pool_memory_resource.hpp:254: Maximum pool size \
               exceeded (failed to allocate 3.500000 GiB)\n";
    let refused = said(log);
    assert_eq!((refused.resource, refused.numbers.requested_bytes), (Some(Resource::GpuMemory), Some(7 * GIB / 2)));
}

#[test]
fn what_ended_a_job_from_outside_is_not_memory() {
    let preempted = "slurmstepd: error: *** JOB 55 ON node7 CANCELLED AT 2026-03-01T10:00:00 DUE TO PREEMPTION ***\n";
    assert_eq!(cause(preempted), Some(Code::NotMemory));
    assert_eq!(cause("Illegal instruction (core dumped)\n"), Some(Code::NotMemory));
    assert_eq!(cause("Segmentation fault (core dumped)\n"), None);
}

#[test]
fn frames_of_c_plus_plus_below_do_not_hide_those_of_python() {
    let log = |function: &str| {
        format!(
            "[TRAIN] epoch: 2, iter: 400/900, loss: 0.5\nTraceback (most recent call last):\n  File \"run.py\", line 9, in train\n    \
             score = {function}(net, held_out)\n  File \"/srv/seg/core.py\", line 40, in {function}\n    out = resize(out)\nSystemError: \n\n\
             C++ Traceback (most recent call last):\n0   paddle::memory::allocation::Allocator::Allocate(unsigned long)\n\n\
             ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 1.500000GB memory on GPU 0, 10.000000GB memory has \
             been allocated and available memory is only 300.000000MB.\n"
        )
    };
    assert_eq!(cause(&log("evaluate")), Some(Code::EvaluationOrCheckpoint));
}

#[test]
fn figures_in_gibibytes_are_followed() {
    let steps: String = (1..9).map(|step| format!("step {}00 loss 2.{step} gpu alloc {step}.50 GiB\n", step)).collect();
    let failed = "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 9.00 GiB total capacity; 8.60 GiB already allocated)\n";
    assert_eq!(cause(&format!("{steps}{failed}")), Some(Code::Leak));
}

#[test]
fn requests_are_read_wherever_a_program_puts_them() {
    let asked = |log: &str| (said(log).resource, said(log).numbers.requested_bytes);
    let (gpu, host) = (Some(Resource::GpuMemory), Some(Resource::HostMemory));
    let tensorflow = "errors_impl.ResourceExhaustedError: Ran out of GPU memory when allocating 412316896 bytes for \n";
    assert_eq!(asked(tensorflow), (gpu, Some(412_316_896)));
    let tensorrt = "[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::140] Error Code 2: OutOfMemory (Requested size was 2147483648 bytes.)\n";
    assert_eq!(asked(tensorrt), (gpu, Some(2 * GIB)));
    let postgres = "psycopg2.errors.OutOfMemory: out of memory\nDETAIL:  Failed on request of size 805306368 in memory context \"ExecutorState\".\n";
    assert_eq!(asked(postgres), (host, Some(768 * MIB)));
    let catboost = "NCudaLib::TOutOfMemoryError: Out of memory. Requested 2110.5 MB; Free 1001.2 MB\n";
    assert_eq!(asked(catboost).0, gpu);
    let build = "ERROR: failed to solve: ResourceExhausted: process \"/bin/sh -c make\" did not complete successfully: cannot allocate memory\n";
    assert_eq!(asked(build), (host, None));
}

#[test]
fn a_line_of_the_log_is_no_operation() {
    // JAX names none, and the next line begins with its time.
    let pool = |name: &str| {
        format!(
            "2026-01-15 10:01:01.1: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to \
             allocate 9.31GiB (rounded to 10000000000)requested by op {name}\n\
             2026-01-15 10:01:01.1: W external/xla/xla/tsl/framework/bfc_allocator.cc:512] ****_____\n"
        )
    };
    assert_eq!((said(&pool("")).numbers.op, cause(&pool(""))), (None, None));
    assert_eq!(cause(&pool("model/dense_4/MatMul")), Some(Code::BatchTooLarge));
}

#[test]
fn a_pool_on_a_device_is_not_the_heap_of_java() {
    let spark = "java.lang.OutOfMemoryError: Could not allocate native memory: std::bad_alloc: RMM failure at:/rmm/arena.hpp:382: Maximum pool size \
                 exceeded\n";
    assert_eq!(said(spark).resource, Some(Resource::GpuMemory));
    assert_eq!(said("java.lang.OutOfMemoryError: Java heap space\n").resource, Some(Resource::HostMemory));
}

#[test]
fn executors_and_stores_have_limits() {
    for log in [
        "The executor with id 32 exited with exit code 137(SIGKILL, possible container OOM).\n",
        "redis.exceptions.OutOfMemoryError: command not allowed when used memory > 'maxmemory'.\n",
    ] {
        assert_eq!(cause(log), Some(Code::ContainerOrSchedulerLimit), "{log}");
    }
}

#[test]
fn trees_hold_all_rows_where_they_grow() {
    assert_eq!(cause("lightgbm.basic.LightGBMError: Memory Object Allocation Failure\n"), Some(Code::DataOnDevice));
    let catboost = "NCudaLib::TOutOfMemoryError: Out of memory. Requested 2110.5 MB; Free 1001.2 MB\n";
    assert_eq!(cause(catboost), Some(Code::DataOnDevice));
}

#[test]
fn a_model_that_generates_is_run() {
    // CTranslate2 says no more than this.
    let whisper = |code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/opt/lib/python3.11/site-packages/faster_whisper/transcribe.py\", line 584, in \
             with_fallback\n    {code}\nRuntimeError: CUDA failed with error out of memory\n"
        )
    };
    assert_eq!(cause(&whisper("result = self.model.generate(")), Some(Code::BatchTooLarge));
    assert_eq!(cause(&whisper("result = self.options.get(")), None);
}

#[test]
fn pytorch_restores_each_tensor_that_it_reads() {
    let read = |code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"serve.py\", line 12, in <module>\n    {code}\n  \
             File \"/opt/lib/python3.11/site-packages/torch/serialization.py\", line 801, in persistent_load\n    \
             objects[key] = restore_location(obj, location)\n  \
             File \"/opt/lib/python3.11/site-packages/torch/serialization.py\", line 270, in default_restore_location\n    \
             result = fn(storage, location)\n  \
             File \"/opt/lib/python3.11/site-packages/torch/serialization.py\", line 241, in _cuda_deserialize\n    \
             return storage_type(obj.size())\nRuntimeError: CUDA error: out of memory\n"
        )
    };
    assert_eq!(cause(&read("found = torch.load(args.file)")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&read("found = torch.load(args.resume)")), Some(Code::EvaluationOrCheckpoint));
}

#[test]
fn what_is_handed_to_another_process_is_pickled_and_no_checkpoint() {
    let fails = |file: &str, function: &str, code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"{file}\", line 51, in {function}\n    {code}\nMemoryError\n"
        )
    };
    let handed = fails("/usr/lib/python3.11/multiprocessing/reduction.py", "dumps", "cls(buf, protocol).dump(obj)");
    assert_eq!(cause(&handed), None);
    let saved = fails("/home/u/job/keep.py", "keep", "pickle.dump(model, file)");
    assert_eq!(cause(&saved), Some(Code::EvaluationOrCheckpoint));
}

#[test]
fn a_runtime_names_the_node_whoever_called_it() {
    let called = |message: &str| {
        format!(
            "{message}\nTraceback (most recent call last):\n  File \"/home/u/serve/read.py\", line 9, in read\n    \
             boxes = net.process(np.asarray(page).astype(np.uint8))\n"
        )
    };
    let node = "[E:onnxruntime:, sequential_executor.cc:339 Execute] Non-zero status code returned while running MatMul node. Name:'head_nchwc' Status \
                Message: bfc_arena.cc:330 onnxruntime::BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 402653184";
    assert_eq!(cause(&called(node)), Some(Code::BatchTooLarge));
    assert_eq!(cause(&called("MemoryError")), Some(Code::DatasetInMemory));
}

#[test]
fn a_constant_is_made_of_an_array_and_not_by_a_layer() {
    let copied = |code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/home/u/job/transformer.py\", line 30, in train\n    {code}\n\
             tensorflow.python.framework.errors_impl.InternalError: Failed copying input tensor from /job:localhost/replica:0/task:0/device:CPU:0 to \
             /job:localhost/replica:0/task:0/device:GPU:0 in order to run _EagerConst: Dst tensor is not initialized.\n"
        )
    };
    assert_eq!(cause(&copied("loop(net, x_train, y_train)")), Some(Code::DataOnDevice));
    assert_eq!(cause(&copied("loop(net, rows)")), None);
}

#[test]
fn xla_picks_convolutions_beside_the_program() {
    let refused = "E cuda_driver.cc:828] failed to allocate 96.00M (100663296 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n";
    let picker = "E xla/service/gpu/cudnn_conv_algorithm_picker.cc:525] Resource exhausted: Failed to allocate request for 96.00MiB (100663296B)\n";
    assert_eq!(cause(&format!("{refused}{picker}")), Some(Code::WorkspaceOrHandle));
    assert_eq!(cause(refused), None);
    assert_eq!(said("I xla/service/gpu/cudnn_conv_algorithm_picker.cc:525] picked 3 of 9\n").resource, None);
}

#[test]
fn a_kubelet_tells_what_the_kernel_wrote() {
    let event = |reason: &str, message: &str| format!("  Warning  {reason}  4m  kubelet, node-7  {message}\n");
    let machine = event("SystemOOM", "System OOM encountered, victim process: python, pid: 812");
    assert_eq!(said(&machine).resource, Some(Resource::HostMemory));
    assert_eq!(cause(&machine), Some(Code::KernelOomKill));
    let pod = event("CgroupOOM", "Cgroup OOM encountered, victim process: python, pid: 812");
    assert_eq!(said(&pod).resource, Some(Resource::ContainerLimit));
    assert_eq!(cause(&pod), Some(Code::ContainerOrSchedulerLimit));
    let healthy = event("NodeHasSufficientMemory", "Node node-7 status is now: NodeHasSufficientMemory");
    assert_eq!(said(&healthy).resource, None);
}

#[test]
fn a_bar_of_tasks_is_of_a_test() {
    let shown = |bar: &str| {
        format!("Epoch [3][80/90] loss: 0.4\n{bar}\nRuntimeError: CUDA out of memory. Tried to allocate 320.00 MiB\n")
    };
    let tasks = "[>>>>>>>>        ] 31/90, 4.1 task/s, elapsed: 7s, ETA:    14s";
    assert_eq!(cause(&shown(tasks)), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause(&shown("[>>>>>>>>        ] 31/90, 4.1 it/s")), None);
}

#[test]
fn all_pairs_are_too_many_in_an_evaluation_of_its_own_too() {
    let fails = |function: &str, code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/home/u/job/{function}.py\", line 4, in <module>\n    {function}()\n  \
             File \"/home/u/job/scores.py\", line 31, in evaluate\n    {code}\n\
             torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 37.25 GiB. GPU 0 has a total capacity of 39.39 GiB of which 31.00 GiB is free.\n"
        )
    };
    assert_eq!(cause(&fails("scores", "near = torch.cdist(rows, rows)")), Some(Code::TensorTooLarge));
    assert_eq!(cause(&fails("train", "near = torch.cdist(rows, rows)")), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause(&fails("scores", "near = net(rows)")), Some(Code::EvaluationOrCheckpoint));
}
