//! `brimful watch PID`: a job that runs already, followed until it ends or the user has seen enough.
//!
//! In: a process. Out: a line now and then on standard error, a recording, and at the end what was seen, on standard output. The job is not touched: how
//! it ended is its parent's to know.

mod keys;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::bail;
use brimful_monitor::agent::Listener;
use brimful_monitor::recording::Start;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::{Format, WatchArgs};
use crate::exit::Exit;
use crate::output::{self, Output};
use crate::serve::Server;
use crate::summary::date::duration;
use crate::summary::facts::facts;
use crate::terminal::shown::Shown;
use crate::watching::{INTERVAL, LINE_CHARS, LINE_MS, Place, Watching, Ways, start};
use keys::Keys;

/// What stands where a job that is run shows its output.
const ELSEWHERE: &str = "The job prints elsewhere. q or Ctrl-C ends the watching and leaves the job alone.";

/// Watches until the end.
pub fn run(args: &WatchArgs, output: &Output) -> anyhow::Result<Exit> {
    let is_quiet = args.watching.is_quiet();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let Some(command) = command_of(args.pid) else { bail!("there is no process {}, or it may not be seen", args.pid) };
    let listener = args.socket.as_deref().map(Listener::at).transpose()?;
    let start = Start { environment: Default::default(), ..start(command, None) };
    let server = args.watching.metrics.as_deref().map(Server::bind).transpose()?;
    let place = Place::open(args.watching.output.as_deref())?;
    let ways = Ways { listener, place, server, own_group: None };
    if !is_quiet {
        ways.say_where();
    }
    let mut watching = Watching::begin(args.pid, ways, start);
    let screen = Shown::new(!is_quiet && !args.watching.plain && keys::can_be_read(), output.colour());
    let drawing = screen.is_screen().then(|| screen.draw(ELSEWHERE));
    let keys = drawing.as_ref().map(|_| Keys::until(&stop, &screen));
    let mut next_line_ms = LINE_MS;
    while !watching.has_ended() && !stop.load(Ordering::Relaxed) {
        thread::sleep(INTERVAL);
        let news = watching.tick();
        screen.set_state(&watching.state);
        if is_quiet || screen.is_screen() {
            continue;
        }
        news.iter().for_each(|finding| output::say(&finding.text));
        if watching.at_ms() >= next_line_ms {
            next_line_ms = watching.at_ms() + LINE_MS;
            output::tell(&(watching.state.line(LINE_CHARS) + "\n"));
        }
    }
    stop.store(true, Ordering::Relaxed);
    drop((keys, drawing));
    let ended = if watching.has_ended() { "it has ended" } else { "it still runs" };
    let watched = duration(watching.at_ms());
    let ending = watching.ending(None, None);
    if args.watching.format == Format::Json {
        let (_, summary) = watching.finish(&ending, None);
        output.write(&(serde_json::to_string_pretty(&summary)? + "\n"))?;
        return Ok(Exit::Done);
    }
    let mut lines = vec![format!("watched process {} for {watched}; {ended}", args.pid)];
    let summary = watching.summary();
    lines.extend(summary.findings.iter().map(|finding| finding.text.clone()));
    lines.extend(facts(&summary));
    lines.extend(watching.finish(&ending, None).0.map(|path| format!("recorded in {}", path.display())));
    output.write(&lines.iter().map(|line| format!("brimful: {line}\n")).collect::<String>())?;
    Ok(Exit::Done)
}

/// The command line of a process, as the kernel has it; empty for those that have none.
fn command_of(pid: u32) -> Option<Vec<String>> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(words.split(|&byte| byte == 0).filter(|word| !word.is_empty()).map(lossy).collect())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
