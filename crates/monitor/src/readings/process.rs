//! One process: who it is, its state, its memory and its time.
//!
//! In: `/proc/PID/stat`, `statm` and `status`. Out: [`Stat`], resident bytes, the highest they ever were. A process is known by
//! its number together with the moment it started, since numbers are given out again. Not counted: what it shares with others
//! (see `pss`), and memory that was swapped out.

use std::path::{Path, PathBuf};

use super::Answer;
use super::file::{named_kib_as_bytes, of_process, text_if_any};

/// A process, not just its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// The number.
    pub pid: u32,
    /// When it started, in ticks since the machine did.
    pub start_ticks: u64,
}

/// What `/proc/PID/stat` says (proc_pid_stat(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Which process.
    pub id: ProcessId,
    /// Its name, at most 15 bytes of it.
    pub name: String,
    /// `R` runs, `S` sleeps, `D` waits for a disk, `Z` has ended.
    pub state: char,
    /// The process that started it, or that took it over.
    pub parent_pid: u32,
    /// Time on a CPU, its own and that of children that have ended and were waited for.
    pub cpu_ticks: u64,
    /// Its threads.
    pub threads: u64,
}

impl Stat {
    /// Whether it has ended and only its exit code is left.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// The folder of a process.
pub fn folder(root: &Path, pid: u32) -> PathBuf {
    root.join("proc").join(pid.to_string())
}

/// Reads `stat`. A process that `hidepid` keeps from us is [`Answer::Hidden`], though its folder looks absent.
pub fn stat(root: &Path, pid: u32) -> Answer<Stat> {
    match of_process(&folder(root, pid).join("stat")) {
        Answer::Known(text) => parse_stat(&text).map_or(Answer::Gone, Answer::Known),
        Answer::Gone if hides_processes(root) => Answer::Hidden,
        Answer::Gone => Answer::Gone,
        Answer::Hidden => Answer::Hidden,
    }
}

/// Whether `/proc` shows only the processes of one's own user, so that one that is not shown may still be there.
pub fn hides_processes(root: &Path) -> bool {
    let Some(mounts) = text_if_any(&root.join("proc/self/mountinfo")) else { return false };
    let proc_mounts = mounts
        .lines()
        .filter_map(|line| line.split_once(" - "))
        .filter(|(place, kind)| place.split(' ').nth(4) == Some("/proc") && kind.split(' ').next() == Some("proc"));
    let hiding = ["hidepid=1", "hidepid=2", "hidepid=4", "hidepid=noaccess", "hidepid=invisible", "hidepid=ptraceable"];
    proc_mounts.flat_map(|(_, kind)| kind.split([' ', ','])).any(|option| hiding.contains(&option))
}

/// The name stands in brackets and may have brackets and spaces in it: the last closing one ends it.
pub fn parse_stat(text: &str) -> Option<Stat> {
    let (before, after) = (text.split_once('(')?, text.rsplit_once(')')?);
    let name_and_rest = before.1;
    let name = name_and_rest.get(..name_and_rest.len().checked_sub(after.1.len() + 1)?)?;
    let fields: Vec<&str> = after.1.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    // Children that have ended are counted in the last two, which a fixture may give as negative.
    let ticks: u64 = (11..=14).filter_map(number).fold(0, u64::saturating_add);
    Some(Stat {
        id: ProcessId { pid: before.0.trim().parse().ok()?, start_ticks: number(19)? },
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        parent_pid: fields.get(1)?.parse().ok()?,
        cpu_ticks: ticks,
        threads: number(17)?,
    })
}

/// What is resident of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// All of it.
    pub rss_bytes: u64,
    /// Of it, what has neither a file nor shared memory behind it: what a job holds by itself, and cannot be dropped.
    pub anon_bytes: u64,
}

/// Reads the text of `statm` (proc_pid_statm(5)): the second figure is what is resident, the third what of it has a file or shared memory
/// behind it, both in pages.
pub fn parse_statm(text: &str) -> Option<Resident> {
    let mut pages = text.split_ascii_whitespace().skip(1).map(|field| field.parse::<u64>().ok());
    let (resident, shared) = (pages.next()??, pages.next().flatten().unwrap_or(0));
    let rss_bytes = resident.checked_mul(page_bytes())?;
    Some(Resident { rss_bytes, anon_bytes: resident.saturating_sub(shared) * page_bytes() })
}

/// Resident bytes now.
pub fn rss_bytes(root: &Path, pid: u32) -> Answer<u64> {
    match of_process(&folder(root, pid).join("statm")) {
        Answer::Known(text) => parse_statm(&text).map_or(Answer::Gone, |resident| Answer::Known(resident.rss_bytes)),
        Answer::Gone => Answer::Gone,
        Answer::Hidden => Answer::Hidden,
    }
}

/// The most resident bytes it ever had (`VmHWM`), also between two samples. The kernel's figure may lag by a few pages a thread.
pub fn peak_rss_bytes(root: &Path, pid: u32) -> Option<u64> {
    let status = of_process(&folder(root, pid).join("status")).known()?;
    named_kib_as_bytes(&status, "VmHWM")
}

/// Whether a number is that of a thread that is not the first of its process.
pub fn is_thread(root: &Path, pid: u32) -> bool {
    let status = of_process(&folder(root, pid).join("status")).known();
    let group = status.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("Tgid:")));
    group.and_then(|group| group.trim().parse::<u32>().ok()).is_some_and(|group| group != pid)
}

/// A page of memory.
pub fn page_bytes() -> u64 {
    #[cfg(unix)]
    return rustix::param::page_size() as u64;
    #[cfg(not(unix))]
    return 4096;
}

/// Ticks are what the kernel counts a process's time in.
pub fn ticks_as_ms(ticks: u64) -> u64 {
    #[cfg(unix)]
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    #[cfg(not(unix))]
    let ticks_per_second = 100;
    ticks.saturating_mul(1000) / ticks_per_second
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "42 (a) b (c)) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 9 0 12345 99 88 1";

    #[test]
    fn a_name_may_look_like_the_rest() {
        let stat = parse_stat(LINE).unwrap();
        assert_eq!(stat.name, "a) b (c)");
        assert_eq!((stat.id, stat.parent_pid), (ProcessId { pid: 42, start_ticks: 12345 }, 7));
        assert_eq!((stat.cpu_ticks, stat.threads, stat.has_ended()), (100, 9, false));
    }

    #[test]
    fn broken_lines_are_none() {
        for end in 0..LINE.len() {
            // A cut start time still reads as a number; nothing else does.
            if let Some(stat) = parse_stat(&LINE[..end]) {
                assert!(stat.name == "a) b (c)" && stat.id.start_ticks <= 12345, "{end}");
            }
        }
        for text in ["", ")(", "1 ()", "x (y) S 1", ") 1 ("] {
            assert_eq!(parse_stat(text), None);
        }
        assert_eq!(parse_statm("5 18446744073709551615"), None);
        assert_eq!(parse_statm("5"), None);
        let anon_bytes = |text: &str| parse_statm(text).map(|resident| resident.anon_bytes / page_bytes());
        assert_eq!((anon_bytes("9 5 2 1"), anon_bytes("9 5 7"), anon_bytes("9 5")), (Some(3), Some(0), Some(5)));
    }
}
