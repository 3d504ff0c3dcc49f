//! Share each batch between two devices.
//!
//! Each holds all weights and half the samples. DistributedDataParallel keeps its buckets beside the gradients, one more copy
//! of them, which is counted from the start. Not counted: NCCL's own buffers, outside the allocator.

use super::{Change, Context, Effect, Remedy, role_bytes};
use crate::bytes::Size;
use crate::capture::{Buffer, Dtype, Event};
use crate::plan::torch::edit::Edit;
use crate::plan::torch::setup::Setup;
use crate::trace::{CauseId, Phase, Role};

/// `data_parallel`.
pub struct DataParallel;

impl Remedy for DataParallel {
    fn id(&self) -> &'static str {
        "data_parallel"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let divides = setup.batch >= 2 && setup.batch.is_multiple_of(2);
        if !divides || setup.devices > 1 || !context.capture.paired {
            return Vec::new();
        }
        let coupled = context.couples_samples();
        let half = setup.batch / 2;
        let like = match context.request.device.compute_capability {
            Some(_) => format!(" like {}", context.request.device.name),
            None => String::new(),
        };
        let mut title = format!("Share each batch between two devices{like}, {half} samples on each");
        if coupled {
            title.push_str("; batch normalization sees each half alone");
        }
        let effect = if coupled { Effect::Statistics } else { Effect::Exact };
        let code = "model = torch.nn.parallel.DistributedDataParallel(model)  # torchrun --nproc-per-node=2 train.py";
        let mut changed = Setup { devices: 2, ..setup.clone() };
        if context.training() {
            // Weights that train have as many bytes of gradients.
            let bytes = role_bytes(&setup.steps.recording, Role::Parameter);
            changed = with_buckets(&changed, bytes);
            // A ring passes each gradient on twice, less the share that is already there.
            changed.moved_bytes = changed.moved_bytes.saturating_add(bytes);
        }
        let needs_hardware = context.request.device.gpus < 2;
        vec![Change { needs_hardware, ..Change::new(title, changed, effect, code) }]
    }
}

fn with_buckets(setup: &Setup, bytes: u64) -> Setup {
    let recording = &setup.steps.recording;
    let begin = recording.events.iter().position(|event| *event == Event::Step).unwrap_or(0);
    let mut edit = Edit::new(recording);
    let buckets = edit.add(Buffer {
        size: Size::fixed(bytes),
        recorded_bytes: None,
        role: Role::Gradient,
        born: Phase::Setup,
        dtype: Dtype::Other,
        call: None,
        op: 0,
        module: 0,
        cause: CauseId(u32::MAX),
    });
    edit.insert(begin, Event::Alloc(buckets));
    setup.with_recording(edit.finish())
}
