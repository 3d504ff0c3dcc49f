//! Failures that are not of memory, though they mention it or look like it.
//!
//! A denial wins over symptoms (a handle that could not be made after a bad index), never over an allocator that gives its figures.

use super::super::causes::Code;
use super::super::sign::{Sign, Weight};
use super::super::sizes::has_any;

const NOT_MEMORY: Option<Code> = Some(Code::NotMemory);

/// The head of a traceback: where it ends is `ended`'s.
pub const TRACEBACK: &str = "python.traceback";

/// What a traceback ends in whose exception no sign knows.
pub static ENDED: Sign = Sign { cause: NOT_MEMORY, ..Sign::new("python.ended", &[], Weight::Denial) };

/// Their signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        cause: Some(Code::NotMemory),
        ..Sign::new(
            "allocator.nothing",
            &["tried to allocate 0 bytes", "Request to allocate 0 bytes", "when allocating 0."],
            Weight::Denial,
        )
    },
    Sign {
        cause: NOT_MEMORY,
        ..Sign::new(
            "cuda.assert",
            &[
                "device-side assert", "srcIndex < srcSelectDimSize", "index out of bounds\"` failed",
                "indexSelectLargeIndex: block", "t >= 0 && t < n_classes", "Assertion `", "IndexKernel.cu",
                "ScatterGatherKernel.cu", "Indexing.cu",
            ],
            Weight::Denial,
        )
        .asserts()
    },
    Sign {
        cause: NOT_MEMORY,
        ..Sign::new(
            "cuda.illegal",
            &[
                "illegal memory access", "CUDA_ERROR_ILLEGAL_ADDRESS", "misaligned address",
                "unspecified launch failure", "illegal instruction was encountered", "CUDA_ERROR_LAUNCH_FAILED",
                "cudaErrorIllegalAddress", "invalid device function", "invalid configuration argument",
                "Memory access fault by GPU", "uncorrectable ECC", "invalid program counter",
            ],
            Weight::Denial,
        )
    },
    Sign {
        cause: NOT_MEMORY,
        ..Sign::new(
            "cuda.versions",
            &[
                "CUDA driver version is insufficient", "no kernel image is available", "but source was compiled with",
                "NVIDIA driver on your system is too old", "CUDA_ERROR_NO_DEVICE",
                "forward compatibility was attempted", "Possibly insufficient driver version", "CUDA unknown error",
                "no CUDA-capable device", "CUDA-capable device(s) is/are busy", "invalid device ordinal",
                "Driver/library version mismatch", "CUDNN_STATUS_VERSION_MISMATCH",
                "is not compatible with the current PyTorch installation",
            ],
            Weight::Denial,
        )
        .unless_warning()
    },
    // Memory of a kind that is forbidden, or a loader's table of a fixed size: there is enough.
    Sign {
        cause: NOT_MEMORY,
        ..Sign::new("system.forbidden", &["write+execute memory", "in static TLS block"], Weight::Denial)
    },
    Sign {
        cause: NOT_MEMORY,
        ..Sign::new(
            "nccl.timeout",
            &[
                "Watchdog caught collective operation timeout", "NCCL communicator was aborted", "ran for",
                "Timed out initializing process group", "Connection reset by peer", "Connection refused",
                "Socket Timeout", "Broken pipe",
            ],
            Weight::Denial,
        )
        .when_waiting()
    },
    Sign {
        cause: NOT_MEMORY,
        ..Sign::new(
            "api.quota",
            &[
                "Too Many Requests", "429 Resource", "429 RESOURCE", "Quota exceeded", "quota metric",
                "exceeded your current quota", "RateLimitError", "rate limit exceeded", "rate limit reached",
                "insufficient_quota", "code: 429", "quota exceeded", "Resource has been exhausted (e.g. check quota)",
                "\"code\": 429",
            ],
            Weight::Denial,
        )
    },
    Sign {
        cause: NOT_MEMORY,
        ..Sign::new(
            "scheduler.time",
            &["DUE TO TIME LIMIT", "TERM_RUNLIMIT", "exceeded walltime", "walltime exceeded"],
            Weight::Denial,
        )
    },
    Sign {
        cause: NOT_MEMORY,
        ..Sign::new("scheduler.preempted", &["DUE TO PREEMPTION", "TERM_PREEMPT"], Weight::Denial)
    },
    // Kubernetes kills with signal 9, too, whoever does not answer.
    Sign {
        cause: NOT_MEMORY,
        ..Sign::new(
            "kubernetes.probe",
            &["failed liveness probe, will be restarted", "failed startup probe, will be restarted"],
            Weight::Denial,
        )
    },
    // A processor that does not know an instruction; CUDA's own are another matter (`cuda.illegal`).
    Sign {
        cause: NOT_MEMORY,
        check: |text| text.contains("Illegal instruction") || text.contains("trap invalid opcode"),
        ..Sign::new("native.instruction", &["Illegal instruction", "trap invalid opcode"], Weight::Denial)
    },
    Sign { cause: NOT_MEMORY, ..Sign::new("user.interrupt", &["KeyboardInterrupt"], Weight::Denial) },
    Sign {
        cause: NOT_MEMORY,
        unless: &["WARNING", "skipped", "skipping", "ignored", "Caught", "caught"],
        check: |text| !speaks_of_memory(text),
        ..Sign::new(
            "python.other",
            &[
                "IndexError:", "KeyError:", "EOFError:", "ImportError:", "ModuleNotFoundError:", "AttributeError:",
                "TypeError:", "ValueError:", "AssertionError:", "FileNotFoundError:", "NotImplementedError:",
                "NameError:", "SyntaxError:", "ZeroDivisionError:", "PermissionError:", "UnicodeDecodeError:",
                "RecursionError", "InvalidArgumentError", "NotFoundError:", "FailedPreconditionError:",
                "UnimplementedError:", "shapes cannot be multiplied", "size mismatch", "must match the size of tensor",
                "Expected all tensors to be on the same device", "Sizes of tensors must match", "cannot reshape array",
                "Expected more than 1 value per channel", "index out of range in self", "JSONDecodeError",
                "ReadTimeout", "HTTPError", "ConnectTimeout", "Loss is nan", "UnpicklingError", "ResolutionImpossible",
                "UnsatisfiableError", "LookupError", "StopIteration", "CalledProcessError", "RuntimeError:",
            ],
            Weight::Denial,
        )
    },
    Sign { ..Sign::new(TRACEBACK, &["Traceback (most recent call last)"], Weight::Context) },
    // A process that waited for one that is gone: why it went is not said.
    Sign {
        ..Sign::new(
            "python.lost",
            &[
                "TimeoutError", "EOFError", "BrokenPipeError", "ConnectionResetError", "ConnectionError:",
                "DeadlineExceededError",
            ],
            Weight::Denial,
        )
    },
    Sign {
        ..Sign::new(
            "native.segfault",
            &[
                "Segmentation fault", "SIGSEGV", "signal 11", "SIGABRT", "stack smashing detected",
                "double free or corruption", "Fatal Python error",
            ],
            Weight::Denial,
        )
    },
    // Slurm, of a task that a signal ended: a file that became shorter while it was mapped, a library of another machine.
    Sign { also: &["Bus error"], ..Sign::new("slurm.bus_error", &["srun: error:"], Weight::Denial) },
    Sign {
        ..Sign::new(
            "torch.warnings",
            &[
                "This DataLoader will create", "pin_memory' argument is set as true but",
                "successful NUMA node read from SysFS had negative value", "Garbage collection", "number of CPU cores",
            ],
            Weight::Warning,
        )
    },
];

/// Whether an error of a general kind may be of memory, in words that no sign knows: `RuntimeError: could not allocate the workspace`.
fn speaks_of_memory(text: &str) -> bool {
    let asks = has_any(text, &["allocate", "allocation", "alloc fail"]);
    asks && has_any(text, &["fail", "cannot", "could not", "can't", "couldn't", "unable", "not enough", "insufficient"])
}

impl Sign {
    const fn asserts(self) -> Sign {
        Sign { also: &["device-side assert", ".cu:", "block:", "thread:"], ..self }
    }

    const fn unless_warning(self) -> Sign {
        Sign { unless: &["W tensorflow", "Warning:", "TF-TRT"], ..self }
    }

    const fn when_waiting(self) -> Sign {
        Sign {
            also: &["timeout", "Timed out", "aborted", "before timing out", "Connection", "Socket", "Broken"],
            unless: &["Retrying", "retrying"],
            ..self
        }
    }
}
