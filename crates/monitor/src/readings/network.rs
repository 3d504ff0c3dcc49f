//! Bytes over the network, of everything in a process's network namespace: the kernel does not count them by process.
//!
//! In: `/proc/PID/net/dev`. Out: [`NamespaceNetwork`]. In a container that is the job alone, elsewhere the whole machine. Not counted: the
//! loopback interface.

use std::path::Path;

use super::file::text_if_any;
use super::process::folder;

/// Bytes of the namespace since it began, over all interfaces but the loopback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceNetwork {
    /// Received.
    pub received_bytes: u64,
    /// Sent.
    pub sent_bytes: u64,
}

/// Reads the namespace that a process is in.
pub fn namespace_network(root: &Path, pid: u32) -> Option<NamespaceNetwork> {
    text_if_any(&folder(root, pid).join("net/dev")).map(|text| parse(&text))
}

fn parse(text: &str) -> NamespaceNetwork {
    let interfaces = text.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| name.trim() != "lo");
    interfaces.fold(NamespaceNetwork::default(), |sum, (_, fields)| {
        let field = |index| fields.split_ascii_whitespace().nth(index).and_then(|f| f.parse().ok()).unwrap_or(0_u64);
        NamespaceNetwork {
            received_bytes: sum.received_bytes.saturating_add(field(0)),
            sent_bytes: sum.sent_bytes.saturating_add(field(8)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_loopback_is_summed() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets|bytes\n    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n  \
                    eth0:29380457706 7 0 0 0 0 0 0 29072842 4 0 0 0 0 0 0\n  eth1: 1 7 0 0 0 0 0 0 2 4 0 0 0 0 0 0\n";
        assert_eq!(parse(text), NamespaceNetwork { received_bytes: 29_380_457_707, sent_bytes: 29_072_844 });
        assert_eq!(parse("a:\nb: x"), NamespaceNetwork::default());
    }
}
