//! One moment of a job, as a flat row of figures, and what changed between two of them.
//!
//! In: readings. Out: [`Sample`], [`Change`]. A figure that is read more rarely than the sample is taken keeps its last value; one that
//! was never readable is none. Counters are sums since the job, the cgroup or the machine began. Not here: GPUs and steps.

/// Declares the figures once: the struct, their names, and the row that a recording stores.
macro_rules! sample {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Sample {
            /// Since the recording began.
            pub at_ms: u64,
            $($(#[$doc])* pub $name: Option<u64>,)*
        }

        impl Sample {
            /// The names of the figures, in the order of a row. Later versions add at the end, and take none away.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// The figures in that order.
            pub fn row(&self) -> [Option<u64>; Sample::NAMES.len()] {
                [$(self.$name),*]
            }

            /// The reverse.
            pub fn from_row(at_ms: u64, row: [Option<u64>; Sample::NAMES.len()]) -> Sample {
                let [$($name),*] = row;
                Sample { at_ms, $($name),* }
            }
        }
    };
}

sample! {
    /// Resident memory of all processes of the job; what they share is counted once for each.
    rss_bytes,
    /// The highest it is known to have been, also between samples. An upper bound where several processes rose at once.
    peak_rss_bytes,
    /// The same with what is shared divided by the number that share it.
    pss_bytes,
    /// By how much the first figure was above that one when both were read: what it counts more than once.
    shared_bytes,
    /// Processes of the job.
    process_count,
    /// Their threads.
    thread_count,
    /// Their open files.
    open_file_count,
    /// Time on CPUs, of all of them.
    cpu_ms,
    /// Read from disks.
    disk_read_bytes,
    /// Written to disks.
    disk_written_bytes,
    /// The tightest limit of a cgroup.
    cgroup_limit_bytes,
    /// What the group with that limit holds, page cache included.
    cgroup_used_bytes,
    /// The most it ever held.
    cgroup_peak_bytes,
    /// Of what it holds, memory without a file behind it.
    cgroup_anon_bytes,
    /// Of what it holds, page cache that would be dropped first.
    cgroup_inactive_file_bytes,
    /// Of what it holds, shared memory.
    cgroup_shmem_bytes,
    /// Swapped out.
    cgroup_swap_bytes,
    /// How often the limit was met.
    cgroup_oom_count,
    /// Processes of the group that were killed for memory.
    cgroup_oom_kill_count,
    /// Time in which some task of the group waited for memory.
    cgroup_stall_some_us,
    /// Time in which all of them did.
    cgroup_stall_full_us,
    /// The machine's memory.
    machine_total_bytes,
    /// What can be had of it without swapping.
    machine_available_bytes,
    /// Its swap in use.
    machine_swap_used_bytes,
    /// Time in which some task of the machine waited for memory.
    machine_stall_some_us,
    /// Time in which all of them did.
    machine_stall_full_us,
    /// The size of `/dev/shm`.
    shm_size_bytes,
    /// What is taken of it.
    shm_used_bytes,
    /// Received by the network namespace, not by the job alone.
    namespace_received_bytes,
    /// Sent by it.
    namespace_sent_bytes,
    /// Of the resident memory, what has neither a file nor shared memory behind it: what cannot be dropped.
    anon_bytes,
}

impl Sample {
    /// What the job may hold: up to the cgroup's limit, or what it holds and the machine still has, whichever is less.
    pub fn limit_bytes(&self) -> Option<u64> {
        let left = self.held_bytes().zip(self.machine_available_bytes).map(|(held, left)| held.saturating_add(left));
        // What processes share is counted for each of them until it is known better.
        [self.cgroup_limit_bytes, left, self.machine_total_bytes].into_iter().flatten().min()
    }

    /// What counts against that limit and cannot be dropped: the group's, or the job's.
    pub fn held_bytes(&self) -> Option<u64> {
        let group = self.cgroup_limit_bytes.and(self.cgroup_used_bytes);
        let group = group.map(|used| used.saturating_sub(self.cgroup_inactive_file_bytes.unwrap_or(0)));
        group.or_else(|| Some(self.rss_bytes?.saturating_sub(self.shared_bytes.unwrap_or(0))))
    }

    /// What grows when the job leaks: memory of its own, and in a group with a limit shared memory too. Files that are mapped grow as they are
    /// read, and are dropped when memory is short.
    pub fn own_bytes(&self) -> Option<u64> {
        let shared = self.cgroup_limit_bytes.and(self.cgroup_shmem_bytes).unwrap_or(0);
        self.anon_bytes.map(|anon| anon.saturating_add(shared)).or_else(|| self.held_bytes())
    }

    /// What changed since an earlier sample. Figures that are read once a second need samples that far apart.
    pub fn since(&self, earlier: &Sample) -> Change {
        let elapsed_ms = self.at_ms.saturating_sub(earlier.at_ms);
        let per_second = |now: Option<u64>, then: Option<u64>| {
            let risen = now?.saturating_sub(then?);
            (elapsed_ms > 0).then(|| risen as f64 * 1000.0 / elapsed_ms as f64)
        };
        let micros_share = |now, then| per_second(now, then).map(|us| (us / 1e6).min(1.0));
        Change {
            elapsed_ms,
            rss_bytes: self.rss_bytes.zip(earlier.rss_bytes).map(|(now, then)| now.wrapping_sub(then) as i64),
            cpu_cores: per_second(self.cpu_ms, earlier.cpu_ms).map(|ms| ms / 1000.0),
            disk_read_bytes_per_s: per_second(self.disk_read_bytes, earlier.disk_read_bytes),
            disk_written_bytes_per_s: per_second(self.disk_written_bytes, earlier.disk_written_bytes),
            received_bytes_per_s: per_second(self.namespace_received_bytes, earlier.namespace_received_bytes),
            sent_bytes_per_s: per_second(self.namespace_sent_bytes, earlier.namespace_sent_bytes),
            stall_some_share: micros_share(self.cgroup_stall_some_us, earlier.cgroup_stall_some_us)
                .or_else(|| micros_share(self.machine_stall_some_us, earlier.machine_stall_some_us)),
            stall_full_share: micros_share(self.cgroup_stall_full_us, earlier.cgroup_stall_full_us)
                .or_else(|| micros_share(self.machine_stall_full_us, earlier.machine_stall_full_us)),
            oom_kills: self
                .cgroup_oom_kill_count
                .zip(earlier.cgroup_oom_kill_count)
                .map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// The difference of two samples; none where one of them lacks the figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// Between them.
    pub elapsed_ms: u64,
    /// Growth of resident memory.
    pub rss_bytes: Option<i64>,
    /// CPUs that were busy with the job.
    pub cpu_cores: Option<f64>,
    /// Read from disks.
    pub disk_read_bytes_per_s: Option<f64>,
    /// Written to disks.
    pub disk_written_bytes_per_s: Option<f64>,
    /// Received by the network namespace.
    pub received_bytes_per_s: Option<f64>,
    /// Sent by it.
    pub sent_bytes_per_s: Option<f64>,
    /// Share of the time in which some task waited for memory: of the group, or of the machine where the group does not say.
    pub stall_some_share: Option<f64>,
    /// The same for all tasks at once.
    pub stall_full_share: Option<f64>,
    /// Processes of the group that were killed for memory.
    pub oom_kills: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_and_never_negative() {
        let then = Sample {
            at_ms: 1000,
            cpu_ms: Some(0),
            disk_read_bytes: Some(500),
            rss_bytes: Some(9),
            ..Sample::default()
        };
        let now = Sample {
            at_ms: 3000,
            cpu_ms: Some(3000),
            disk_read_bytes: Some(100),
            rss_bytes: Some(4),
            ..Sample::default()
        };
        let change = now.since(&then);
        assert_eq!(
            (change.cpu_cores, change.disk_read_bytes_per_s, change.rss_bytes),
            (Some(1.5), Some(0.0), Some(-5))
        );
        assert_eq!(change.stall_some_share, None);
        assert_eq!(now.since(&now).cpu_cores, None);
    }

    #[test]
    fn a_row_goes_there_and_back() {
        let row = std::array::from_fn(|index| (index % 3 > 0).then_some(index as u64));
        assert_eq!(Sample::from_row(7, row).row(), row);
        assert_eq!(Sample::from_row(7, row).at_ms, 7);
    }

    #[test]
    fn what_is_held_is_the_groups_where_there_is_a_limit() {
        let job =
            Sample { rss_bytes: Some(9), shared_bytes: Some(3), machine_total_bytes: Some(100), ..Sample::default() };
        assert_eq!((job.held_bytes(), job.limit_bytes()), (Some(6), Some(100)));
        assert_eq!(Sample { machine_available_bytes: Some(50), ..job }.limit_bytes(), Some(56));
        let group = Sample {
            cgroup_limit_bytes: Some(50),
            cgroup_used_bytes: Some(30),
            cgroup_inactive_file_bytes: Some(10),
            ..job
        };
        assert_eq!((group.held_bytes(), group.limit_bytes()), (Some(20), Some(50)));
        assert_eq!(group.own_bytes(), Some(20));
        let own = Sample { anon_bytes: Some(5), cgroup_shmem_bytes: Some(2), ..group };
        assert_eq!((own.own_bytes(), Sample { cgroup_limit_bytes: None, ..own }.own_bytes()), (Some(7), Some(5)));
    }
}
