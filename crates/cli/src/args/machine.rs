//! What can be asked about machines: `brimful devices` and `brimful calibrate`.
//!
//! In: arguments. Out: [`DevicesArgs`], [`CalibrateArgs`].

use clap::Args;

use super::Format;

const DEVICES_EXAMPLES: &str = "\
Examples:
  brimful devices
  brimful devices rtx
  brimful devices --format json | jq '.devices[].id'";

const CALIBRATE_EXAMPLES: &str = "\
Examples:
  brimful calibrate
  brimful calibrate --format json | jq .context_bytes

It takes a few seconds and about 1 GiB of the GPU, in your own Python, which is
chosen as for 'brimful plan train.py:make_model'. The figures are kept in
$XDG_CACHE_HOME/brimful/calibration.json, or ~/.cache/brimful/calibration.json.

Exit codes:
  0  measured and kept
  2  no GPU, no PyTorch, or the figures cannot be kept";

/// `brimful devices`.
#[derive(Debug, Args)]
#[command(after_help = DEVICES_EXAMPLES)]
pub struct DevicesArgs {
    /// Only devices with this in their name, such as t4 or rtx [default: this machine, and all of them]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// For people (text) or for programs (json)
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

/// `brimful calibrate`.
#[derive(Debug, Args)]
#[command(after_help = CALIBRATE_EXAMPLES)]
pub struct CalibrateArgs {
    /// For people (text) or for programs (json)
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}
