//! Who holds memory at one moment, by line of source.
//!
//! In: the timeline and a step, or the blocks in use. Out: groups of buffers with the same line of the user's code, most
//! bytes first. Counted is what was asked for; the allocator's rounding is the difference to what is allocated.

use std::collections::HashMap;

use super::timeline::{Change, Timeline};
use super::{Line, Site, SiteId};
use crate::report::snapshot::{HolderKind, HolderReport};

/// A buffer that is in use: who asked, how much, and whether that was before the recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) site: SiteId,
    pub(super) bytes: u64,
    pub(super) from_start: bool,
}

/// The buffers in use after a step; before the first one if there is none.
pub(super) fn held_after(timeline: &Timeline, step: Option<usize>) -> Vec<Held> {
    let mut alive: Vec<bool> = timeline.buffers.iter().map(|buffer| buffer.from_start).collect();
    let count = step.map_or(0, |step| step + 1);
    for step in timeline.steps.iter().take(count) {
        match step.change {
            Change::Alloc(buffer) => alive[buffer.0 as usize] = true,
            Change::Requested(buffer) | Change::Completed(buffer) => alive[buffer.0 as usize] = false,
            Change::Segment | Change::OutOfMemory => {}
        }
    }
    let alive = timeline.buffers.iter().zip(alive).filter(|(_, alive)| *alive).map(|(buffer, _)| buffer);
    let held =
        alive.map(|buffer| Held { site: buffer.site, bytes: buffer.requested_bytes, from_start: buffer.from_start });
    held.collect()
}

/// Groups them by source line.
pub(super) fn group(held: &[Held], sites: &[Site]) -> Vec<HolderReport> {
    let nowhere = Site::default();
    let mut groups: HashMap<Key, Vec<Held>> = HashMap::new();
    for one in held {
        let site = sites.get(one.site.0 as usize).unwrap_or(&nowhere);
        groups.entry(key(site, one.from_start)).or_default().push(*one);
    }
    let mut reports: Vec<HolderReport> = groups
        .into_iter()
        .map(|((kind, line, gradient), held)| HolderReport {
            kind,
            source: line.map(Line::place),
            function: line.map(|line| line.function.clone()).or(gradient.map(str::to_owned)),
            library: heaviest_library(&held, sites, line),
            bytes: held.iter().map(|one| one.bytes).fold(0, u64::saturating_add),
            buffers: held.len() as u64,
        })
        .collect();
    reports.sort_by(|one, other| {
        other.bytes.cmp(&one.bytes).then_with(|| {
            let name = |holder: &HolderReport| (holder.source.clone(), holder.kind, holder.function.clone());
            name(one).cmp(&name(other))
        })
    });
    reports
}

/// What a group has in common: how it is known, its line, and its gradient.
type Key<'a> = (HolderKind, Option<&'a Line>, Option<&'a str>);

fn key(site: &Site, from_start: bool) -> Key<'_> {
    match (&site.user, &site.backward, &site.library) {
        (Some(line), _, _) => (HolderKind::UserLine, Some(line), None),
        (None, Some(gradient), _) => {
            (HolderKind::Backward, None, Some(gradient.as_str()).filter(|gradient| !gradient.is_empty()))
        }
        (None, None, Some(line)) => (HolderKind::LibraryLine, Some(line), None),
        (None, None, None) if from_start => (HolderKind::BeforeRecording, None, None),
        (None, None, None) => (HolderKind::NoStack, None, None),
    }
}

/// The library line under which most of a group was asked for, unless the group is that line.
fn heaviest_library(held: &[Held], sites: &[Site], group: Option<&Line>) -> Option<String> {
    let mut bytes_of: HashMap<&Line, u64> = HashMap::new();
    for one in held {
        if let Some(line) = sites.get(one.site.0 as usize).and_then(|site| site.library.as_ref()) {
            let bytes = bytes_of.entry(line).or_default();
            *bytes = bytes.saturating_add(one.bytes);
        }
    }
    let heaviest =
        bytes_of.into_iter().max_by(|one, other| one.1.cmp(&other.1).then_with(|| other.0.place().cmp(&one.0.place())));
    heaviest.map(|(line, _)| line).filter(|line| Some(*line) != group).map(Line::place_and_function)
}

impl Line {
    /// `train.py:12`.
    pub(super) fn place(&self) -> String {
        if self.line == 0 { self.file.clone() } else { format!("{}:{}", self.file, self.line) }
    }

    /// `torch/nn/functional.py:1700 relu`.
    pub(super) fn place_and_function(&self) -> String {
        format!("{} {}", self.place(), self.function).trim_end().to_owned()
    }
}
