//! What TensorRT says while it builds an engine, reads one or makes the context that it runs in.
//!
//! Its builder tries kernels out, each with a workspace of its own, and goes on without those that found no room: what it says of one of them is no
//! failure, and all of it is over once an engine is there.

use super::super::causes::Code;
use super::super::sign::{Resource, Sign, Weight};
use super::super::sizes::bytes_after;

const GPU: Option<Resource> = Some(Resource::GpuMemory);

/// Its signs.
pub const SIGNS: &[Sign] = &[
    Sign {
        resource: GPU,
        also: &["memory", "allocat"],
        ..Sign::new("tensorrt.tactic", &["Skipping tactic"], Weight::Warning)
    },
    Sign {
        resource: GPU,
        read: |text, numbers| {
            let asked = ["Requested amount of GPU memory", "Requested amount of memory"];
            let asked = asked.iter().find_map(|phrase| bytes_after(text, phrase));
            numbers.requested_bytes = numbers.requested_bytes.or(asked);
        },
        also: &["could not be allocated"],
        ..Sign::new(
            "tensorrt.request",
            &["Requested amount of GPU memory", "Requested amount of memory"],
            Weight::Failure,
        )
    },
    // None of the kernels for a part of the network could be had: for want of memory only where one was refused it.
    Sign { ..Sign::new("tensorrt.no_kernel", &["Could not find any implementation for node"], Weight::Context) },
    Sign {
        resource: GPU,
        cause: Some(Code::WorkspaceOrHandle),
        also: &["insufficient workspace"],
        ..Sign::new("tensorrt.workspace", &["Could not find any implementation for node"], Weight::Failure)
    },
    // Before it said so itself, the builder advised it: an error only where no kernel was left.
    Sign {
        resource: GPU,
        cause: Some(Code::WorkspaceOrHandle),
        check: |text| text.contains("ERROR") || text.contains("[E]"),
        ..Sign::new("tensorrt.advice", &["Try increasing the workspace size with"], Weight::Failure)
    },
    // The builder's scratch memory, which grows with what it tries out: `OutOfMemory (Requested size was 2147483648 bytes.)`
    Sign {
        read: |text, numbers| {
            let asked = bytes_after(text, "Requested size was");
            numbers.requested_bytes = numbers.requested_bytes.or(asked);
        },
        also: &["OutOfMemory", "out of memory"],
        ..Sign::new("tensorrt.scratch", &["virtualMemoryBuffer.cpp"], Weight::Context)
    },
    // An engine is there, whatever was refused before.
    Sign {
        ..Sign::new(
            "tensorrt.built",
            &["Engine built in ", "Engine generation completed in", "&&&& PASSED", "TensorRT: export success"],
            Weight::Context,
        )
    },
    // What an engine computes in is asked for when its context is made, for the largest shapes that it takes.
    Sign {
        also: &["OutOfMemory", "out of memory"],
        ..Sign::new(
            "tensorrt.context",
            &["executionContext.cpp", "ExecutionContext::ExecutionContext"],
            Weight::Context,
        )
    },
    Sign {
        also: &["OutOfMemory", "out of memory", "Error"],
        ..Sign::new("tensorrt.engine", &["deserializeCudaEngine"], Weight::Context)
    },
];
