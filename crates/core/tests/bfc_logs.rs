//! The BFC simulator against TensorFlow itself: logs of real training runs, replayed to the byte.
//!
//! `fixtures/traces/tensorflow_bfc/ORIGIN.md` says where the logs come from, `tools/capture_bfc_log.py` how they read. Only
//! the addresses of regions are fed in: they are the operating system's choice. Everything else has to come out.

use brimful_core::allocator::bfc::{Bfc, BfcOptions, ChunkView, Growth, RecordedRegions, RegionEvent, RegionSource};
use brimful_core::allocator::floor::Floor;
use brimful_core::allocator::{Allocator, Handle};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Extend { address: u64, bytes: u64 },
    Alloc { address: u64, requested_bytes: u64, chunk_bytes: Option<u64> },
    Peak { bytes: u64 },
    Free { address: u64 },
    Fail { requested_bytes: u64 },
    Chunk(ChunkView),
}

struct Log {
    name: String,
    header: BTreeMap<String, String>,
    /// Events with their line in the log.
    events: Vec<(usize, Event)>,
}

impl Log {
    fn number(&self, key: &str) -> u64 {
        self.header[key].parse().unwrap_or_else(|_| panic!("{}: {key} is a number", self.name))
    }

    fn regions(&self) -> Vec<(u64, u64)> {
        let region = |(_, event): &(usize, Event)| match *event {
            Event::Extend { address, bytes } => Some((address, bytes)),
            _ => None,
        };
        self.events.iter().filter_map(region).collect()
    }

    fn fails(&self) -> bool {
        self.events.iter().any(|(_, event)| matches!(event, Event::Fail { .. }))
    }
}

fn read(name: &str, text: &str) -> Log {
    let mut log = Log { name: name.to_owned(), header: BTreeMap::new(), events: Vec::new() };
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split(' ').collect();
        let decimal = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("{name}:{number}: {line}"));
        let address =
            |at: usize| u64::from_str_radix(words[at], 16).unwrap_or_else(|_| panic!("{name}:{number}: {line}"));
        let event = match words[0] {
            "#" => {
                log.header.insert(words[1].to_owned(), words[2..].join(" "));
                continue;
            }
            "extend" => Event::Extend { address: address(1), bytes: decimal(2) },
            "alloc" => Event::Alloc {
                address: address(1),
                requested_bytes: decimal(2),
                chunk_bytes: (words.len() > 3).then(|| decimal(3)),
            },
            "peak" => Event::Peak { bytes: decimal(1) },
            "free" => Event::Free { address: address(1) },
            "fail" => Event::Fail { requested_bytes: decimal(1) },
            "chunk" => Event::Chunk(ChunkView { address: address(1), bytes: decimal(2), in_use: words[3] == "used" }),
            "region" | "mark" => continue,
            _ => panic!("{name}:{number}: {line}"),
        };
        log.events.push((number, event));
    }
    assert_eq!(log.header["format"], "1", "{name}");
    log
}

fn logs() -> Vec<Log> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/traces/tensorflow_bfc");
    let mut paths: Vec<PathBuf> = folder.read_dir().expect("fixtures").map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
    paths.sort();
    assert!(paths.len() >= 10, "only {} logs", paths.len());
    let open = |path: &PathBuf| {
        let mut text = String::new();
        flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        read(path.file_stem().unwrap().to_str().unwrap(), &text)
    };
    paths.iter().map(open).collect()
}

/// Replays a log and asserts that every event comes out as recorded.
fn replay_exactly(log: &Log, options: BfcOptions) {
    let addresses = log.regions().into_iter().map(|(address, _)| address);
    let mut bfc = Bfc::with_source(options, RecordedRegions::new(addresses, false));
    bfc.keep_log();
    let mut live: HashMap<u64, Handle> = HashMap::new();
    let mut extended: Vec<RegionEvent> = Vec::new();
    let mut dump: Vec<ChunkView> = Vec::new();
    // The peak that the log has told so far, and whether the last `alloc` raised it in the simulator.
    let mut told_peak_bytes = 0;
    for &(line, event) in &log.events {
        let at = || format!("{}:{line}: {event:?}", log.name);
        if !dump.is_empty() && !matches!(event, Event::Chunk(_)) {
            assert_chunks(&bfc, &mut dump, &at());
        }
        if !matches!(event, Event::Peak { .. }) {
            assert_eq!(
                bfc.peak_in_use_bytes(),
                told_peak_bytes,
                "a new peak that the log does not have, before {}",
                at()
            );
        }
        match event {
            Event::Extend { address, bytes } => extended.push(RegionEvent::Extended { address, bytes }),
            Event::Alloc { address, requested_bytes, chunk_bytes } => {
                let handle = bfc.alloc(requested_bytes).unwrap_or_else(|error| panic!("{}: {error:?}", at()));
                assert_eq!(bfc.take_log(), std::mem::take(&mut extended), "{}", at());
                let chunk = bfc.chunk(handle).expect("not empty");
                assert_eq!(chunk.address, address, "{}", at());
                assert_eq!(chunk.bytes, chunk_bytes.unwrap_or(chunk.bytes), "{}", at());
                assert!(live.insert(address, handle).is_none(), "{}", at());
            }
            Event::Peak { bytes } => {
                told_peak_bytes = bytes;
                assert_eq!((bfc.peak_in_use_bytes(), bfc.usage().allocated_bytes), (bytes, bytes), "{}", at());
            }
            Event::Free { address } => bfc.free(live.remove(&address).unwrap_or_else(|| panic!("{}", at()))),
            Event::Fail { requested_bytes } => {
                assert_eq!(bfc.alloc(requested_bytes).unwrap_err().requested_bytes, requested_bytes, "{}", at());
                assert_eq!(bfc.take_log(), [], "{}", at());
            }
            Event::Chunk(chunk) => dump.push(chunk),
        }
    }
    assert!(extended.is_empty(), "{}: an extension without a request", log.name);
    // What `get_memory_info` said.
    assert_eq!(bfc.peak_in_use_bytes(), log.number("peak_bytes"), "{}: peak", log.name);
    assert_eq!(bfc.usage().allocated_bytes, log.number("current_bytes"), "{}: at the end", log.name);
    assert_eq!(bfc.usage().reserved_bytes, log.regions().iter().map(|(_, bytes)| bytes).sum::<u64>(), "{}", log.name);
}

/// TensorFlow's dump of its pool, which lists regions by address, is the simulator's state.
fn assert_chunks<S: RegionSource>(bfc: &Bfc<S>, dump: &mut Vec<ChunkView>, at: &str) {
    let mut chunks: Vec<ChunkView> = bfc.chunks().collect();
    chunks.sort_by_key(|chunk| chunk.address);
    assert_eq!(chunks, std::mem::take(dump), "the dump before {at}");
}

#[test]
fn bfc_replays_every_log_to_the_byte() {
    for log in logs() {
        replay_exactly(&log, BfcOptions::tensorflow_cpu(log.number("limit_bytes")));
    }
}

#[test]
fn bfc_logs_cover_success_and_failure() {
    let logs = logs();
    assert!(logs.iter().filter(|log| log.fails()).count() >= 4);
    assert!(logs.iter().filter(|log| !log.fails()).count() >= 4);
    for log in &logs {
        let said = log.header["outcome"].starts_with("resource_exhausted");
        assert_eq!(said, log.fails(), "{}: {}", log.name, log.header["outcome"]);
        let last_fail = log.events.iter().rposition(|(_, event)| matches!(event, Event::Fail { .. }));
        if let Some(position) = last_fail {
            assert!(matches!(log.events[position + 1].1, Event::Chunk(_)), "{}: a failure comes with a dump", log.name);
        }
    }
}

/// A growing pool whose limit is below its first region takes all of it at once: the fixed pool's behaviour, from a real run.
#[test]
fn bfc_fixed_pool_replays_the_log_with_one_region() {
    let logs = logs();
    let one_region: Vec<&Log> =
        logs.iter().filter(|log| log.regions().iter().map(|region| region.1).eq([log.number("limit_bytes")])).collect();
    assert!(!one_region.is_empty());
    for log in one_region {
        let options = BfcOptions { growth: Growth::Fixed, ..BfcOptions::tensorflow_cpu(log.number("limit_bytes")) };
        replay_exactly(log, options);
    }
}

/// A prediction does not know where regions will lie. It must still find the same regions, peak and failure.
#[test]
fn bfc_predicts_every_log_without_its_addresses() {
    for log in logs() {
        let mut bfc = Bfc::new(BfcOptions::tensorflow_cpu(log.number("limit_bytes")));
        let mut floor = Floor::new();
        bfc.keep_log();
        let mut live: HashMap<u64, (Handle, Handle)> = HashMap::new();
        let mut failures = 0;
        for &(line, event) in &log.events {
            match event {
                Event::Alloc { address, requested_bytes, .. } => {
                    let at = |error| panic!("{}:{line}: {error:?}", log.name);
                    live.insert(
                        address,
                        (bfc.alloc(requested_bytes).unwrap_or_else(at), floor.alloc(requested_bytes).unwrap()),
                    );
                }
                Event::Free { address } => {
                    let (handle, floor_handle) = live.remove(&address).expect("live");
                    bfc.free(handle);
                    floor.free(floor_handle);
                }
                Event::Fail { requested_bytes } => {
                    assert!(bfc.alloc(requested_bytes).is_err(), "{}:{line}: {event:?}", log.name);
                    failures += 1;
                }
                Event::Extend { .. } | Event::Peak { .. } | Event::Chunk(_) => {}
            }
            assert!(floor.usage().allocated_bytes <= bfc.usage().allocated_bytes, "{}:{line}", log.name);
        }
        assert_eq!(failures > 0, log.fails(), "{}", log.name);
        let bytes = |event: RegionEvent| match event {
            RegionEvent::Extended { bytes, .. } | RegionEvent::Released { bytes, .. } => bytes,
        };
        let regions: Vec<u64> = bfc.take_log().into_iter().map(bytes).collect();
        assert_eq!(regions, log.regions().iter().map(|region| region.1).collect::<Vec<u64>>(), "{}", log.name);
        assert_eq!(bfc.peak_in_use_bytes(), log.number("peak_bytes"), "{}", log.name);
    }
}
