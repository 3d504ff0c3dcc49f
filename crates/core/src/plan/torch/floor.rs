//! What recorded steps cannot do without: the sum of their requests, whatever the allocator does.
//!
//! In: steps and a number of samples at once. Out: the largest sum, and how fast it grows. Set-up counts for the state, not
//! for the peak, as in a placement. Not counted: rounding, gaps, and scratch that PyTorch does without where it cannot have
//! it ([`CUDNN_WORKSPACE`]).

use crate::allocator::CUDNN_WORKSPACE;
use crate::capture::{Event, Recording};
use crate::predict::FloorLine;
use crate::trace::{Phase, Role};

/// The floor of recorded steps.
pub fn floor(recording: &Recording, at_once: u64) -> FloorLine {
    let dispensable_op = recording.strings.iter().position(|string| &**string == CUDNN_WORKSPACE);
    let mut peak = FloorLine::default();
    let (mut bytes, mut per_sample) = (0u64, 0u64);
    let mut stepping = false;
    for event in &recording.events {
        let (Event::Alloc(index) | Event::Free(index)) = *event else {
            if let Event::Mark(phase) = *event {
                stepping = phase != Phase::Setup;
            }
            continue;
        };
        let buffer = &recording.buffers[index as usize];
        if buffer.role == Role::Workspace && Some(buffer.op as usize) == dispensable_op {
            continue;
        }
        let size = buffer.bytes(at_once, recording.batch);
        if matches!(event, Event::Free(_)) {
            bytes = bytes.saturating_sub(size);
            per_sample = per_sample.saturating_sub(buffer.size.per_sample);
            continue;
        }
        bytes = bytes.saturating_add(size);
        per_sample = per_sample.saturating_add(buffer.size.per_sample);
        if stepping && bytes > peak.bytes {
            peak = FloorLine { bytes, per_sample };
        }
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Capture;
    use crate::capture::samples::Writer;

    #[test]
    fn scratch_that_can_be_done_without_is_left_out() {
        let record = |batch: i64| {
            let mut writer = Writer::new();
            writer.mark(0);
            writer.alloc("aten.empty", 0, 1000);
            let gone = writer.alloc("aten.empty", 4, 5000);
            writer.free(gone);
            writer.step(0);
            writer.mark(1);
            writer.alloc("aten.convolution", 5, 10 * batch);
            for (op, bytes) in [("workspace", 7), (CUDNN_WORKSPACE, 9000)] {
                let scratch = writer.alloc(op, 6, bytes);
                writer.free(scratch);
            }
            writer
        };
        let (a, b) = (record(2), record(4));
        let capture = Capture::new(a.strings(), 2, &a.bytes(), 4, Some(&b.bytes())).unwrap();
        assert_eq!(floor(&capture.recording, 2), FloorLine { bytes: 1027, per_sample: 10 });
        assert_eq!(floor(&capture.recording, 9), FloorLine { bytes: 1097, per_sample: 10 });
    }
}
