//! Where things are in a recording: passes through the network, lives of buffers, runs of blocks.
//!
//! In: a [`Recording`]. Out: ranges of its events. Remedies that rewrite a recording find their places with these.

use std::ops::Range;

use crate::capture::{Event, Recording};
use crate::trace::{Phase, Role};

/// One pass: a forward phase, and the backward phase that follows it (empty if none does).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Events of the forward phase.
    pub forward: Range<usize>,
    /// Events of the backward phase.
    pub backward: Range<usize>,
}

/// All passes, in order.
pub fn passes(recording: &Recording) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    let mut open: Option<(Phase, usize)> = None;
    let mut close = |open: Option<(Phase, usize)>, end: usize| match open {
        Some((Phase::Forward, begin)) => passes.push(Pass { forward: begin..end, backward: end..end }),
        Some((Phase::Backward, begin)) => {
            if let Some(pass) = passes.last_mut().filter(|pass| pass.backward.is_empty()) {
                pass.backward = begin..end;
            }
        }
        _ => {}
    };
    for (index, event) in recording.events.iter().enumerate() {
        match *event {
            Event::Mark(phase) => {
                close(open, index);
                open = Some((phase, index + 1));
            }
            Event::Step => {
                close(open, index);
                open = None;
            }
            Event::Alloc(_) | Event::Free(_) | Event::Relabel(..) => {}
        }
    }
    close(open, recording.events.len());
    passes
}

/// When a buffer is born and when it dies, as indices of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// Its allocation; the end of the recording if there is none.
    pub born: usize,
    /// Its end; none if it lives on.
    pub freed: Option<usize>,
}

impl Life {
    /// Whether it dies at this event or later, or never.
    pub fn reaches(self, index: usize) -> bool {
        self.freed.is_none_or(|freed| freed >= index)
    }
}

/// The lives of all buffers.
pub fn lives(recording: &Recording) -> Vec<Life> {
    let unborn = Life { born: recording.events.len(), freed: None };
    let mut lives = vec![unborn; recording.buffers.len()];
    for (index, event) in recording.events.iter().enumerate() {
        match *event {
            Event::Alloc(buffer) => lives[buffer as usize].born = index,
            Event::Free(buffer) => lives[buffer as usize].freed = Some(index),
            Event::Relabel(..) | Event::Mark(_) | Event::Step => {}
        }
    }
    lives
}

/// One call of a block in a forward phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The block, as an index into the list of blocks.
    pub block: usize,
    /// Its events: from its first request up to the next request of others.
    pub events: Range<usize>,
}

/// Which block each string of a recording, taken as a module's path, lies in.
pub fn owners(recording: &Recording, blocks: &[String]) -> Vec<Option<usize>> {
    let inside = |path: &str, block: &String| {
        path.strip_prefix(block.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    recording.strings.iter().map(|path| blocks.iter().position(|block| inside(path, block))).collect()
}

/// The calls of blocks in a forward phase, in order.
pub fn runs(recording: &Recording, forward: &Range<usize>, owners: &[Option<usize>]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut open: Option<Run> = None;
    for index in forward.clone() {
        let Event::Alloc(buffer) = recording.events[index] else { continue };
        let owner = owners.get(recording.buffers[buffer as usize].module as usize).copied().flatten();
        if open.as_ref().map(|run| run.block) == owner {
            continue;
        }
        if let Some(mut run) = open.take() {
            run.events.end = index;
            runs.push(run);
        }
        open = owner.map(|block| Run { block, events: index..forward.end });
    }
    runs.extend(open);
    runs
}

/// What a run leaves behind for the block's own backward pass, short of what the block returns: buffers that die in the
/// backward phase.
///
/// A recording does not say what a block returns. What dies before the block's backward pass begins (`begin`, where that is
/// known) was kept by what comes after the block, so it was returned. If nothing does, the last large survivor is taken.
pub fn leftovers(recording: &Recording, lives: &[Life], pass: &Pass, run: &Run, begin: Option<usize>) -> Vec<u32> {
    let born = recording.events[run.events.clone()].iter().filter_map(|event| match *event {
        Event::Alloc(buffer) => Some(buffer),
        _ => None,
    });
    let survives = |buffer: &u32| {
        let role = recording.buffers[*buffer as usize].role;
        role != Role::Workspace && lives[*buffer as usize].reaches(run.events.end)
    };
    let survivors: Vec<u32> = born.filter(survives).collect();
    let freed = |buffer: u32| lives[buffer as usize].freed;
    let returned = |buffer: u32| {
        freed(buffer).is_none_or(|freed| !pass.backward.contains(&freed) || begin.is_some_and(|begin| freed < begin))
    };
    let bytes = |buffer: u32| {
        let buffer = &recording.buffers[buffer as usize];
        buffer.bytes(recording.batch, recording.batch)
    };
    let large = |buffer: u32| bytes(buffer) > 0 && returned(buffer);
    let output = if survivors.iter().any(|&buffer| large(buffer)) {
        None
    } else {
        let most = survivors.iter().map(|&buffer| bytes(buffer)).max().unwrap_or(0);
        survivors.iter().rev().copied().find(|&buffer| bytes(buffer) >= most / 16)
    };
    survivors.into_iter().filter(|&buffer| !returned(buffer) && Some(buffer) != output).collect()
}

/// Where the backward pass of a block begins: its first request there; none if it makes none.
pub fn backward_begin(recording: &Recording, pass: &Pass, owners: &[Option<usize>], block: usize) -> Option<usize> {
    let of_block = |event: &Event| match *event {
        Event::Alloc(buffer) => owners[recording.buffers[buffer as usize].module as usize] == Some(block),
        _ => false,
    };
    let found = recording.events[pass.backward.clone()].iter().position(of_block);
    found.map(|at| pass.backward.start + at)
}
