//! Frames to payloads and back. Both sides go through the same states, so that differences mean the same.
//!
//! In: frames, or kind and payload. Out: the reverse; none for a payload that is not one. A sample is the time since the last entry, a set of
//! the figures that changed, and for each how: nothing for one that is no longer known, or the difference from the last known value.

use serde::de::DeserializeOwned;

use super::frame::{Frame, Holder, Holders, Line, StepMark};
use super::varint::{push, push_signed, take, take_signed};
use crate::sample::Sample;

const START: u8 = 1;
const SAMPLE: u8 = 2;
const STEP: u8 = 3;
const LINE: u8 = 4;
const END: u8 = 5;
const HOLDERS: u8 = 6;

const FIGURES: usize = Sample::NAMES.len();
/// The set of figures is one number.
const _: () = assert!(FIGURES <= 63);

/// What the last entries said.
#[derive(Clone, Default)]
pub struct State {
    at_ms: u64,
    /// The last known value of each figure, and whether it is known now.
    values: [u64; FIGURES],
    known: [bool; FIGURES],
    step: u64,
    epoch: u64,
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
                self.encode_sample(sample, &mut bytes);
                SAMPLE
            }
            Frame::Step(mark) => {
                self.push_time(mark.at_ms, &mut bytes);
                push_signed(&mut bytes, mark.step.wrapping_sub(self.step) as i64);
                push(&mut bytes, u64::from(mark.epoch.is_some()) | u64::from(mark.loss.is_some()) << 1);
                self.step = mark.step;
                if let Some(epoch) = mark.epoch {
                    push_signed(&mut bytes, epoch.wrapping_sub(self.epoch) as i64);
                    self.epoch = epoch;
                }
                bytes.extend(mark.loss.into_iter().flat_map(f64::to_le_bytes));
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

    fn encode_sample(&mut self, sample: &Sample, bytes: &mut Vec<u8>) {
        self.push_time(sample.at_ms, bytes);
        let row = sample.row();
        let now = |index: usize, state: &State| state.known[index].then_some(state.values[index]);
        let changed = (0..FIGURES).filter(|&index| row[index] != now(index, self));
        let changed: u64 = changed.map(|index| 1 << index).sum();
        push(bytes, changed);
        for index in (0..FIGURES).filter(|index| changed >> index & 1 == 1) {
            match row[index] {
                // One that was known and stays known differs, so zero is free to say that it is known no longer; one that becomes known
                // says so by being unknown before.
                Some(value) => push_signed(bytes, value.wrapping_sub(self.values[index]) as i64),
                None => push(bytes, 0),
            }
            self.known[index] = row[index].is_some();
            self.values[index] = row[index].unwrap_or(self.values[index]);
        }
    }

    /// The frame that a payload holds.
    pub fn decode(&mut self, kind: u8, mut bytes: &[u8]) -> Option<Frame> {
        let rest = &mut bytes;
        match kind {
            START => json(rest).map(Frame::Start),
            SAMPLE => self.decode_sample(rest).map(Frame::Sample),
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
            mark.loss = Some(f64::from_le_bytes(*bytes.first_chunk()?));
        }
        Some(mark)
    }

    fn decode_sample(&mut self, bytes: &mut &[u8]) -> Option<Sample> {
        let at_ms = self.take_time(bytes)?;
        let changed = take(bytes)?;
        // Figures of a later version come last, and are left.
        for index in (0..FIGURES).filter(|index| changed >> index & 1 == 1) {
            let difference = take_signed(bytes)?;
            let goes = self.known[index] && difference == 0;
            self.known[index] = !goes;
            self.values[index] = self.values[index].wrapping_add(difference as u64);
        }
        let row = std::array::from_fn(|index| self.known[index].then_some(self.values[index]));
        Some(Sample::from_row(at_ms, row))
    }
}

fn encode_holder(holder: &Holder, bytes: &mut Vec<u8>) {
    push(bytes, u64::from(holder.pid));
    push(bytes, holder.name.len() as u64);
    bytes.extend_from_slice(holder.name.as_bytes());
    push(bytes, holder.rss_bytes);
    push(bytes, holder.peak_rss_bytes);
    push(bytes, u64::from(holder.pss_bytes.is_some()));
    holder.pss_bytes.into_iter().for_each(|pss_bytes| push(bytes, pss_bytes));
}

fn decode_holder(bytes: &mut &[u8]) -> Option<Holder> {
    let pid = u32::try_from(take(bytes)?).ok()?;
    let length = usize::try_from(take(bytes)?).ok()?;
    let (name, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    let (rss_bytes, peak_rss_bytes) = (take(bytes)?, take(bytes)?);
    let pss_bytes = if take(bytes)? == 1 { Some(take(bytes)?) } else { None };
    Some(Holder { pid, name: String::from_utf8_lossy(name).into_owned(), rss_bytes, peak_rss_bytes, pss_bytes })
}

fn json<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}
