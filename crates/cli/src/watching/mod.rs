//! A job that runs, followed: read, recorded, judged, told of.
//!
//! In: a process, and a call ten times a second. Out: frames, each of which goes to the recording, the judge and the summary. What cannot be read is
//! left out; nothing here stops or changes the job.

mod ending;
mod gpus;
mod planned;
mod recorder;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use brimful_monitor::agent::{Listener, Ranks, monotonic_ns};
use brimful_monitor::findings::Judge;
use brimful_monitor::readings::cgroup::Cgroup;
use brimful_monitor::readings::kills::machine_oom_kills;
use brimful_monitor::recording::{End, Finding, Frame, Holders, Start, secrets};
use brimful_monitor::sample::Sample;
use brimful_monitor::sampler::Sampler;
use serde_json::Value;

use crate::live::State;
use crate::output;
use crate::runs::unix_ms;
use crate::serve::Server;
use crate::summary::{MOST_FINDINGS, Summarizer, Summary};

pub use ending::Ending;
use gpus::Gpus;
pub use planned::Planned;
pub use recorder::Place;
use recorder::Recorder;

/// Between two samples.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// Between two lines about the job, where there is no terminal.
pub const LINE_MS: u64 = 10_000;
/// Their length, at most.
pub const LINE_CHARS: usize = 160;
/// Who holds the memory is recorded as often, and whenever the peak has risen by a part.
const HOLDERS_MS: u64 = 10_000;
const RISEN_PART: u64 = 50;

/// The beginning of a recording of this command.
pub fn start(command: Vec<String>, limit_bytes: Option<u64>) -> Start {
    let as_text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    Start {
        command,
        environment: secrets::settings(env::vars_os().filter_map(as_text)),
        versions: [("brimful".to_owned(), env!("CARGO_PKG_VERSION").to_owned())].into(),
        limits_bytes: limit_bytes.map(|bytes| ("limit".to_owned(), bytes)).into_iter().collect(),
        intervals_ms: [("sample".to_owned(), u64::try_from(INTERVAL.as_millis()).unwrap_or(0))].into(),
        ..Start::default()
    }
}

/// By which ways figures come in and go out; all are opened before a job is started, so that what cannot be is said first.
#[derive(Default)]
pub struct Ways {
    /// From the job's own processes.
    pub listener: Option<Listener>,
    /// Into a recording.
    pub place: Option<Place>,
    /// To those who ask over HTTP.
    pub server: Option<Server>,
    /// The cgroup that was made for the job.
    pub own_group: Option<KnownGroup>,
}

/// A cgroup that is known before a job is in it.
#[derive(Clone, Debug)]
pub struct KnownGroup {
    cgroup: Cgroup,
    /// Kills that it had counted by then.
    kills: Option<u64>,
}

impl KnownGroup {
    /// As it is now.
    pub fn now(cgroup: Cgroup) -> KnownGroup {
        let kills = cgroup.usage().oom_kill_count;
        KnownGroup { cgroup, kills }
    }
}

impl Ways {
    /// Where figures can be asked for, in words.
    pub fn say_where(&self) {
        if let Some(server) = &self.server {
            output::say(&format!("figures at http://{}/metrics", server.address()));
        }
    }
}

/// Follows a job.
pub struct Watching {
    began_ns: u64,
    sampler: Option<Sampler>,
    gpus: Gpus,
    listener: Option<Listener>,
    server: Option<Server>,
    ranks: Ranks,
    judge: Judge,
    /// Findings that nobody has seen yet.
    news: Vec<Finding>,
    recorder: Option<Recorder>,
    summarizer: Summarizer,
    /// The last sample that saw the job.
    seen: Option<Sample>,
    /// The group that is read, and what it had counted when the job came into it.
    group: Option<(PathBuf, u64)>,
    is_own_group: bool,
    /// What is known now.
    pub state: State,
    machine_kills: Option<u64>,
    next_holders_ms: u64,
    holders_bytes: u64,
}

impl Watching {
    /// Begins; a process that has ended already is followed without figures.
    pub fn begin(pid: u32, ways: Ways, start: Start) -> Watching {
        let root = Path::new("/");
        let start = Start { pid, started_unix_ms: unix_ms(), ..start };
        let cpus = available_parallelism().ok().map(|cpus| cpus.get() as f64);
        let mut sampler = Sampler::new(root, pid).ok().map(without_us);
        let mut group = None;
        let is_own_group = ways.own_group.is_some();
        if let Some(KnownGroup { cgroup, kills }) = ways.own_group {
            group = kills.map(|kills| (cgroup.watched.folder.clone(), kills));
            if let Some(sampler) = &mut sampler {
                sampler.begin_in(cgroup);
            }
        }
        let mut watching = Watching {
            began_ns: monotonic_ns(),
            sampler,
            gpus: Gpus::open(),
            listener: ways.listener,
            server: ways.server,
            ranks: Ranks::default(),
            judge: Judge::new(None),
            news: Vec::new(),
            recorder: ways.place.and_then(|place| Recorder::begin(place, &start)),
            summarizer: Summarizer::default(),
            seen: None,
            group,
            is_own_group,
            state: State::new(cpus),
            machine_kills: machine_oom_kills(root),
            next_holders_ms: 0,
            holders_bytes: 0,
        };
        let start = Frame::Start(start.masked());
        watching.summarizer.take(&start);
        watching.state.take(&start);
        watching.judge.take(&start);
        watching.tick();
        watching
    }

    /// Reads what is due; gives what was found, when it becomes true.
    pub fn tick(&mut self) -> Vec<Finding> {
        let at_ms = self.at_ms();
        if let Some(sample) = self.sampler.as_mut().map(|sampler| sampler.sample(at_ms)) {
            // A job that has ended holds nothing: the last sample is the last that saw it.
            if !self.has_ended() {
                let sample = measured(sample);
                self.take(&Frame::Sample(sample));
                if let Some(bytes) = sample.rss_bytes {
                    self.note_holders(at_ms, bytes);
                }
            }
        }
        let frames = self.gpus.frames(at_ms, || left(self.sampler.as_ref()));
        frames.iter().for_each(|frame| self.take(frame));
        self.listen();
        if let Some(recorder) = &mut self.recorder {
            recorder.tick(at_ms);
        }
        std::mem::take(&mut self.news)
    }

    /// What the job's own processes say.
    fn listen(&mut self) {
        let Some(listener) = &self.listener else { return };
        let mut frames = Vec::new();
        listener.drain(self.began_ns, |message| frames.extend(self.ranks.take(&message)));
        self.judge.set_phase(self.ranks.phase());
        frames.iter().for_each(|frame| self.take(frame));
    }

    fn note_holders(&mut self, at_ms: u64, bytes: u64) {
        let risen = bytes > self.holders_bytes.saturating_add(self.holders_bytes / RISEN_PART);
        if risen || at_ms >= self.next_holders_ms {
            self.holders_bytes = self.holders_bytes.max(bytes);
            self.next_holders_ms = at_ms + HOLDERS_MS;
            let holders = self.sampler.as_ref().map(|sampler| Holders::of(at_ms, sampler.members()));
            if let Some(holders) = holders {
                self.take(&Frame::Holders(holders));
            }
        }
    }

    fn take(&mut self, frame: &Frame) {
        if let Some(recorder) = &mut self.recorder {
            recorder.push(frame);
        }
        if let Some(server) = &self.server {
            server.take(frame);
        }
        if let Frame::Sample(sample) = frame {
            self.seen = Some(*sample);
            let folder = self.sampler.as_ref().and_then(Sampler::cgroup).map(|group| group.watched.folder.clone());
            if let Some((folder, kills)) = folder.zip(sample.cgroup_oom_kill_count)
                && self.group.as_ref().is_none_or(|(known, _)| *known != folder)
            {
                self.group = Some((folder, kills));
            }
        }
        self.summarizer.take(frame);
        self.state.take(frame);
        for finding in self.judge.take(frame) {
            self.news.push(finding.clone());
            self.take(&Frame::Finding(finding));
        }
    }

    /// Since it began.
    pub fn at_ms(&self) -> u64 {
        monotonic_ns().saturating_sub(self.began_ns) / 1_000_000
    }

    /// Whether no process of the job is left.
    pub fn has_ended(&self) -> bool {
        self.sampler.as_ref().is_none_or(Sampler::has_ended)
    }

    /// Processes of the job that are left.
    pub fn left(&self) -> Vec<u32> {
        left(self.sampler.as_ref())
    }

    /// Processes whose parents have ended become children of this one, and are the job's.
    pub fn guard(&mut self) {
        if let Some(sampler) = &mut self.sampler {
            sampler.guarded_by(std::process::id());
        }
    }

    /// This child of ours is not one of them.
    pub fn leave_out(&mut self, pid: u32) {
        if let Some(sampler) = &mut self.sampler {
            sampler.leave_out(pid);
        }
    }

    /// The job's first process has ended: reads everything once more.
    pub fn ending(&mut self, exit_code: Option<i32>, signal: Option<i32>) -> Ending {
        self.listen();
        let at_ms = self.at_ms();
        if let Some(sample) = self.sampler.as_mut().map(|sampler| sampler.sample_all(at_ms)) {
            // What the group counted and held at most is still right; what processes held is of those that are left.
            let sample = measured(sample);
            let Sample { rss_bytes, pss_bytes, anon_bytes, .. } = self.seen.unwrap_or(sample);
            let last = Sample { rss_bytes, pss_bytes, anon_bytes, ..sample };
            self.take(&Frame::Sample(last));
        }
        let machine_kills = machine_oom_kills(Path::new("/")).zip(self.machine_kills);
        let summary = self.summary();
        let kills = self.seen.and_then(|last| last.cgroup_oom_kill_count);
        let group_kills = kills.zip(self.group.as_ref()).map(|(now, (_, then))| now.saturating_sub(*then));
        Ending {
            exit_code,
            signal,
            group_kills,
            is_own_group: self.is_own_group,
            machine_kills: machine_kills.map(|(now, before)| now.saturating_sub(before)),
            last: self.seen,
            peak_bytes: summary.peak.map(|peak| peak.held_bytes),
            findings: summary.findings.into_iter().map(|finding| finding.text).collect(),
        }
    }

    /// What was seen so far.
    pub fn summary(&self) -> Summary {
        self.summarizer.clone().finish(None, MOST_FINDINGS)
    }

    /// Closes the recording; gives where it is, and what is in it.
    pub fn finish(mut self, ending: &Ending, explanation: Option<Value>) -> (Option<PathBuf>, Summary) {
        let end = End {
            at_ms: self.at_ms(),
            exit_code: ending.exit_code,
            signal: ending.signal,
            oom_kills: ending.kills(),
            explanation,
        }
        .masked();
        self.take(&Frame::End(end));
        let (path, good) = self.recorder.map(Recorder::finish).unzip();
        (path, self.summarizer.finish(good.flatten(), MOST_FINDINGS))
    }
}

fn left(sampler: Option<&Sampler>) -> Vec<u32> {
    let members = sampler.into_iter().flat_map(Sampler::members);
    members.filter(|member| member.is_here()).map(|member| member.id.pid).collect()
}

/// Processes that hold nothing have let go of it or may not be read: what they held was not measured.
fn measured(sample: Sample) -> Sample {
    let held = |bytes: Option<u64>| bytes.filter(|_| sample.rss_bytes > Some(0));
    Sample {
        rss_bytes: held(sample.rss_bytes),
        anon_bytes: held(sample.anon_bytes),
        peak_rss_bytes: sample.peak_rss_bytes.filter(|bytes| *bytes > 0),
        ..sample
    }
}

/// A job that is watched from within has started us.
fn without_us(mut sampler: Sampler) -> Sampler {
    sampler.leave_out(std::process::id());
    sampler
}
