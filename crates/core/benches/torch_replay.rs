//! How many allocator events a second the simulation of PyTorch's allocator takes.
//!
//! In: the recorded traces. Out: millions of events (requests and frees) a second for each, the best of several rounds:
//! what the machine does besides only makes a round slower. Peaks are tracked, as a prediction would.

#![allow(clippy::print_stdout)]

#[path = "../tests/support/torch_trace.rs"]
mod torch_trace;

use std::{
    collections::HashMap,
    hint::black_box,
    time::{Duration, Instant},
};

use brimful_core::allocator::{
    Allocator, Handle,
    torch_caching::{Options, TorchCaching},
};
use torch_trace::Recorded;

/// A request or a free; buffers are numbered, as in a trace of this program.
enum Event {
    Alloc { buffer: usize, bytes: u64 },
    Free { buffer: usize },
}

fn events(name: &str) -> (Vec<Event>, usize) {
    let (mut events, mut live, mut buffers) = (Vec::new(), HashMap::new(), 0);
    for recorded in torch_trace::read(name) {
        match recorded {
            Recorded::Alloc { address, bytes } => {
                live.insert(address, buffers);
                events.push(Event::Alloc { buffer: buffers, bytes });
                buffers += 1;
            }
            Recorded::FreeCompleted { address } => events.push(Event::Free { buffer: live[&address] }),
            _ => {}
        }
    }
    (events, buffers)
}

fn run(events: &[Event], handles: &mut [Handle], options: &Options) -> u64 {
    let mut allocator = TorchCaching::new(options.clone());
    let mut peak_bytes = 0;
    for event in events {
        match *event {
            Event::Alloc { buffer, bytes } => handles[buffer] = allocator.alloc(bytes).expect("no limit is set"),
            Event::Free { buffer } => allocator.free(handles[buffer]),
        }
        peak_bytes = peak_bytes.max(allocator.usage().reserved_bytes);
    }
    peak_bytes
}

/// Events a second over one trace, in millions.
fn rate(events: &[Event], buffers: usize, options: &Options) -> f64 {
    let mut handles = vec![Handle(0); buffers];
    let runs = (400_000 / events.len()).max(1);
    let best = (0..15).map(|_| {
        let start = Instant::now();
        for _ in 0..runs {
            black_box(run(black_box(events), &mut handles, options));
        }
        start.elapsed()
    });
    let best = best.min().unwrap_or(Duration::MAX);
    (runs * events.len()) as f64 / best.as_secs_f64() / 1e6
}

/// The worst for the set of free blocks: every other one of many small buffers is freed, then they come back.
fn scattered(count: usize) -> (Vec<Event>, usize) {
    let bytes = |buffer: usize| 512 * (1 + buffer as u64 * 7919 % 97);
    let mut events: Vec<Event> = (0..2 * count).map(|buffer| Event::Alloc { buffer, bytes: bytes(buffer) }).collect();
    events.extend((0..count).map(|index| Event::Free { buffer: 2 * index }));
    events.extend((0..count).map(|index| Event::Alloc { buffer: 2 * index, bytes: bytes(index) }));
    (events, 2 * count)
}

fn main() {
    for name in torch_trace::TRACES {
        let (events, buffers) = events(name);
        let options = Options { expandable_segments: name.ends_with("expandable"), ..Options::default() };
        println!("{name:36} {:6} events {:7.1} M events/s", events.len(), rate(&events, buffers, &options));
    }
    for count in [1_000, 10_000, 100_000] {
        let (events, buffers) = scattered(count);
        let name = format!("{count} free blocks at once");
        println!("{name:36} {:6} events {:7.1} M events/s", events.len(), rate(&events, buffers, &Options::default()));
    }
}
