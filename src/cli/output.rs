//! The form of what a command prints: text for people, or JSON for programs.

use clap::{Args, ValueEnum};

/// How it is shown.
#[derive(Args, Clone, Debug)]
pub struct OutputOptions {
    /// Form of the output.
    #[arg(long, short, value_name = "FORM", value_enum, default_value = "text")]
    pub(super) output: Output,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text.
    Text,
    /// JSON.
    Json,
}
