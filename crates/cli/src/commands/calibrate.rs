//! `brimful calibrate`: what this machine's GPU holds beside PyTorch's allocator, measured and kept for later plans.
//!
//! In: the options. Out: a small table. Everything is measured in the user's Python (`brimful.torch.calibrate`), which has
//! the PyTorch and the CUDA libraries that the jobs will have.

use serde_json::json;

use crate::args::{CalibrateArgs, Format};
use crate::exit::Exit;
use crate::output::Output;
use crate::python::Python;

/// Measures, keeps and shows.
pub fn run(args: &CalibrateArgs, output: &Output) -> anyhow::Result<Exit> {
    let request = json!({ "format": if args.format == Format::Json { "json" } else { "text" } });
    Python::choose().run("brimful.torch.calibrate", &request, &[], output)
}
