//! What is read once a second, and what every ten.
//!
//! In: the job's processes, its cgroup and the machine. Out: the figures of the sampler's last sample. Sums over processes never fall: one that
//! ends takes its figures along until its parent has waited for it.

use super::Sampler;
use crate::readings::disk::Disk;
use crate::readings::process::{self, ticks_as_ms};
use crate::readings::{Answer, disk, memory, network, open_files, pressure, pss, shm};

impl Sampler {
    pub(super) fn read_each_second(&mut self) {
        let (mut ticks, mut disks) = (0_u64, Disk::default());
        for member in self.members.iter_mut().filter(|member| member.is_here()) {
            let pid = member.id.pid;
            match process::stat(&self.root, pid) {
                Answer::Known(stat) if stat.id == member.id => member.update(&stat),
                Answer::Known(_) | Answer::Gone => member.end(),
                // Its memory may still be readable: see `Member`.
                Answer::Hidden => {}
            }
            ticks = ticks.saturating_add(member.cpu_ticks);
            if let Some(disk) = disk::disk(&self.root, pid).known() {
                disks.read_bytes = disks.read_bytes.saturating_add(disk.read_bytes);
                disks.written_bytes = disks.written_bytes.saturating_add(disk.written_bytes);
            }
        }
        let here: Vec<usize> = (0..self.members.len()).filter(|&index| self.members[index].is_here()).collect();
        self.read_peaks(&here);
        let last = &mut self.last;
        self.cpu_ms = self.cpu_ms.max(ticks_as_ms(ticks));
        self.disk.read_bytes = self.disk.read_bytes.max(disks.read_bytes);
        self.disk.written_bytes = self.disk.written_bytes.max(disks.written_bytes);
        last.cpu_ms = Some(self.cpu_ms);
        last.disk_read_bytes = Some(self.disk.read_bytes);
        last.disk_written_bytes = Some(self.disk.written_bytes);
        if let Some(cgroup) = &self.cgroup {
            let usage = cgroup.usage();
            last.cgroup_peak_bytes = usage.peak_bytes;
            last.cgroup_anon_bytes = usage.anon_bytes;
            last.cgroup_inactive_file_bytes = usage.inactive_file_bytes;
            last.cgroup_shmem_bytes = usage.shmem_bytes;
            last.cgroup_swap_bytes = usage.swap_bytes;
            last.cgroup_oom_count = usage.oom_count;
            last.cgroup_oom_kill_count = usage.oom_kill_count;
            last.cgroup_stall_some_us = usage.pressure.map(|pressure| pressure.some.total_us);
            last.cgroup_stall_full_us = usage.pressure.map(|pressure| pressure.full.total_us);
        }
        let memory = memory::machine_memory(&self.root);
        last.machine_total_bytes = memory.total_bytes;
        last.machine_available_bytes = memory.available_bytes;
        last.machine_swap_used_bytes = memory.swap_used_bytes();
        let pressure = pressure::machine_pressure(&self.root);
        last.machine_stall_some_us = pressure.map(|pressure| pressure.some.total_us);
        last.machine_stall_full_us = pressure.map(|pressure| pressure.full.total_us);
        let shm = shm::shm(&self.root);
        last.shm_size_bytes = shm.map(|shm| shm.size_bytes);
        last.shm_used_bytes = shm.map(|shm| shm.used_bytes);
        let witness = self.members.first().map_or(self.first.pid, |member| member.id.pid);
        if let Some(network) = network::namespace_network(&self.root, witness) {
            last.namespace_received_bytes = Some(network.received_bytes);
            last.namespace_sent_bytes = Some(network.sent_bytes);
        }
    }

    pub(super) fn read_each_ten_seconds(&mut self) {
        let (mut all_known, mut pss_sum, mut files) = (true, 0_u64, None);
        for member in self.members.iter_mut().filter(|member| member.is_here()) {
            member.pss_bytes = pss::pss_bytes(&self.root, member.id.pid).known();
            all_known &= member.pss_bytes.is_some();
            pss_sum = pss_sum.saturating_add(member.pss_bytes.unwrap_or(0));
            if let Some(count) = open_files::open_files(&self.root, member.id.pid).known() {
                files = Some(files.unwrap_or(0_u64).saturating_add(count));
            }
        }
        self.last.open_file_count = files;
        // A sum with a part missing would look like a fall.
        if all_known && pss_sum > 0 {
            self.last.pss_bytes = Some(pss_sum);
            self.last.shared_bytes = self.last.rss_bytes.map(|rss| rss.saturating_sub(pss_sum));
        }
    }
}
