//! What mentions memory and reports no failure of it: documents, samples, tables, settings, warnings, and words that mean something else.
//!
//! In: texts in the form that programs and people give them, with figures and names of our own, each beside one that does report a failure. Checked: that
//! the one names nothing, and that the other still does.

#[path = "support/explained.rs"]
mod explained;

use brimful_core::explain::{Code, Resource};
use explained::{cause, nothing, said};

const FULL: &str = "RuntimeError: CUDA out of memory. Tried to allocate 1.12 GiB (GPU 0; 11.91 GiB total capacity; 10.02 GiB already allocated; \
                    744.00 MiB free; 10.41 GiB reserved in total by PyTorch)\n";

#[test]
fn lists_of_changes_and_requests_speak_of_others() {
    let changes = "### Bug fixes\n* Out of memory error in `evaluate()` (#820)\n* `RuntimeError: CUDA out of memory` names the layer now (#833)\n";
    assert!(nothing(changes));
    let request =
        "**Describe the solution you'd like**\nCatch `torch.cuda.OutOfMemoryError` and go on with half the batch.\n";
    assert!(nothing(request));
    assert!(nothing("## What does this PR do?\nA pod that was OOMKilled is started again.\n"));
    // The message itself is a report, whatever it was pasted into, and so is what ends a traceback.
    assert_eq!(said(&format!("{changes}{FULL}")).resource, Some(Resource::GpuMemory));
    let traced =
        "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    y = f(x)\nMemoryError\n";
    assert_eq!(said(&format!("{request}{traced}")).resource, Some(Resource::HostMemory));
    // A sentence is no heading.
    assert_eq!(said("See the changelog.\nRuntimeError: CUDA out of memory.\n").resource, Some(Resource::GpuMemory));
}

#[test]
fn tables_headings_and_samples_are_not_reports() {
    let table = "| model | batch | peak |\n|---|---|---|\n| 7B | 8 | 31.0 GiB |\n| 70B | 1 | CUDA out of memory |\n";
    assert!(nothing(table));
    assert!(nothing("## Too many open files\n\nRaise the limit with `ulimit -n 65535`.\n"));
    assert_eq!(cause("OSError: [Errno 24] Too many open files: 'a.npy'\n"), Some(Code::FileDescriptors));
    let manual = format!("If you see\n\n    {FULL}\nlower `--batch-size`.\n");
    assert!(nothing(&manual));
    let report = format!("If you run it on two cards, you get\n\n    {FULL}\n");
    assert_eq!(said(&report).resource, Some(Resource::GpuMemory));
}

#[test]
fn what_may_come_has_not_come() {
    assert!(nothing("WARNING: a low limit of open files (1024). Too many open files errors may occur.\nDone.\n"));
    let graphs = "INFO 03-27 [model_runner.py:1442] Capturing graphs. If out-of-memory error occurs during capture, consider decreasing \
                  `gpu_memory_utilization`.\n";
    assert!(nothing(graphs));
    assert!(nothing("spark.rpc.message.maxSize=512\nspark.driver.maxResultSize=4g\njob failed: no such host\n"));
    let sent = "Serialized task 3:0 was 611204128 bytes, which exceeds max allowed: spark.rpc.message.maxSize (536870912 bytes).\n";
    assert_eq!(cause(sent), Some(Code::MessageSize));
    assert!(nothing(
        "Warning  FailedScheduling  0/6 nodes are available: 2 Insufficient nvidia.com/gpu, 4 Insufficient memory.\n"
    ));
    assert!(nothing("[FAILED] Failed to start systemd-oomd.service - Userspace Out-Of-Memory (OOM) Killer.\n"));
}

#[test]
fn a_locked_file_is_no_limit_of_threads() {
    let refused = |code: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"a.py\", line 8, in <module>\n    {code}\n\
             BlockingIOError: [Errno 11] Resource temporarily unavailable\n"
        )
    };
    assert!(nothing(&refused("fcntl.flock(file.fileno(), flags)")));
    assert_eq!(cause(&refused("self.pid = os.fork()")), Some(Code::Threads));
    assert!(nothing("BlockingIOError: [Errno 11] write could not complete without blocking\n"));
}

#[test]
fn frames_of_a_native_stack_are_no_messages() {
    let other = "RuntimeError: expected scalar type Float but found Half\nframe #0: c10::Error::Error + 0x57\n\
                 frame #1: at::detail::empty_generic + 0x1 (CPUAllocator.cpp:0)\n";
    assert!(nothing(other));
}

#[test]
fn an_allocation_in_unknown_words_is_not_denied() {
    assert_eq!(cause("RuntimeError: could not allocate the staging area\n"), None);
    assert_eq!(cause("RuntimeError: shapes (3,4) and (5,6) not aligned\n"), Some(Code::NotMemory));
}

#[test]
fn a_kubelet_says_what_it_evicts_for() {
    let evicts = |resource: &str| {
        format!(
            "I0317 23:10:52.858662 18540 eviction_manager.go:350] \"Eviction manager: must evict pod(s) to reclaim\" \
             resourceName=\"{resource}\"\n"
        )
    };
    assert_eq!(said(&evicts("memory")).resource, Some(Resource::HostMemory));
    assert_eq!(cause(&evicts("memory")), Some(Code::KernelOomKill));
    assert_eq!(cause(&evicts("ephemeral-storage")), Some(Code::DiskFull));
    assert!(nothing(&evicts("pids")));
}

#[test]
fn copies_between_devices_are_numbered_in_one_model() {
    // TensorFlow numbers each copy; models that are built again and again number their own nodes.
    let failed = |node: &str| {
        format!(
            "tensorflow.python.framework.errors_impl.InternalError: Dst tensor is not initialized.\n\t [[Node: {node} = \
             _Recv[recv_device=\"/job:localhost/replica:0/task:0/device:GPU:0\", tensor_type=DT_FLOAT]()]]\n"
        )
    };
    assert_eq!(cause(&failed("Variable_4497/read")), Some(Code::Leak));
    assert_ne!(cause(&failed("Tile_3/_4497")), Some(Code::Leak));
}

#[test]
fn a_kernel_that_colab_restarted_after_a_large_piece() {
    let restarted = "May 4, 5:02:35 PM | WARNING | WARNING:root:kernel 71ab-aca5 restarted\n";
    let large = "May 4, 5:02:29 PM | WARNING | tcmalloc:  large alloc 2400002048 bytes == 0x99a00000 @  0x7fb5\n";
    assert_eq!(cause(&format!("{restarted}{large}")), Some(Code::KernelOomKill));
    assert_eq!(cause(restarted), None);
}

#[test]
fn what_a_code_means_is_no_process_that_ended() {
    assert!(nothing(
        "Exit Code 137: the container was ended with SIGKILL, often by the OOM killer.\nExit Code 139: segmentation fault.\n"
    ));
    assert!(nothing("An exit code 137 usually means that the container was ended from outside.\n"));
    assert_eq!(cause("Error: Process completed with exit code 137.\n"), Some(Code::KernelOomKill));
    assert_eq!(
        cause("a1b2c3  train:1  \"python train.py\"  Exited (137) 2 minutes ago  trainer\n"),
        Some(Code::KernelOomKill)
    );
    assert!(nothing("5. If you still get an out of memory error, look for tensors that you keep in lists.\n"));
}

#[test]
fn a_log_that_was_broken_into_lines_says_the_same() {
    let whole = "Traceback (most recent call last):\n  File \"/srv/serving/vllm/v1/engine/core.py\", line 811, in determine_available_memory_of_all\n    \
                 raise ValueError(f\"No available memory for the cache blocks. Try increasing gpu_memory_utilization when initializing\")\n\
                 ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n";
    let broken = |width: usize| {
        let lines = whole.lines().flat_map(|line| line.as_bytes().chunks(width).map(String::from_utf8_lossy));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(cause(whole), Some(Code::ReservedAtStart));
    for width in [64, 72, 80, 100] {
        let said = said(&broken(width));
        assert_eq!(said.cause.map(|cause| cause.code), Some(Code::ReservedAtStart), "{width}");
    }
    // The number is that of the line where the message begins.
    let line = broken(80).lines().position(|line| line.starts_with("ValueError")).map(|at| at as u64 + 1);
    assert_eq!(said(&broken(80)).evidence.first().map(|quote| quote.line), line);
    let quoted = whole.lines().map(|line| format!("> {line}\n")).collect::<String>();
    assert_eq!(cause(&quoted), Some(Code::ReservedAtStart));
}

#[test]
fn what_stands_above_a_failure_by_chance_does_not_explain_it() {
    let moved = "Traceback (most recent call last):\n  File \"t.py\", line 9, in <module>\n    X_train = torch.tensor(X_train).to('cuda')\n";
    let full = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 14.31 GiB (GPU 0; 11.91 GiB total capacity; 0 bytes already \
                allocated; 11.02 GiB free; 0 bytes reserved in total by PyTorch)\n";
    assert_eq!(cause(&format!("{moved}{full}")), Some(Code::DataOnDevice));
    let download = "Downloading data: 100%|##########| 420/420 [00:01<00:00, 321kB/s]\n";
    assert_eq!(cause(&format!("{download}{moved}{full}")), Some(Code::DataOnDevice));
    // A warning's own line of code is not where memory ran out.
    assert_eq!(cause("x.py:12: FutureWarning: `foo` is deprecated\n  warnings.warn(\nMemoryError\n"), None);
    // Forums write quotes as books do.
    let typographic = format!("{moved}{full}").replace('"', "”").replace('\'', "’");
    assert_eq!(cause(&typographic), Some(Code::DataOnDevice));
}

#[test]
fn a_function_that_takes_the_place_of_a_layers_own_is_its_forward_pass() {
    let log = format!(
        "Traceback (most recent call last):\n  File \"hijack.py\", line 9, in split_cross_attention_forward\n    \
         s1 = einsum('b i d, b j d -> b i j', q[:, i:end], k)\n{FULL}"
    );
    assert_eq!(cause(&log), Some(Code::BatchTooLarge));
}

#[test]
fn whoever_starts_a_job_may_call_a_dead_one_finished() {
    let uncaught = format!("{FULL}Training finished\n");
    assert_eq!(said(&uncaught).resource, Some(Resource::GpuMemory));
    let caught = format!("batch 411: {}batch 412 ok\nTraining finished\n", FULL.trim_start_matches("RuntimeError: "));
    assert!(nothing(&caught));
}

#[test]
fn code_that_asks_and_people_who_ask_report_nothing() {
    let change = "@@ -41,6 +41,10 @@ def step(batch):\n+    except RuntimeError as e:\n+        if \"out of memory\" in str(e):\n\
                  +            print(\"| WARNING: ran out of memory, skipping batch\")\n";
    assert!(nothing(change));
    assert!(nothing("            assert 'CUDA out of memory' in str(error)\n"));
    assert!(nothing(
        "limits:\n  memory: 16Gi\n# raise it if pods get OOMKilled\nerror validating data: unknown field\n"
    ));
    assert!(nothing("tests/test_big.py::test_huge SKIPPED (not enough memory: needs 64 GiB, have 15 GiB)\n"));
    assert!(nothing("IndexError: list index out of range\nMy machine has 8 GB, is that not enough memory?\n"));
    assert!(nothing("It hangs: no error, no out of memory, nothing in dmesg.\n"));
}

#[test]
fn pages_that_explain_an_error_show_it_as_it_looks() {
    let page = |headings: &str| format!("Out of room on a card\n{headings}\n{FULL}Lower the batch.\n");
    assert!(nothing(&page("What this error means\nThe card is full.\n## Common causes")));
    assert!(nothing(&page("Symptoms\n\n**Step-by-Step Fix:**")));
    // One alone may stand in a report, and so may what reports have, too.
    assert_eq!(said(&page("Common causes")).resource, Some(Resource::GpuMemory));
    assert_eq!(said(&page("### Symptoms\n### Solutions")).resource, Some(Resource::GpuMemory));
    assert!(nothing("Frequently Asked Questions\nWhy do I read \"CUDA out of memory\"?\nUse fewer samples.\n"));
    let traced = format!(
        "Why it happens\nCommon causes\nTraceback (most recent call last):\n  File \"a.py\", line 9, in <module>\n    main()\n  \
         File \"a.py\", line 7, in main\n    loss.backward()\n{FULL}"
    );
    assert_eq!(cause(&traced), Some(Code::BatchTooLarge));
    assert!(nothing("Symptom: DataLoader worker (pid ...) is killed by signal: Killed.\n"));
    assert!(nothing("\"reason\": \"workers share memory; when /dev/shm is full, they crash\"\n"));
}
