//! Readings: one file each, one moment each, no memory of the last one.
//!
//! In: a root folder, `/` on a real machine, in which `proc/…` and `sys/fs/cgroup/…` are looked up. Out: values. What is not
//! there, or not readable, is `None` or an [`Answer`] that says which; nothing here fails. Sizes are bytes, times are named
//! with their unit. Not read here: GPUs.

pub mod file;
pub mod process;
pub mod tree;
pub mod pss;
pub mod open_files;
pub mod disk;
pub mod cgroup;
pub mod memory;
pub mod pressure;
pub mod kills;
pub mod shm;
pub mod network;

/// What is known of something that may vanish, or be kept from us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// It was read.
    Known(T),
    /// It is no longer there.
    Gone,
    /// It is there, and may not be read: another user's, or `/proc` is mounted with `hidepid`.
    Hidden,
}

impl<T> Answer<T> {
    /// The value, if it is known.
    pub fn known(self) -> Option<T> {
        match self {
            Answer::Known(value) => Some(value),
            Answer::Gone | Answer::Hidden => None,
        }
    }

    /// The same answer with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Answer::Known(value) => Answer::Known(change(value)),
            Answer::Gone => Answer::Gone,
            Answer::Hidden => Answer::Hidden,
        }
    }
}
