//! A recording as CSV (RFC 4180): a row for each sample of the host, with what was last known of GPUs, frameworks and steps.
//!
//! In: a recording, read twice: once for the columns. Out: a head and rows; what is not known is empty. Nothing is thinned.

use std::collections::BTreeMap;
use std::io::{self, Write};

use brimful_monitor::gpu::GpuSample;
use brimful_monitor::recording::{Frame, FrameworkMemory, StepMark};
use brimful_monitor::sample::Sample;

use super::open::Recording;
use crate::summary::date;

/// GPUs, and allocators of frameworks, that have columns.
const MOST_GROUPS: usize = 256;
const OF_FRAMEWORK: [&str; 4] = ["allocated_bytes", "reserved_bytes", "peak_allocated_bytes", "limit_bytes"];

type Key = (String, String, u32);

fn key(memory: &FrameworkMemory) -> Key {
    (memory.framework.clone(), memory.device.clone(), memory.pid)
}

/// Writes all samples.
pub fn write(recording: &Recording<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (mut gpus, mut frameworks) = (BTreeMap::<u32, GpuSample>::new(), BTreeMap::<Key, FrameworkMemory>::new());
    let mut began_unix_ms = 0;
    recording.for_each(|frame| match frame {
        Frame::Start(start) => began_unix_ms = start.started_unix_ms,
        Frame::Gpu(sample) if gpus.len() < MOST_GROUPS => drop(gpus.insert(sample.index, GpuSample::default())),
        Frame::Framework(memory) if frameworks.len() < MOST_GROUPS => {
            frameworks.insert(key(&memory), FrameworkMemory::default());
        }
        _ => {}
    });
    head(&gpus, &frameworks, out)?;
    let mut step: Option<StepMark> = None;
    // A reader cannot be stopped from inside: the first error ends the writing.
    let failed = recording.find_map(|frame| {
        match frame {
            Frame::Sample(sample) => return row(&sample, began_unix_ms, &gpus, &frameworks, step, out).err(),
            Frame::Gpu(sample) => {
                gpus.entry(sample.index).and_modify(|known| *known = sample);
            }
            Frame::Framework(memory) => {
                if let Some(known) = frameworks.get_mut(&key(&memory)) {
                    *known = memory;
                }
            }
            Frame::Step(mark) => step = Some(mark),
            _ => {}
        }
        None
    });
    failed.map_or(Ok(()), Err)
}

fn head(
    gpus: &BTreeMap<u32, GpuSample>,
    frameworks: &BTreeMap<Key, FrameworkMemory>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut names = vec!["at_ms".to_owned(), "date".to_owned()];
    names.extend(Sample::NAMES.iter().map(|name| (*name).to_owned()));
    names.extend(["step", "epoch", "loss", "waited_us"].map(str::to_owned));
    for index in gpus.keys() {
        names.extend(GpuSample::NAMES.iter().map(|name| format!("gpu{index}_{name}")));
    }
    for (framework, device, pid) in frameworks.keys() {
        names.extend(OF_FRAMEWORK.iter().map(|name| format!("{framework}_{device}_{pid}_{name}")));
    }
    let quoted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    write!(out, "{}\r\n", quoted.join(","))
}

fn row(
    sample: &Sample,
    began_unix_ms: u64,
    gpus: &BTreeMap<u32, GpuSample>,
    frameworks: &BTreeMap<Key, FrameworkMemory>,
    step: Option<StepMark>,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "{},{}", sample.at_ms, date::iso(began_unix_ms.saturating_add(sample.at_ms)))?;
    let mut cell = |value: Option<u64>| match value {
        Some(value) => write!(out, ",{value}"),
        None => write!(out, ","),
    };
    sample.row().into_iter().try_for_each(&mut cell)?;
    cell(step.map(|mark| mark.step))?;
    cell(step.and_then(|mark| mark.epoch))?;
    match step.and_then(|mark| mark.loss) {
        Some(loss) => write!(out, ",{loss}")?,
        None => write!(out, ",")?,
    }
    let mut cell = |value: Option<u64>| match value {
        Some(value) => write!(out, ",{value}"),
        None => write!(out, ","),
    };
    cell(step.and_then(|mark| mark.waited_us))?;
    for gpu in gpus.values() {
        gpu.row().into_iter().try_for_each(&mut cell)?;
    }
    for memory in frameworks.values() {
        let figures = [memory.allocated_bytes, memory.reserved_bytes, memory.peak_allocated_bytes, memory.limit_bytes];
        figures.into_iter().try_for_each(&mut cell)?;
    }
    write!(out, "\r\n")
}

/// A name as a cell. One that begins as a formula does is not run as one by a spreadsheet.
fn quoted(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cells() {
        assert_eq!(quoted("torch_cuda:0_7_limit_bytes"), "torch_cuda:0_7_limit_bytes");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(quoted("=1+1"), "'=1+1");
    }
}
