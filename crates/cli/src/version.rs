//! What `brimful --version` says: which source this is, and what it was built with.
//!
//! In: what `build.rs` found, and who runs the code. Out: text. No time and no path, so that builds can be compared.

/// `brimful -V`.
pub const SHORT: &str = env!("CARGO_PKG_VERSION");

/// What the code was built into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltAs {
    /// Cargo's binary.
    Command,
    /// `brimful._native`, in the Python package.
    PythonExtension,
}

macro_rules! long {
    ($form:literal) => {
        concat!(
            env!("CARGO_PKG_VERSION"),
            "\ncommit   ",
            env!("BRIMFUL_COMMIT"),
            "\ntarget   ",
            env!("BRIMFUL_TARGET"),
            "\nprofile  ",
            env!("BRIMFUL_PROFILE"),
            "\nrustc    ",
            env!("BRIMFUL_RUSTC"),
            "\nform     ",
            $form,
        )
    };
}

impl BuiltAs {
    /// `brimful --version`, after the command's name.
    pub fn long_version(self) -> &'static str {
        match self {
            BuiltAs::Command => long!("command"),
            BuiltAs::PythonExtension => long!("Python extension (abi3, CPython 3.9 or newer)"),
        }
    }
}
