//! `brimful run -- COMMAND`: a job watched from its start to its end.
//!
//! In: a command. Out: its own output and exit code, untouched; on standard error a line now and then; at the end what it used, and why it failed
//! if it did. What it prints is passed on as it comes and read by `explain` on the way. On a terminal the job gets a terminal of its own (`terminal`).

mod agent;
mod limit;
mod orphans;
mod passing;
mod streams;

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use anyhow::Context;
use brimful_core::bytes;
use brimful_core::explain::Code;
use brimful_core::report::Style;

use crate::args::{Format, RunArgs};
use crate::exit::Exit;
use crate::job::{self, Caught, Job};
use crate::live::words::several;
use crate::output::{self, Output};
use crate::serve::Server;
use crate::summary::date::duration;
use crate::summary::facts::facts;
use crate::terminal::Running;
use crate::terminal::shown::Shown;
use crate::watching::{Ending, INTERVAL, LINE_CHARS, LINE_MS, Place, Planned, Watching, Ways, start};
use limit::Limit;
use passing::Passing;
use streams::Streams;

/// Between two looks for processes that the job left behind and that have ended.
const REAP_MS: u64 = 1000;
/// Between two moments that the screen shows.
const STATE_MS: u64 = 400;

/// Runs the job to its end.
pub fn run(args: &RunArgs, output: &Output) -> anyhow::Result<Exit> {
    let is_quiet = args.watching.is_quiet();
    let (program, arguments) = args.command.split_first().context("there is no command behind --")?;
    let planned = args.plan.as_deref().map(Planned::read).transpose()?;
    let limit_bytes = args.limit.as_deref().map(bytes::parse).transpose()?;
    let limit = limit_bytes.map(Limit::prepare).transpose()?;
    let server = args.watching.metrics.as_deref().map(Server::bind).transpose()?;
    let place = Place::open(args.watching.output.as_deref())?;
    let guards = orphans::adopt();
    let mut command = Limit::command(limit.as_ref(), program, arguments);
    let own_group = limit.as_ref().and_then(Limit::group);
    let ways = Ways { listener: agent::put_in(program, &mut command), place, server, own_group };

    let streams = Streams::choose()?;
    let own_terminal = streams.is_terminal();
    let start_it = move || streams.start(command);
    let caught = Caught::new();
    let (streams, child) = match &limit {
        Some(limit) => limit.start(start_it)?,
        None => start_it(),
    };
    let mut job = Job::of(child, caught, program, own_terminal)?;
    let mut passing = Passing::new();
    let shown =
        Shown::new(own_terminal && !is_quiet && !args.watching.plain && io::stdin().is_terminal(), output.colour());
    let had_screen = shown.is_screen();
    let running = streams.pass(&mut job.child, &mut passing, &shown)?;
    let drawing = own_terminal.then(|| shown.draw(""));
    if !is_quiet {
        ways.say_where();
    }
    let mut watching = Watching::begin(job.child.id(), ways, start(words(&args.command), limit_bytes));
    if guards {
        watching.guard();
        job.witness().into_iter().for_each(|witness| watching.leave_out(witness));
    }
    follow(&mut job, &mut watching, running, &shown, is_quiet)?;

    let status = job.wait()?;
    let ending = watching.ending(status.code(), job::signal(status));
    let explanation = passing.end(&[ending.evidence(), ending.findings.clone()].concat());
    // The terminal is the user's again before anything is said.
    drop(drawing);
    // What is no memory failure speaks for itself: its own last words are on the screen.
    let is_memory = explanation.cause.as_ref().is_some_and(|cause| cause.code != Code::NotMemory);
    let explained = (!ending.is_success() && is_memory).then_some(explanation);
    if !is_quiet {
        if had_screen {
            ending.findings.iter().for_each(|finding| output::say(finding));
        }
        tell(&ending, &watching, planned.as_ref());
        if let Some(explanation) = &explained {
            output::tell(&explanation.to_text(Style { colour: output.colour(), width: output.width() }));
        }
    }
    let (recorded, summary) = watching.finish(&ending, explained.map(serde_json::to_value).transpose()?);
    if let (false, Some(path)) = (is_quiet, recorded) {
        output::say(&format!("recorded in {0} (brimful report {0})", path.display()));
    }
    if args.watching.format == Format::Json && !args.watching.quiet {
        // One line, the last one on standard error: the rest of that, and standard output, are the job's.
        output::tell(&(serde_json::to_string(&summary)? + "\n"));
    }
    // A shell that runs several commands stops at one that Ctrl-C has ended, if it sees that.
    if let Some(signal) = job::signal(status).filter(|signal| [2, 3].contains(signal)) {
        drop(limit);
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    Ok(Exit::Job(job::code(status)))
}

/// Watches until the job's first process has ended.
fn follow(
    job: &mut Job,
    watching: &mut Watching,
    mut terminal: Option<Running>,
    shown: &Shown,
    is_quiet: bool,
) -> anyhow::Result<()> {
    let (mut next_line_ms, mut next_reap_ms, mut next_state_ms) = (LINE_MS, REAP_MS, 0);
    while !job.ends_within(INTERVAL)? {
        // It may be another one than before.
        let news = job.with_witness(|witness| {
            witness.into_iter().for_each(|witness| watching.leave_out(witness));
            watching.tick()
        });
        let at_ms = watching.at_ms();
        if at_ms >= next_reap_ms {
            next_reap_ms = at_ms + REAP_MS;
            orphans::reap(&[Some(job.child.id()), job.witness()]);
        }
        if let Some(terminal) = &mut terminal {
            terminal.resize(shown.job_size());
            if at_ms >= next_state_ms {
                next_state_ms = at_ms + STATE_MS;
                shown.set_state(&watching.state);
            }
        }
        if is_quiet || shown.is_screen() {
            continue;
        }
        news.iter().for_each(|finding| output::say(&finding.text));
        // On a terminal, lines would come between those of a progress bar.
        if terminal.is_none() && at_ms >= next_line_ms {
            next_line_ms = at_ms + LINE_MS;
            output::tell(&(watching.state.line(LINE_CHARS) + "\n"));
        }
    }
    Ok(())
}

/// How it ended, and what it used.
fn tell(ending: &Ending, watching: &Watching, planned: Option<&Planned>) {
    output::say(&format!("{} after {}", ending.sentence(), duration(watching.at_ms())));
    let summary = watching.summary();
    let lines = ending.evidence().into_iter().chain(facts(&summary));
    lines.chain(planned.and_then(|planned| planned.line(&summary))).for_each(|line| output::say(&line));
    let left = watching.left();
    if let Some(first) = left.first() {
        let left = several(left.len() as u64, "process of the job still runs", "processes of the job still run");
        output::say(&format!("{left}: brimful watch {first}"));
    }
}

fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}
