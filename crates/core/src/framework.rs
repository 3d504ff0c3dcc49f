//! The frameworks whose memory Brimful knows.
//!
//! In: the names people write. Out: a [`Framework`]. What each of them does with memory is the business of `step`,
//! `allocator` and `device`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What runs the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framework {
    /// TensorFlow, usually through Keras.
    TensorFlow,
    /// PyTorch.
    Torch,
    /// JAX, alone or under Keras.
    Jax,
}

impl Framework {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Framework; 3] = [Framework::TensorFlow, Framework::Torch, Framework::Jax];

    /// The name as the framework itself writes it.
    pub const fn title(self) -> &'static str {
        match self {
            Framework::TensorFlow => "TensorFlow",
            Framework::Torch => "PyTorch",
            Framework::Jax => "JAX",
        }
    }
}

/// The name as options and JSON have it: `tensorflow`, `torch`, `jax`.
impl fmt::Display for Framework {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Framework::TensorFlow => "tensorflow",
            Framework::Torch => "torch",
            Framework::Jax => "jax",
        })
    }
}

/// A name that is no framework's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFramework(String);

impl fmt::Display for UnknownFramework {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a framework: write tensorflow, torch or jax", self.0)
    }
}

impl std::error::Error for UnknownFramework {}

impl FromStr for Framework {
    type Err = UnknownFramework;

    fn from_str(text: &str) -> Result<Framework, UnknownFramework> {
        match text.trim().to_ascii_lowercase().as_str() {
            "tensorflow" | "tf" => Ok(Framework::TensorFlow),
            "torch" | "pytorch" => Ok(Framework::Torch),
            "jax" => Ok(Framework::Jax),
            _ => Err(UnknownFramework(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for framework in Framework::ALL {
            assert_eq!(framework.to_string().parse(), Ok(framework));
            assert_eq!(framework.title().parse(), Ok(framework));
            assert_eq!(serde_json::to_value(framework).unwrap(), framework.to_string());
        }
        assert_eq!("TF".parse(), Ok(Framework::TensorFlow));
        assert!("theano".parse::<Framework>().unwrap_err().to_string().contains("theano"));
    }
}
