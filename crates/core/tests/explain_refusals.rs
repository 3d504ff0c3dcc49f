//! What is refused for another reason than too little memory, crashes that are called kills, and changes that only show a failure.
//!
//! In: texts in the form that programs give them, with figures and names of our own, each beside one that does report a failure. Checked: that the one
//! names nothing, and that the other still does.

#[path = "support/explained.rs"]
mod explained;

use brimful_core::explain::{Code, Resource};
use explained::{cause, nothing, said};

#[test]
fn memory_of_a_kind_that_is_forbidden_is_not_too_little() {
    let callback = "Traceback (most recent call last):\n  File \"tone.py\", line 31, in play\n    \
                    @lib.callback(\"render\")\nMemoryError: Cannot allocate write+execute memory for lib.callback(). The system may prevent it.\n";
    assert!(nothing(callback));
    assert_eq!(cause(callback), Some(Code::NotMemory));
    let table = "OSError: /opt/lib/libomp.so.5: cannot allocate memory in static TLS block: there is not enough memory available\n";
    assert_eq!(cause(table), Some(Code::NotMemory));
    let plain =
        callback.replace("Cannot allocate write+execute memory for lib.callback(). The system may prevent it.", "");
    assert_eq!(said(&plain).resource, Some(Resource::HostMemory));
}

#[test]
fn a_worker_that_crashed_is_not_one_that_was_killed() {
    let worker = |signal: &str| format!("RuntimeError: DataLoader worker (pid 4711) is killed by signal: {signal}. \n");
    assert!(nothing(&worker("Segmentation fault")));
    assert!(nothing(&worker("Aborted")));
    assert!(nothing(&worker("Terminated")));
    assert_eq!(cause(&worker("Killed")), Some(Code::KernelOomKill));
    assert_eq!(cause(&worker("Bus error")), Some(Code::WorkerSharedMemory));
}

#[test]
fn a_call_that_is_not_permitted_reached_no_limit() {
    let refused = |why: &str| format!("OpenBLAS blas_thread_init: pthread_create failed for thread 9 of 24: {why}\n");
    assert!(nothing(&refused("Operation not permitted")));
    assert_eq!(cause(&refused("Resource temporarily unavailable")), Some(Code::Threads));
}

#[test]
fn memory_that_could_not_be_locked_is_there_all_the_same() {
    let warned = "warning: failed to mlock 402653184-byte buffer (after previously locking 0 bytes): Cannot allocate memory\n\
                  Try increasing RLIMIT_MEMLOCK ('ulimit -l' as root).\nmain: server is listening on 127.0.0.1:8080\n";
    assert!(nothing(warned));
    // A network card that may not lock what it sends from, in a program that computes.
    let card = "node4:811:902 [1] register_buffers:77 NCCL WARN NET/OFI Unable to register memory (type = 1) for device 0. RC: 12, Error: Cannot \
                allocate memory\nTraceback (most recent call last):\n  File \"moe.py\", line 12, in main\n    y = model(x)\n";
    assert_eq!(said(card).resource, Some(Resource::HostMemory));
    assert_eq!(cause(card), None);
}

#[test]
fn a_flag_that_denies_a_kill_may_have_no_quotes() {
    assert_ne!(
        cause("State:{\nExitCode:137,\nOOMKilled:false,\nStatus:\"exited\"\n}\n"),
        Some(Code::ContainerOrSchedulerLimit)
    );
    assert_eq!(cause("State:{\nExitCode:137,\nOOMKilled:true,\n}\n"), Some(Code::ContainerOrSchedulerLimit));
}

#[test]
fn changes_that_are_quoted_report_nothing() {
    let page = "+---\n+title: Worker Ended \u{2014} Exit Code 137 (OOM)\n+\n+## What it means\n+The container was OOMKilled.\n";
    assert!(nothing(page));
    let review = "docs/limits.rst:88\n```diff\n+    ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n```\n";
    assert!(nothing(review));
    let message = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n";
    assert_eq!(said(message).resource, Some(Resource::ContainerLimit));
    // A shell that shows its commands.
    assert_eq!(cause("+ docker run trainer\nExited with code 137\n"), Some(Code::KernelOomKill));
    assert!(nothing("What to do if you get NCudaLib::TOutOfMemoryError: see the list below.\n"));
}

#[test]
fn a_worker_that_ran_out_of_time_was_not_killed_for_memory() {
    let ended = "[2031-03-04 10:00:31 +0000] [7] [WARNING] Worker with pid 41 was terminated due to signal 9\n";
    let late = "[2031-03-04 10:00:30 +0000] [7] [CRITICAL] WORKER TIMEOUT (pid:41)\n";
    assert!(nothing(&format!("{late}{ended}")));
    assert_eq!(cause(ended), Some(Code::KernelOomKill));
}

#[test]
fn what_an_error_is_was_not_reported() {
    assert!(nothing("CUDA_ERROR_OUT_OF_MEMORY in this framework means the runtime found no room on the GPU.\n"));
    assert!(nothing("CUDA_ERROR_OUT_OF_MEMORY does not mean that the card is too small.\n"));
    assert!(nothing("CUDA out of memory happens when your GPU has no room left for a batch.\n"));
    assert!(nothing("Release 4: MemoryErrors of large tables say which column was read.\n"));
    assert!(nothing("# Start OOM-killed jobs again, with twice the memory\n"));
    assert!(nothing("If a worker is OOMKilled, the controller shows why.\n"));
    assert_eq!(cause("If it helps: my worker is OOMKilled\n"), Some(Code::ContainerOrSchedulerLimit));
    assert_eq!(cause("Last state: terminated, OOM-killed\n"), Some(Code::ContainerOrSchedulerLimit));
    assert!(nothing("Newcomers meet a common error: OutOfMemoryError: CUDA out of memory.\n"));
    assert!(nothing(
        "### Suggestion Description\nWith large images there is a **HIP out of memory**; use the host instead.\n"
    ));
    let figures = "This means that it does not fit: CUDA out of memory. Tried to allocate 96.00 MiB (GPU 0; 3.81 GiB total capacity)\n";
    assert_eq!(said(figures).resource, Some(Resource::GpuMemory));
}

#[test]
fn a_message_may_be_cut_off_at_its_head() {
    let end = "served memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Manag\n";
    assert_eq!(said(end).resource, Some(Resource::GpuMemory));
    assert_eq!(cause(end), None);
    let pool = "    pool = make_pool(1 << 30)\nMemoryError: std::bad_alloc: RMM failure at:pool_memory_resource.hpp:211: Maximum pool size exceeded\n";
    assert_eq!(said(pool).resource, Some(Resource::GpuMemory));
    let bold = "I tensorflow/core/common_runtime/bfc_allocator.cc:702] Stats: \n**Limit:                 5905580032\nInUse:                  5805580032\n\
                W tensorflow/core/framework/op_kernel.cc:968] Resource exhausted: OOM when allocating tensor with shape[96,512,14,14]\n";
    assert_eq!(said(bold).numbers.capacity_bytes, Some(5_905_580_032));
}

#[test]
fn the_c_library_speaks_other_languages() {
    assert_eq!(said("bash: fork: 无法分配内存\n").resource, Some(Resource::HostMemory));
    assert_eq!(cause("cp: 写入 'w.bin' 出错: 设备上没有空间\n"), Some(Code::DiskFull));
    assert_eq!(cause("tar: w.bin: Auf dem Gerät ist kein Speicherplatz mehr verfügbar\n"), Some(Code::DiskFull));
    // A measure of a library without models is an array.
    let measure = "  File \"/opt/venv/lib/python3.11/site-packages/sklearn/metrics/_classification.py\", line 99, in log_loss\n    \
                   loss = -(labels * np.log(predicted)).sum(axis=1)\nMemoryError: Unable to allocate 1.10 GiB for an array with shape \
                   (420000, 352) and data type float64\n";
    assert_ne!(cause(measure), Some(Code::BatchTooLarge));
}

#[test]
fn texts_of_one_length_are_counted_by_their_letters() {
    let texts = "MemoryError: Unable to allocate array with shape (30000, 2) and data type <U16000\n";
    assert_eq!(said(texts).numbers.requested_bytes, Some(30_000 * 2 * 16_000 * 4));
    // The last line of a traceback, with the remark that stands behind it.
    let engine = " return engine.run_backward(  # calls into C++\n        ^^^^^^^^^^^^^^^^^^^^\nRuntimeError: MPS backend out of memory \
                  (MPS allocated: 7.00 GB, other allocations: 1.50 GB, max allowed: 9.10 GB). Tried to allocate 640.00 MB on private pool.\n";
    assert_eq!(cause(engine), Some(Code::BatchTooLarge));
}
