//! The `brimful` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(brimful_cli::main(std::env::args_os()))
}
