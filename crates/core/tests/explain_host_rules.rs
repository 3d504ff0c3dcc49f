//! Rules of `explain` that weigh figures and places against each other where the host's memory or a limit ran out, each with a message where it holds
//! and one where it does not.
//!
//! In: messages in their programs' own words, with figures chosen to lie on either side. Checked: what ran out, the cause or that none is named, and
//! figures. Memory of devices is `explain_device_rules`'s; whole logs are checked in `explain_corpus`.

use brimful_core::bytes::GIB;
use brimful_core::explain::{Code, Resource, explain};

fn cause(log: &str) -> Option<Code> {
    explain(log.as_bytes()).cause.map(|cause| cause.code)
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

#[test]
fn a_node_that_evicts_has_no_memory_itself() {
    let evicted = |resource: &str, rest: &str| {
        format!("Status:  Failed\nReason:  Evicted\nMessage: The node was low on resource: {resource}. {rest}\n")
    };
    let newer = "Threshold quantity: 100Mi, available: 50Mi. Container trainer was using 15Gi, request is 4Gi, has larger consumption of memory.";
    let older = "Container trainer was using 9402820Ki, which exceeds its request of 7G. \nContainers:\n  trainer:\n    Limits:\n      memory:  10G";
    for (rest, used) in [(newer, 15 * GIB), (older, 9_402_820 << 10)] {
        let said = explain(evicted("memory", rest).as_bytes());
        let cause = said.cause.expect("a cause");
        assert_eq!((said.resource, cause.code), (Some(Resource::HostMemory), Code::KernelOomKill), "{rest}");
        // The container's limit is not what ran out, and to raise it does not help.
        assert_eq!((said.numbers.process_bytes, said.numbers.capacity_bytes), (Some(used), None), "{rest}");
        let ids: Vec<&str> = said.remedies.iter().map(|advice| advice.id).collect();
        assert_eq!(ids.first(), Some(&"raise_requests"), "{ids:?}");
        assert!(!ids.contains(&"raise_limit"), "{ids:?}");
        assert!(cause.title.contains("evicted the pod") && !cause.title.contains("kernel"), "{}", cause.title);
    }
    let because = |rest: &str| explain(evicted("memory", rest).as_bytes()).cause.expect("a cause").because.concat();
    assert!(because(newer).contains("used 15.0 GiB and had asked for 4.00 GiB"), "{}", because(newer));
    assert!(because("Container a was using 3Gi, which exceeds its request of 0.").contains("had asked for nothing"));
    assert!(!because("Container a was using 3Gi,").contains("had asked"), "the line is cut off");
    assert_eq!(cause("The node had condition: [MemoryPressure].\n"), Some(Code::KernelOomKill));
    // A disk is none, and a container's own limit is its own.
    assert_eq!(
        cause(&evicted("ephemeral-storage", "Container a was using 25Gi, which exceeds its request of 0.")),
        Some(Code::DiskFull)
    );
    assert_eq!(
        cause("    Last State:     Terminated\n      Reason:       OOMKilled\n"),
        Some(Code::ContainerOrSchedulerLimit)
    );
}
