//! The `brimful` binary.

use std::process::ExitCode;

use brimful_cli::BuiltAs;

fn main() -> ExitCode {
    ExitCode::from(brimful_cli::main(std::env::args_os(), BuiltAs::Command))
}
