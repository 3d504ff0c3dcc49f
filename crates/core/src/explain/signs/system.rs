//! What is said of limits that are not memory: disk, shared memory, descriptors, threads, messages.

use super::super::causes::Code;
use super::super::clean::Line;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{after, bytes_after, has, has_any, has_word, quantity, size_after};

/// Words of those who warn of what may come.
const WARNED: &[&str] =
    &["may occur", "might occur", "can occur", "may fail with", "may lead to", "may result in", "to avoid"];

/// Their signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: Some(Resource::SharedMemory),
        cause: Some(Code::WorkerSharedMemory),
        ..Sign::new(
            "system.shared_memory",
            &["/dev/shm", "shared memory segment", "shm_open", "posix_fallocate failed", "'/psm_"],
            Weight::Failure,
        )
        .full()
    },
    // A row of `df`: `shm   64M   64M   0 100% /dev/shm`; without a unit it counts in KiB.
    Sign {
        resource: Some(Resource::SharedMemory),
        check: |text| text.contains("% /dev/shm"),
        read: |text, numbers| {
            let size = text.split_whitespace().nth(1).and_then(quantity);
            let bytes =
                size.map(|found| found.bytes().saturating_mul(if found.unit_bytes.is_some() { 1 } else { 1024 }));
            numbers.capacity_bytes = numbers.capacity_bytes.or(bytes);
        },
        ..Sign::new("system.df_shm", &["/dev/shm"], Weight::Context)
    },
    Sign {
        read: segment,
        ..Sign::new("nccl.segment", &["Error while creating shared memory segment"], Weight::Context)
    },
    Sign {
        resource: Some(Resource::SharedMemory),
        // The machine's own buses have errors, too; and Slurm's jobs run on the machine itself, whose /dev/shm is half of its memory.
        unless: &["PCIe", "pcieport", "I2C", "USB", "(pid ...", "srun: error:"],
        ..Sign::new("system.bus_error", &["Bus error", "SIGBUS", "signal 7"], Weight::Symptom)
    },
    Sign {
        resource: Some(Resource::Disk),
        cause: Some(Code::DiskFull),
        check: |text| errno(text, "ENOSPC"),
        unless: &[
            "/dev/shm", "posix_fallocate", "inotify", "add_watch", "watch ENOSPC", "file watchers", "</torch_",
            "on device /dev/video", "sem_", "psm_",
        ],
        ..Sign::new(
            "system.disk",
            &[
                "No space left on device",
                "Disk quota exceeded",
                "[Errno 28]",
                "[Errno 122]",
                "ENOSPC",
                "There is not enough space on the disk",
                "not enough disk space",
                "disk is full",
                "Not enough disk space",
                "Not enough free disk space",
                "not enough free space",
                "[WinError 112]",
                "database or disk is full",
                "os error 28",
                "insufficient disk space",
                "[Errno 27]",
                "more disk space than is available",
                // The C library's own words for it in other languages.
                "设备上没有空间",
                "裝置上已無多餘空間",
                "デバイスに空き領域がありません",
                "장치에 남은 공간이 없음",
                "Aucun espace disponible sur le périphérique",
                "No queda espacio en el dispositivo",
                "На устройстве не осталось свободного места",
                "Auf dem Gerät ist kein Speicherplatz mehr verfügbar",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::Disk),
        cause: Some(Code::DiskFull),
        also: &["PytorchStreamWriter", "unexpected pos", "requested and"],
        ..Sign::new(
            "torch.writer",
            &["PytorchStreamWriter failed writing file", "unexpected pos ", " written"],
            Weight::Symptom,
        )
    },
    Sign {
        resource: Some(Resource::FileDescriptors),
        cause: Some(Code::FileDescriptors),
        check: |text| errno(text, "EMFILE") && !has_any(text, WARNED),
        ..Sign::new(
            "system.descriptors",
            &[
                "Too many open files", "[Errno 24]", "EMFILE", "received 0 items of ancdata", "os error 24",
                "[Errno 23]", "accept4 failed (24", "filedescriptor out of range in select",
            ],
            Weight::Failure,
        )
    },
    Sign {
        cause: Some(Code::NotMemory),
        ..Sign::new(
            "system.inotify",
            &[
                "inotify watch limit", "inotify instances", "System limit for number of file watchers reached",
                "inotify_add_watch", "max_user_watches", "max_user_instances", "watch ENOSPC",
            ],
            Weight::Denial,
        )
    },
    Sign {
        resource: Some(Resource::Threads),
        cause: Some(Code::Threads),
        ..Sign::new(
            "system.threads",
            &[
                "can't start new thread", "pthread_create failed", "pthread_create: Resource temporarily unavailable",
                "Thread creation failed", "fork: Resource temporarily unavailable", "fork: retry",
                "unable to create new native thread", "unable to create native thread", "blas_thread_init",
                "Resource temporarily unavailable: 'fork'", "pthread_create() failed", "failed to create thread",
                "Failed to create thread", "thread_limit", "Can't create new thread", "failed to spawn thread",
                "libgomp: Thread creation", "thread constructor failed", "Unable to create thread",
            ],
            Weight::Failure,
        )
        .limits()
    },
    // OpenBLAS has a table of buffers, one for each thread that may call it.
    Sign {
        resource: Some(Resource::Threads),
        cause: Some(Code::Threads),
        ..Sign::new("openblas.regions", &["you tried to allocate too many memory regions"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::Threads),
        cause: Some(Code::Threads),
        ..Sign::new(
            "system.eagain",
            &[
                "[Errno 11] Resource temporarily unavailable", "BlockingIOError: [Errno 11]",
                "Resource temporarily unavailable", "Cannot fork", "couldn't fork",
            ],
            Weight::Symptom,
        )
        .not_locks()
    },
    Sign {
        resource: Some(Resource::MessageSize),
        cause: Some(Code::MessageSize),
        read: message,
        // Spark names its option where it lists them all, too.
        check: |text| !has(text, "spark.rpc.message.maxSize") || has_any(text, &["exceed", " was "]),
        ..Sign::new(
            "grpc.message",
            &[
                "Received message larger than max", "Sent message larger than max", "message larger than max",
                "trying to send message larger than max", "received message larger than max",
                "Received message exceeds", "gRPC message exceeds maximum size", "exceeds the maximum allowed size",
                "Websocket closed: message too big", "message length too large",
                "larger than the maximum message size", "spark.rpc.message.maxSize",
                "Kryo serialization failed: Buffer overflow", "1009 (message too big)", "413 Client Error",
                "Request Entity Too Large", "Payload Too Large", "larger than configured max size",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::MessageSize),
        cause: Some(Code::MessageSize),
        ..Sign::new(
            "pickle.limit",
            &[
                "cannot serialize a bytes object larger than 4 GiB",
                "cannot serialize a bytes objects larger than 4GiB", "cannot serialize a string larger than 4",
                "'i' format requires -2147483648 <= number <= 2147483647", "n exceeds 2147483647",
                "Failed to serialize proto", "byte string too large", "Error serializing message", "bytes exceeds 2GB",
                "Protobuf serialization failed",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: |text, numbers| numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "(current:")),
        ..Sign::new(
            "system.memlock",
            &[
                "RLIMIT_MEMLOCK", "set max locked memory", "memlock", "ibv_reg_mr", "ibv_create_cq",
                "Unable to register memory",
            ],
            Weight::Symptom,
        )
        .refused()
    },
    Sign { resource: Some(Resource::HostMemory), ..Sign::new("system.maps", &["vm.max_map_count"], Weight::Symptom) },
];

impl Sign {
    /// A refusal, and no option of a container that mentions the limit: `--ulimit memlock=-1`.
    const fn refused(self) -> Sign {
        Sign {
            also: &["fail", "error", "cannot", "unable", "too low", "current:", "increas"],
            // llama.cpp goes on with memory that is not locked.
            unless: &["--ulimit", "Try increasing RLIMIT_MEMLOCK", "warning: failed to mlock"],
            ..self
        }
    }

    /// A file that is locked says the same.
    const fn not_locks(self) -> Sign {
        let others = &["unable to lock", "lock file", "flock", "socket", "recv", "could not complete without blocking"];
        Sign { unless: others, ..self }
    }

    const fn full(self) -> Sign {
        Sign {
            also: &[
                "No space left", "Errno 28", "ENOSPC", "not enough", "is full", "too small", "larger than",
                "to resize", "insufficient", "failed to extend", "failed :", "Unable", "unable",
            ],
            unless: &["is not a failure", "No such file", "because /dev/shm has only", "when /dev/shm", "if /dev/shm"],
            read: segment,
            ..self
        }
    }

    /// Failures, and not settings that carry the name.
    const fn limits(self) -> Sign {
        Sign {
            also: &["fail", "Fail", "can't", "Can't", "unable", "Unable", "unavailable", "retry", "error"],
            // A container whose rules forbid the call: no limit was reached.
            unless: &["Operation not permitted"],
            ..self
        }
    }
}

/// Calls that lock a file, or wait for one that is locked.
const LOCKS: &[&str] = &["flock(", "lockf(", "locking(", "LOCK_NB", "LOCK_EX"];

/// Whether `Resource temporarily unavailable` is said of a file that somebody else has locked: the call stands above it.
pub fn is_lock(sign: &Sign, above: &[Line]) -> bool {
    sign.id == "system.eagain" && above.iter().rev().take(2).any(|line| has_any(&line.text, LOCKS))
}

fn segment(text: &str, numbers: &mut Numbers) {
    let named = after(text, "/dev/shm/nccl-").and_then(|tail| bytes_after(tail, " to"));
    numbers.requested_bytes = numbers.requested_bytes.or(named).or_else(|| bytes_after(text, "(size"));
}

/// The name of an error number counts as a word only: `EMFILE` is in `systemfile`, too.
fn errno(text: &str, name: &str) -> bool {
    !has(text, name) || has_word(text, name) || has_any(text, &["No space left", "Too many open files", "Errno"])
}

/// `Received message larger than max (4195000 vs. 4194304)`
fn message(text: &str, numbers: &mut Numbers) {
    // Serialized task 35:4 was N bytes, which exceeds max allowed: spark.rpc.message.maxSize (N bytes)
    if has(text, "spark.rpc.message.maxSize") {
        numbers.requested_bytes = numbers.requested_bytes.or_else(|| size_after(text, " was"));
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "message.maxSize"));
    }
    // sent 1009 (message too big) frame with 5242880 bytes exceeds limit of 1048576 bytes
    if has(text, "(message too big)") {
        numbers.requested_bytes = numbers.requested_bytes.or_else(|| bytes_after(text, "frame with"));
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| bytes_after(text, "exceeds limit of"));
    }
    // Java's: gRPC message exceeds maximum size 4194304: 6291456
    if let Some(limit) = after(text, "gRPC message exceeds maximum size") {
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| quantity(limit).map(|found| found.bytes()));
        numbers.requested_bytes = numbers.requested_bytes.or_else(|| bytes_after(limit, ":"));
    }
    if has(text, "Kryo serialization failed") {
        numbers.requested_bytes = numbers.requested_bytes.or_else(|| bytes_after(text, "required:"));
    }
    let Some(tail) = after(text, "larger than max") else {
        numbers.requested_bytes = numbers.requested_bytes.or_else(|| bytes_after(text, "Received message exceeds"));
        return;
    };
    numbers.requested_bytes = numbers.requested_bytes.or_else(|| quantity(tail).map(|found| found.bytes()));
    if has(tail, "vs") {
        numbers.capacity_bytes =
            numbers.capacity_bytes.or_else(|| bytes_after(tail, "vs.")).or_else(|| bytes_after(tail, "vs"));
    }
}
