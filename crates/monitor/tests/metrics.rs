//! What Prometheus gets. In: frames. Checked: every line of the text against the format, and the values.

use std::collections::{BTreeMap, BTreeSet};

use brimful_monitor::gpu::GpuSample;
use brimful_monitor::metrics::{Latest, text};
use brimful_monitor::recording::{End, Finding, Frame, FrameworkMemory, StepMark};
use brimful_monitor::sample::Sample;

fn all() -> Latest {
    let mut latest = Latest::default();
    let row = std::array::from_fn(|index| Some(index as u64 * 1000));
    let memory = FrameworkMemory {
        pid: 7,
        framework: "torch".to_owned(),
        device: "odd\"\\\n:0".to_owned(),
        allocated_bytes: Some(5),
        ..FrameworkMemory::default()
    };
    for frame in [
        Frame::Sample(Sample::from_row(0, row)),
        Frame::Gpu(GpuSample { index: 1, busy_percent: Some(40), power_mw: Some(1500), ..GpuSample::default() }),
        Frame::Gpu(GpuSample { index: 0, used_bytes: Some(3 << 30), ..GpuSample::default() }),
        Frame::Framework(memory),
        Frame::Step(StepMark { step: 9, loss: Some(f64::NAN), waited_us: Some(1_500_000), ..StepMark::default() }),
        Frame::Finding(Finding { code: "leak_host".to_owned(), ..Finding::default() }),
        Frame::Finding(Finding { code: "leak_host".to_owned(), ..Finding::default() }),
    ] {
        latest.take(&frame);
    }
    latest
}

/// Name and labels to value; panics where a line is not as the format wants it.
fn parsed(text: &str) -> BTreeMap<String, f64> {
    let (mut values, mut typed, mut current) = (BTreeMap::new(), BTreeSet::new(), String::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            current = help.split_once(' ').unwrap().0.to_owned();
            assert!(current.starts_with("brimful_") && current.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(name == current && ["gauge", "counter"].contains(&kind) && typed.insert(name.to_owned()), "{line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert_eq!(name.split('{').next(), Some(current.as_str()));
        assert!(values.insert(name.to_owned(), value.replace("+Inf", "inf").parse().unwrap()).is_none(), "{line}");
    }
    values
}

#[test]
fn every_line_is_as_the_format_wants_it() {
    let latest = all();
    let values = parsed(&text(&latest));
    assert_eq!(values["brimful_rss_bytes"], 0.0);
    assert_eq!(values["brimful_cpu_seconds_total"], 7.0);
    assert_eq!(values["brimful_gpu_busy_ratio{gpu=\"1\"}"], 0.4);
    assert_eq!(values["brimful_gpu_power_watts{gpu=\"1\"}"], 1.5);
    assert_eq!(values["brimful_gpu_used_bytes{gpu=\"0\"}"], 3_221_225_472.0);
    let labels = "{pid=\"7\",framework=\"torch\",device=\"odd\\\"\\\\\\n:0\"}";
    assert_eq!(values[&format!("brimful_framework_allocated_bytes{labels}")], 5.0);
    assert!(values["brimful_loss"].is_nan());
    assert_eq!((values["brimful_steps_total"], values["brimful_step_wait_seconds_total"]), (9.0, 1.5));
    assert_eq!(values["brimful_findings_total{code=\"leak_host\"}"], 2.0);
    assert_eq!(values["brimful_job_running"], 1.0);
}

#[test]
fn what_is_not_known_has_no_line() {
    let mut latest = Latest::default();
    assert_eq!(parsed(&text(&latest)).len(), 1);
    latest.take(&Frame::End(End::default()));
    latest.take(&Frame::Sample(Sample { rss_bytes: Some(u64::MAX), ..Sample::default() }));
    let values = parsed(&text(&latest));
    assert_eq!((values["brimful_job_running"], values["brimful_rss_bytes"]), (0.0, u64::MAX as f64));
    assert!(!values.contains_key("brimful_pss_bytes"));
}

#[test]
fn many_names_do_not_take_memory_without_end() {
    let mut latest = Latest::default();
    for n in 0..10_000 {
        latest.take(&Frame::Finding(Finding { code: n.to_string(), ..Finding::default() }));
    }
    assert_eq!(parsed(&text(&latest)).len(), 257);
}
