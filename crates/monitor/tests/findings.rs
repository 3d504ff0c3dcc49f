//! What is said of a job, and when.
//!
//! In: frames as a job would give them. Checked: each code, its sentence and its figures, that it is said once, and that jobs with nothing wrong are left
//! in peace. Rates of right and wrong alarms are in `leak.rs`.

use std::collections::BTreeMap;

use brimful_monitor::agent::Phase;
use brimful_monitor::findings::Judge;
use brimful_monitor::gpu::GpuSample;
use brimful_monitor::recording::{Finding, Frame, FrameworkMemory, Start, StepMark};
use brimful_monitor::sample::Sample;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A machine on which all is well.
fn calm(at_ms: u64) -> Sample {
    Sample {
        at_ms,
        rss_bytes: Some(GIB),
        anon_bytes: Some(GIB),
        machine_total_bytes: Some(16 * GIB),
        machine_available_bytes: Some(12 * GIB),
        machine_swap_used_bytes: Some(0),
        machine_stall_some_us: Some(0),
        machine_stall_full_us: Some(0),
        ..Sample::default()
    }
}

fn step(at_ms: u64, step: u64, waited_us: Option<u64>) -> Frame {
    Frame::Step(StepMark { at_ms, step, waited_us, ..StepMark::default() })
}

/// What is said of samples every 100 ms.
fn said_of(seconds: u64, sample: impl Fn(u64) -> Sample) -> Vec<Finding> {
    let mut judge = Judge::new(None);
    (0..seconds * 10).flat_map(|n| judge.take(&Frame::Sample(sample(n * 100)))).collect()
}

fn codes(findings: &[Finding]) -> Vec<(u64, &str)> {
    findings.iter().map(|finding| (finding.at_ms, finding.code.as_str())).collect()
}

#[test]
fn a_job_with_nothing_wrong_is_left_in_peace() {
    assert_eq!(said_of(3600, calm), []);
}

#[test]
fn a_leak_by_steps_has_its_rate_and_its_end() {
    let mut judge = Judge::new(None);
    let mut findings = Vec::new();
    // Five steps a second; 2 MiB more each, under a limit of 8 GiB.
    for n in 1..2000_u64 {
        let own = GIB + n / 2 * 2 * MIB;
        let sample = Sample {
            anon_bytes: Some(own),
            cgroup_limit_bytes: Some(8 * GIB),
            cgroup_used_bytes: Some(own + 2 * GIB),
            cgroup_inactive_file_bytes: Some(2 * GIB),
            ..calm(n * 100)
        };
        findings.extend(judge.take(&Frame::Sample(sample)));
        if n % 2 == 1 {
            findings.extend(judge.take(&step(n * 100 + 50, n / 2 + 1, None)));
        }
    }
    let [leak] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(leak.code, "leak_host");
    assert_eq!(
        leak.text,
        "host memory grows by 2.00 MiB each step, and has grown by 840 MiB (confidence 98 %); at this rate the limit of 8.00 GiB is \
         reached at step 3,585, in about 10 minutes"
    );
    let figure = |name: &str| leak.figures[name];
    assert!((figure("bytes_per_step") - 2.0 * MIB as f64).abs() < 1e4 && figure("confidence") > 0.9, "{leak:?}");
    assert!((figure("limit_at_step") - 3584.0).abs() < 10.0 && figure("limit_bytes") == 8.0 * GIB as f64, "{leak:?}");
}

#[test]
fn evaluation_is_no_growth_when_the_job_says_so() {
    let said = |tells: bool| {
        let mut judge = Judge::new(None);
        let mut findings = Vec::new();
        for n in 1..20_000_u64 {
            // Five minutes of slow steps, then a long evaluation that collects what it predicts.
            let evaluates = n > 3000;
            if tells {
                judge.set_phase(evaluates.then_some(Phase::Evaluate));
            }
            if !evaluates && n % 20 == 0 {
                findings.extend(judge.take(&step(n * 100, n / 20, None)));
            }
            let own = GIB + if evaluates { n * MIB / 10 } else { 0 };
            findings.extend(judge.take(&Frame::Sample(Sample { anon_bytes: Some(own), ..calm(n * 100) })));
        }
        findings
    };
    assert_eq!(said(true), []);
    assert_ne!(said(false), [], "the job would be said to leak");
}

#[test]
fn mapped_files_that_are_read_are_no_leak() {
    let said = said_of(3600, |at_ms| Sample { rss_bytes: Some(GIB + at_ms * 1000), ..calm(at_ms) });
    assert_eq!(said, []);
}

#[test]
fn little_that_is_left_is_said_once_and_again_when_worse() {
    let near = said_of(100, |at_ms| Sample {
        cgroup_limit_bytes: Some(4 * GIB),
        cgroup_used_bytes: Some(match at_ms {
            0..10_000 => GIB,
            10_000..20_000 => 38 * GIB / 10,
            20_000..30_000 => 2 * GIB,
            30_000..40_000 => 38 * GIB / 10,
            _ => 4 * GIB - 40 * MIB,
        }),
        ..calm(at_ms)
    });
    assert_eq!(codes(&near), [(10_000, "near_limit"), (40_000, "near_limit")]);
    assert_eq!(near[0].text, "3.80 GiB of the limit of 4.00 GiB are held: 205 MiB are left");
    assert_eq!((near[0].figures["is_critical"], near[1].figures["is_critical"]), (0.0, 1.0));
    let short = said_of(30, |at_ms| Sample { machine_available_bytes: Some(GIB), ..calm(at_ms) });
    assert_eq!(codes(&short), [(0, "machine_short")]);
    let shm =
        said_of(30, |at_ms| Sample { shm_size_bytes: Some(64 * MIB), shm_used_bytes: Some(60 * MIB), ..calm(at_ms) });
    assert_eq!(codes(&shm), [(0, "shm_short")]);
}

#[test]
fn a_limit_that_samples_do_not_show_counts() {
    let mut judge = Judge::new(Some(GIB + 20 * MIB));
    let findings: Vec<Finding> = (0..20).flat_map(|n| judge.take(&Frame::Sample(calm(n * 100)))).collect();
    assert_eq!(codes(&findings), [(0, "near_limit")]);
}

#[test]
fn time_that_is_lost_and_swap_are_said() {
    let stalls = said_of(60, |at_ms| Sample { machine_stall_full_us: Some(at_ms * 200), ..calm(at_ms) });
    assert_eq!(codes(&stalls), [(10_000, "memory_stall")]);
    assert_eq!(stalls[0].text, "for 20 % of the last ten seconds nothing ran, for want of memory");
    let swaps = said_of(120, |at_ms| Sample { machine_swap_used_bytes: Some(at_ms * 5000), ..calm(at_ms) });
    assert_eq!(codes(&swaps), [(14_000, "swapping")]);
}

#[test]
fn waiting_for_data_is_said_unless_the_gpu_is_busy() {
    let said = |waited_share: Option<f64>, busy_percent: Option<u64>| {
        let mut judge = Judge::new(None);
        let mut findings = Vec::new();
        for n in 0..1000_u64 {
            let waited_us = waited_share.map(|share| (share * 100_000.0) as u64 * n);
            findings.extend(judge.take(&step(n * 100, n, waited_us)));
            let gpu = GpuSample { at_ms: n * 100, busy_percent, job_bytes: Some(GIB), ..GpuSample::default() };
            findings.extend(judge.take(&Frame::Gpu(gpu)));
        }
        let codes: Vec<String> = findings.into_iter().map(|finding| finding.code).collect();
        codes
    };
    assert_eq!(said(Some(0.45), None), ["gpu_waits_for_data"]);
    assert_eq!(said(Some(0.45), Some(40)), ["gpu_waits_for_data"]);
    assert_eq!(said(Some(0.45), Some(95)), [""; 0]);
    assert_eq!(said(Some(0.02), Some(20)), ["gpu_idle"]);
    assert_eq!(said(None, Some(20)), ["gpu_waits_for_data"]);
    assert_eq!(said(Some(0.2), Some(50)), [""; 0]);
}

#[test]
fn devices_leak_keep_and_are_shared() {
    let mut judge = Judge::new(None);
    let environment = BTreeMap::from([("CUDA_VISIBLE_DEVICES".to_owned(), "3,1".to_owned())]);
    judge.take(&Frame::Start(Start { environment, ..Start::default() }));
    let mut findings = Vec::new();
    for n in 1..3000_u64 {
        let gpu = GpuSample {
            at_ms: n * 100,
            index: 3,
            total_bytes: Some(24 * GIB),
            used_bytes: Some(20 * GIB),
            job_bytes: Some(17 * GIB),
            others_bytes: Some(3 * GIB),
            ..GpuSample::default()
        };
        findings.extend(judge.take(&Frame::Gpu(gpu)));
        let memory = FrameworkMemory {
            at_ms: n * 100,
            pid: 7,
            framework: "torch".to_owned(),
            device: "cuda:0".to_owned(),
            allocated_bytes: Some(2 * GIB + n * MIB),
            reserved_bytes: Some(16 * GIB),
            peak_allocated_bytes: Some(6 * GIB),
            limit_bytes: None,
        };
        findings.extend(judge.take(&Frame::Framework(memory)));
        findings.extend(judge.take(&step(n * 100, n, None)));
    }
    assert_eq!(
        codes(&findings),
        [(100, "other_process_on_gpu"), (59_700, "leak_device"), (180_100, "reserved_unused")]
    );
    assert_eq!(findings[0].text, "other processes hold 3.00 GiB of the 24.0 GiB of GPU 3");
    // 24 GiB less the 4 GiB that are not the allocator's.
    assert!(findings[1].text.starts_with("memory of cuda:0 in torch grows by 1.00 MiB each step"), "{findings:?}");
    assert!(findings[1].text.contains("the limit of 20.0 GiB is reached at step 18,432"), "{findings:?}");
    assert_eq!((findings[1].figures["device"], findings[2].figures["unused_bytes"]), (3.0, 10.0 * GIB as f64));
}

#[test]
fn whoever_was_on_the_gpu_before_the_job_is_said_when_it_comes() {
    let mut judge = Judge::new(None);
    let at = |at_ms, job_bytes| GpuSample {
        at_ms,
        total_bytes: Some(140 * GIB),
        others_bytes: Some(138 * GIB),
        job_bytes: Some(job_bytes),
        ..GpuSample::default()
    };
    assert_eq!(judge.take(&Frame::Gpu(at(0, 0))), []);
    let said = judge.take(&Frame::Gpu(at(1000, GIB)));
    assert_eq!(codes(&said), [(1000, "other_process_on_gpu")]);
    assert_eq!(judge.take(&Frame::Gpu(at(2000, GIB))), []);
}

#[test]
fn strangers_on_a_gpu_that_the_job_does_not_use_are_nobodys_business() {
    let mut judge = Judge::new(None);
    let gpu = GpuSample {
        total_bytes: Some(24 * GIB),
        others_bytes: Some(20 * GIB),
        job_bytes: Some(0),
        ..GpuSample::default()
    };
    assert_eq!(judge.take(&Frame::Gpu(gpu)), []);
}

proptest! {
    #[test]
    fn any_figures_are_harmless(rows: Vec<(u64, u64, Option<u64>)>, limit: Option<u64>) {
        let mut judge = Judge::new(limit);
        for (at_ms, value, maybe) in rows {
            let sample = Sample::from_row(at_ms, std::array::from_fn(|index| if index % 2 == 0 { maybe } else { Some(value) }));
            let gpu = GpuSample::from_row(value, at_ms as u32, std::array::from_fn(|_| maybe));
            let memory = FrameworkMemory {
                at_ms, device: format!("cuda:{value}"), allocated_bytes: maybe, reserved_bytes: Some(value),
                limit_bytes: maybe, ..FrameworkMemory::default()
            };
            for frame in [Frame::Sample(sample), Frame::Gpu(gpu), Frame::Framework(memory), step(value, at_ms, maybe)] {
                for finding in judge.take(&frame) {
                    prop_assert!(finding.figures.values().all(|figure| figure.is_finite()));
                }
            }
        }
    }
}
