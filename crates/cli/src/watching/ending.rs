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
    /// Whether that cgroup was made for the job, and holds nothing else.
    pub is_own_group: bool,
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

    fn was_killed(&self) -> bool {
        self.signal == Some(9) || self.exit_code == Some(137)
    }

    /// Processes of the job that were killed for memory, as far as that is known: those of a group that others are in count only if the job was killed.
    pub fn kills(&self) -> Option<u64> {
        self.group_kills.map(|kills| if self.is_own_group || self.was_killed() { kills } else { 0 })
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
        let last = self.last.unwrap_or_default();
        let peak = self.peak_bytes.map(|bytes| format!("it held {} at its peak", human(bytes))).unwrap_or_default();
        let kills = self.kills().unwrap_or(0);
        let limit = last.cgroup_limit_bytes.map(|bytes| format!(" of {}", human(bytes))).unwrap_or_default();
        let killed = several(kills, "process", "processes");
        // In a group of its own, what is killed is the job's; in another, only if the job was killed.
        let line = if kills > 0 && self.is_own_group {
            format!("the kernel killed {killed} of the job at the memory limit{limit} of its cgroup")
        } else if kills > 0 {
            format!("the kernel killed {killed} in the job's cgroup at the memory limit{limit}; {peak}")
        } else if !self.was_killed() || self.machine_kills.is_none() {
            return Vec::new();
        } else if self.machine_kills > Some(0) && is_short(&last) {
            let left = last.machine_available_bytes.map(|bytes| format!(", {} were left", human(bytes)));
            format!("the kernel killed the job: the machine had no memory left{}; {peak}", left.unwrap_or_default())
        } else {
            format!(
                "the kernel killed nothing of the job for memory: a person, a script or a scheduler ended it; {peak}"
            )
        };
        vec![line]
    }
}

/// Whether the machine had little left when it was last looked at: only then is a kill somewhere on it likely to be the job's.
fn is_short(last: &Sample) -> bool {
    last.machine_available_bytes.zip(last.machine_total_bytes).is_some_and(|(left, total)| left < total / 8)
}
