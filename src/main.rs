//! The daemon's binary: reads the command line and does what it asks for.

use std::process::ExitCode;

use taffrail::cli::{self, Wish};

fn main() -> ExitCode {
    match cli::parse() {
        Wish::Done(code) => code,
        Wish::Serve(_) | Wish::Compact(_) => ExitCode::FAILURE,
    }
}
