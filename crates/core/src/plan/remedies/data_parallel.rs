//! Share each batch between two devices.
//!
//! Each device holds all weights and half the samples; gradients are packed and summed across devices, which is bounded by
//! two more copies of them. Not counted: NCCL's own buffers, which lie outside TensorFlow's pool. Time: the half batch's,
//! and the passing of gradients over PCIe.

use super::{Change, Context, Effect, Remedy, couples_samples};
use crate::bytes::Size;
use crate::plan::setup::Setup;

/// `data_parallel`.
pub struct DataParallel;

impl Remedy for DataParallel {
    fn id(&self) -> &'static str {
        "data_parallel"
    }

    fn keeps_kernels(&self) -> bool {
        true
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        // An odd batch would be shared unevenly, and the mean of two means is then not the mean.
        if !context.gpu() || setup.devices > 1 || setup.job.batch < 2 || !setup.job.batch.is_multiple_of(2) {
            return Vec::new();
        }
        let Ok(model) = context.simulator.model(&setup.change) else { return Vec::new() };
        let trained = model.weights.iter().filter(|weight| weight.trainable);
        let gradient_bytes = trained.fold(0u64, |sum, weight| sum.saturating_add(weight.bytes()));
        let copies = if context.training() { gradient_bytes.saturating_mul(2) } else { 0 };
        let extra = Size { fixed: setup.extra.fixed.saturating_add(copies), ..setup.extra };
        let changed = Setup { devices: 2, extra, ..setup.clone() };
        let coupled = context.training().then(|| couples_samples(&model, "half")).flatten();
        let half = setup.job.batch / 2;
        let name = &context.request.device.name;
        let mut title = format!("Share each batch between two devices like {name}, {half} samples on each");
        if let Some(how) = &coupled {
            title = format!("{title}; {how}");
        }
        let effect = if coupled.is_some() { Effect::Statistics } else { Effect::Exact };
        let code = format!(
            "strategy = tf.distribute.MirroredStrategy()  # uses all visible GPUs\nwith strategy.scope():\n    \
             model = build_model()\n    model.compile(...)\nmodel.fit(x, y, batch_size={})",
            setup.job.batch
        );
        let torch = "model = torch.nn.parallel.DistributedDataParallel(model)  # torchrun --nproc-per-node=2 train.py";
        let mut change = Change::new(title, changed, effect, code, Some(torch));
        change.needs_hardware = context.request.device.gpus < 2;
        vec![change]
    }
}
