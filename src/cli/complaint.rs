//! The messages of a command that fails.

use std::fmt::Display;
use std::process::ExitCode;

use crate::config::printable;

/// Exit code for a refused command line or configuration.
pub const EXIT_REFUSED: u8 = 2;

/// Prints a problem on stderr: `taffrail restore: ...`. Parts of it, such as a path, may contain
/// control characters, which are shown as escapes. Line breaks stay, because each of several faults
/// has its own line.
pub fn complain(command: &str, problem: &dyn Display) {
    let problem = problem.to_string();
    let lines: Vec<String> = problem.lines().map(printable).collect();
    eprintln!("{command}: {}", lines.join("\n"));
}

/// As [`complain`], for a subcommand, with the exit code of a failure.
pub(super) fn failed(subcommand: &str, problem: &dyn Display) -> ExitCode {
    complain(&format!("taffrail {subcommand}"), problem);
    ExitCode::FAILURE
}
