//! How a job ended, from its status and from what was read of it.
//!
//! In: its exit status, what the kernel counted, what was held. Out: sentences. They are said to the user and read by `explain` like any line of a
//! log (`signs/brimful.rs` there): what the readings know and what the job printed lead to one answer.

use brimful_core::bytes::human;
use brimful_monitor::sample::Sample;

use crate::job::signal_name;
use crate::live::words::several;

/// What is known about an end.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// Its exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Processes of its cgroup that were killed for memory; none where that is not counted.
    pub group_kills: Option<u64>,
    /// Processes of the machine that were.
    pub machine_kills: Option<u64>,
    /// What was held last, and the limits.
    pub last: Option<Sample>,
    /// The most it held.
    pub peak_bytes: Option<u64>,
    /// What was found while it ran.
    pub findings: Vec<String>,
}

impl Ending {
    /// Whether it ended well.
    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0)
    }

    /// Whether the kernel killed something of it for memory.
    pub fn is_killed_for_memory(&self) -> bool {
        self.group_kills.unwrap_or(0) > 0 || (self.machine_kills.unwrap_or(0) > 0 && self.was_killed())
    }

    fn was_killed(&self) -> bool {
        self.signal == Some(9) || self.exit_code == Some(137)
    }

    /// What happened.
    pub fn sentence(&self) -> String {
        match (self.exit_code, self.signal) {
            (_, Some(signal)) => format!("the job was ended by {}", signal_name(signal)),
            (Some(code), _) => format!("the job ended with exit code {code}"),
            _ => "the job is no longer watched".to_owned(),
        }
    }

    /// What the readings say about it, for people and for `explain`; nothing where all is well.
    pub fn evidence(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let last = self.last.unwrap_or_default();
        let peak = self.peak_bytes.map(|bytes| format!("; it held {} at its peak", human(bytes))).unwrap_or_default();
        if let Some(kills) = self.group_kills.filter(|&kills| kills > 0) {
            let killed = several(kills, "process", "processes");
            let limit = last.cgroup_limit_bytes.map(|bytes| format!(" of {}", human(bytes))).unwrap_or_default();
            lines.push(format!("the kernel killed {killed} of the job at the memory limit{limit} of its cgroup{peak}"));
        } else if self.is_killed_for_memory() {
            let left = last.machine_available_bytes.zip(last.machine_total_bytes);
            let left = left.map(|(left, total)| format!(", {} of {} were left", human(left), human(total)));
            lines.push(format!(
                "the kernel killed the job: the machine had no memory left{}{peak}",
                left.unwrap_or_default()
            ));
        } else if self.was_killed() && self.group_kills.is_some() && self.machine_kills.is_some() {
            let limit = last.limit_bytes().map(|bytes| format!(" of {}", human(bytes))).unwrap_or_default();
            let peak = self.peak_bytes.map(|bytes| format!(" (it held {}{limit} at its peak)", human(bytes)));
            lines.push(format!(
                "the kernel killed nothing for memory: a person, a script or a scheduler ended the job{}",
                peak.unwrap_or_default()
            ));
        }
        lines
    }
}
