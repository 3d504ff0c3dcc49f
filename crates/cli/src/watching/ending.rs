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
        // Of a job that ended before it was looked at, nothing is known.
        let peak = self.peak_bytes.map(|bytes| format!("; it held {} at its peak", human(bytes))).unwrap_or_default();
        let kills = self.kills().unwrap_or(0);
        let limit = last.cgroup_limit_bytes.map(|bytes| format!(" of {}", human(bytes))).unwrap_or_default();
        let killed = several(kills, "process", "processes");
        // In a group of its own, what is killed is the job's; in another, only if the job was killed.
        let line = if kills > 0 && self.is_own_group {
            format!("the kernel killed {killed} of the job at the memory limit{limit} of its cgroup")
        } else if kills > 0 {
            format!("the kernel killed {killed} in the job's cgroup at the memory limit{limit}{peak}")
        } else if !self.was_killed() || self.machine_kills.is_none() {
            return Vec::new();
        } else if self.machine_kills > Some(0) && is_short(&last) {
            let left = last.machine_available_bytes.map(|bytes| format!(", {} were left", human(bytes)));
            format!("the kernel killed the job: the machine had no memory left{}{peak}", left.unwrap_or_default())
        } else {
            format!("the kernel killed nothing of the job for memory: a person, a script or a scheduler ended it{peak}")
        };
        vec![line]
    }
}

/// Whether the machine had little left when it was last looked at: only then is a kill somewhere on it likely to be the job's.
fn is_short(last: &Sample) -> bool {
    last.machine_available_bytes.zip(last.machine_total_bytes).is_some_and(|(left, total)| left < total / 8)
}

#[cfg(test)]
mod tests {
    use brimful_core::bytes::MIB;

    use super::*;

    /// What is said of a job that was killed, whose peak may be known.
    fn said(group_kills: Option<u64>, machine_kills: u64, left: u64, peak_bytes: Option<u64>) -> Vec<String> {
        let last = Sample {
            machine_available_bytes: Some(left * MIB),
            machine_total_bytes: Some(1000 * MIB),
            cgroup_limit_bytes: group_kills.and(Some(300 * MIB)),
            ..Sample::default()
        };
        let machine_kills = Some(machine_kills);
        Ending { signal: Some(9), group_kills, machine_kills, last: Some(last), peak_bytes, ..Ending::default() }
            .evidence()
    }

    #[test]
    fn a_peak_is_said_where_it_was_measured() {
        let group = "the kernel killed 1 process in the job's cgroup at the memory limit of 300 MiB";
        let machine = "the kernel killed the job: the machine had no memory left, 9.00 MiB were left";
        let person = "the kernel killed nothing of the job for memory: a person, a script or a scheduler ended it";
        for (line, group_kills, machine_kills, left) in
            [(group, Some(1), 1, 9), (machine, None, 1, 9), (person, None, 0, 900)]
        {
            assert_eq!(said(group_kills, machine_kills, left, None), [line]);
            let known = said(group_kills, machine_kills, left, Some(284 * MIB));
            assert_eq!(known, [format!("{line}; it held 284 MiB at its peak")]);
        }
    }
}
