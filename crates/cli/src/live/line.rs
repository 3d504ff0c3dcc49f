//! The one plain line that stands for the screen where there is no terminal.
//!
//! In: [`State`]. Out: a line of ASCII without a line break. What matters most comes first; what does not fit is left out whole.

use super::state::{Gpu, State};
use super::words;

/// More GPUs than this are told by the fullest of them.
const MOST_GPUS: usize = 4;
/// Flows below this are not worth the room.
const LEAST_FLOW: f64 = 50e3;

impl State {
    /// What a job does now, in at most so many characters.
    pub fn line(&self, width: usize) -> String {
        let mut line = format!("brimful: {}", words::clock(self.now_ms));
        let parts = self.parts();
        if parts.is_empty() {
            line.push_str("  no figures yet");
        }
        for part in parts {
            if line.len() + 2 + part.len() <= width {
                line.push_str("  ");
                line.push_str(&part);
            }
        }
        line.truncate(width);
        line
    }

    fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        parts.extend(self.step_part());
        if let Some((held_bytes, limit_bytes)) = self.held() {
            let peak = self.peak.map(|peak| words::like(peak.bytes, limit_bytes.unwrap_or(held_bytes)));
            let peak = peak.map(|peak| format!(" (peak {peak})")).unwrap_or_default();
            parts.push(format!("memory {}{peak}", words::of(held_bytes, limit_bytes)));
        }
        if self.gpus.len() <= MOST_GPUS {
            parts.extend(self.gpus.iter().filter_map(|(index, gpu)| Some(format!("GPU {index} {}", gpu_text(gpu)?))));
        } else if let Some((index, gpu)) = self.gpus.iter().max_by_key(|(_, gpu)| gpu.latest.used_bytes) {
            let text = gpu_text(gpu).unwrap_or_default();
            parts.push(format!("fullest of {} GPUs: {index} {text}", self.gpus.len()));
        }
        let change = self.change();
        parts.extend(change.cpu_cores.map(|cores| format!("CPU {}", words::cores(cores, self.cpus))));
        let flow = |name: &str, bytes: Option<f64>, what: &str| {
            bytes.filter(|bytes| *bytes >= LEAST_FLOW).map(|bytes| format!("{name} {} {what}", words::flow(bytes)))
        };
        parts.extend(flow("disk", change.disk_read_bytes_per_s, "read"));
        parts.extend(flow("disk", change.disk_written_bytes_per_s, "written"));
        parts.extend(flow("network", change.received_bytes_per_s, "received"));
        parts.extend(flow("network", change.sent_bytes_per_s, "sent"));
        let waiting = self.steps.waiting_share().filter(|share| *share >= 0.005);
        parts.extend(waiting.map(|share| format!("between steps {}", words::percent(share))));
        parts
            .extend(self.steps.latest().and_then(|mark| mark.loss).map(|loss| format!("loss {}", words::number(loss))));
        parts
    }

    fn step_part(&self) -> Option<String> {
        let mark = self.steps.latest()?;
        let pace = self.steps.per_second(self.now_ms).map(|pace| format!(" ({})", words::pace(pace)));
        let quiet = self.steps.quiet_ms(self.now_ms).map(|ms| format!(" (none for {})", words::duration(ms as f64)));
        Some(format!("step {}{}", words::count(mark.step), pace.or(quiet).unwrap_or_default()))
    }
}

fn gpu_text(gpu: &Gpu) -> Option<String> {
    let memory = gpu.latest.used_bytes.map(|used| words::of(used, gpu.latest.total_bytes));
    let busy = gpu.latest.busy_percent.map(|percent| format!("{percent} %"));
    let figures: Vec<String> = memory.into_iter().chain(busy).collect();
    (!figures.is_empty()).then(|| figures.join(", "))
}

#[cfg(test)]
mod tests {
    use brimful_core::bytes::GIB;
    use brimful_monitor::gpu::GpuSample;
    use brimful_monitor::recording::{Frame, StepMark};
    use brimful_monitor::sample::Sample;

    use super::*;

    fn training() -> State {
        let mut state = State::new(Some(4.0));
        for tick in 0..=1500_u64 {
            let at_ms = tick * 100;
            state.take(&Frame::Sample(Sample {
                at_ms,
                rss_bytes: Some(if tick == 700 { 34 * GIB / 10 } else { 32 * GIB / 10 }),
                cgroup_limit_bytes: Some(8 * GIB),
                cpu_ms: Some(at_ms * 19 / 10),
                disk_read_bytes: Some(at_ms * 12_000),
                ..Sample::default()
            }));
            state.take(&Frame::Step(StepMark { at_ms, step: tick * 8 / 10 + 4, ..StepMark::default() }));
        }
        let (total_bytes, used_bytes) = (Some(15 * GIB), Some(101 * GIB / 10));
        let gpu = GpuSample { at_ms: 150_000, total_bytes, used_bytes, busy_percent: Some(87), ..GpuSample::default() };
        state.take(&Frame::Gpu(gpu));
        state
    }

    #[test]
    fn the_line_says_what_matters_first() {
        let state = training();
        let whole = "brimful: 2:30  step 1,204 (8.0/s)  memory 3.2 of 8.0 GiB (peak 3.4)  GPU 0 10.1 of 15.0 GiB, 87 %  \
                     CPU 1.9 of 4 cores  disk 12 MB/s read";
        assert_eq!(state.line(usize::MAX), whole);
        assert_eq!(state.line(80), "brimful: 2:30  step 1,204 (8.0/s)  memory 3.2 of 8.0 GiB (peak 3.4)");
        assert_eq!(state.line(12), "brimful: 2:3");
        assert_eq!(state.line(0), "");
    }

    #[test]
    fn without_figures_it_says_so() {
        assert_eq!(State::default().line(80), "brimful: 0:00  no figures yet");
    }

    #[test]
    fn of_many_gpus_the_fullest_is_told() {
        let mut state = State::default();
        for index in 0..8 {
            let used_bytes = Some(u64::from(index % 5) * 10 * GIB);
            let gpu = GpuSample { index, used_bytes, total_bytes: Some(80 * GIB), ..GpuSample::default() };
            state.take(&Frame::Gpu(gpu));
        }
        assert_eq!(state.line(80), "brimful: 0:00  fullest of 8 GPUs: 4 40.0 of 80.0 GiB");
    }
}
