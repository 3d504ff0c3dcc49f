//! `/dev/shm`, where data loaders hand batches over: small in containers, and full without a word.
//!
//! In: the file system that is mounted there. Out: [`Shm`]. Not counted: shared memory that is not a file there.

use std::path::Path;

/// Its size and what is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shm {
    /// All of it.
    pub size_bytes: u64,
    /// Taken.
    pub used_bytes: u64,
}

/// Asks the file system under `dev/shm`.
#[cfg(unix)]
pub fn shm(root: &Path) -> Option<Shm> {
    let stat = rustix::fs::statvfs(root.join("dev/shm")).ok()?;
    let size_bytes = stat.f_blocks.checked_mul(stat.f_frsize)?;
    Some(Shm { size_bytes, used_bytes: size_bytes.saturating_sub(stat.f_bfree.checked_mul(stat.f_frsize)?) })
}

/// There is none.
#[cfg(not(unix))]
pub fn shm(_root: &Path) -> Option<Shm> {
    None
}
