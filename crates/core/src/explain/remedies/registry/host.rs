//! Data, workers and limits of the machine around a job.

use super::super::code::{CUDA, OTHERS, ROCM, any, keras, torch};
use super::super::{Advice, advice};
use crate::report::SameResult;

pub(super) const ADVICE: &[Advice] = &[
    advice(
        "stream_data",
        "Read the data as it is needed",
        SameResult::Exact,
        &[
            keras("class Batches(keras.utils.PyDataset): ...   # reads a batch in __getitem__"),
            torch("class Rows(torch.utils.data.IterableDataset): ...   # reads in __iter__"),
            any("pl.scan_csv('big.csv'), pd.read_csv('big.csv', chunksize=100_000)"),
        ],
    ),
    advice(
        "chunked_reading",
        "Read a file in chunks",
        SameResult::Exact,
        &[any("for part in pd.read_csv('big.csv', chunksize=100_000): ...")],
    ),
    advice(
        "memory_map",
        "Map the array instead of reading it",
        SameResult::Exact,
        &[any("x = np.load('x.npy', mmap_mode='r')")],
    ),
    advice(
        "smaller_types",
        "Smaller types: float64 to float32, categories, no dense one-hot",
        SameResult::Numerics,
        &[
            any("x = x.astype('float32')"),
            any("pd.read_csv('big.csv', dtype={'id': 'int32', 'kind': 'category'}, usecols=[...])"),
        ],
    ),
    advice(
        "fewer_workers",
        "Fewer worker processes, less prefetching",
        SameResult::Exact,
        &[torch("DataLoader(dataset, num_workers=2, prefetch_factor=2)")],
    ),
    advice(
        "shm_size",
        "More shared memory for the container",
        SameResult::Exact,
        &[
            any("docker run --shm-size=8g ...     # or --ipc=host"),
            any("# Kubernetes: an emptyDir volume with medium: Memory, mounted at /dev/shm"),
        ],
    ),
    advice(
        "sharing_strategy",
        "Hand batches over another way",
        SameResult::Exact,
        &[
            torch("torch.multiprocessing.set_sharing_strategy('file_system')   # descriptors; needs /dev/shm"),
            torch("DataLoader(dataset, num_workers=0)"),
        ],
    ),
    advice(
        "raise_limit",
        "A higher limit, if the machine has room",
        SameResult::Exact,
        &[any("docker run --memory 32g ...      sbatch --mem 32G      resources.limits.memory: 32Gi")],
    ),
    advice(
        "raise_requests",
        "Ask Kubernetes for as much as the job uses, or for a larger node",
        SameResult::Exact,
        &[any("resources.requests.memory: 16Gi     # who uses more than it asked for is evicted first")],
    ),
    advice(
        "free_disk",
        "Make room on the disk",
        SameResult::Exact,
        &[any("df -h . ; df -i . ; du -sh ~/.cache/* | sort -h")],
    ),
    advice(
        "other_folder",
        "Write to a disk with room",
        SameResult::Exact,
        &[any("export TMPDIR=/data/tmp HF_HOME=/data/hf")],
    ),
    advice("raise_nofile", "Allow more open files", SameResult::Exact, &[any("ulimit -n 65535")]),
    advice(
        "fewer_threads",
        "Fewer threads per process",
        SameResult::Exact,
        &[any("OMP_NUM_THREADS=4 OPENBLAS_NUM_THREADS=4 python train.py")],
    ),
    advice(
        "raise_nproc",
        "Allow more processes",
        SameResult::Exact,
        &[any("ulimit -u 65535       # containers: --pids-limit")],
    ),
    advice(
        "raise_message_limit",
        "A higher limit for messages",
        SameResult::Exact,
        &[any(
            "grpc.insecure_channel(address, options=[('grpc.max_receive_message_length', 256 << 20), ('grpc.max_send_message_length', 256 << 20)])",
        )],
    ),
    advice(
        "smaller_messages",
        "Send less at a time",
        SameResult::Exact,
        &[any("# pass a path or a reference instead of the data; save weights beside the graph, not in it")],
    ),
    advice(
        "read_the_error",
        "Look at the first error, not at the last",
        SameResult::Exact,
        &[
            any("CUDA_LAUNCH_BLOCKING=1 python train.py     # then the traceback shows the call that failed").on(CUDA),
            any("AMD_SERIALIZE_KERNEL=3 python train.py     # then the traceback shows the call that failed").on(ROCM),
            any("python train.py 2>&1 | tee train.log       # and read it from its beginning").on(OTHERS),
        ],
    ),
];
