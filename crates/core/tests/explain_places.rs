//! Where a job was, what it looks like in a log, and what its figures then mean: each with a message where the rule holds and one where it does not.
//!
//! In: messages in their programs' own words, with figures, names and code of our own. Checked: the cause or that none is named, and figures.

use brimful_core::bytes::GIB;
use brimful_core::explain::{Code, Explanation, explain};
use brimful_core::report::Style;

fn said(log: &str) -> Explanation {
    explain(log.as_bytes())
}

fn cause(log: &str) -> Option<Code> {
    said(log).cause.map(|cause| cause.code)
}

#[test]
fn colours_without_their_escape_are_colours() {
    let oom = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated)";
    for (open, close) in [("#033[34m", "#033[0m"), ("^[[34m", "^[[0m"), ("[2m[36m(train pid=7)[0m ", "")] {
        let frames =
            ["Traceback (most recent call last):", "  File \"t.py\", line 7, in step", "    loss.backward()", oom];
        let log: String = frames.iter().map(|line| format!("{open}{line}{close}\n")).collect();
        assert_eq!(cause(&log), Some(Code::BatchTooLarge), "{log}");
        assert_eq!(said(&log).numbers.capacity_bytes, Some(8 * GIB));
    }
}

#[test]
fn a_frame_may_be_broken_into_columns() {
    let log = |file: &str| {
        format!(
            "[10:11:12] ERROR    train - failed\n                      Traceback (most recent call last):\n                        File\n{file}\n\
             \x20                         state[\"exp_avg\"] = torch.zeros_like(p)\n\
             \x20                     torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 8.00 GiB\n"
        )
    };
    let column = "                      ";
    let broken = log(&format!(
        "{column}\"/home/u/lib/python3.12/site-packages/torch/optim/adam\n{column}w.py\", line 71, in _init_group"
    ));
    assert_eq!(cause(&broken), Some(Code::OptimizerState));
    let after_the_name = log(&format!(
        "{column}\"/home/u/lib/python3.12/site-packages/torch/optim/adamw.py\",\n{column}line 71, in _init_group"
    ));
    assert_eq!(cause(&after_the_name), Some(Code::OptimizerState));
}

/// PyTorch's message, with the frame that it came from.
fn refused(file: &str, function: &str, code: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"{file}\", line 7, in {function}\n    {code}\n\
         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 9.00 MiB is free. \
         Including non-PyTorch memory, this process has 7.90 GiB memory in use. Of the allocated memory 7.50 GiB is allocated by PyTorch, and 60.00 MiB \
         is reserved by PyTorch but unallocated.\n"
    )
}

#[test]
fn a_file_says_what_is_moved_in_it() {
    let packages = "/opt/lib/python3.11/site-packages";
    let moves = "return value.to(dtype=p.dtype, device=p.device)";
    assert_eq!(
        cause(&refused(&format!("{packages}/torch/optim/optimizer.py"), "_cast", moves)),
        Some(Code::OptimizerState)
    );
    assert_eq!(
        cause(&refused(&format!("{packages}/server/utils/weights.py"), "get_sharded", moves)),
        Some(Code::ModelTooLarge)
    );
    assert_eq!(cause(&refused(&format!("{packages}/server/utils/tokens.py"), "get_sharded", moves)), None);
}

#[test]
fn what_is_wrapped_for_several_devices_is_a_model() {
    assert_eq!(cause(&refused("main.py", "main", "net = DDP(net, device_ids=[rank])")), Some(Code::ModelTooLarge));
    assert_ne!(cause(&refused("main.py", "main", "loader = DDPLoader(rows)")), Some(Code::ModelTooLarge));
}

#[test]
fn an_engine_that_wakes_takes_its_share_back() {
    let woken = refused(
        "/opt/lib/python3.11/site-packages/vllm/device_allocator/cumem.py",
        "wake_up",
        "create_and_map(handle)",
    );
    assert_eq!(cause(&woken), Some(Code::ReservedAtStart));
}

#[test]
fn vectors_of_words_are_a_model() {
    let log = |file: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/opt/lib/python3.9/site-packages/{file}\", line 7, in _load_word2vec_format\n    \
             kv.vectors = zeros((vocab_size, vector_size), dtype=datatype)\nMemoryError\n"
        )
    };
    assert_eq!(cause(&log("gensim/models/keyedvectors.py")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&log("tables/vectors.py")), Some(Code::DatasetInMemory));
}

#[test]
fn what_sets_itself_up_is_meant_to_grow() {
    let log = |words: &str| -> String {
        let lines = [31, 45, 58, 80, 101, 119]
            .map(|used| format!("{words} CPU Virtual Memory:  used = {used}.25 GB, percent = 9%\n"));
        lines.concat() + "[launch.py:434] ['python', 'main.py'] exits with return code = -9\n"
    };
    assert_eq!(cause(&log("[utils.py:793:see_memory_usage]")), Some(Code::KernelOomKill));
    assert_eq!(cause(&log("[loop.py:20:log_step]")), Some(Code::Leak));
}

#[test]
fn a_pool_that_asks_for_less_and_less_finds_a_full_device() {
    let asked = |gib: &str, bytes: u64| {
        format!(
            "E0102 12:11:09.221141 3391 cuda_executor.cc:1247] failed to allocate {gib}GiB ({bytes} bytes) from device: RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"
        )
    };
    let log = |wanted: u64| {
        let first = 10 * GIB;
        asked("10.00", first)
            + &asked("9.00", first / 10 * 9)
            + &asked("8.10", first / 100 * 81)
            + &format!(
                "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate {wanted} bytes.\n"
            )
    };
    assert_eq!(cause(&log(4096)), Some(Code::OtherProcess));
    assert_ne!(cause(&log(4 * GIB)), Some(Code::OtherProcess));
}

#[test]
fn a_box_breaks_a_path_behind_a_folder() {
    let boxed = |folder: &str| {
        format!(
            "╭──────────────── Traceback (most recent call last) ─────────────────╮\n\
             │ /soft/envs/large/lib/python3.11/site-packages/{folder}/            │\n\
             │ sweep.py:110 in once                                               │\n\
             │                                                                    │\n\
             │   108 │   for p in self.all:                                       │\n\
             │ ❱ 110 │   │   buffers.append(torch.zeros(p.shape))                 │\n\
             ╰────────────────────────────────────────────────────────────────────╯\n\
             OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 8.00 GiB total capacity)\n"
        )
    };
    assert_eq!(cause(&boxed("torch/optim")), Some(Code::OptimizerState));
    assert_eq!(cause(&boxed("torch/sundry")), None);
}

#[test]
fn a_box_breaks_a_path_anywhere() {
    let boxed = "╭──────────────── Traceback (most recent call last) ─────────────────╮\n\
                 │ /home/me/talk.py:12 in <module>                                     │\n\
                 │ ❱ 12 net = AutoModel.from_pretrained(path, device_map={'': 0})      │\n\
                 │ /opt/py/lib/python3.11/site-packages/accelerate/utils/modeli        │\n\
                 │ ng.py:317 in set_module_tensor_to_device                            │\n\
                 │ ❱ 317 │   │   new_value = value.to(device)                          │\n\
                 ╰─────────────────────────────────────────────────────────────────────╯\n\
                 OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB (GPU 0; 11.76 GiB total capacity; 11.30 GiB already allocated; 40.12 MiB \
                 free; 11.32 GiB reserved in total by PyTorch)\n";
    assert_eq!(cause(boxed), Some(Code::ModelTooLarge));
}

#[test]
fn a_pool_of_what_others_left_is_small() {
    let log = |pool: u32| {
        format!(
            "I tensorflow/core/common_runtime/gpu/gpu_device.cc:1631] Created device /job:localhost/replica:0/task:0/device:GPU:0 with {pool} MB memory:  \
             -> device: 0, name: A, pci bus id: 0000:0a:00.0, compute capability: 8.6\n\
             W tensorflow/core/common_runtime/bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB (rounded to \
             2147483648)requested by op MatMul\n"
        )
    };
    assert_eq!(cause(&log(300)), Some(Code::OtherProcess));
    assert_eq!(cause(&log(1500)), Some(Code::TensorTooLarge));
}

#[test]
fn an_array_of_all_samples_is_data_whoever_makes_it() {
    let log = |rows: u32| {
        format!(
            "Traceback (most recent call last):\n  File \"prepare.py\", line 7, in load_images\n    images = np.zeros((count, 256, 256, 3))\n\
             MemoryError: Unable to allocate array with shape ({rows}, 256, 256, 3) and data type float64\n"
        )
    };
    assert_eq!(cause(&log(40_000)), Some(Code::DatasetInMemory));
    assert_eq!(cause(&log(4_000)), Some(Code::TensorTooLarge));
}

#[test]
fn symbols_of_libtorch_say_what_was_done() {
    let of = |symbols: &[&str]| {
        let frames = symbols.iter().enumerate();
        let frames: String = frames
            .map(|(at, symbol)| format!("frame #{}: {symbol}(at::Tensor const&) + 0x1c (0x7f in /lib/a.so)\n", at + 1))
            .collect();
        cause(&format!(
            "terminate called after throwing an instance of 'c10::OutOfMemoryError'\n  what():  CUDA out of memory. Tried to allocate 96.00 MiB \
             (GPU 0; 3.94 GiB total capacity; 3.30 GiB already allocated; 40.12 MiB free; 3.35 GiB reserved in total by PyTorch)\n\
             Exception raised from malloc at ../c10/cuda/CUDACachingAllocator.cpp:936 (most recent call first):\n\
             frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x6c (0x7f in /lib/libc10.so)\n{frames}"
        ))
    };
    assert_eq!(of(&["at::_ops::conv2d::call", "Net::forward", "main"]), Some(Code::BatchTooLarge));
    assert_eq!(of(&["at::_ops::mm::call", "torch::autograd::Engine::thread_main"]), Some(Code::BatchTooLarge));
    assert_eq!(
        of(&["at::_ops::to_device::call", "torch::jit::Unpickler::run", "torch::jit::load"]),
        Some(Code::ModelTooLarge)
    );
    assert_eq!(of(&["at::_ops::zeros_like::call", "torch::optim::Adam::step"]), Some(Code::OptimizerState));
    assert_eq!(of(&["at::_ops::empty_memory_format::call", "main"]), None);
}

#[test]
fn what_a_compiler_wrote_is_not_the_users() {
    let code = "buf7 = empty_strided_cuda((32, 2048, 128000), (262144000, 128000, 1), torch.bfloat16)";
    let of = |file: &str| {
        cause(&refused(file, "call", code).replace("64.00 MiB", "15.62 GiB").replace("8.00 GiB", "40.00 GiB"))
    };
    assert_eq!(of("/tmp/torchinductor_me/7f/c7fab.py"), Some(Code::BatchTooLarge));
    assert_eq!(of("/home/me/buffers.py"), Some(Code::TensorTooLarge));
}

#[test]
fn what_is_made_and_moved_in_one_line_is_a_model() {
    let moved = |code: &str| cause(&refused("fit.py", "<module>", code));
    assert_eq!(moved("segmenter = Segmenter(classes=9).to(device)"), Some(Code::ModelTooLarge));
    assert_eq!(moved("rows = Variable(rows).cuda()"), moved("rows = rows.cuda()"));
    assert_eq!(moved("frames = torch.FloatTensor(frames).cuda()"), moved("frames = frames.cuda()"));
    let few = "  File \"tiny.py\", line 2, in <module>\n    layer = nn.Linear(8, 8).cuda()\nRuntimeError: CUDA error: out of memory\n";
    assert_eq!(cause(few), Some(Code::OtherProcess));
}

#[test]
fn a_copy_of_a_model_is_a_second_one_or_a_checkpoint() {
    let copied = |code: &str| cause(&refused("fit.py", "<module>", code));
    assert_eq!(copied("self.ema = deepcopy(model).eval()"), Some(Code::ModelTooLarge));
    assert_eq!(copied("best = copy.deepcopy(model.state_dict())"), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(copied("ema_best = copy.deepcopy(ema.state_dict())"), Some(Code::EvaluationOrCheckpoint));
}

#[test]
fn an_optimizer_keeps_weights_of_its_own() {
    let copied = refused(
        "/mnt/lm/core/optimizer/split_optimizer.py", "_build_main_param_groups",
        "main_param = model_param.detach().clone().float()",
    );
    assert_eq!(cause(&copied), Some(Code::OptimizerState));
}

#[test]
fn trees_are_grown_on_all_rows() {
    let log = "Traceback (most recent call last):\n  File \"boost.py\", line 31, in <module>\n    booster = xgb.train(settings, rows, 300)\n  \
               File \"/opt/py/site-packages/xgboost/training.py\", line 181, in train\n    bst.update(dtrain, iteration=i, fobj=obj)\n\
               xgboost.core.XGBoostError: [10:11:12] device_helpers.cuh:414: Memory allocation error on worker 0: cudaErrorMemoryAllocation: out of \
               memory\n- Free memory: 805306368\n- Requested memory: 4294967296\n";
    let refused = said(log);
    assert_eq!(refused.numbers.requested_bytes, Some(4 << 30));
    assert_eq!(refused.cause.map(|cause| cause.code), Some(Code::DataOnDevice));
}

#[test]
fn layers_of_caffe_say_which_pass_it_was() {
    let log = |function: &str| {
        format!(
            "F0412 11:09:22.110113  4411 syncedmem.cpp:71] Check failed: error == cudaSuccess (2 vs. 0)  out of memory\n*** Check failure stack \
             trace: ***\n    @     0x7f0b caffe::SyncedMemory::to_gpu()\n    @     0x7f0d caffe::PoolingLayer<>::{function}()\n"
        )
    };
    assert_eq!(cause(&log("Forward_gpu")), Some(Code::BatchTooLarge));
    assert_eq!(cause(&log("LayerSetUp")), None);
}

#[test]
fn mlx_computes_when_it_is_asked_to() {
    let log = |code: &str| {
        format!(
            "  File \"loop.py\", line 7, in step\n    {code}\nRuntimeError: [metal::malloc] Attempting to allocate 32212254720 bytes which is greater than the maximum allowed buffer size of 15032385536 bytes.\n"
        )
    };
    assert_eq!(cause(&log("mx.eval(state)")), Some(Code::TensorTooLarge));
    assert_eq!(cause(&log("runner.evaluate(rows)")), Some(Code::EvaluationOrCheckpoint));
}

#[test]
fn models_have_loaders_of_their_own() {
    assert_eq!(
        cause(&refused("app.py", "<module>", "net = SpeechModel(name, device='cuda')")),
        Some(Code::ModelTooLarge)
    );
    assert_eq!(cause(&refused("app.py", "<module>", "nlp = spacy.load(name)")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&refused("app.py", "<module>", "text = yaml.load(name)")), None);
}

#[test]
fn a_capacity_may_be_broken_or_cut_off() {
    let capacity = |tail: &str| {
        let log = format!("RuntimeError: CUDA out of memory. Tried to allocate 1.41 GiB (GPU 0; 10.75 GiB {tail}");
        said(&log).numbers.capacity_bytes
    };
    let expected = Some(43 * GIB / 4);
    assert_eq!(capacity("t\notal capacity; 8.11 GiB already allocated)\n"), expected);
    assert_eq!(capacity("tot"), expected);
    assert_eq!(capacity("total capacity; 8.11 GiB already allocated)\n"), expected);
}

#[test]
fn what_is_installed_is_no_data() {
    let log = |file: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"{file}\", line 825, in _pack\n    return self._buffer.write(obj)\nMemoryError\n"
        )
    };
    assert_eq!(cause(&log("/usr/lib/python3/dist-packages/pip/_vendor/msgpack/fallback.py")), None);
    assert_eq!(cause(&log("/srv/pack/fallback.py")), Some(Code::DatasetInMemory));
}

#[test]
fn a_policy_is_trained_by_the_actions_that_are_evaluated() {
    let log = |function: &str| {
        refused("/opt/lib/python3.11/site-packages/torch/nn/modules/conv.py", "forward", "return F.conv2d(x, w)")
            .replacen(
                "  File",
                &format!("  File \"ppo.py\", line 9, in train\n    values = self.policy.{function}(rows)\n  File"),
                1,
            )
    };
    assert_eq!(cause(&log("evaluate_actions")), Some(Code::BatchTooLarge));
    assert_eq!(cause(&log("evaluate_episodes")), Some(Code::EvaluationOrCheckpoint));
}

#[test]
fn a_script_called_test_evaluates_and_a_file_of_tests_does_not() {
    let log = |script: &str| {
        refused("/opt/lib/python3.11/site-packages/torch/nn/modules/conv.py", "forward", "return F.conv2d(x, w)")
            .replacen(
                "  File",
                &format!("  File \"tools/{script}\", line 9, in main\n    results = run_all(model, loader)\n  File"),
                1,
            )
    };
    assert_eq!(cause(&log("test.py")), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause(&log("test_layers.py")), Some(Code::BatchTooLarge));
}

#[test]
fn what_a_logger_writes_before_code_is_no_code() {
    let log = |prefix: &str| -> String {
        let frames = refused("main.py", "run", "rows = rows.to(torch.float32)");
        frames.lines().map(|line| format!("{prefix}{line}\n")).collect()
    };
    let doing = |prefix: &str| said(&log(prefix)).doing;
    assert_eq!(doing(""), None);
    assert_eq!(doing("Jan 02 10:11:12 gpu3 python[4123]: "), None);
}

#[test]
fn a_little_that_is_idle_on_a_small_card_is_the_last_straw() {
    let step = |reserved: &str| {
        format!(
            "  File \"/opt/lib/torch/autograd/__init__.py\", line 190, in backward\n    Variable._execution_engine.run_backward(\n\
             RuntimeError: CUDA out of memory. Tried to allocate 40.00 MiB (GPU 0; 6.00 GiB total capacity; 4.40 GiB already allocated; 12.00 MiB \
             free; {reserved} GiB reserved in total by PyTorch)\n"
        )
    };
    assert_eq!(cause(&step("4.70")), Some(Code::BatchTooLarge));
    assert_eq!(cause(&step("5.10")), Some(Code::Fragmentation));
}

#[test]
fn a_page_has_quotes_of_its_own() {
    let log = refused("main.py", "<module>", "loss.backward()");
    let page = log.replace('"', "&quot;").replace("<module>", "&lt;module&gt;");
    assert_eq!((cause(&log), cause(&page)), (Some(Code::BatchTooLarge), Some(Code::BatchTooLarge)));
}

#[test]
fn this_process_may_be_one_of_those_that_are_listed() {
    let log = |own: &str| {
        format!(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 14.75 GiB of which 1.21 GiB is \
             free. Process 1234 has 13.53 GiB memory in use. {own}Of the allocated memory 12.90 GiB is allocated by PyTorch, and 120.00 MiB is \
             reserved by PyTorch but unallocated."
        )
    };
    let row = |log: &str, label: &str| {
        let text = said(log).to_text(Style { width: 80, colour: false });
        text.lines().any(|line| line.trim_start().starts_with(label) && line.contains("process 1234"))
    };
    assert!(row(&log(""), "processes "));
    assert!(row(&log("Including non-PyTorch memory, this process has 13.10 GiB memory in use. "), "others "));
}

#[test]
fn parts_of_a_library_evaluate_whatever_they_are_called() {
    let full = "RuntimeError: CUDA out of memory. Tried to allocate 3.00 GiB (GPU 0; 23.65 GiB total capacity; 21.20 GiB already allocated; 1.10 GiB \
                free; 22.10 GiB reserved in total by PyTorch)\n";
    let inside = |file: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/opt/lib/python3.11/site-packages/ultralytics/engine/{file}\", line 190, in __call__\n    \
             preds = model(batch[\"img\"], augment=augment)\n{full}"
        )
    };
    assert_eq!(cause(&inside("validator.py")), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause(&inside("trainer.py")), Some(Code::BatchTooLarge));
}

#[test]
fn keras_names_what_it_compiled() {
    let failed = |function: &str| {
        format!(
            "OOM when allocating tensor with shape[32,256,512,512] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\
             \t [[{{{{node model/conv/Conv2D}}}}]] [Op:__inference_{function}_911]\n"
        )
    };
    assert_eq!(cause(&failed("predict_function")), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause(&failed("test_function")), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause(&failed("train_function")), Some(Code::BatchTooLarge));
}

#[test]
fn a_column_of_a_table_is_data() {
    let made = |file: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"join.py\", line 8, in <module>\n    out = a.join_all(b)\n  File \"{file}\", line 90, in \
             _reindex\n    left = left._take(indexer)\nMemoryError: Unable to allocate 93.1 GiB for an array with shape (12500000000,) and data type \
             int64\n"
        )
    };
    assert_eq!(
        cause(&made("/opt/lib/python3.11/site-packages/pandas/core/reshape/merge.py")),
        Some(Code::DatasetInMemory)
    );
    assert_eq!(cause(&made("/opt/grid/cells.py")), Some(Code::TensorTooLarge));
}

#[test]
fn a_pool_that_gets_not_even_a_few_bytes_found_a_full_device() {
    let refused = |mebibytes: u64| {
        format!(
            "E external/xla/xla/stream_executor/cuda/cuda_driver.cc:1073] failed to allocate {mebibytes}.00MiB ({} bytes) from device: \
             CUDA_ERROR_OUT_OF_MEMORY: out of memory\n",
            mebibytes << 20
        )
    };
    let log = |first: u64, wanted: u64| {
        format!(
            "{}{}jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate {wanted} bytes.\n",
            refused(first),
            refused(first / 10 * 9)
        )
    };
    assert_eq!(cause(&log(500, 4)), Some(Code::OtherProcess));
    assert_eq!(cause(&log(500, 200 << 20)), None);
}

#[test]
fn a_checkpoint_that_is_read_onto_a_device_without_training_is_a_model() {
    let full = "RuntimeError: CUDA out of memory. Tried to allocate 88.00 MiB (GPU 0; 3.94 GiB total capacity; 3.31 GiB already allocated; \
                31.00 MiB free; 3.36 GiB reserved in total by PyTorch)\n";
    let read = |script: &str, code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"{script}\", line 40, in <module>\n    {code}\n  \
             File \"/opt/venv/lib/python3.9/site-packages/torch/serialization.py\", line 607, in load\n    return _load(opened)\n  \
             File \"/opt/venv/lib/python3.9/site-packages/torch/serialization.py\", line 157, in _cuda_deserialize\n    return obj.cuda(device)\n{full}"
        )
    };
    assert_eq!(cause(&read("demo.py", "state = torch.load(path)")), Some(Code::ModelTooLarge));
    assert_eq!(cause(&read("train.py", "state = torch.load(path)")), Some(Code::EvaluationOrCheckpoint));
    assert_eq!(cause(&read("demo.py", "state = torch.load(args.resume)")), Some(Code::EvaluationOrCheckpoint));
}

#[test]
fn whoever_moves_a_tensor_does_so_for_its_caller() {
    let moved = |caller: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"patcher.py\", line 31, in {caller}\n    held = cast_to(tensor, device)\n  \
             File \"management.py\", line 85, in cast_to\n    return tensor.to(device, copy=copy)\ntorch.OutOfMemoryError: Allocation on device\n"
        )
    };
    assert_eq!(cause(&moved("patch_weight_to_device")), Some(Code::ModelTooLarge));
    assert_ne!(cause(&moved("fetch")), Some(Code::ModelTooLarge));
}

#[test]
fn figures_below_zero_are_none() {
    let log = "HIP out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacty of 512.00 MiB of which 17179869183.91 GiB is free. Of the \
               allocated memory 301.50 MiB is allocated by PyTorch, and 120.25 MiB is reserved by PyTorch but unallocated.\n";
    assert_eq!(said(log).numbers.free_bytes, None);
    assert_eq!(said(log).numbers.capacity_bytes, Some(512 << 20));
}
