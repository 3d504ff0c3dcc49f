//! A lack of memory that can be felt already: time lost to it, a limit that is near, swap that fills.
//!
//! In: two samples some ten seconds apart. Out: [`Strain`]s, with their figures, or the worst of them; none where all is well. The bounds are of
//! the kind that systemd-oomd (60 % of the time for 30 s) and earlyoom (10 % of memory left) act on, and lower, since this only says so.

use crate::sample::Sample;

/// Share of the time in which all tasks waited for memory.
const FULL_STALL: (f64, f64) = (0.05, 0.3);
/// The same for some task.
const SOME_STALL: (f64, f64) = (0.2, 0.6);
/// Share of the limit that is held.
const HELD: (f64, f64) = (0.9, 0.97);
/// Share of `/dev/shm` that is taken.
const SHM: (f64, f64) = (0.9, 0.98);

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Worth a word.
    High,
    /// The job may die any moment, or hardly moves.
    Critical,
}

/// What is short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strain {
    /// Time is lost waiting for memory.
    Stall {
        /// How bad.
        level: Level,
        /// Share of the time that some task waited.
        some_share: f64,
        /// Share of the time that all did.
        full_share: f64,
    },
    /// The limit is near.
    NearLimit {
        /// How bad.
        level: Level,
        /// What is held, without what can be dropped.
        held_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The machine has little left, whoever holds it.
    MachineShort {
        /// How bad.
        level: Level,
        /// What can be had.
        available_bytes: u64,
        /// What the machine has.
        total_bytes: u64,
    },
    /// `/dev/shm` is nearly full.
    ShmShort {
        /// How bad.
        level: Level,
        /// What is taken.
        used_bytes: u64,
        /// All of it.
        size_bytes: u64,
    },
}

impl Strain {
    /// How bad it is.
    pub fn level(&self) -> Level {
        match self {
            Strain::Stall { level, .. }
            | Strain::NearLimit { level, .. }
            | Strain::MachineShort { level, .. }
            | Strain::ShmShort { level, .. } => *level,
        }
    }
}

/// The worst that two samples show; of two that are as bad, the one that stands first above.
pub fn strain(earlier: &Sample, now: &Sample) -> Option<Strain> {
    // The last of equals wins, so the order is turned around.
    strains(earlier, now).into_iter().flatten().rev().max_by_key(Strain::level)
}

/// All that two samples show, each in its place: stall, limit, machine, `/dev/shm`.
pub fn strains(earlier: &Sample, now: &Sample) -> [Option<Strain>; 4] {
    let change = now.since(earlier);
    let (some_share, full_share) = (change.stall_some_share.unwrap_or(0.0), change.stall_full_share.unwrap_or(0.0));
    let stall = level(some_share, SOME_STALL).max(level(full_share, FULL_STALL));
    let stall = stall.map(|level| Strain::Stall { level, some_share, full_share });
    let held = now.held_bytes().zip(now.cgroup_limit_bytes).and_then(|(held_bytes, limit_bytes)| {
        let level = level(share(held_bytes, limit_bytes), HELD)?;
        Some(Strain::NearLimit { level, held_bytes, limit_bytes })
    });
    let machine =
        now.machine_available_bytes.zip(now.machine_total_bytes).and_then(|(available_bytes, total_bytes)| {
            let level = level(1.0 - share(available_bytes, total_bytes), HELD)?;
            Some(Strain::MachineShort { level, available_bytes, total_bytes })
        });
    let shm = now.shm_used_bytes.zip(now.shm_size_bytes).and_then(|(used_bytes, size_bytes)| {
        Some(Strain::ShmShort { level: level(share(used_bytes, size_bytes), SHM)?, used_bytes, size_bytes })
    });
    [stall, held, machine, shm]
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn level(share: f64, (high, critical): (f64, f64)) -> Option<Level> {
    (share >= high).then_some(if share >= critical { Level::Critical } else { Level::High })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_said() {
        let calm = Sample {
            at_ms: 0,
            machine_total_bytes: Some(100),
            machine_available_bytes: Some(50),
            machine_stall_some_us: Some(0),
            machine_stall_full_us: Some(0),
            rss_bytes: Some(10),
            ..Sample::default()
        };
        let later = Sample { at_ms: 10_000, ..calm };
        assert_eq!(strain(&calm, &later), None);
        let stalls = Sample { machine_stall_some_us: Some(3_000_000), ..later };
        let said = Strain::Stall { level: Level::High, some_share: 0.3, full_share: 0.0 };
        assert_eq!(strain(&calm, &stalls), Some(said));
        let near = Sample { cgroup_limit_bytes: Some(100), cgroup_used_bytes: Some(98), ..stalls };
        let said = Strain::NearLimit { level: Level::Critical, held_bytes: 98, limit_bytes: 100 };
        assert_eq!(strain(&calm, &near), Some(said));
        // Cache that can be dropped is no danger.
        assert_eq!(
            strain(&calm, &Sample { cgroup_inactive_file_bytes: Some(50), machine_stall_some_us: Some(0), ..near }),
            None
        );
        let full = Sample { shm_size_bytes: Some(64), shm_used_bytes: Some(60), ..later };
        assert!(matches!(strain(&calm, &full), Some(Strain::ShmShort { level: Level::High, .. })));
    }
}
