//! The command line of the program `kube-apiserver`.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use super::complaint::{EXIT_REFUSED, complain};
use super::defaults::with_defaults;
use super::normalized::normalized;
use crate::build_info::{
    COMMIT, COMPILER, DATE, KUBERNETES_MINOR, TREE_STATE, git_version, platform,
};
use crate::config::apiserver_flags::{self, GivenFlags, effect_of};
use crate::config::{ConfigError, Settings};

const NAME: &str = "kube-apiserver";

/// Serves the Kubernetes API. This is Taffrail in the place of kube-apiserver: it knows
/// kube-apiserver's flags, and keeps objects in the etcd at --etcd-servers, or in the data
/// directory of the program there if that is Taffrail in the place of etcd.
#[derive(Debug, Parser)]
#[command(
    name = NAME,
    // As kube-apiserver takes the last of several values.
    args_override_self = true,
    disable_version_flag = true,
    next_line_help = true,
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

/// The action that a command line asks for.
#[derive(Debug)]
pub enum CommandLine {
    /// Serve with these settings over the defaults.
    Serve(Box<Settings>),
    /// Nothing more, because it was answered or refused already.
    Done(ExitCode),
}

/// Reads the command line of the process.
pub fn parse() -> CommandLine {
    let arguments = normalized(std::env::args_os().collect());
    let mut definition = definition();
    let matches = definition.try_get_matches_from_mut(&arguments);
    let parsed = matches.and_then(|matches| {
        let mut arguments = Arguments::from_arg_matches(&matches)?;
        arguments.settings.apiserver_flags = GivenFlags::of(&matches);
        Ok(arguments)
    });
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

/// Settings whose default is another one than that of `taffrail`, and that default.
const DEFAULTS: [(&str, &str); 4] = [
    ("allow_privileged", "false"),
    ("bind_address", "0.0.0.0"),
    ("data_dir", "that of the etcd, or a temporary one"),
    ("metrics_bind_address", "none"),
];

/// The flags, as --help shows them: also those that have no effect.
fn definition() -> clap::Command {
    let mut definition = apiserver_flags::augment(Arguments::command());
    definition = definition.mut_args(|argument| match effect_of(argument.get_id().as_str()) {
        Some(effect) => argument
            .hide(false)
            .help(effect)
            .help_heading("Further flags"),
        None => argument,
    });
    with_defaults(definition, DEFAULTS)
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
