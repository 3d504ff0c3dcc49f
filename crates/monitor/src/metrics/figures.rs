//! The figures: their names, what they are, and where they come from.
//!
//! In: [`Latest`]. Out: metrics, in the order in which they are written. Names and units follow Prometheus: counters end in `_total`, times are
//! seconds.

use super::{Latest, Metric};
use crate::gpu::GpuSample;
use crate::recording::FrameworkMemory;
use crate::sample::Sample;

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";
const MILLI: f64 = 1e-3;
const MICRO: f64 = 1e-6;

/// A figure of a sample: its name there, its name here, its kind, its unit as a part of what is written, and what it is.
type Figure = (&'static str, &'static str, &'static str, f64, &'static str);

/// In the order of [`Sample::NAMES`].
#[rustfmt::skip]
const OF_SAMPLES: [Figure; Sample::NAMES.len()] = [
    ("rss_bytes", "brimful_rss_bytes", GAUGE, 1.0, "Resident memory of the job's processes; what they share counts once for each."),
    ("peak_rss_bytes", "brimful_peak_rss_bytes", GAUGE, 1.0, "The highest that resident memory is known to have been."),
    ("pss_bytes", "brimful_pss_bytes", GAUGE, 1.0, "Resident memory with what is shared divided among those that share it."),
    ("shared_bytes", "brimful_shared_bytes", GAUGE, 1.0, "What resident memory counts more than once."),
    ("process_count", "brimful_processes", GAUGE, 1.0, "Processes of the job."),
    ("thread_count", "brimful_threads", GAUGE, 1.0, "Threads of the job."),
    ("open_file_count", "brimful_open_files", GAUGE, 1.0, "Open files of the job."),
    ("cpu_ms", "brimful_cpu_seconds_total", COUNTER, MILLI, "Time of the job on CPUs."),
    ("disk_read_bytes", "brimful_disk_read_bytes_total", COUNTER, 1.0, "Read from disks by the job."),
    ("disk_written_bytes", "brimful_disk_written_bytes_total", COUNTER, 1.0, "Written to disks by the job."),
    ("cgroup_limit_bytes", "brimful_cgroup_limit_bytes", GAUGE, 1.0, "The tightest memory limit of the job's cgroups."),
    ("cgroup_used_bytes", "brimful_cgroup_used_bytes", GAUGE, 1.0, "What the cgroup with that limit holds, page cache included."),
    ("cgroup_peak_bytes", "brimful_cgroup_peak_bytes", GAUGE, 1.0, "The most that the cgroup ever held."),
    ("cgroup_anon_bytes", "brimful_cgroup_anon_bytes", GAUGE, 1.0, "Memory of the cgroup without a file behind it."),
    ("cgroup_inactive_file_bytes", "brimful_cgroup_inactive_file_bytes", GAUGE, 1.0, "Page cache of the cgroup that would be dropped first."),
    ("cgroup_shmem_bytes", "brimful_cgroup_shmem_bytes", GAUGE, 1.0, "Shared memory of the cgroup."),
    ("cgroup_swap_bytes", "brimful_cgroup_swap_bytes", GAUGE, 1.0, "Memory of the cgroup that is swapped out."),
    ("cgroup_oom_count", "brimful_cgroup_ooms_total", COUNTER, 1.0, "How often the cgroup met its limit."),
    ("cgroup_oom_kill_count", "brimful_cgroup_oom_kills_total", COUNTER, 1.0, "Processes of the cgroup that were killed for memory."),
    ("cgroup_stall_some_us", "brimful_cgroup_stall_some_seconds_total", COUNTER, MICRO, "Time in which some task of the cgroup waited for memory."),
    ("cgroup_stall_full_us", "brimful_cgroup_stall_full_seconds_total", COUNTER, MICRO, "Time in which all tasks of the cgroup waited for memory."),
    ("machine_total_bytes", "brimful_machine_total_bytes", GAUGE, 1.0, "The machine's memory."),
    ("machine_available_bytes", "brimful_machine_available_bytes", GAUGE, 1.0, "What can be had of the machine's memory without swapping."),
    ("machine_swap_used_bytes", "brimful_machine_swap_used_bytes", GAUGE, 1.0, "The machine's swap in use."),
    ("machine_stall_some_us", "brimful_machine_stall_some_seconds_total", COUNTER, MICRO, "Time in which some task of the machine waited for memory."),
    ("machine_stall_full_us", "brimful_machine_stall_full_seconds_total", COUNTER, MICRO, "Time in which all tasks of the machine waited for memory."),
    ("shm_size_bytes", "brimful_shm_size_bytes", GAUGE, 1.0, "The size of /dev/shm."),
    ("shm_used_bytes", "brimful_shm_used_bytes", GAUGE, 1.0, "What is taken of /dev/shm."),
    ("namespace_received_bytes", "brimful_namespace_received_bytes_total", COUNTER, 1.0, "Received by the job's network namespace."),
    ("namespace_sent_bytes", "brimful_namespace_sent_bytes_total", COUNTER, 1.0, "Sent by the job's network namespace."),
    ("anon_bytes", "brimful_anon_bytes", GAUGE, 1.0, "Resident memory of the job without a file or shared memory behind it."),
];

/// In the order of [`GpuSample::NAMES`].
#[rustfmt::skip]
const OF_GPUS: [Figure; GpuSample::NAMES.len()] = [
    ("total_bytes", "brimful_gpu_total_bytes", GAUGE, 1.0, "Memory of the GPU, as CUDA reports it."),
    ("used_bytes", "brimful_gpu_used_bytes", GAUGE, 1.0, "What all processes hold of the GPU's memory."),
    ("job_bytes", "brimful_gpu_job_bytes", GAUGE, 1.0, "What the job's processes hold of the GPU's memory."),
    ("others_bytes", "brimful_gpu_others_bytes", GAUGE, 1.0, "What other processes hold of the GPU's memory."),
    ("busy_percent", "brimful_gpu_busy_ratio", GAUGE, 1e-2, "Share of the time in which the GPU ran a kernel."),
    ("temperature_c", "brimful_gpu_temperature_celsius", GAUGE, 1.0, "Temperature of the GPU."),
    ("power_mw", "brimful_gpu_power_watts", GAUGE, MILLI, "Power that the GPU draws."),
];

type Value = (Vec<(&'static str, String)>, f64);

/// All of them; those without a value too.
pub fn metrics(latest: &Latest) -> Vec<Metric> {
    let one = |value: Option<f64>| -> Vec<Value> { value.map(|value| (Vec::new(), value)).into_iter().collect() };
    let bytes = |value: Option<u64>| one(value.map(|value| value as f64));
    let mut metrics = vec![Metric {
        name: "brimful_job_running",
        kind: GAUGE,
        help: "Whether the job still runs.",
        values: one(Some(f64::from(u8::from(!latest.has_ended)))),
    }];
    let sample = latest.sample;
    let row = sample.map(|sample| sample.row()).unwrap_or_default();
    for ((_, name, kind, unit, help), value) in OF_SAMPLES.into_iter().zip(row) {
        metrics.push(Metric { name, kind, help, values: one(value.map(|value| value as f64 * unit)) });
    }
    metrics.push(Metric {
        name: "brimful_held_bytes",
        kind: GAUGE,
        help: "What counts against the limit and cannot be dropped.",
        values: bytes(sample.and_then(|sample| sample.held_bytes())),
    });
    metrics.push(Metric {
        name: "brimful_limit_bytes",
        kind: GAUGE,
        help: "What the job may hold: its cgroup's limit, or what the machine has left.",
        values: bytes(sample.and_then(|sample| sample.limit_bytes())),
    });
    metrics.extend(of_gpus(latest));
    metrics.extend(of_allocators(latest));
    let step = latest.step;
    let of_steps: [(_, _, _, Option<f64>); 4] = [
        ("brimful_steps_total", COUNTER, "Training steps that have ended.", step.map(|step| step.step as f64)),
        (
            "brimful_step_wait_seconds_total",
            COUNTER,
            "Time between the end of one step and the beginning of the next.",
            step.and_then(|step| step.waited_us).map(|us| us as f64 * MICRO),
        ),
        ("brimful_epoch", GAUGE, "The epoch.", step.and_then(|step| step.epoch).map(|epoch| epoch as f64)),
        ("brimful_loss", GAUGE, "The loss of the last step that told it.", step.and_then(|step| step.loss)),
    ];
    metrics.extend(of_steps.map(|(name, kind, help, value)| Metric { name, kind, help, values: one(value) }));
    metrics.push(Metric {
        name: "brimful_findings_total",
        kind: COUNTER,
        help: "How often a judgement on the job became true.",
        values: latest.findings.iter().map(|(code, count)| (vec![("code", code.clone())], *count as f64)).collect(),
    });
    metrics
}

fn of_gpus(latest: &Latest) -> impl Iterator<Item = Metric> {
    OF_GPUS.into_iter().enumerate().map(|(index, (_, name, kind, unit, help))| {
        let value = |gpu: &GpuSample| {
            let value = gpu.row()[index]?;
            Some((vec![("gpu", gpu.index.to_string())], value as f64 * unit))
        };
        Metric { name, kind, help, values: latest.gpus.values().filter_map(value).collect() }
    })
}

fn of_allocators(latest: &Latest) -> impl Iterator<Item = Metric> {
    type Pick = fn(&FrameworkMemory) -> Option<u64>;
    let picks: [(&str, &str, Pick); 4] = [
        ("brimful_framework_allocated_bytes", "What tensors hold of the device.", |memory| memory.allocated_bytes),
        ("brimful_framework_reserved_bytes", "What the framework took from the device.", |memory| {
            memory.reserved_bytes
        }),
        ("brimful_framework_peak_bytes", "The most that tensors held of the device.", |memory| {
            memory.peak_allocated_bytes
        }),
        ("brimful_framework_limit_bytes", "What the framework may take at most.", |memory| memory.limit_bytes),
    ];
    picks.into_iter().map(|(name, help, pick)| {
        let value = |memory: &FrameworkMemory| {
            let labels = vec![
                ("pid", memory.pid.to_string()),
                ("framework", memory.framework.clone()),
                ("device", memory.device.clone()),
            ];
            Some((labels, pick(memory)? as f64))
        };
        Metric { name, kind: GAUGE, help, values: latest.allocators.values().filter_map(value).collect() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_place() {
        let names = |figures: &[Figure]| figures.iter().map(|figure| figure.0).collect::<Vec<_>>();
        assert_eq!((names(&OF_SAMPLES), names(&OF_GPUS)), (Sample::NAMES.to_vec(), GpuSample::NAMES.to_vec()));
        for (_, name, kind, ..) in OF_SAMPLES.iter().chain(&OF_GPUS) {
            assert_eq!(name.ends_with("_total"), *kind == COUNTER, "{name}");
        }
    }
}
