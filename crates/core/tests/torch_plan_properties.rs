//! What holds for every plan of a recorded job, on random networks, limits and settings.

#[path = "support/recorded.rs"]
mod recorded;

use brimful_core::allocator::place;
use brimful_core::allocator::torch_caching::{Options, TorchCaching};
use brimful_core::bytes::MIB;
use brimful_core::capture::{COLUMNS, Capture};
use brimful_core::plan::torch::{Request, plan};
use brimful_core::report::{Report, Style, Verdict};
use proptest::prelude::*;
use recorded::{Network, Op};

fn op() -> impl Strategy<Value = Op> {
    let sizes = (0i64..2_000_000, 0i64..100_000, prop_oneof![Just(0i64), 1i64..8_000_000]);
    (sizes, any::<bool>(), prop_oneof![Just(0i64), 1i64..30_000_000], 0usize..6).prop_map(
        |((per_sample, fixed, weight), saved, scratch, op)| Op { per_sample, fixed, saved, weight, scratch, op },
    )
}

fn network() -> impl Strategy<Value = Network> {
    let blocks = prop::collection::vec(prop::collection::vec(op(), 1..5), 1..5);
    (blocks, 0usize..3, any::<bool>(), any::<bool>(), 1usize..3, any::<bool>()).prop_map(
        |(blocks, slots, foreach, keeps_gradients, passes, trains)| Network {
            blocks,
            slots,
            foreach,
            keeps_gradients,
            passes,
            trains,
        },
    )
}

/// Settings of a request, as JSON.
fn settings() -> impl Strategy<Value = String> {
    let limit = prop_oneof![
        Just(String::new()),
        (1u64..400).prop_map(|mib| format!(r#", "limit_bytes": {}"#, mib * MIB)),
        Just(r#", "device": "t4""#.to_owned()),
        (1u64..200).prop_map(|mib| {
            format!(
                r#", "device": {{"name": "x", "capacity_bytes": {}}}, "held_by_others_bytes": {}"#,
                mib * 2 * MIB,
                mib * MIB
            )
        }),
    ];
    let widen = prop_oneof![Just(0.0), 0.0f64..1.0];
    let conf = prop_oneof![Just(""), Just("expandable_segments:True"), Just("max_split_size_mb:64")];
    (limit, widen, conf)
        .prop_map(|(limit, widen, conf)| format!(r#"{limit}, "widen": {widen}, "alloc_conf": "{conf}""#))
}

fn request(network: &Network, batch: u64, more: &str) -> Request {
    let mode = if network.trains { "training" } else { "inference" };
    let text = format!(
        r#"{{"batch": {batch}, "mode": "{mode}", "autograd": true, "optimizer": "adam", "accumulate": {}, "modules": {}{more}}}"#,
        network.passes,
        network.modules()
    );
    Request::from_json(&text).unwrap()
}

fn check(report: &Report) -> Result<(), TestCaseError> {
    let peak = &report.peak;
    prop_assert_eq!(report.breakdown.total(), peak.device_bytes);
    prop_assert_eq!(peak.device_bytes, peak.reserved_bytes + report.breakdown.context);
    prop_assert!(peak.floor_bytes <= peak.allocated_bytes && peak.allocated_bytes <= peak.reserved_bytes);
    prop_assert!(peak.low_bytes <= peak.device_bytes && peak.device_bytes <= peak.high_bytes);
    let usable = report.device.usable_bytes.unwrap_or(u64::MAX);
    prop_assert!(report.verdict == Verdict::DoesNotFit || peak.device_bytes <= usable);
    prop_assert!(report.verdict != Verdict::Fits || peak.high_bytes <= usable);
    for remedy in &report.remedies {
        // Freeing what others hold moves the limit itself.
        let moved = remedy.id == "free_memory";
        prop_assert!(moved || !remedy.fits || remedy.peak_bytes <= usable, "{} {}", remedy.id, remedy.peak_bytes);
        prop_assert!(remedy.time_cost.is_finite() && remedy.time_cost > 0.0, "{}", remedy.id);
    }
    if let Some(cheapest) = &report.cheapest_fit {
        let moved = cheapest.remedies.iter().any(|id| id == "free_memory");
        prop_assert!(moved || cheapest.peak_bytes <= usable);
        prop_assert_eq!(report.verdict, Verdict::DoesNotFit);
    }
    prop_assert!(report.safe_batches.iter().all(|&batch| Some(batch) <= report.max_batch));
    for width in [40, 80] {
        let text = report.to_text(Style { colour: false, width });
        prop_assert!(text.contains("Training with PyTorch") || text.contains("Inference with PyTorch"));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_report_is_consistent(network in network(), batch in 1u64..40, more in settings()) {
        let capture = network.captured(batch);
        prop_assert!(capture.paired);
        check(&plan(&capture, &request(&network, batch, &more)).unwrap())?;
    }

    #[test]
    fn what_is_proposed_gets_through(network in network(), batch in 1u64..40, mib in 4u64..400) {
        let capture = network.captured(batch);
        let limit = mib * MIB;
        let report = plan(&capture, &request(&network, batch, &format!(r#", "limit_bytes": {limit}"#))).unwrap();
        let fits = |batch: u64| {
            // Recorded anew with that very batch, as its user would run it.
            let there = network.captured(batch);
            let options = Options { capacity_bytes: limit, ..Options::default() };
            place(&there.recording.trace(batch), batch, &mut TorchCaching::new(options)).failure.is_none()
        };
        prop_assert!(report.safe_batches.iter().all(|&batch| fits(batch)));
        prop_assert_eq!(report.verdict == Verdict::DoesNotFit, !fits(batch));
        if let Some(most) = report.max_batch {
            prop_assert!(fits(most));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        rows in prop::collection::vec(prop_oneof![-2i64..6, any::<i64>()], 0..20 * COLUMNS),
        strings in 0usize..4,
        cut in 0usize..9,
    ) {
        let mut bytes: Vec<u8> = rows.iter().flat_map(|value| value.to_le_bytes()).collect();
        bytes.truncate(bytes.len().saturating_sub(cut));
        let names = |count: usize| (0..count).map(|name| if name == 0 { String::new() } else { name.to_string() }).collect();
        if let Ok(capture) = Capture::new(names(strings), 3, &bytes, 5, Some(&bytes)) {
            let request = Request::from_json(r#"{"batch": 3, "memory": "1MiB"}"#).unwrap();
            let _ = plan(&capture, &request);
        }
    }

    #[test]
    fn a_flipped_value_is_read_or_refused(
        network in network(), place in any::<prop::sample::Index>(), value in prop_oneof![-2i64..8, any::<i64>()],
    ) {
        let (strings, mut values) = network.written(4);
        let place = place.index(values.len());
        values[place] = value;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        if let Ok(capture) = Capture::new(strings, 4, &bytes, 0, None) {
            let _ = plan(&capture, &request(&network, 4, r#", "memory": "64MiB""#));
        }
    }
}
