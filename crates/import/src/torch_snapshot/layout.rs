//! The parts of a snapshot: segments, history and settings.
//!
//! In: the values of a pickle. Out: the core's [`Snapshot`]. What is left out in older or newer versions of PyTorch gets a
//! default; what is there and cannot be is an error that says where. Unknown actions are passed over. Devices without memory
//! or events are left out.

use std::collections::{BTreeMap, HashMap};

use brimful_core::allocator::torch_caching::{MAX_REQUEST_BYTES, Options};
use brimful_core::snapshot::{
    Action, Block, BlockState, Device, Event, Lane, LaneId, RecordedSettings, Segment, SiteId, Snapshot,
};

use super::frames::Sites;
use super::values::{ContainerId, Kind, Value, Values};
use crate::error::{ImportError, Result};

/// More devices than a machine has.
const MAX_DEVICES: usize = 1024;
/// Addresses on a GPU have fewer bits than this.
const MAX_ADDRESS: u64 = 1 << 57;

/// The snapshot that this dictionary is; a list is taken as its segments alone, as `torch.cuda.memory_snapshot()` gives.
pub(super) fn snapshot(values: &Values, top: ContainerId) -> Result<Snapshot> {
    let mut reader = Reader {
        values,
        sites: Sites::new(values),
        lanes: Vec::new(),
        lane_ids: HashMap::new(),
        devices: BTreeMap::new(),
        left: values.container_count(),
    };
    let mut settings = RecordedSettings::default();
    if values.kind(top) == Kind::Dict {
        let segments = reader.field(top, b"segments").filter(|value| matches!(value, Value::Container(_)));
        let segments = segments.ok_or_else(|| not_a_snapshot("a pickle of a dictionary without segments"))?;
        if let Some(Value::Container(id)) = reader.field(top, b"allocator_settings") {
            settings = reader.settings(id);
        }
        reader.segments(segments)?;
        if let Some(traces) = reader.field(top, b"device_traces") {
            reader.traces(traces)?;
        }
    } else {
        let first = values.items(top).next();
        let is_segment = |id| reader.field(id, b"total_size").is_some();
        if !first.is_some_and(|first| matches!(first, Value::Container(id) if is_segment(id))) {
            return Err(not_a_snapshot("a pickle of a list that is not of segments"));
        }
        reader.segments(Value::Container(top))?;
    }
    let devices =
        reader.devices.into_values().filter(|device| !device.events.is_empty() || !device.segments.is_empty());
    Ok(Snapshot { devices: devices.collect(), sites: reader.sites.finish(), lanes: reader.lanes, settings })
}

fn not_a_snapshot(found: &str) -> ImportError {
    ImportError::NotASnapshot { found: found.to_owned() }
}

struct Reader<'a> {
    values: &'a Values<'a>,
    sites: Sites<'a>,
    lanes: Vec<Lane>,
    lane_ids: HashMap<Lane, LaneId>,
    devices: BTreeMap<u32, Device>,
    /// Entries that may still come. Each has a dictionary of its own in the file: a file that uses one many times would
    /// unfold to more than it holds.
    left: usize,
}

/// A part of the file, for errors: its name and its number.
#[derive(Clone, Copy)]
struct Place(&'static str, usize);

impl Place {
    fn wrong(self, reason: &str) -> ImportError {
        ImportError::SnapshotLayout { place: format!("{}[{}]", self.0, self.1), reason: reason.to_owned() }
    }
}

impl Reader<'_> {
    fn field(&self, dict: ContainerId, name: &[u8]) -> Option<Value> {
        if self.values.kind(dict) != Kind::Dict {
            return None;
        }
        let named = |key: Value| matches!(key, Value::Text(text) if self.values.text_bytes(text) == name);
        self.values.pairs(dict).filter(|(key, _)| named(*key)).map(|(_, value)| value).last()
    }

    /// Counts one more entry.
    fn entry(&mut self, place: Place, value: Value) -> Result<ContainerId> {
        self.left = self.left.checked_sub(1).ok_or_else(|| place.wrong("the same entries are used again and again"))?;
        match value {
            Value::Container(id) if self.values.kind(id) == Kind::Dict => Ok(id),
            _ => Err(place.wrong("it is no dictionary")),
        }
    }

    fn items(&self, place: Place, value: Value) -> Result<ContainerId> {
        match value {
            Value::Container(id) if self.values.kind(id) != Kind::Dict => Ok(id),
            _ => Err(place.wrong("it is no list")),
        }
    }

    fn lane(&mut self, lane: Lane) -> LaneId {
        if let Some(id) = self.lane_ids.get(&lane) {
            return *id;
        }
        // More streams and pools than a process can have are counted as one.
        let id = LaneId(self.lanes.len().min(usize::from(u16::MAX)) as u16);
        if usize::from(id.0) == self.lanes.len() {
            self.lanes.push(lane);
        }
        self.lane_ids.insert(lane, id);
        id
    }

    fn device(&mut self, index: u32) -> &mut Device {
        self.devices.entry(index).or_insert_with(|| Device { index, ..Device::default() })
    }

    fn segments(&mut self, segments: Value) -> Result<()> {
        let values = self.values;
        let list = self.items(Place("segments", 0), segments)?;
        for (index, value) in values.items(list).enumerate() {
            let place = Place("segments", index);
            let dict = self.entry(place, value)?;
            let (device, segment) = self.segment(place, dict)?;
            self.device(device).segments.push(segment);
        }
        for device in self.devices.values_mut() {
            device.segments.sort_by_key(|segment| segment.address);
        }
        Ok(())
    }

    fn segment(&mut self, place: Place, dict: ContainerId) -> Result<(u32, Segment)> {
        let values = self.values;
        let (mut device, mut address, mut bytes, mut small, mut expandable) = (0, None, None, false, false);
        let mut lane = Lane::default();
        let mut blocks = None;
        for (key, value) in values.pairs(dict) {
            let Value::Text(key) = key else { continue };
            match values.text_bytes(key) {
                b"device" => device = number(place, value, MAX_DEVICES as u64)? as u32,
                b"address" => address = Some(number(place, value, MAX_ADDRESS)?),
                b"total_size" => bytes = Some(number(place, value, MAX_REQUEST_BYTES)?),
                b"stream" => lane.stream = handle(value),
                b"segment_type" => small = matches!(value, Value::Text(text) if values.text_bytes(text) == b"small"),
                b"segment_pool_id" => lane.pool = self.pool(value),
                b"is_expandable" => expandable = value == Value::Bool(true),
                b"blocks" => blocks = Some(value),
                _ => {}
            }
        }
        let (Some(address), Some(bytes)) = (address, bytes) else {
            return Err(place.wrong("it has no address or no total_size"));
        };
        let lane = self.lane(lane);
        let mut segment = Segment { address, bytes, lane, small, expandable, blocks: Vec::new() };
        if let Some(blocks) = blocks {
            self.blocks(place, blocks, &mut segment)?;
        }
        Ok((device, segment))
    }

    fn blocks(&mut self, place: Place, blocks: Value, segment: &mut Segment) -> Result<()> {
        let values = self.values;
        // Where a block has no address of its own, it follows the block before it: so PyTorch lists them.
        let mut next_address = segment.address;
        let list = self.items(place, blocks)?;
        for value in values.items(list) {
            let dict = self.entry(place, value)?;
            let (mut bytes, mut requested_bytes, mut state, mut site) = (0, None, BlockState::Free, SiteId::default());
            for (key, value) in values.pairs(dict) {
                let Value::Text(key) = key else { continue };
                match values.text_bytes(key) {
                    b"address" => next_address = number(place, value, MAX_ADDRESS)?,
                    b"size" => bytes = number(place, value, MAX_REQUEST_BYTES)?,
                    b"requested_size" => requested_bytes = Some(number(place, value, MAX_REQUEST_BYTES)?),
                    b"state" => state = self.state(value),
                    b"frames" => site = self.sites.of_frames(value),
                    _ => {}
                }
            }
            let requested_bytes = requested_bytes.unwrap_or(bytes);
            segment.blocks.push(Block { address: next_address, bytes, requested_bytes, state, site });
            next_address = next_address.saturating_add(bytes);
        }
        Ok(())
    }

    fn state(&self, value: Value) -> BlockState {
        let Value::Text(text) = value else { return BlockState::Free };
        match self.values.text_bytes(text) {
            b"active_allocated" => BlockState::Allocated,
            b"active_pending_free" | b"active_awaiting_free" => BlockState::PendingFree,
            _ => BlockState::Free,
        }
    }

    fn pool(&self, value: Value) -> (u64, u64) {
        let Value::Container(id) = value else { return (0, 0) };
        let mut parts = self.values.items(id).map(handle);
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }

    fn traces(&mut self, traces: Value) -> Result<()> {
        let values = self.values;
        let list = self.items(Place("device_traces", 0), traces)?;
        for (index, value) in values.items(list).enumerate() {
            let place = Place("device_traces", index);
            if index >= MAX_DEVICES {
                return Err(place.wrong("no machine has so many devices"));
            }
            let trace = self.items(place, value)?;
            let mut events = Vec::new();
            for value in values.items(trace) {
                let dict = self.entry(place, value)?;
                events.extend(self.event(Place("a device trace's events", events.len()), dict)?);
            }
            self.device(index as u32).events = events;
        }
        Ok(())
    }

    fn event(&mut self, place: Place, dict: ContainerId) -> Result<Option<Event>> {
        let values = self.values;
        let (mut action, mut address, mut bytes, mut time_us) = (None, 0, 0, 0);
        let (mut lane, mut frames, mut forward) = (Lane::default(), None, None);
        for (key, value) in values.pairs(dict) {
            let Value::Text(key) = key else { continue };
            match values.text_bytes(key) {
                b"action" => action = self.action(value),
                b"addr" | b"device_free" => address = number(place, value, MAX_ADDRESS)?,
                b"size" => bytes = number(place, value, MAX_REQUEST_BYTES)?,
                b"stream" => lane.stream = handle(value),
                b"pool_id" => lane.pool = self.pool(value),
                b"time_us" => time_us = handle(value),
                b"frames" => frames = Some(value),
                b"forward_frames" => forward = Some(value),
                _ => {}
            }
        }
        let Some(action) = action else { return Ok(None) };
        let site = frames.map_or(SiteId::default(), |frames| self.sites.of_frames(frames));
        let site = forward.map_or(site, |forward| self.sites.with_forward(site, forward));
        let lane = self.lane(lane);
        Ok(Some(Event { action, lane, site, address, bytes, time_us }))
    }

    fn action(&self, value: Value) -> Option<Action> {
        let Value::Text(text) = value else { return None };
        Some(match self.values.text_bytes(text) {
            b"alloc" => Action::Alloc,
            b"free_requested" => Action::FreeRequested,
            b"free_completed" => Action::FreeCompleted,
            b"segment_alloc" => Action::SegmentAlloc,
            b"segment_free" => Action::SegmentFree,
            b"segment_map" => Action::SegmentMap,
            b"segment_unmap" => Action::SegmentUnmap,
            b"oom" => Action::OutOfMemory,
            b"snapshot" => Action::Snapshot,
            _ => return None,
        })
    }

    /// The settings: the text that the user gave, and what the allocator made of it.
    fn settings(&self, dict: ContainerId) -> RecordedSettings {
        let conf = match self.field(dict, b"PYTORCH_CUDA_ALLOC_CONF").or(self.field(dict, b"PYTORCH_ALLOC_CONF")) {
            Some(Value::Text(text)) => self.values.text(text).into_owned(),
            _ => String::new(),
        };
        let (mut options, not_understood) = match conf.parse::<Options>() {
            Ok(options) => (options, None),
            Err(error) => (Options::default(), Some(error.to_string())),
        };
        if let Some(Value::Int(limit_bytes)) = self.field(dict, b"max_split_size") {
            // No limit is written as -1.
            let limit_bytes = u64::try_from(limit_bytes).ok().filter(|bytes| *bytes <= MAX_REQUEST_BYTES);
            options.max_split_size_bytes = limit_bytes.unwrap_or(u64::MAX);
        }
        if let Some(Value::Bool(expandable)) = self.field(dict, b"expandable_segments") {
            options.expandable_segments = expandable;
        }
        if let Some(Value::Float(threshold)) = self.field(dict, b"garbage_collection_threshold") {
            options.garbage_collection_threshold = if (0.0..1.0).contains(&threshold) { threshold } else { 0.0 };
        }
        if let Some(Value::Container(divisions)) = self.field(dict, b"roundup_power2_divisions") {
            let counts = self.values.pairs(divisions).map(|(_, count)| handle(count));
            for (place, count) in options.roundup_power2_divisions.iter_mut().zip(counts) {
                *place = if count.is_power_of_two() { count.min(1 << 10) } else { 0 };
            }
        }
        let conf = if conf.is_empty() { set_in_code(&options) } else { conf };
        RecordedSettings { conf, options, not_understood }
    }
}

/// Settings that were made with `torch.cuda.memory._set_allocator_settings`, as the text that makes them.
fn set_in_code(options: &Options) -> String {
    let mut parts = Vec::new();
    if options.expandable_segments {
        parts.push("expandable_segments:True".to_owned());
    }
    if options.max_split_size_bytes != u64::MAX {
        parts.push(format!("max_split_size_mb:{}", options.max_split_size_bytes >> 20));
    }
    if options.garbage_collection_threshold > 0.0 {
        parts.push(format!("garbage_collection_threshold:{}", options.garbage_collection_threshold));
    }
    let divisions = options.roundup_power2_divisions;
    if divisions.iter().any(|count| *count > 1) {
        let interval = |(index, count): (usize, &u64)| format!("{}:{count}", 1u64 << index);
        let intervals: Vec<String> = divisions.iter().enumerate().map(interval).collect();
        parts.push(format!("roundup_power2_divisions:[{}]", intervals.join(",")));
    }
    parts.join(",")
}

/// A whole number from 0 to `most`.
fn number(place: Place, value: Value, most: u64) -> Result<u64> {
    match value {
        Value::Int(number) => u64::try_from(number).ok().filter(|number| *number <= most),
        _ => None,
    }
    .ok_or_else(|| place.wrong("a size or an address is not a number that it can be"))
}

/// A number that only tells things apart; anything else is 0.
fn handle(value: Value) -> u64 {
    match value {
        Value::Int(number) => number as u64,
        _ => 0,
    }
}
