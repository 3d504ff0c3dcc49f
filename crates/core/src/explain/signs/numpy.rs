//! What NumPy, pandas, scikit-learn, C++ and plain Python say when the host has no more memory.

use super::super::causes::Code;
use super::super::shapes;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{bytes_after, has, has_any, size_after};

/// What an exception says of a device's memory.
const ON_DEVICE: &[&str] = &[
    "memory on GPU", "memory on the GPU", "GPU memory", "device memory", "pycuda", "cuCtxCreate", "cuMemAlloc",
    "cudaMalloc", "cudaErrorMemoryAllocation", "CUDA error", "bad_alloc: out_of_memory", "RMM failure",
];

/// Their signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: Some(Resource::HostMemory),
        read: array,
        ..Sign::new("numpy.array", &["Unable to allocate", "_ArrayMemoryError"], Weight::Failure).for_arrays()
    },
    Sign {
        resource: Some(Resource::HostMemory),
        cause: Some(Code::TensorTooLarge),
        read: array,
        unless: &["CUDA out of memory", "HIP out of memory", "XPU out of memory"],
        ..Sign::new(
            "numpy.too_big",
            &[
                "array is too big; `arr.size * arr.dtype.itemsize`", "ValueError: array is too big",
                "Maximum allowed dimension exceeded", "Storage size calculation overflowed", "more than 1EB memory",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        // cymem's pools, below spaCy: `MemoryError: Error assigning 1073741832 bytes`.
        read: |text, numbers| {
            numbers.requested_bytes = numbers.requested_bytes.or_else(|| bytes_after(text, "Error assigning"));
        },
        check: |text| !has_any(text, ON_DEVICE),
        ..Sign::new("python.memory_error", &["MemoryError"], Weight::Failure).for_exceptions()
    },
    // Bindings of libraries for GPUs raise it, too.
    Sign {
        resource: Some(Resource::GpuMemory),
        check: |text| has_any(text, ON_DEVICE),
        ..Sign::new("python.device_memory_error", &["MemoryError"], Weight::Failure).for_exceptions()
    },
    Sign {
        resource: Some(Resource::HostMemory),
        ..Sign::new(
            "pandas.tokenizing",
            &["Error tokenizing data. C error: out of memory", "C error: out of memory"],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: native,
        unless: &[
            "bad_alloc: out of memory", "bad_alloc: out_of_memory", "thrust::", "cudaErrorMemoryAllocation",
            "CUDA error", "RMM failure",
        ],
        ..Sign::new(
            "native.bad_alloc",
            &["std::bad_alloc", "bad allocation", "std::bad_array_new_length", "Arena alloc failed"],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: native,
        unless: &[
            // A loader's table of a fixed size is full: the order of imports, not memory.
            "static TLS", "CUDA out", "mlock", "ibv_", "memlock", "register memory", "cudaMalloc", "Arrow", "</torch_",
            "<filename not specified>", "ResourceExhausted", "build and broadcast the table", "Skipping", "SKIPPED",
            "use lower resolution",
        ],
        // Not a question.
        check: |text| !text.trim_end().ends_with('?'),
        ..Sign::new(
            "native.enomem",
            &[
                "Cannot allocate memory", "[Errno 12]", "ENOMEM", "memory exhausted", "failed to map segment",
                "[WinError 1455]", "error code: <1455>", "Failed to allocate block of", "The paging file is too small",
                "os error 1455", "malloc of size", "realloc of size", "Not enough memory", "bytes failed",
                // The C library's own words for it in other languages.
                "无法分配内存", "無法配置記憶體", "メモリを確保できません", "메모리를 할당할 수 없습니다",
                "Impossible d'allouer de la mémoire", "No se pudo asignar memoria", "Невозможно выделить память",
                "Nicht genügend Hauptspeicher verfügbar",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        read: |text, numbers| {
            numbers.requested_bytes = numbers
                .requested_bytes
                .or_else(|| bytes_after(text, "Requested memory:"))
                // RMM, of its pool: `Maximum pool size exceeded (failed to allocate 5.215406 GiB)`
                .or_else(|| size_after(text, "failed to allocate"));
            numbers.free_bytes = numbers.free_bytes.or_else(|| bytes_after(text, "Free memory:"));
        },
        ..Sign::new(
            "thrust.bad_alloc",
            &[
                "thrust::system::detail::bad_alloc", "bad_alloc: out of memory",
                "bad_alloc: cudaErrorMemoryAllocation", "RMM failure", "bad_alloc: out_of_memory",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::HostMemory),
        read: native,
        ..Sign::new("arrow.malloc", &["ArrowMemoryError", "malloc of size"], Weight::Failure)
    },
    // tcmalloc reports every large piece, with its address: there is none where it failed.
    Sign {
        resource: Some(Resource::HostMemory),
        read: |text, numbers| {
            numbers.requested_bytes = numbers.requested_bytes.or_else(|| bytes_after(text, "large alloc"));
        },
        also: &["== (nil)", "== 0x0 "],
        ..Sign::new("tcmalloc.large", &["tcmalloc: large alloc"], Weight::Failure)
    },
    Sign { ..Sign::new("tcmalloc.reported", &["tcmalloc: large alloc", "tcmalloc:  large alloc"], Weight::Context) },
    // Java's own, outside of its heap: `Native memory allocation (mmap) failed to map 8589934592 bytes for committing reserved memory.`
    Sign {
        resource: Some(Resource::HostMemory),
        read: |text, numbers| {
            let asked = bytes_after(text, "failed to map").or_else(|| bytes_after(text, "failed to allocate"));
            numbers.requested_bytes = numbers.requested_bytes.or(asked);
        },
        ..Sign::new(
            "java.native",
            &["Native memory allocation (", "insufficient memory for the Java Runtime Environment"],
            Weight::Failure,
        )
    },
];

impl Sign {
    /// `Unable to allocate` with an array or a size; `Unable to allocate a port` is something else.
    const fn for_arrays(self) -> Sign {
        Sign {
            also: &["array", "shape", "iB", "MB", "GB", "bytes", "ArrayMemoryError"],
            unless: &["shared memory", "GPU", "CUDA", "port", "from device"],
            ..self
        }
    }

    /// The name of the exception, and not of a class of somebody else's.
    const fn for_exceptions(self) -> Sign {
        Sign {
            unless: &[
                "ArrowMemoryError", "_ArrayMemoryError", "OutOfMemoryError", "CudaMemoryError", "except MemoryError",
                "Caught", "caught", "falling back", "raise MemoryError", "NoMemoryError", "InsufficientMemoryError",
                // Several are spoken of, and none is raised.
                "MemoryErrors",
                // The system forbids memory that is written and run (`system.forbidden`).
                "write+execute memory",
            ],
            ..self
        }
    }
}

fn array(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers.requested_bytes.or_else(|| size_after(text, "Unable to allocate"));
    if numbers.shape.is_none() {
        numbers.shape = shapes::shape(text).or_else(|| shapes::list_after(text, "sizes="));
        numbers.dtype = shapes::text_type(text).or_else(|| shapes::dtype(text)).map(str::to_owned);
    }
}

fn native(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers
        .requested_bytes
        .or_else(|| bytes_after(text, "malloc of size"))
        .or_else(|| bytes_after(text, "unable to mmap"))
        .or_else(|| bytes_after(text, "realloc of size"))
        .or_else(|| bytes_after(text, "memory allocation of"))
        .or_else(|| size_after(text, "Failed to allocate"))
        .or_else(|| has(text, "allocate").then(|| size_after(text, "tried to allocate")).flatten());
}
