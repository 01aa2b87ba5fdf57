//! Programs of Kubernetes that the environment names.

use std::path::PathBuf;

/// The program that a variable names. `None`, with a line that says so, if it names none.
pub fn named(variable: &str) -> Option<PathBuf> {
    match std::env::var_os(variable) {
        Some(path) if path != "none" => Some(PathBuf::from(path)),
        _ => {
            eprintln!("nothing is tried with the program of {variable}: it names none");
            None
        }
    }
}
