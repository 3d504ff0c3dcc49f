//! Reports made up for tests: every field is filled, the parts add up.

use super::*;
use crate::bytes::{GIB, MIB};

fn remedy(
    id: &str,
    title: &str,
    peak_mib: u64,
    max_batch: u64,
    same_result: SameResult,
    time_cost: f64,
) -> RemedyReport {
    RemedyReport {
        id: id.to_owned(),
        title: title.to_owned(),
        peak_bytes: peak_mib * MIB,
        fits: peak_mib < 13_000,
        max_batch: Some(max_batch),
        same_result,
        time_cost,
        apply: Apply::default(),
    }
}

fn layer(path: &str, class: &str, mib: u64) -> LayerShare {
    let (weights_bytes, saved_bytes) = (mib / 8 * MIB, mib / 2 * MIB);
    LayerShare { layer: path.to_owned(), class: class.to_owned(), bytes: mib * MIB, weights_bytes, saved_bytes }
}

/// A convolutional network that is too much for a T4.
pub(crate) fn too_large() -> Report {
    let breakdown = Breakdown {
        parameters: 1028 * MIB,
        gradients: 1028 * MIB,
        optimizer_state: 2056 * MIB,
        saved_activations: 14_720 * MIB,
        inputs: 384 * MIB,
        temporaries: 2048 * MIB,
        workspace: 512 * MIB,
        allocator_slack: 31 * MIB,
        context: 105 * MIB,
    };
    let device_bytes = breakdown.total();
    let mut accumulate = remedy(
        "micro_batches",
        "Take each batch in 2 parts and add up the gradients",
        12_100,
        128,
        SameResult::Exact,
        1.06,
    );
    accumulate.apply = Apply {
        keras: Some("optimizer = keras.optimizers.Adam(gradient_accumulation_steps=2)\nmodel.compile(optimizer, loss=loss)\nmodel.fit(x, y, batch_size=64)".to_owned()),
        torch: Some("for part in batch.chunk(2):\n    (loss(part) / 2).backward()".to_owned()),
    };
    let alone = FitChange { title: accumulate.title.clone(), apply: accumulate.apply.clone() };
    Report {
        schema: SCHEMA,
        model: ModelSummary { name: "vision_cnn".to_owned(), layers: 12, parameters: 269_500_000 },
        job: JobSummary {
            framework: "tensorflow".to_owned(),
            batch: 128,
            optimizer: "adam".to_owned(),
            precision: "float32".to_owned(),
            mode: "training".to_owned(),
        },
        device: DeviceSummary {
            name: "Tesla T4".to_owned(),
            capacity_bytes: Some(14_913 * MIB),
            usable_bytes: Some(13_863 * MIB),
            measured: false,
        },
        peak: Peak {
            allocated_bytes: device_bytes - breakdown.context,
            reserved_bytes: device_bytes + 200 * MIB,
            device_bytes,
            low_bytes: device_bytes - 300 * MIB,
            high_bytes: device_bytes + 500 * MIB,
            floor_bytes: device_bytes - 105 * MIB - 31 * MIB,
            at: Some(Moment {
                phase: "backward".to_owned(),
                op: "Conv2DBackpropInput".to_owned(),
                layer: "block1_conv2".to_owned(),
                source: None,
            }),
        },
        breakdown,
        layers: vec![
            layer("block1_conv2", "Conv2D", 8200),
            layer("block1_conv1", "Conv2D", 4100),
            layer("encoder/stage_2/residual_unit_11/projection/block2_conv2", "SeparableConv2D", 2100),
            layer("dense", "Dense", 1030),
            layer("block2_pool", "MaxPooling2D", 12),
            layer("classes", "Dense", 1),
        ],
        lines: Vec::new(),
        verdict: Verdict::DoesNotFit,
        max_batch: Some(71),
        safe_batches: vec![1, 2, 4, 8, 16, 32, 64, 71],
        remedies: vec![
            remedy(
                "mixed_float16",
                "Compute in float16, keep the weights in float32",
                13_900,
                104,
                SameResult::Numerics,
                0.7,
            ),
            accumulate,
            remedy(
                "recompute",
                "Compute activations again in the backward pass instead of keeping them",
                8_300,
                190,
                SameResult::Exact,
                1.31,
            ),
            remedy("sgd", "Use SGD, which remembers nothing per weight", 19_800, 80, SameResult::Changed, 1.0),
        ],
        cheapest_fit: Some(FitPlan {
            remedies: vec!["micro_batches".to_owned()],
            changes: vec![alone],
            peak_bytes: 12_100 * MIB,
            same_result: SameResult::Exact,
            time_cost: 1.06,
        }),
        assumptions: Vec::new(),
        notes: vec![
            NoteReport {
                code: "loss_guessed".to_owned(),
                layer: None,
                text: "The file names no loss: sparse_categorical_crossentropy is assumed from the last layer."
                    .to_owned(),
            },
            NoteReport {
                code: "custom_layer".to_owned(),
                layer: Some("dense".to_owned()),
                text: "A custom layer is counted by its inputs and outputs only.".to_owned(),
            },
        ],
        detail: None,
    }
}

/// The same network at a small batch.
pub(crate) fn fits() -> Report {
    let mut report = too_large();
    report.job.batch = 32;
    report.breakdown.saved_activations = 3680 * MIB;
    report.breakdown.temporaries = 512 * MIB;
    settle(&mut report, 40 * MIB);
    report.verdict = Verdict::Fits;
    report.device.measured = true;
    report.safe_batches = vec![32, 64, 71];
    report.cheapest_fit = None;
    report.notes.clear();
    report
}

/// At a batch where the range reaches over the limit.
pub(crate) fn tight() -> Report {
    let mut report = fits();
    report.job.batch = 71;
    report.breakdown.saved_activations = 8100 * MIB;
    settle(&mut report, 300 * MIB);
    report.verdict = Verdict::Tight;
    (report.max_batch, report.safe_batches) = (Some(68), vec![32, 64, 68]);
    report.remedies.truncate(2);
    report
}

/// Forward only.
pub(crate) fn inference() -> Report {
    let mut report = fits();
    report.job.mode = "inference".to_owned();
    report.breakdown = Breakdown {
        parameters: 1028 * MIB,
        inputs: 96 * MIB,
        temporaries: 4 * GIB,
        context: 105 * MIB,
        ..Breakdown::default()
    };
    settle(&mut report, 0);
    report.peak.at =
        Some(Moment { phase: "forward".to_owned(), op: "Conv2D".to_owned(), layer: String::new(), source: None });
    report.max_batch = Some(98);
    report.safe_batches = vec![32, 64, 96, 98];
    report
}

/// On a CPU of which nothing is known.
pub(crate) fn no_limit() -> Report {
    let mut report = fits();
    report.device = DeviceSummary { name: "cpu".to_owned(), capacity_bytes: None, usable_bytes: None, measured: true };
    report.breakdown.context = 0;
    settle(&mut report, 40 * MIB);
    report.max_batch = None;
    report.safe_batches.clear();
    report
}

/// A transformer, recorded from PyTorch, that is too much for a T4.
pub(crate) fn torch() -> Report {
    let mut report = too_large();
    report.model = ModelSummary { name: "GPT2LMHeadModel".to_owned(), layers: 164, parameters: 124_439_808 };
    report.job.framework = "torch".to_owned();
    report.job.optimizer = "adamw".to_owned();
    report.breakdown.allocator_slack = 900 * MIB;
    settle(&mut report, 0);
    let peak = &mut report.peak;
    peak.reserved_bytes = peak.device_bytes - report.breakdown.context;
    peak.allocated_bytes = peak.reserved_bytes - 860 * MIB;
    peak.low_bytes = peak.allocated_bytes + report.breakdown.context;
    peak.high_bytes = peak.device_bytes + 1100 * MIB;
    peak.at = Some(Moment {
        phase: "backward".to_owned(),
        op: "aten._log_softmax_backward_data".to_owned(),
        layer: "lm_head".to_owned(),
        source: Some("train.py:31".to_owned()),
    });
    report.layers = vec![
        layer("lm_head", "Linear", 6300),
        layer("transformer.h.0.attn", "GPT2Attention", 1100),
        layer("transformer.h.0.mlp.act", "NewGELUActivation", 700),
    ];
    let line = |source: &str, mib: u64| LineShare { source: source.to_owned(), bytes: mib * MIB };
    report.lines = vec![line("transformers/models/gpt2/modeling_gpt2.py:412", 9000), line("train.py:31", 2100)];
    report.notes.remove(1);
    report
}

/// Makes the peak agree with the breakdown.
fn settle(report: &mut Report, spread: u64) {
    let device_bytes = report.breakdown.total();
    report.peak.device_bytes = device_bytes;
    report.peak.allocated_bytes = device_bytes - report.breakdown.context;
    report.peak.low_bytes = device_bytes - spread;
    report.peak.high_bytes = device_bytes + spread;
    report.peak.floor_bytes = report.peak.allocated_bytes - report.breakdown.allocator_slack;
}
