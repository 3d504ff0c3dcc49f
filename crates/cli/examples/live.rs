//! Shows a recording, or a job that never ran, on the live screen: to look at it while working on it.
//!
//! ```text
//! cargo run --example live -- calm|leak|gpus|none|RECORDING [SPEED] [SECONDS]
//! ```
//!
//! A speed of 0 shows the end at once; the seconds say where the end is. `q` leaves, F9 goes to plain lines, F9 and Enter back, `p` panics.

#[path = "../tests/support/runs.rs"]
mod runs;

use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use brimful_cli::live::{Keys, Screen, State, panel_size};
use brimful_monitor::recording::{Frame, Reader};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("leak", String::as_str);
    let speed: f64 = arguments.get(1).map_or(Ok(20.0), |speed| speed.parse())?;
    let most_ms =
        arguments.get(2).map_or(Ok(u64::MAX), |seconds| seconds.parse::<u64>().map(|seconds| seconds * 1000))?;
    let frames = if runs::NAMES.contains(&name) { runs::frames(name) } else { recorded(name)? };
    let mut frames = frames.into_iter().filter(|frame| at_ms(frame).is_none_or(|at_ms| at_ms <= most_ms)).peekable();

    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut state = State::new(Some(4.0));
    let mut screen = Some(Screen::open(colour)?);
    let mut job = vt100::Parser::default();
    let (typed, began) = (typed(), Instant::now());
    let mut keys = Keys::default();
    job.process(&runs::output(name));
    loop {
        let now_ms = if speed > 0.0 { began.elapsed().as_secs_f64() * 1000.0 * speed } else { f64::MAX };
        while let Some(frame) = frames.next_if(|frame| at_ms(frame).is_none_or(|at_ms| at_ms as f64 <= now_ms)) {
            state.take(&frame);
        }
        if let Some(screen) = &mut screen {
            let (rows, columns) = panel_size(screen.size());
            job.set_size(rows, columns);
            screen.draw(&state, job.screen(), false)?;
        } else {
            writeln!(std::io::stdout(), "{}", state.line(100))?;
        }
        let (to_job, commands) = keys.split(&typed.recv_timeout(Duration::from_millis(50)).unwrap_or_default());
        for _ in commands {
            screen = if screen.take().is_some() { None } else { Some(Screen::open(colour)?) };
        }
        assert!(!to_job.contains(&b'p'), "as you wish");
        if to_job.contains(&b'q') {
            return Ok(());
        }
    }
}

fn typed() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok(length @ 1..) = std::io::stdin().read(&mut bytes) {
            if sender.send(bytes[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn recorded(path: &str) -> anyhow::Result<Vec<Frame>> {
    Ok(Reader::new(&std::fs::read(path)?)?.collect())
}

fn at_ms(frame: &Frame) -> Option<u64> {
    match frame {
        Frame::Sample(sample) => Some(sample.at_ms),
        Frame::Step(mark) => Some(mark.at_ms),
        Frame::Gpu(gpu) => Some(gpu.at_ms),
        Frame::Framework(memory) => Some(memory.at_ms),
        Frame::Finding(finding) => Some(finding.at_ms),
        Frame::End(end) => Some(end.at_ms),
        _ => None,
    }
}
