//! The form of a command's output: text for people, or JSON for programs.

use clap::{Args, ValueEnum};

/// How the output is shown.
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
