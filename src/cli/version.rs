//! `taffrail version`.

use std::process::ExitCode;

use super::Action;

pub(super) fn print() -> Action {
    println!("taffrail {}", env!("CARGO_PKG_VERSION"));
    Action::Done(ExitCode::SUCCESS)
}
