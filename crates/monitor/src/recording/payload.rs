//! Frames to payloads and back. Both sides go through the same states, so that differences mean the same.
//!
//! In: frames, or kind and payload. Out: the reverse; none for a payload that is not one. A sample is the time since the last entry and a
//! [`Row`].

use serde::de::DeserializeOwned;

use super::frame::{Frame, FrameworkMemory, Holder, Holders, Line, StepMark};
use super::row::Row;
use super::varint::{push, push_signed, push_text, take, take_signed, take_text};
use crate::gpu::GpuSample;
use crate::sample::Sample;

const START: u8 = 1;
const SAMPLE: u8 = 2;
const STEP: u8 = 3;
const LINE: u8 = 4;
const END: u8 = 5;
const HOLDERS: u8 = 6;
const GPU: u8 = 7;
const FRAMEWORK: u8 = 8;
const FINDING: u8 = 9;

/// No machine has as many: a file that says so is damaged, or made to take memory; a writer leaves such a frame out.
pub const MOST_GPUS: u64 = 256;

/// What the last entries said.
#[derive(Clone, Default)]
pub struct State {
    at_ms: u64,
    sample: Row<{ Sample::NAMES.len() }>,
    gpus: Vec<Row<{ GpuSample::NAMES.len() }>>,
    step: u64,
    epoch: u64,
    waited_us: u64,
}

impl State {
    /// The kind of a frame and its payload. A frame of an unknown kind has none.
    pub fn encode(&mut self, frame: &Frame) -> (u8, Vec<u8>) {
        let mut bytes = Vec::new();
        let kind = match frame {
            Frame::Start(start) => {
                bytes = serde_json::to_vec(start).unwrap_or_default();
                START
            }
            Frame::Sample(sample) => {
                self.push_time(sample.at_ms, &mut bytes);
                self.sample.encode(&sample.row(), &mut bytes);
                SAMPLE
            }
            Frame::Gpu(sample) => {
                self.push_time(sample.at_ms, &mut bytes);
                push(&mut bytes, u64::from(sample.index));
                if let Some(row) = self.gpu(u64::from(sample.index)) {
                    row.encode(&sample.row(), &mut bytes);
                }
                GPU
            }
            Frame::Framework(memory) => {
                self.push_time(memory.at_ms, &mut bytes);
                encode_framework(memory, &mut bytes);
                FRAMEWORK
            }
            Frame::Finding(finding) => {
                bytes = serde_json::to_vec(finding).unwrap_or_default();
                FINDING
            }
            Frame::Step(mark) => {
                self.push_time(mark.at_ms, &mut bytes);
                push_signed(&mut bytes, mark.step.wrapping_sub(self.step) as i64);
                let has = [mark.epoch.is_some(), mark.loss.is_some(), mark.waited_us.is_some()];
                push(&mut bytes, (0..).zip(has).map(|(bit, has)| u64::from(has) << bit).sum());
                self.step = mark.step;
                if let Some(epoch) = mark.epoch {
                    push_signed(&mut bytes, epoch.wrapping_sub(self.epoch) as i64);
                    self.epoch = epoch;
                }
                bytes.extend(mark.loss.into_iter().flat_map(f64::to_le_bytes));
                if let Some(waited_us) = mark.waited_us {
                    push_signed(&mut bytes, waited_us.wrapping_sub(self.waited_us) as i64);
                    self.waited_us = waited_us;
                }
                STEP
            }
            Frame::Holders(holders) => {
                self.push_time(holders.at_ms, &mut bytes);
                holders.processes.iter().take(Holders::MOST).for_each(|holder| encode_holder(holder, &mut bytes));
                HOLDERS
            }
            Frame::Line(line) => {
                self.push_time(line.at_ms, &mut bytes);
                bytes.extend_from_slice(line.text.as_bytes());
                LINE
            }
            Frame::End(end) => {
                bytes = serde_json::to_vec(end).unwrap_or_default();
                END
            }
            Frame::Other { kind } => *kind,
        };
        (kind, bytes)
    }

    fn push_time(&mut self, at_ms: u64, bytes: &mut Vec<u8>) {
        push_signed(bytes, at_ms.wrapping_sub(self.at_ms) as i64);
        self.at_ms = at_ms;
    }

    fn gpu(&mut self, index: u64) -> Option<&mut Row<{ GpuSample::NAMES.len() }>> {
        let index = usize::try_from(index).ok().filter(|_| index < MOST_GPUS)?;
        if self.gpus.len() <= index {
            self.gpus.resize_with(index + 1, Row::default);
        }
        self.gpus.get_mut(index)
    }

    /// The frame that a payload holds.
    pub fn decode(&mut self, kind: u8, mut bytes: &[u8]) -> Option<Frame> {
        let rest = &mut bytes;
        match kind {
            START => json(rest).map(Frame::Start),
            SAMPLE => {
                let at_ms = self.take_time(rest)?;
                Some(Frame::Sample(Sample::from_row(at_ms, self.sample.decode(rest)?)))
            }
            GPU => {
                let (at_ms, index) = (self.take_time(rest)?, take(rest)?);
                let row = self.gpu(index)?.decode(rest)?;
                Some(Frame::Gpu(GpuSample::from_row(at_ms, u32::try_from(index).ok()?, row)))
            }
            FRAMEWORK => {
                let at_ms = self.take_time(rest)?;
                decode_framework(at_ms, rest).map(Frame::Framework)
            }
            FINDING => json(rest).map(Frame::Finding),
            STEP => self.decode_step(rest).map(Frame::Step),
            LINE => {
                let at_ms = self.take_time(rest)?;
                Some(Frame::Line(Line { at_ms, text: String::from_utf8_lossy(rest).into_owned() }))
            }
            END => json(rest).map(Frame::End),
            HOLDERS => {
                let (at_ms, mut processes) = (self.take_time(rest)?, Vec::new());
                while !rest.is_empty() && processes.len() < Holders::MOST {
                    processes.push(decode_holder(rest)?);
                }
                Some(Frame::Holders(Holders { at_ms, processes }))
            }
            kind => Some(Frame::Other { kind }),
        }
    }

    fn take_time(&mut self, bytes: &mut &[u8]) -> Option<u64> {
        self.at_ms = self.at_ms.wrapping_add(take_signed(bytes)? as u64);
        Some(self.at_ms)
    }

    fn decode_step(&mut self, bytes: &mut &[u8]) -> Option<StepMark> {
        let at_ms = self.take_time(bytes)?;
        self.step = self.step.wrapping_add(take_signed(bytes)? as u64);
        let has = take(bytes)?;
        let mut mark = StepMark { at_ms, step: self.step, ..StepMark::default() };
        if has & 1 == 1 {
            self.epoch = self.epoch.wrapping_add(take_signed(bytes)? as u64);
            mark.epoch = Some(self.epoch);
        }
        if has & 2 == 2 {
            let (loss, rest) = bytes.split_first_chunk()?;
            mark.loss = Some(f64::from_le_bytes(*loss));
            *bytes = rest;
        }
        if has & 4 == 4 {
            self.waited_us = self.waited_us.wrapping_add(take_signed(bytes)? as u64);
            mark.waited_us = Some(self.waited_us);
        }
        Some(mark)
    }
}

fn encode_framework(memory: &FrameworkMemory, bytes: &mut Vec<u8>) {
    push(bytes, u64::from(memory.pid));
    push_text(bytes, &memory.framework);
    push_text(bytes, &memory.device);
    let figures = memory.figures();
    push(bytes, (0..).zip(figures).map(|(bit, figure)| u64::from(figure.is_some()) << bit).sum());
    figures.into_iter().flatten().for_each(|figure| push(bytes, figure));
}

fn decode_framework(at_ms: u64, bytes: &mut &[u8]) -> Option<FrameworkMemory> {
    let pid = u32::try_from(take(bytes)?).ok()?;
    let (framework, device, has) = (take_text(bytes)?, take_text(bytes)?, take(bytes)?);
    let mut figures = [None; 4];
    for (_, figure) in figures.iter_mut().enumerate().filter(|(bit, _)| has >> bit & 1 == 1) {
        *figure = Some(take(bytes)?);
    }
    let [allocated_bytes, reserved_bytes, peak_allocated_bytes, limit_bytes] = figures;
    let memory = FrameworkMemory {
        at_ms,
        pid,
        framework,
        device,
        allocated_bytes,
        reserved_bytes,
        peak_allocated_bytes,
        limit_bytes,
    };
    Some(memory)
}

fn encode_holder(holder: &Holder, bytes: &mut Vec<u8>) {
    push(bytes, u64::from(holder.pid));
    push_text(bytes, &holder.name);
    push(bytes, holder.rss_bytes);
    push(bytes, holder.peak_rss_bytes);
    push(bytes, u64::from(holder.pss_bytes.is_some()));
    holder.pss_bytes.into_iter().for_each(|pss_bytes| push(bytes, pss_bytes));
}

fn decode_holder(bytes: &mut &[u8]) -> Option<Holder> {
    let pid = u32::try_from(take(bytes)?).ok()?;
    let name = take_text(bytes)?;
    let (rss_bytes, peak_rss_bytes) = (take(bytes)?, take(bytes)?);
    let pss_bytes = if take(bytes)? == 1 { Some(take(bytes)?) } else { None };
    Some(Holder { pid, name, rss_bytes, peak_rss_bytes, pss_bytes })
}

fn json<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}
