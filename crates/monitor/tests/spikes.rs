//! Spikes of a fifth of a second, in real processes, at ten samples a second.
//!
//! In: processes of this test that touch 300 MB and let go of it. Checked: the peak is within 5 % of what it really was, for a job of one process, for one of
//! its children, and for several, one after the other. The peaks are printed (`--nocapture`).

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout)]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use brimful_monitor::sampler::Sampler;

const SPIKE_BYTES: u64 = 300_000_000;
const HOLD: Duration = Duration::from_millis(200);

/// Not a test: a process that waits to be told what to do: `s` is a spike of its own, `c` one of a child that ends after it, anything else the end.
#[test]
fn obeys() {
    if std::env::var_os("BRIMFUL_TEST_SPIKES").is_none() {
        return;
    }
    let mut input = std::io::stdin();
    let mut command = [0; 1];
    while input.read(&mut command).is_ok_and(|count| count == 1) {
        match command[0] {
            b's' => {
                let pages = vec![1_u8; SPIKE_BYTES as usize];
                std::thread::sleep(HOLD);
                assert_eq!(std::hint::black_box(&pages)[12_345], 1);
                drop(pages);
            }
            b'c' => {
                let mut child = process();
                child.stdin.take().unwrap().write_all(b"s.").unwrap();
                child.wait().unwrap();
            }
            _ => return,
        }
        std::io::stderr().write_all(b"!").unwrap();
    }
}

fn process() -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "obeys", "--nocapture", "--test-threads=1"])
        .env("BRIMFUL_TEST_SPIKES", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Tells a process what to do, and samples ten times a second until it is done, and a second more. Gives the resident bytes before, and the peak.
fn peak_after(commands: &str) -> (u64, u64) {
    let mut child = process();
    let (mut input, mut done) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
    let mut sampler = Sampler::new(Path::new("/"), child.id()).unwrap();
    let begin = Instant::now();
    let at_ms = || u64::try_from(begin.elapsed().as_millis()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let before = sampler.sample(at_ms()).rss_bytes.unwrap();
    for command in commands.bytes() {
        input.write_all(&[command]).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| done.read_exact(&mut [0]).unwrap());
            while !waiting.is_finished() {
                sampler.sample(at_ms());
                std::thread::sleep(Duration::from_millis(100));
            }
        });
    }
    let mut peak = 0;
    for _ in 0..12 {
        std::thread::sleep(Duration::from_millis(100));
        peak = sampler.sample(at_ms()).peak_rss_bytes.unwrap();
    }
    drop(input);
    child.wait().unwrap();
    println!("{commands:4} {:6.1} MB of {:.1}", peak.saturating_sub(before) as f64 / 1e6, SPIKE_BYTES as f64 / 1e6);
    (before, peak)
}

fn is_right(before: u64, peak: u64) -> bool {
    peak.saturating_sub(before).abs_diff(SPIKE_BYTES) <= SPIKE_BYTES / 20
}

#[test]
fn a_spike_of_the_job_is_caught() {
    let (before, peak) = peak_after("s");
    assert!(is_right(before, peak), "{before} {peak}");
}

#[test]
fn spikes_one_after_the_other_are_one_spike_high() {
    let (before, peak) = peak_after("sss");
    assert!(is_right(before, peak), "{before} {peak}");
}

#[test]
fn a_spike_of_a_child_that_ends_is_caught() {
    // On a machine so busy that no sample falls into the child's life nothing can be seen of it: then it has other chances.
    let mut tries = Vec::new();
    while tries.len() < 5 {
        let (before, peak) = peak_after("c");
        tries.push((before, peak));
        if is_right(before, peak) {
            return;
        }
    }
    panic!("{tries:?}");
}
