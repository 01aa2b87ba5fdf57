//! `taffrail version`.

use std::process::ExitCode;

use super::action::Action;
use crate::build_info::{COMMIT, COMPILER, DATE, KUBERNETES_MINOR, VERSION, platform};

pub(super) fn print() -> Action {
    let unknown = "unknown (a development build)";
    println!("taffrail {VERSION}");
    println!("API       Kubernetes 1.{KUBERNETES_MINOR}");
    println!("commit    {}", COMMIT.unwrap_or(unknown));
    println!("built     {}", DATE.unwrap_or(unknown));
    println!("compiler  {COMPILER}");
    println!("platform  {}", platform());
    Action::Done(ExitCode::SUCCESS)
}
