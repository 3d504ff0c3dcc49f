//! Time lost to a lack of memory, as the kernel counts it (PSI).
//!
//! In: `/proc/pressure/memory`, or `memory.pressure` of a cgroup. Out: [`Pressure`]. The totals are exact and are what shares are worked
//! out from; the averages are the kernel's. Not there on kernels without PSI, or where it was switched off.

use std::path::Path;

use super::file::text_if_any;

/// Time lost by some tasks, and by all at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one task waited for memory.
    pub some: Stall,
    /// Every task that could have run waited.
    pub full: Stall,
}

/// One line of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Share of the last ten seconds, from 0 to 100.
    pub avg10_percent: f64,
    /// Since the machine, or the cgroup, began.
    pub total_us: u64,
}

/// The machine's.
pub fn machine_pressure(root: &Path) -> Option<Pressure> {
    pressure_in(&root.join("proc/pressure/memory"))
}

/// That of a file.
pub fn pressure_in(path: &Path) -> Option<Pressure> {
    parse(&text_if_any(path)?)
}

fn parse(text: &str) -> Option<Pressure> {
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    // The `full` line is missing on some kernels.
    Some(Pressure { some: stall(line("some")?)?, full: line("full").and_then(stall).unwrap_or_default() })
}

fn stall(line: &str) -> Option<Stall> {
    let value = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let avg10_percent = value("avg10")?.parse::<f64>().ok().filter(|percent| percent.is_finite())?;
    Some(Stall { avg10_percent, total_us: value("total")?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lines_are_read() {
        let text = "some avg10=1.50 avg60=0.00 avg300=0.00 total=275516\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=154398\n";
        let pressure = parse(text).unwrap();
        assert_eq!(pressure.some, Stall { avg10_percent: 1.5, total_us: 275_516 });
        assert_eq!(pressure.full, Stall { avg10_percent: 0.25, total_us: 154_398 });
        assert_eq!(parse("some avg10=nan total=1"), None);
        assert_eq!(parse("some avg10=0.1 total=1").unwrap().full, Stall::default());
        assert_eq!(parse(""), None);
    }
}
