//! The daemon's binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    taffrail::program::main()
}
