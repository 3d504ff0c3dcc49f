//! Reads the recorded traces of PyTorch's allocator in `fixtures/traces/torch`.
//!
//! In: the name of a trace. Out: its lines as values. A part of several tests and benches, not a test of its own.

use std::{fs::File, io::Read, path::PathBuf};

use brimful_core::allocator::torch_caching::SegmentEvent;
use flate2::read::GzDecoder;

/// Every trace; names with `expandable` ran with expandable segments.
pub const TRACES: [&str; 7] = [
    "seed_cnn-64-adam-fp32", "unet-8-adamw-bf16", "resnet50-32-adamw-fp32", "gpt2-4-adamw-bf16",
    "densenet121-32-momentum-fp32", "resnet50-64-adamw-fp32-expandable", "gpt2-8-adamw-bf16-expandable",
];

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// A buffer was asked for, and placed at this address.
    Alloc { address: u64, bytes: u64 },
    /// A buffer was given up. It can be used again when the free is completed.
    FreeRequested { address: u64 },
    /// A buffer went back to its pool.
    FreeCompleted { address: u64 },
    /// Memory moved between the driver and the allocator.
    Segment(SegmentEvent),
}

/// The folder of the traces.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/traces/torch")
}

/// The lines of one trace.
pub fn read(name: &str) -> Vec<Recorded> {
    let file = File::open(folder().join(format!("{name}.trace.gz"))).expect("the trace is in fixtures");
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).expect("the trace is gzipped text");
    text.lines().map(|line| parse(line).unwrap_or_else(|| panic!("{name}: not a trace line: {line}"))).collect()
}

fn parse(line: &str) -> Option<Recorded> {
    let mut words = line.split(' ');
    let action = words.next()?;
    let address = words.next()?.parse().ok()?;
    let bytes = words.next()?.parse().ok()?;
    Some(match action {
        "alloc" => Recorded::Alloc { address, bytes },
        "free_requested" => Recorded::FreeRequested { address },
        "free_completed" => Recorded::FreeCompleted { address },
        "segment_alloc" => Recorded::Segment(SegmentEvent::Alloc { address, bytes }),
        "segment_free" => Recorded::Segment(SegmentEvent::Free { address, bytes }),
        "segment_map" => Recorded::Segment(SegmentEvent::Map { address, bytes }),
        "segment_unmap" => Recorded::Segment(SegmentEvent::Unmap { address, bytes }),
        _ => return None,
    })
}
