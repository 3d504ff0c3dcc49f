//! What CUDA and its libraries say through any framework.
//!
//! A handle or a workspace that cannot be made is often a full device, and sometimes a bad index or a mismatched version: a symptom, which the
//! look-alikes can deny.

use super::super::causes::Code;
use super::super::sign::{Numbers, Resource, Sign, Weight};
use super::super::sizes::{bytes_after, has_any, size_after, size_before};

/// Its signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: Some(Resource::GpuMemory),
        unless: &[
            "CUDA out of memory", "Tried to allocate", "on host", "In-memory CUBIN", "conv_algorithm_picker", ": I ",
        ],
        ..Sign::new(
            "cuda.out_of_memory",
            &[
                "CUDA error: out of memory", "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation",
                "CUDA error 2: out of memory", "cudaMalloc failed: out of memory", "Cuda failure 'out of memory'",
                "CUDA driver error: out of memory", "CUDA Error: out of memory", "hipErrorOutOfMemory",
                "Cuda failure 2 'out of memory'", "Error out of memory at line",
            ],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::WorkspaceOrHandle),
        ..Sign::new(
            "cuda.nccl_oom",
            &["NCCL WARN Cuda failure 'out of memory'", "NCCL WARN Cuda failure 2", "Failed to CUDA calloc"],
            Weight::Failure,
        )
        .nccl()
    },
    // A call of NCCL's failed, for want of memory or of something else: only NCCL's own log says which.
    Sign { ..Sign::new("cuda.nccl_unhandled", &["unhandled cuda error", "ncclUnhandledCudaError"], Weight::Symptom) },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::WorkspaceOrHandle),
        ..Sign::new(
            "cuda.cublas_handle",
            &[
                "CUBLAS_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED", "failed to create cublas handle",
                "failed to create cuBLAS handle", "CUSPARSE_STATUS_ALLOC_FAILED",
                "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", "CUFFT_ALLOC_FAILED", "cuFFT error: CUFFT_INTERNAL_ERROR",
                "CUSOLVER_STATUS_ALLOC_FAILED", "cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR",
            ],
            Weight::Symptom,
        )
    },
    // Products fail so for many reasons: a bad index before them, a driver, a card. A handle that is not made is another matter.
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::WorkspaceOrHandle),
        check: |text| has_any(text, &["cublasCreate", "create", "ALLOC_FAILED"]),
        ..Sign::new("cuda.cublas_internal", &["CUBLAS_STATUS_INTERNAL_ERROR"], Weight::Symptom)
    },
    Sign {
        check: |text| !has_any(text, &["cublasCreate", "create", "ALLOC_FAILED"]),
        ..Sign::new("cuda.cublas_product", &["CUBLAS_STATUS_INTERNAL_ERROR"], Weight::Symptom)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::WorkspaceOrHandle),
        ..Sign::new(
            "cuda.cudnn_handle",
            &[
                "CUDNN_STATUS_ALLOC_FAILED", "CUDNN_STATUS_INTERNAL_ERROR", "CUDNN_STATUS_NOT_INITIALIZED",
                "Could not create cudnn handle", "cudnn handle: CUDNN_STATUS", "DNN library initialization failed",
                "DNN library is not found",
            ],
            Weight::Symptom,
        )
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::WorkspaceOrHandle),
        read: algorithm,
        ..Sign::new(
            "cuda.algorithm",
            &[
                "Failed to get convolution algorithm", "No algorithm worked", "No algorithm without scratch worked",
                "Fail to find the dnn implementation", "no valid convolution algorithms available",
                "Unable to find a valid cuDNN algorithm", "unable to find an engine to execute",
                "GET was unable to find an engine", "All algorithms tried for", "FIND was unable to find an engine",
            ],
            Weight::Symptom,
        )
    },
    // The compiler goes on with slower ones, and says so itself if none of those works either.
    Sign {
        ..Sign::new(
            "cuda.fallback",
            &["None of the algorithms provided by cuDNN heuristics worked", "conv_algorithm_picker"],
            Weight::Warning,
        )
    },
    // ONNX Runtime and others print the call that was refused.
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::WorkspaceOrHandle),
        also: &["out of memory", "ALLOC_FAILED"],
        ..Sign::new(
            "cuda.called",
            &["cudaStreamCreate", "cudaEventCreate", "expr=cublasCreate", "expr=cudnnCreate"],
            Weight::Failure,
        )
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::WorkspaceOrHandle),
        also: &["OUT_OF_MEMORY", "out of memory"],
        ..Sign::new("cuda.module", &["Failed to load in-memory CUBIN", "Failed to load PTX"], Weight::Failure)
    },
    // Theano's pool takes a share of the device when it starts.
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::ReservedAtStart),
        also: &["CNMEM_STATUS_OUT_OF_MEMORY"],
        ..Sign::new("theano.cnmem", &["cnmemInit call failed"], Weight::Failure)
    },
    Sign { read: handle_memory, ..Sign::new("cuda.handle_memory", &["Memory usage: "], Weight::Context) },
    // The call that makes a context, by its name: it has failed where one of the lines around it says so.
    Sign {
        ..Sign::new("cuda.context", &["cuCtxCreate", "make_context()", "cuDevicePrimaryCtxRetain"], Weight::Context)
    },
    // What stands above it was seen before the job.
    Sign { ..Sign::new("shell.python", &["$ python", "$ CUDA_VISIBLE_DEVICES=", "+ python"], Weight::Context) },
    // What stands below it was seen when a shell had the terminal again.
    Sign { ..Sign::new("shell.smi", &["$ nvidia-smi", "# nvidia-smi"], Weight::Context) },
    // `docker stats` has such pairs, too, without bars between its columns.
    Sign {
        read: smi,
        also: &["MiB |", "MB"],
        check: |text| text.contains('|'),
        ..Sign::new("cuda.smi", &["MiB / "], Weight::Context)
    },
    Sign {
        resource: Some(Resource::GpuMemory),
        cause: Some(Code::OtherProcess),
        read: |text, numbers| {
            // A negative number, printed without its sign, is no capacity.
            let reported = bytes_after(text, "total memory reported:").filter(|&bytes| bytes < 1 << 60);
            numbers.capacity_bytes = numbers.capacity_bytes.or(reported);
        },
        ..Sign::new(
            "cuda.primary_context",
            &[
                "failed call to cuDevicePrimaryCtxRetain",
                "could not retain primary context",
                "CUDA_ERROR_OUT_OF_MEMORY: out of memory; total memory reported",
            ],
            Weight::Symptom,
        )
    },
];

impl Sign {
    const fn nccl(self) -> Sign {
        Sign {
            read: |text, numbers| {
                numbers.requested_bytes = numbers
                    .requested_bytes
                    .or_else(|| bytes_after(text, "CUDA calloc async"))
                    .or_else(|| bytes_after(text, "CUDA calloc"));
            },
            ..self
        }
    }
}

/// `Memory usage: 118620160 bytes free, 4231331840 bytes total.`
fn handle_memory(text: &str, numbers: &mut Numbers) {
    numbers.free_bytes = numbers.free_bytes.or_else(|| size_before(text, "free,"));
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_before(text, "total."));
}

/// A row of `nvidia-smi`: `| 58%   70C    P2   120W / 200W |   5202MiB /  8111MiB |`
fn smi(text: &str, numbers: &mut Numbers) {
    numbers.capacity_bytes = numbers.capacity_bytes.or_else(|| size_after(text, "MiB / "));
}

fn algorithm(text: &str, numbers: &mut Numbers) {
    numbers.requested_bytes = numbers
        .requested_bytes
        .or_else(|| size_after(text, "scratch_bytes"))
        .or_else(|| size_after(text, "Failed to allocate request for"));
}
