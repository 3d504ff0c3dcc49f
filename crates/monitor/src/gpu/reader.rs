//! Reads the GPUs of this machine again and again, for one job.
//!
//! In: NVML, the time of each call and the job's processes. Out: [`GpuSample`]s. Memory is read at every call; how busy, how warm, how much
//! power and whose the memory is once a second: on an H200 all of that takes 20 µs, and at times some milliseconds. The driver knows processes by the
//! host's numbers: in a container with numbers of its own it is not known which are the job's. Not read: GPUs that appear later.

use std::path::Path;

use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::{Device, Nvml};

use super::list::{self, GpuProcess};
use super::sample::GpuSample;
use crate::sampler::schedule::Every;

/// The number of the first PID namespace of every Linux (`PROC_PID_INIT_INO` of the kernel): the host's.
const HOST_NAMESPACE: &str = "pid:[4026531836]";

/// Reads GPUs.
#[derive(Debug)]
pub struct GpuReader {
    nvml: Option<Nvml>,
    reason: Option<String>,
    last: Vec<GpuSample>,
    numbers_are_ours: bool,
    second: Every,
}

impl GpuReader {
    /// Loads the driver's library. Without it, or without a GPU, there is nothing to read.
    pub fn open() -> GpuReader {
        let opened = list::open().and_then(|nvml| Ok((nvml.device_count()?, nvml)));
        let (count, nvml, reason) = match opened {
            Ok((0, _)) => (0, None, Some(list::NO_GPU.to_owned())),
            Ok((count, nvml)) => (count, Some(nvml), None),
            Err(error) => (0, None, Some(list::reason(&error))),
        };
        GpuReader {
            nvml,
            reason,
            last: (0..count).map(|index| GpuSample { index, ..GpuSample::default() }).collect(),
            numbers_are_ours: sees_the_hosts_numbers(Path::new("/")),
            second: Every::ms(1000),
        }
    }

    /// Why there is nothing to read, if there is nothing.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Reads all GPUs; one that does not answer is left out. `pids` are the job's processes.
    pub fn sample(&mut self, at_ms: u64, pids: &[u32]) -> Vec<GpuSample> {
        let Some(nvml) = &self.nvml else { return Vec::new() };
        let is_second = self.second.is_due(at_ms);
        let mut samples = Vec::with_capacity(self.last.len());
        for last in &mut self.last {
            let Ok(device) = nvml.device_by_index(last.index) else { continue };
            last.at_ms = at_ms;
            let memory = list::memory(&device);
            last.total_bytes = memory.map(|memory| memory.total_bytes());
            last.used_bytes = memory.map(|memory| memory.used_bytes);
            if is_second {
                read_each_second(&device, last);
                let processes = if self.numbers_are_ours { list::processes(&device) } else { None };
                (last.job_bytes, last.others_bytes) = shares(processes.as_deref(), pids);
            }
            samples.push(*last);
        }
        samples
    }
}

fn read_each_second(device: &Device, sample: &mut GpuSample) {
    sample.busy_percent = device.utilization_rates().ok().map(|rates| u64::from(rates.gpu));
    sample.temperature_c = device.temperature(TemperatureSensor::Gpu).ok().map(u64::from);
    sample.power_mw = device.power_usage().ok().map(u64::from);
}

/// What the job holds and what others do; none where the driver does not say for one of them.
fn shares(processes: Option<&[GpuProcess]>, pids: &[u32]) -> (Option<u64>, Option<u64>) {
    let sum = |is_ours: bool| {
        let mine = processes?.iter().filter(|process| pids.contains(&process.pid) == is_ours);
        mine.map(|process| process.used_bytes).try_fold(0_u64, |sum, bytes| Some(sum.saturating_add(bytes?)))
    };
    (sum(true), sum(false))
}

/// Whether processes have the same numbers here as on the host.
fn sees_the_hosts_numbers(root: &Path) -> bool {
    // Without such a link it is no Linux, and has no such namespaces.
    std::fs::read_link(root.join("proc/self/ns/pid")).map_or(true, |link| link == Path::new(HOST_NAMESPACE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_hold_is_told_from_what_the_job_holds() {
        let process = |pid, used_bytes| GpuProcess { pid, used_bytes };
        let list = [process(1, Some(10)), process(2, Some(20)), process(3, Some(5))];
        assert_eq!(shares(Some(&list), &[2, 9]), (Some(20), Some(15)));
        assert_eq!(shares(Some(&list), &[]), (Some(0), Some(35)));
        assert_eq!(shares(Some(&[]), &[1]), (Some(0), Some(0)));
        // As under WSL, where the driver names processes and no sizes.
        assert_eq!(shares(Some(&[process(1, None), process(2, Some(7))]), &[1]), (None, Some(7)));
        assert_eq!(shares(None, &[1]), (None, None));
    }

    #[test]
    fn a_container_has_numbers_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        assert!(sees_the_hosts_numbers(root.path()));
        #[cfg(unix)]
        for (link, is_host) in [(HOST_NAMESPACE, true), ("pid:[4026532201]", false)] {
            let folder = root.path().join("proc/self/ns");
            std::fs::create_dir_all(&folder).unwrap();
            let _ = std::fs::remove_file(folder.join("pid"));
            std::os::unix::fs::symlink(link, folder.join("pid")).unwrap();
            assert_eq!(sees_the_hosts_numbers(root.path()), is_host);
        }
    }

    #[test]
    fn there_is_a_reason_or_a_sample() {
        let mut reader = GpuReader::open();
        let samples = reader.sample(0, &[std::process::id()]);
        assert_eq!(samples.is_empty(), reader.reason().is_some(), "{samples:?} {:?}", reader.reason());
        for sample in samples {
            assert!(sample.total_bytes.is_none_or(|total| total >= sample.used_bytes.unwrap_or(0)), "{sample:?}");
        }
    }
}
