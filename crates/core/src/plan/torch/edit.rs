//! Changes to a recording, made all at once.
//!
//! In: a [`Recording`], then events to leave out, to put in and to resize. Out: another recording. Places are those of the
//! original throughout, so that changes do not shift each other.

use std::collections::BTreeMap;

use crate::capture::{Buffer, Event, Recording};

/// A recording that is being changed.
#[derive(Clone, Debug)]
pub struct Edit {
    recording: Recording,
    removed: Vec<bool>,
    dropped: Vec<bool>,
    inserted: BTreeMap<usize, Vec<Event>>,
}

impl Edit {
    /// Nothing changed yet.
    pub fn new(recording: &Recording) -> Edit {
        Edit {
            removed: vec![false; recording.events.len()],
            dropped: vec![false; recording.buffers.len()],
            inserted: BTreeMap::new(),
            recording: recording.clone(),
        }
    }

    /// A new buffer, not yet in any event.
    pub fn add(&mut self, buffer: Buffer) -> u32 {
        self.recording.buffers.push(buffer);
        self.dropped.push(false);
        (self.recording.buffers.len() - 1) as u32
    }

    /// A new buffer like another.
    pub fn copy(&mut self, buffer: u32) -> u32 {
        self.add(self.recording.buffers[buffer as usize])
    }

    /// A buffer, to be changed.
    pub fn buffer(&mut self, buffer: u32) -> &mut Buffer {
        &mut self.recording.buffers[buffer as usize]
    }

    /// A buffer is never asked for.
    pub fn drop(&mut self, buffer: u32) {
        self.dropped[buffer as usize] = true;
    }

    /// An event does not happen.
    pub fn remove(&mut self, event: usize) {
        self.removed[event] = true;
    }

    /// An event happens before another, after what was inserted there before.
    pub fn insert(&mut self, before: usize, event: Event) {
        self.inserted.entry(before).or_default().push(event);
    }

    /// The changed recording.
    pub fn finish(mut self) -> Recording {
        let mut events = Vec::with_capacity(self.recording.events.len() + self.inserted.len());
        let old = std::mem::take(&mut self.recording.events);
        let alive = |event: &Event| match *event {
            Event::Alloc(buffer) | Event::Free(buffer) | Event::Relabel(buffer, _) => !self.dropped[buffer as usize],
            Event::Mark(_) | Event::Step => true,
        };
        for (index, event) in old.iter().enumerate() {
            if let Some(inserted) = self.inserted.get(&index) {
                events.extend(inserted.iter().copied().filter(alive));
            }
            if !self.removed[index] && alive(event) {
                events.push(*event);
            }
        }
        for inserted in self.inserted.range(old.len()..).map(|(_, inserted)| inserted) {
            events.extend(inserted.iter().copied().filter(alive));
        }
        self.recording.events = events;
        self.recording
    }
}
