//! The command line of the program `kube-apiserver`.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use super::complaint::{EXIT_REFUSED, complain};
use super::repeated_flags;
use crate::build_info::{
    COMMIT, COMPILER, DATE, KUBERNETES_MINOR, TREE_STATE, git_version, platform,
};
use crate::config::{ConfigError, Settings};

const NAME: &str = "kube-apiserver";

/// Serves the Kubernetes API. This is Taffrail in the place of kube-apiserver: it knows
/// kube-apiserver's flags, and keeps objects in the etcd at --etcd-servers, or in the data
/// directory of the program there if that is Taffrail in the place of etcd.
#[derive(Debug, Parser)]
#[command(
    name = NAME,
    args_override_self = false,
    disable_version_flag = true,
    max_term_width = 100
)]
struct Arguments {
    /// Print the version and quit; raw prints more about the build.
    #[arg(
        long,
        value_name = "raw",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    version: Option<String>,
    #[command(flatten)]
    settings: Settings,
}

/// What a command line asks for.
#[derive(Debug)]
pub enum CommandLine {
    /// Serve with these settings over the defaults.
    Serve(Box<Settings>),
    /// Nothing more, because it was answered or refused already.
    Done(ExitCode),
}

/// Reads the command line of the process.
pub fn parse() -> CommandLine {
    let arguments = repeated_flags::joined(std::env::args_os().collect());
    let mut definition = Arguments::command();
    let matches = definition.try_get_matches_from_mut(&arguments);
    let parsed = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    match parsed {
        Ok(Arguments { version, settings }) => match version.as_deref() {
            None | Some("false") => CommandLine::Serve(Box::new(settings)),
            Some("true") => {
                println!("Kubernetes {}", git_version());
                CommandLine::Done(ExitCode::SUCCESS)
            }
            Some("raw") => {
                println!("{}", raw_version());
                CommandLine::Done(ExitCode::SUCCESS)
            }
            Some(other) => refused(&format!(
                "--version={other}: give no value, or raw; another version cannot be reported"
            )),
        },
        Err(error) => match ConfigError::of_flags(&error, &arguments, &definition) {
            Some(refusal) => refused(&refusal),
            None => {
                // Help. A failure to print it can't be reported.
                let _ = error.print();
                CommandLine::Done(ExitCode::SUCCESS)
            }
        },
    }
}

fn refused(problem: &dyn std::fmt::Display) -> CommandLine {
    complain(NAME, problem);
    CommandLine::Done(ExitCode::from(EXIT_REFUSED))
}

/// The build, as Go prints the structure.
fn raw_version() -> String {
    let commit = COMMIT.unwrap_or_default();
    let state = TREE_STATE.unwrap_or_default();
    let date = DATE.unwrap_or("1970-01-01T00:00:00Z");
    let (version, platform) = (git_version(), platform());
    format!(
        "version.Info{{Major:\"1\", Minor:\"{KUBERNETES_MINOR}\", GitVersion:\"{version}\", \
         GitCommit:\"{commit}\", GitTreeState:\"{state}\", BuildDate:\"{date}\", GoVersion:\"\", \
         Compiler:\"{COMPILER}\", Platform:\"{platform}\"}}"
    )
}
