//! `taffrail version`.

use std::process::ExitCode;

use super::Wish;

pub(super) fn print() -> Wish {
    println!("taffrail {}", env!("CARGO_PKG_VERSION"));
    Wish::Done(ExitCode::SUCCESS)
}
