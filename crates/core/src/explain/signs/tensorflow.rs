//! What TensorFlow 1.x–2.x and Keras say.
//!
//! Origin of the wordings: `op_kernel.h`, `bfc_allocator.cc`, `cpu_allocator_impl.cc`, `cuda_blas.cc`, `cuda_dnn.cc`, `tensor_util.py`.

use super::super::causes::Code;
use super::super::shapes;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{Quantity, after, bytes_after, find, has, has_any, quantity, size_after, size_before};

/// Its signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: Some(Resource::GpuMemory),
        read: tensor,
        ..Sign::new(
            "tensorflow.oom",
            &["OOM when allocating tensor", "OOM when allocating tensor with shape"],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: pool,
        unless: &["is not a failure", "not a failure, but"],
        also: &["Allocator (", "See logs for memory state"],
        ..Sign::new("tensorflow.pool", &["ran out of memory trying to"], Weight::Failure)
    },
    // The bar below it, of which each place is a hundredth of the pool.
    Sign {
        check: is_empty_pool,
        ..Sign::new("tensorflow.empty_pool", &["] ________________", "<allocator contains no memory>"], Weight::Context)
    },
    Sign {
        ..Sign::new("tensorflow.not_a_failure", &["The caller indicates that this is not a failure"], Weight::Warning)
    },
    // The pool lists its pieces only when something failed, even if the line that says so was cut off.
    Sign {
        resource: Some(Resource::GpuMemory),
        read: dump,
        ..Sign::new(
            "tensorflow.dump_part",
            &["Sum Total of in-use chunks", "Chunks of size ", "MaxAllocSize:"],
            Weight::Symptom,
        )
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: pool_name,
        ..Sign::new("tensorflow.dump_of", &["BFCAllocator dump for"], Weight::Failure)
    },
    Sign {
        read: dump,
        ..Sign::new(
            "tensorflow.dump",
            &[
                "Limit:  ", "InUse:  ", "MaxInUse:  ", "memory_limit_: ", "Sum Total of in-use chunks",
                "total_region_allocated_bytes_", "Total size in pool:",
            ],
            Weight::Context,
        )
    },
    Sign { read: free_chunk, ..Sign::new("tensorflow.free_chunk", &["Free  at ", "Free at 0x"], Weight::Context) },
    Sign {
        ..Sign::new(
            "tensorflow.tenth",
            &["exceeds 10% of free system memory", "exceeds 10% of system memory"],
            Weight::Warning,
        )
    },
    // `tf.data` puts the rows of a batch together on the host.
    Sign {
        resource: Some(Resource::HostMemory),
        ..Sign::new("tensorflow.batch", &["Failed to allocate memory for the batch of component"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: destination,
        ..Sign::new("tensorflow.destination", &["Dst tensor is not initialized"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: wrapped,
        unless: &[
            "OOM when allocating", "quota", "429", "grpc", "Received message larger", "tempstate", "No space left",
            "Too many open files", "checkpoint file", "to serialize message",
        ],
        also: &["ResourceExhausted", "Resource exhausted"],
        check: |text| !names_a_file(text),
        ..Sign::new("tensorflow.exhausted", &["ResourceExhaustedError", "Resource exhausted:"], Weight::Symptom)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: op,
        ..Sign::new(
            "tensorflow.rnn",
            &["Failed to call ThenRnnForward", "Failed to call ThenRnnBackward", "Failed to call DoRnnForward"],
            Weight::Symptom,
        )
    },
    Sign {
        resource: Some(Resource::MessageSize),
        cause: Some(Code::MessageSize),
        read: protocol,
        ..Sign::new(
            "tensorflow.proto",
            &[
                "Cannot create a tensor proto whose content is larger than 2GB",
                "cannot be larger than 2GB",
                "GraphDef cannot be larger than 2GB",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::MessageSize),
        cause: Some(Code::MessageSize),
        read: protocol,
        ..Sign::new(
            "protobuf.limit",
            &[
                "exceeded maximum protobuf size", "exceeds maximum protobuf size",
                "protocol message was rejected because it was too big", "Cannot serialize protocol buffer of type",
                "larger than the 2GiB limit imposed by the protobuf",
            ],
            Weight::Failure,
        )
    },
    // A graph or a function, written out whole on the host (`MessageToBuffer`).
    Sign {
        resource: Some(Resource::HostMemory),
        read: |text, numbers| {
            numbers.requested_bytes = numbers.requested_bytes.or_else(|| bytes_after(text, "and size"))
        },
        ..Sign::new("tensorflow.serialize", &["Failed to allocate memory to serialize message"], Weight::Failure)
    },
    Sign {
        resource: Some(Resource::Disk),
        cause: Some(Code::DiskFull),
        also: &["Resource exhausted", "ResourceExhausted"],
        unless: &["Too many open files"],
        ..Sign::new("tensorflow.checkpoint_file", &["tempstate", "checkpoint file", ".data-00000-of-"], Weight::Failure)
    },
    Sign {
        read: at_start,
        ..Sign::new(
            "tensorflow.at_start",
            &[
                "Total memory:", "Free memory:", "totalMemory:", "freeMemory:", " MB memory)", " MB memory:",
                "Free memory/Total memory",
            ],
            Weight::Context,
        )
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        ..Sign::new("tensorflow.copy", &["unable to allocate output tensor"], Weight::Failure)
    },
    Sign { ..Sign::new("tensorflow.retracing", &["triggered tf.function retracing"], Weight::Warning) },
    Sign {
        ..Sign::new(
            "tensorflow.cache",
            &["The calling iterator did not fully read the dataset being cached"],
            Weight::Warning,
        )
    },
    Sign { ..Sign::new("tensorflow.shuffle", &["Filling up shuffle buffer"], Weight::Context) },
];

/// Files can be exhausted, too: `Resource exhausted: /data/model.ckpt`.
fn names_a_file(text: &str) -> bool {
    let tail = after(text, "exhausted:").or_else(|| after(text, "ExhaustedError:")).unwrap_or("").trim_start();
    ["/", "./", "gs://", "s3://"].iter().any(|start| tail.starts_with(start))
}

/// `OOM when allocating tensor with shape[…] and type float on /job:…/device:GPU:0 by allocator GPU_0_bfc`
fn tensor(text: &str, numbers: &mut Numbers) {
    if numbers.shape.is_none() {
        let tail = after(text, "OOM when allocating tensor").unwrap_or(text);
        numbers.shape = shapes::shape(tail);
        numbers.dtype = shapes::dtype(tail).map(str::to_owned);
    }
    // TensorFlow 1 says the element type only where it describes the node.
    if numbers.dtype.is_none() {
        let node = after(text, "[[Node: ").and_then(|tail| tail.split("]]").next()).unwrap_or("");
        let named = ["DstT=", "dtype=", "out_type=", "T="].iter().find_map(|name| attribute(node, name));
        numbers.dtype = named.and_then(shapes::named_type).map(str::to_owned);
    }
    op(text, numbers);
}

/// `bfc_allocator.cc:468] ______…`, without one star; `<allocator contains no memory>`, where not even a bar could be drawn.
fn is_empty_pool(text: &str) -> bool {
    let bar = after(text, "bfc_allocator.cc:").and_then(|tail| tail.split_once("] "));
    bar.is_some_and(|(_, bar)| {
        bar.trim_end().chars().all(|place| place == '_') || bar.starts_with("<allocator contains")
    })
}

/// What could not be put on the device is a constant where the node is one:
/// `[[Node: zeros_12 = Const[dtype=DT_FLOAT, value=Tensor<type: float shape: [32768,2048] values: [0 0 0]...>, …]]]`
fn destination(text: &str, numbers: &mut Numbers) {
    op(text, numbers);
    let constant = after(text, "= Const[").and_then(|tail| after(tail, "value=Tensor<"));
    if let Some(value) = constant.filter(|_| numbers.shape.is_none()) {
        numbers.shape = shapes::shape(value);
        numbers.dtype = shapes::dtype(value).map(str::to_owned);
    }
}

/// The error by its name, whose message may follow in the next lines.
fn wrapped(text: &str, numbers: &mut Numbers) {
    if has(text, "OOM when allocating tensor") {
        tensor(text, numbers)
    } else {
        op(text, numbers)
    }
    // XLA's message, wrapped within its first words.
    let program = bytes_after(text, "Out of memory while trying to allocate");
    let op = bytes_after(text, "Ran out of GPU memory when allocating");
    numbers.requested_bytes = numbers.requested_bytes.or(program).or(op);
}

/// An attribute of a node: `DT_FLOAT` is `T=` of `concat = ConcatV2[N=2, T=DT_FLOAT, Tidx=DT_INT32](…)`.
fn attribute<'a>(node: &'a str, name: &str) -> Option<&'a str> {
    let inside = node.split_once('[')?.1;
    inside.split([',', ']']).find_map(|part| part.trim_start().strip_prefix(name))
}

/// The device and the op that a message names.
pub fn op(text: &str, numbers: &mut Numbers) {
    if numbers.device.is_none() {
        let named = ["device:GPU:", "device:CPU:", "device:TPU:", "/gpu:", "/cpu:"]
            .iter()
            .find_map(|kind| find(text, kind).map(|at| (at, kind.len())));
        numbers.device = named.map(|(at, length)| {
            let digits = text[at + length..].chars().take_while(char::is_ascii_digit).count();
            text[at..at + length + digits].trim_start_matches('/').trim_start_matches("device:").to_owned()
        });
        if numbers.device.is_none()
            && (has(text, "allocator cpu") || has(text, "allocator mklcpu") || has(text, "cpu_bfc"))
        {
            numbers.device = Some("CPU".to_owned());
        }
    }
    if numbers.op.is_none() {
        let node = after(text, "{{node ")
            .and_then(|tail| tail.split(['}', ' ']).next())
            .or_else(|| after(text, "[[node ").and_then(|tail| tail.split([' ', ']']).next()));
        let eager = || after(text, "[Op:").and_then(|tail| tail.split([']', ' ']).next());
        let old = || after(text, "[[Node: ").and_then(|tail| tail.split(" =").next());
        numbers.op =
            node.or_else(eager).or_else(old).filter(|name| !name.is_empty() && name.len() < 300).map(str::to_owned);
    }
}

/// `Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.25GiB (rounded to …)requested by op …`
fn pool(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers.requested_bytes.or_else(|| size_after(text, "trying to allocate"));
    // JAX names none, nor does TensorFlow outside of a graph, and another sentence follows, behind the prefix of a rank where there is one.
    let named = |op: &&str| {
        let op = op.trim_start();
        // What follows may be the time or the level of the next line: `2026-01-15 10:01:01`, `W0115 10:01:01`.
        !op.starts_with(['[', '('])
            && !op.trim_start_matches(['I', 'W', 'E', 'F']).starts_with(|c: char| c.is_ascii_digit())
            && !["If this is caused", "If the cause is"].iter().any(|other| op.starts_with(other))
    };
    if let Some(op) = after(text, "requested by op ").filter(named) {
        numbers.op = numbers.op.take().or_else(|| op.split_whitespace().next().map(str::to_owned));
    }
    if numbers.device.is_none() {
        numbers.device = after(text, "Allocator (").and_then(|tail| tail.split(')').next()).map(device_of_pool);
    }
}

fn pool_name(text: &str, numbers: &mut Numbers) {
    let name = after(text, "dump for ").and_then(|tail| tail.split_whitespace().next());
    numbers.device = numbers.device.take().or_else(|| name.map(device_of_pool));
}

/// `GPU_0_bfc` is `GPU:0`; `cuda_host_bfc` is pinned memory of the host.
fn device_of_pool(name: &str) -> String {
    if has_any(name, &["cpu", "_host_"]) { "CPU".to_owned() } else { name.replace("_bfc", "").replace('_', ":") }
}

/// `GraphDef … exceeded maximum protobuf size of 2GB: 2400000032`, `serialized size (2418733906bytes) would be larger than the limit (2147483647 bytes)`
fn protocol(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers
        .requested_bytes
        .or_else(|| bytes_after(text, "protobuf size of 2GB:"))
        .or_else(|| bytes_after(text, "serialized size"));
    numbers.capacity_bytes = numbers
        .capacity_bytes
        .or_else(|| bytes_after(text, "larger than the limit"))
        .or_else(|| size_after(text, "maximum protobuf size of"))
        .or_else(|| size_after(text, "too big (more than"))
        .or_else(|| size_after(text, "larger than the"))
        .or_else(|| size_after(text, "larger than"));
}

/// What was free when the device was opened: `Total memory: 7.92GiB`, `freeMemory: 151.25MiB`, `(… with 58 MB memory)`.
fn at_start(text: &str, numbers: &mut Numbers) {
    if let Some((free, total)) = after(text, "Free memory/Total memory:").and_then(|tail| tail.split_once('/')) {
        numbers.free_bytes = numbers.free_bytes.or_else(|| quantity(free).map(Quantity::bytes));
        numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| quantity(total).map(Quantity::bytes));
        return;
    }
    numbers.capacity_bytes = numbers
        .capacity_bytes
        .or_else(|| size_after(text, "Total memory:"))
        .or_else(|| size_after(text, "totalMemory:"));
    numbers.free_at_start_bytes = numbers
        .free_at_start_bytes
        .or_else(|| size_after(text, "Free memory:"))
        .or_else(|| size_after(text, "freeMemory:"));
    numbers.capacity_bytes =
        numbers.capacity_bytes.or_else(|| size_before(text, "memory)")).or_else(|| size_before(text, "memory:"));
}

fn dump(text: &str, numbers: &mut Numbers) {
    let limit = |found: Option<u64>| found.filter(|&bytes| bytes > 0 && bytes < 1 << 60);
    numbers.capacity_bytes = numbers
        .capacity_bytes
        .or_else(|| limit(bytes_after(text, "] Limit:")))
        .or_else(|| limit(starts(text, "Limit:")))
        .or_else(|| limit(bytes_after(text, "memory_limit_:")));
    if !has(text, "MaxInUse:") {
        numbers.allocated_bytes = numbers.allocated_bytes.or_else(|| bytes_after(text, "InUse:"));
    }
    numbers.allocated_bytes = numbers.allocated_bytes.or_else(|| size_after(text, "Sum Total of in-use chunks:"));
    // `1 Chunks of size 18924364800 totalling 17.62GiB`
    let chunk = bytes_after(text, "Chunks of size");
    numbers.largest_in_use_bytes = numbers.largest_in_use_bytes.max(chunk);
    numbers.reserved_bytes = numbers
        .reserved_bytes
        .or_else(|| bytes_after(text, "total_region_allocated_bytes_:"))
        .or_else(|| size_after(text, "Total size in pool:"));
}

/// Newer versions print the statistics on lines of their own, without the logger's prefix.
fn starts(text: &str, name: &str) -> Option<u64> {
    // Whoever pastes it may set it in bold: `**Limit: 12884901888`.
    text.trim_start().trim_start_matches('*').starts_with(name).then(|| bytes_after(text, name)).flatten()
}

fn free_chunk(text: &str, numbers: &mut Numbers) {
    numbers.largest_free_bytes = numbers.largest_free_bytes.max(bytes_after(text, " of size"));
}
