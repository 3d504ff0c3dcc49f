//! Wordings of `explain` for a device's memory whose meaning lies in what stands around them, each with a message where it holds and one where it
//! does not.
//!
//! In: messages in their programs' own words, with figures, names and code of our own; who has met one is said beside it. Checked: what ran out,
//! the cause or that none is named, and figures. The host's memory is `explain_host_signs`'s. Rules that weigh figures are checked in
//! `explain_device_rules`, whole recordings in `explain_corpus`.

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
fn catboost_says_what_it_requested() {
    // catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h
    let refused = said(
        "(NCudaLib::TOutOfMemoryError) catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h:303: Error: Out of memory. Requested 2048 MB; Free 512 MB\n",
    );
    assert_eq!(refused.resource, Some(Resource::GpuMemory));
    assert_eq!((refused.numbers.requested_bytes, refused.numbers.free_bytes), (Some(2 << 30), Some(512 << 20)));
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
