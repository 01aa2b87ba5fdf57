//! Programs of Kubernetes that the environment names.

use std::path::PathBuf;

use super::not_run::not_run;

/// The program that a variable names. `None`, with a line that says so, if it names none.
pub fn named(variable: &str) -> Option<PathBuf> {
    match std::env::var_os(variable) {
        Some(path) if path != "none" => Some(PathBuf::from(path)),
        _ => {
            let program = variable.trim_start_matches("TAFFRAIL_").to_lowercase();
            not_run(&program.replace('_', "-"));
            None
        }
    }
}
