//! Wordings of `explain` whose meaning lies in what stands around them, each with a message where it holds and one where it does not.
//!
//! In: messages in their programs' own words, with figures, names and code of our own; who has met one is said beside it. Checked: what ran out,
//! the cause or that none is named, and figures. Rules that weigh figures are in `explain_device_rules` and `explain_host_rules`,
//! whole recordings in `explain_corpus`.

use brimful_core::explain::{Code, Explanation, Resource, explain};

fn said(log: &str) -> Explanation {
    explain(log.as_bytes())
}

fn cause(log: &str) -> Option<Code> {
    said(log).cause.map(|cause| cause.code)
}

/// Lua Torch's message and trace (facebookresearch/fairseq-lua issues 115 and 31, torch/nn issue 1193).
fn lua(frames: &str) -> String {
    format!(
        "THCudaCheck FAIL file=/opt/torch/THC/generic/THCStorage.cu line=70 error=2 : out of memory\n\
         /opt/torch/bin/luajit: cuda runtime error (2) : out of memory at /opt/torch/THC/generic/THCStorage.cu:70\n\
         stack traceback:\n\t[C]: in function 'resizeAs'\n{frames}\tjob.lua:7: in function 'train'\n\tjob.lua:31: in main chunk\n"
    )
}

#[test]
fn frames_of_lua_say_what_a_job_was_doing() {
    let optimizer = lua("\t/opt/torch/lua/optim/momentum.lua:12: in function 'method'\n");
    assert_eq!(cause(&optimizer), Some(Code::OptimizerState));
    let loading = lua("\t/opt/torch/lua/torch/File.lua:300: in function 'readObject'\n");
    assert_eq!(cause(&loading), Some(Code::ModelTooLarge));
    let forward = lua("\t/opt/torch/lua/nn/Linear.lua:50: in function 'updateOutput'\n");
    assert_eq!(cause(&forward), Some(Code::BatchTooLarge));
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

/// CUDA's own refusal, below a frame (PyTorch 1.x; the recording `gpu_torch_device_set` has 2.11).
fn refused(file: &str, function: &str, code: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"train.py\", line 20, in main\n    prepare(args)\n  \
         File \"/opt/conda/lib/python3.8/site-packages/torch/{file}\", line 113, in {function}\n    {code}\n\
         RuntimeError: CUDA error: out of memory\n"
    )
}

#[test]
fn what_sets_a_device_up_needs_next_to_nothing_of_it() {
    let seed = refused("cuda/random.py", "cb", "default_generator.manual_seed(seed)");
    assert_eq!(cause(&seed), Some(Code::OtherProcess));
    let init = refused("cuda/__init__.py", "_lazy_init", "torch._C._cuda_init()");
    assert_eq!(cause(&init), Some(Code::OtherProcess));
    let forward = refused("nn/functional.py", "relu", "result = torch.relu(input)");
    assert_eq!(cause(&forward), Some(Code::BatchTooLarge));
}

#[test]
fn a_few_elements_fit_on_any_device_that_is_not_full() {
    let made = |code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"check.py\", line 3, in <module>\n    {code}\nRuntimeError: CUDA error: out of memory\n"
        )
    };
    assert_eq!(cause(&made("x = torch.zeros(1).cuda()")), Some(Code::OtherProcess));
    assert_eq!(cause(&made("x = torch.empty(2, 3, device='cuda')")), Some(Code::OtherProcess));
    assert_eq!(cause(&made("x = torch.tensor([0.5, 1], device='cuda')")), Some(Code::OtherProcess));
    assert_ne!(cause(&made("x = torch.tensor(rows, device='cuda')")), Some(Code::OtherProcess));
    assert_ne!(cause(&made("x = torch.zeros(60000, 3, 224, 224).cuda()")), Some(Code::OtherProcess));
    assert_ne!(cause(&made("x = torch.zeros(rows, 3, 224, 224).cuda()")), Some(Code::OtherProcess));
}

#[test]
fn a_context_that_is_refused_finds_a_full_device() {
    // PyCUDA's words, and JCuda's with its trace (donaldlab/OSPREY3 issue 67).
    let python = said(
        "  File \"/opt/lib/pycuda/autoinit.py\", line 5, in <module>\n    context = make_default_context()\n\
         pycuda._driver.MemoryError: cuCtxCreate failed: out of memory\n",
    );
    assert_eq!(python.resource, Some(Resource::GpuMemory));
    assert_eq!(python.cause.map(|cause| cause.code), Some(Code::OtherProcess));
    let java = "jcuda.CudaException: CUDA_ERROR_OUT_OF_MEMORY\n    at jcuda.driver.JCudaDriver.checkResult(JCudaDriver.java:300)\n    \
                at jcuda.driver.JCudaDriver.CALL(JCudaDriver.java:1400)\n";
    assert_eq!(cause(&java.replace("CALL", "cuCtxCreate")), Some(Code::OtherProcess));
    assert_eq!(cause(&java.replace("CALL", "cuMemAlloc")), None);
}

#[test]
fn bindings_of_cuda_raise_pythons_memory_error_for_a_device() {
    assert_eq!(
        said("pycuda._driver.MemoryError: cuMemAlloc failed: out of memory\n").resource,
        Some(Resource::GpuMemory)
    );
    assert_eq!(said("MemoryError\n").resource, Some(Resource::HostMemory));
}

#[test]
fn nccl_makes_its_buffers_in_the_first_collective() {
    // MIC-DKFZ/nnUNet issue 593.
    let barrier = refused("distributed/distributed_c10d.py", "barrier", "work = default_pg.barrier(opts=opts)");
    assert_eq!(cause(&barrier), Some(Code::WorkspaceOrHandle));
    let unhandled = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, unhandled cuda error, NCCL version 2.28.9\n";
    let known = said(&format!("{unhandled}Last error:\nFailed to CUDA calloc async 608 bytes\n"));
    assert_eq!(known.cause.map(|cause| cause.code), Some(Code::WorkspaceOrHandle));
    assert_eq!(known.numbers.requested_bytes, Some(608));
    // Which call failed, and why, only its own log says.
    let unknown = said(unhandled);
    assert_eq!((unknown.resource, unknown.cause.map(|cause| cause.code)), (None, None));
}

/// TensorFlow's pool with a limit, and a small tensor that it could not have (NVIDIA/DeepLearningExamples issue 53).
fn pool(in_use: u64, map: &str) -> String {
    format!(
        "2020-01-02 03:04:05.000001: I tensorflow/core/common_runtime/bfc_allocator.cc:800] Stats: \n\
         Limit:                 12000000000\nInUse:                 {in_use:>11}\n\n\
         2020-01-02 03:04:05.000002: W tensorflow/core/common_runtime/bfc_allocator.cc:300] {map}\n\
         2020-01-02 03:04:05.000003: W tensorflow/core/framework/op_kernel.cc:1400] OP_REQUIRES failed at constant_op.cc:80 : Resource \
         exhausted: OOM when allocating tensor of shape [4,512] and type float\n\t [[{{{{node head/adam_v/Initializer/zeros}}}}]]\n"
    )
}

#[test]
fn a_pool_that_got_nothing_shows_who_has_it() {
    assert_eq!(cause(&pool(0, "<allocator contains no memory>")), Some(Code::OtherProcess));
    let own = pool(11_900_000_000, "****************************************************************************");
    assert_eq!(cause(&own), Some(Code::OptimizerState));
}

#[test]
fn a_constant_that_a_variable_begins_with_is_a_weight() {
    // matthewearl/deep-anpr issue 54.
    let copied = |code: &str| {
        said(&format!(
            "Traceback (most recent call last):\n  File \"job.py\", line 40, in train\n    {code}\n\
             tensorflow.python.framework.errors_impl.InternalError: Dst tensor is not initialized.\n\t [[Node: zeros_3 = Const[dtype=DT_FLOAT, \
             value=Tensor<type: float shape: [16384,4096] values: [0 0 0]...>, _device=\"/job:localhost/replica:0/task:0/gpu:0\"]()]]\n"
        ))
    };
    let variables = copied("sess.run(init)");
    assert_eq!(variables.numbers.shape, Some(vec![16384, 4096]));
    assert_eq!(variables.cause.map(|cause| cause.code), Some(Code::ModelTooLarge));
    assert_ne!(copied("sess.run(step, feed)").cause.map(|cause| cause.code), Some(Code::ModelTooLarge));
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
fn a_device_in_use_when_the_job_has_ended_is_somebody_elses() {
    // zhanghang1989/PyTorch-Multi-Style-Transfer issue 24.
    let shown = |used: &str, between: &str| {
        format!(
            "RuntimeError: cuda runtime error (2) : out of memory at /opt/pytorch/THC/generic/THCStorage.cu:60\n{between}\
             |   0  Tesla V100-SXM2     Off  | 00000000:1A:00.0 Off |                  N/A |\n\
             | N/A   50C    P0   150W / 300W |   {used}MiB / 16160MiB |     99%      Default |\n"
        )
    };
    assert_eq!(cause(&shown("9900", "$ nvidia-smi\n")), Some(Code::OtherProcess));
    assert_eq!(cause(&shown(" 310", "$ nvidia-smi\n")), None);
    // Without a shell in between the job may still hold it.
    assert_eq!(cause(&shown("9900", "")), None);
}

#[test]
fn the_state_of_an_optimizer_is_no_model() {
    // lopuhin/transformer-lm issue 21.
    let read = |code: &str| {
        format!(
            "  File \"job/run.py\", line 20, in load_model\n    {code}\n  \
             File \"/opt/lib/torch/serialization.py\", line 90, in _cuda_deserialize\n    return storage_type(obj.size())\n\
             RuntimeError: CUDA out of memory. Tried to allocate 24.00 MiB (GPU 0; 15.00 GiB total capacity; 14.60 GiB already allocated; 12.00 MiB \
             free; 14.61 GiB reserved in total by PyTorch)\n"
        )
    };
    assert_eq!(cause(&read("optimizer.load_state_dict(torch.load(path))")), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause(&read("model.load_state_dict(torch.load(path))")), Some(Code::ModelTooLarge));
}

#[test]
fn a_little_that_is_idle_in_a_step_is_the_last_straw() {
    // d8ahazard/sd_dreambooth_extension issue 658.
    let step = |reserved: &str| {
        format!(
            "  File \"/opt/lib/torch/autograd/__init__.py\", line 190, in backward\n    \
             Variable._execution_engine.run_backward(\n\
             torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 40.00 MiB (GPU 0; 16.00 GiB total capacity; 14.50 GiB already \
             allocated; 0 bytes free; {reserved} GiB reserved in total by PyTorch)\n"
        )
    };
    assert_eq!(cause(&step("14.90")), Some(Code::BatchTooLarge));
    assert_eq!(cause(&step("15.95")), Some(Code::Fragmentation));
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
fn a_core_has_memory_of_its_own() {
    // pytorch/xla issue 9524.
    let core = said(
        "RuntimeError: Bad StatusOr access: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space vmem. Used \
         40.50M of 16.00M vmem. Exceeded vmem capacity by 24.50M\n",
    );
    assert_eq!((core.resource, core.cause.map(|cause| cause.code)), (Some(Resource::GpuMemory), None));
    assert_eq!(core.numbers.capacity_bytes, Some(16 << 20));
}

#[test]
fn a_server_rehearses_its_largest_batch() {
    // huggingface/text-generation-inference issue 755.
    let prefill = said(
        "RuntimeError: Not enough memory to handle 6000 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\n",
    );
    assert_eq!(prefill.resource, Some(Resource::GpuMemory));
    assert_eq!(prefill.cause.map(|cause| cause.code), Some(Code::BatchTooLarge));
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
fn the_call_that_was_refused_says_what_it_was_for() {
    // hacksider/Deep-Live-Cam issue 584 and triton-inference-server/server issue 5014.
    let called = |call: &str| {
        format!(
            "[ONNXRuntimeError] : 1 : FAIL : cuda_call.cc:120 onnxruntime::CudaCall CUDA failure 2: out of memory ; GPU=0 ; expr={call};\n"
        )
    };
    let stream = called("cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)");
    assert_eq!(cause(&stream), Some(Code::WorkspaceOrHandle));
    let memory = said(&called("cudaMalloc((void**)&p, size)"));
    assert_eq!((memory.resource, memory.cause.map(|cause| cause.code)), (Some(Resource::GpuMemory), None));
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
fn the_sentence_behind_an_operation_without_a_name_is_no_operation() {
    // TensorFlow 2.21, an array that is turned into a tensor outside of a graph.
    let op = |name: &str| {
        let log = format!(
            "W0000 bfc_allocator.cc:501] Allocator (bfc_cpu_allocator_for_gpu) ran out of memory trying to allocate 762.94MiB (rounded to \
             800000000)requested by op {name}\nIf the cause is memory fragmentation maybe the environment variable \
             'TF_GPU_ALLOCATOR=cuda_malloc_async' will improve the situation. \n"
        );
        said(&log).numbers.op
    };
    assert_eq!(op(""), None);
    assert_eq!(op("If"), Some("If".to_owned()));
    assert_eq!(op("gradient_tape/dense/MatMul"), Some("gradient_tape/dense/MatMul".to_owned()));
}

#[test]
fn the_first_tensor_of_a_device_is_made_for_the_line_that_asks() {
    // torch/cuda/__init__.py of PyTorch 0.1 to 1.x.
    let first = |code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"check.py\", line 3, in <module>\n    {code}\n  \
             File \"/env/lib/python3.5/site-packages/torch/cuda/__init__.py\", line 269, in _lazy_new\n    \
             return super(_CudaBase, cls).__new__(cls, *args, **kwargs)\n\
             RuntimeError: cuda runtime error (2) : out of memory at /pytorch/torch/lib/THC/generic/THCStorage.cu:66\n"
        )
    };
    assert_eq!(cause(&first("x = torch.cuda.FloatTensor([3, 4])")), Some(Code::OtherProcess));
    assert_eq!(cause(&first("x = torch.cuda.FloatTensor(8, 16)")), Some(Code::OtherProcess));
    assert_ne!(cause(&first("x = torch.cuda.FloatTensor(80000, 16000)")), Some(Code::OtherProcess));
    assert_ne!(cause(&first("x = torch.cuda.FloatTensor(rows)")), Some(Code::OtherProcess));
}

#[test]
fn words_that_are_cut_off_or_wrapped_are_known() {
    let cut = |end: &str| {
        said(&format!(
            "Traceback (most recent call last):\n  File \"train.py\", line 61, in train\n    loss.backward()\n{end}"
        ))
    };
    let at_the_end = cut("RuntimeError: CUDA out of");
    assert_eq!(at_the_end.resource, Some(Resource::GpuMemory));
    assert_eq!(at_the_end.cause.map(|cause| cause.code), Some(Code::BatchTooLarge));
    assert_eq!(cut("RuntimeError: CUDA out of range").resource, None);
    assert_eq!(cut("to leave CUDA out").resource, None);
    // xla/python/local_client.cc of 2019, in a terminal.
    let wrapped = said(
        "E external/org_tensorflow/tensorflow/compiler/xla/python/local_client.cc:672] Execution of replica 0 failed: Resource exhausted: Out \n\
         of memory while trying to allocate 3221225472 bytes.\n",
    );
    assert_eq!(wrapped.numbers.requested_bytes, Some(3 << 30));
}

#[test]
fn what_a_user_calls_an_environment_says_nothing() {
    let fails = |environment: &str, library: &str| {
        cause(&format!(
            "Traceback (most recent call last):\n  \
             File \"/opt/{environment}/lib/python3.7/site-packages/{library}/driver.py\", line 294, in safe_call\n    \
             self._check_error(name, code)\n\
             numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY\n"
        ))
    };
    assert_eq!(fails("envs/cudf", "numba/cuda/cudadrv"), None);
    assert_eq!(fails("envs/base", "cudf/core"), Some(Code::DataOnDevice));
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
fn catboost_says_what_it_requested() {
    // catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h
    let refused = said(
        "(NCudaLib::TOutOfMemoryError) catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h:303: Error: Out of memory. Requested 2048 MB; Free 512 MB\n",
    );
    assert_eq!(refused.resource, Some(Resource::GpuMemory));
    assert_eq!((refused.numbers.requested_bytes, refused.numbers.free_bytes), (Some(2 << 30), Some(512 << 20)));
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
fn a_call_without_its_margin_is_code() {
    let refused = "#XlaRuntimeError: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 3.10G. That was not possible. \
                   There are 1.30G free.; (0x0x0_HBM0)\n";
    let called = |line: &str| cause(&format!("{line}\n\n{refused}"));
    assert_eq!(called("models.CausalLM.from_preset(\"gemma\")"), Some(Code::ModelTooLarge));
    assert_eq!(called("Then I load gemma (from_preset)"), None);
}

#[test]
fn the_compilers_list_alone_shows_that_a_program_did_not_fit() {
    let list = |arguments: &str| {
        said(&format!(
            "Total hbm usage >= 19.10G:\n    reserved        530.00M\n    program         11.30G\n    arguments       {arguments}\n\n\
             Program hbm requirement 11.30G:\n    HLO temp         11.30G (99.0% utilization)\n\n  Largest program allocations in hbm:\n"
        ))
    };
    let temporaries = list(" 2.10G");
    assert_eq!(temporaries.resource, Some(Resource::GpuMemory));
    assert_eq!(temporaries.cause.map(|cause| cause.code), Some(Code::BatchTooLarge));
    assert_eq!(list("14.10G").cause.map(|cause| cause.code), None);
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
