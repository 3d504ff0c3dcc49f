//! How fast the BFC simulator is: `cargo bench -p brimful-core --bench bfc_replay`.
//!
//! In: the real logs of `fixtures/traces/tensorflow_bfc`, and pools built to be as bad as they can be. Out: millions of
//! events (requests and frees) each second. Reading the logs is not counted.

#![allow(clippy::print_stdout)]

use brimful_core::allocator::bfc::{Bfc, BfcOptions, Growth};
use brimful_core::allocator::{Allocator, Handle};
use brimful_core::bytes::GIB;
use std::collections::HashMap;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A buffer's number within the log, so that the replay itself needs no map.
#[derive(Clone, Copy)]
enum Event {
    Alloc { buffer: u32, bytes: u64 },
    Free { buffer: u32 },
}

fn read(text: &str) -> (u64, usize, Vec<Event>) {
    let (mut limit_bytes, mut buffers, mut live, mut events) = (0, 0, HashMap::new(), Vec::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "#" if words[1] == "limit_bytes" => limit_bytes = words[2].parse().expect("a number"),
            "alloc" => {
                live.insert(words[1], buffers);
                events.push(Event::Alloc { buffer: buffers, bytes: words[2].parse().expect("a number") });
                buffers += 1;
            }
            "free" => events.push(Event::Free { buffer: live.remove(words[1]).expect("live") }),
            _ => {}
        }
    }
    (limit_bytes, buffers as usize, events)
}

/// Runs until a second has passed and prints the rate. `run` returns how many events it made.
fn measure(name: &str, mut run: impl FnMut() -> usize) {
    run();
    let begin = Instant::now();
    let mut events = 0;
    while begin.elapsed() < Duration::from_secs(1) {
        events += run();
    }
    println!("{name:<40} {:>7.1} million events/s", events as f64 / begin.elapsed().as_secs_f64() / 1e6);
}

fn main() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/traces/tensorflow_bfc");
    let mut paths: Vec<PathBuf> = folder.read_dir().expect("fixtures").map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
    paths.sort();
    for path in paths {
        let mut text = String::new();
        flate2::read::GzDecoder::new(File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
        let (limit_bytes, buffers, events) = read(&text);
        let mut handles = vec![Handle(0); buffers];
        measure(path.file_stem().unwrap().to_str().unwrap(), || {
            let mut bfc = Bfc::new(BfcOptions::tensorflow_cpu(limit_bytes));
            for event in &events {
                match *event {
                    Event::Alloc { buffer, bytes } => handles[buffer as usize] = bfc.alloc(bytes).expect("fits"),
                    Event::Free { buffer } => bfc.free(handles[buffer as usize]),
                }
            }
            black_box(bfc.usage());
            events.len()
        });
    }

    // Every second chunk free, all of one size: the longest possible list of equals.
    worst("200 000 free chunks of one size", |_| 256);
    // Free chunks of all sizes.
    worst("200 000 free chunks of many sizes", |at| 256 + at * 7919 % 100_003);
}

fn worst(name: &str, bytes: impl Fn(u64) -> u64) {
    const BUFFERS: u64 = 400_000;
    let options = BfcOptions { growth: Growth::Fixed, ..BfcOptions::tensorflow_cpu(256 * GIB) };
    measure(name, || {
        let mut bfc = Bfc::new(options);
        let handles: Vec<Handle> = (0..BUFFERS).map(|at| bfc.alloc(bytes(at)).expect("fits")).collect();
        for handle in handles.iter().step_by(2) {
            bfc.free(*handle);
        }
        // Taken again in another order, then freed: each time the list is long.
        let again: Vec<Handle> =
            (0..BUFFERS / 2).map(|at| bfc.alloc(bytes(at * 2_654_435_761 % BUFFERS)).expect("fits")).collect();
        for handle in again.iter().rev() {
            bfc.free(*handle);
        }
        for handle in handles.iter().skip(1).step_by(2) {
            bfc.free(*handle);
        }
        assert_eq!(bfc.usage().allocated_bytes, 0);
        2 * BUFFERS as usize + BUFFERS as usize
    });
}
