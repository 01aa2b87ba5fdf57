//! The refusal of a configuration, with a line for each wrong setting and its value.

use std::ffi::OsString;
use std::fmt;
use std::num::{IntErrorKind, ParseIntError};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::unknown::{self, Fault, Unknown};

/// Flags that kube-apiserver has or had, and what to use instead.
const OF_KUBE_APISERVER: [(&str, &str); 3] = [
    ("--port", "--secure-port is the port of HTTPS"),
    (
        "--etcd-quorum-read",
        "kube-apiserver removed it, and all reads of etcd have a quorum: leave it out",
    ),
    (
        "--storage-versions",
        "kube-apiserver removed it; --storage.versions names versions",
    ),
];

/// One or more lines for the operator. The process ends with exit code 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: Option<PathBuf>,
    problem: String,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(path) => {
                let path = printable(&path.display().to_string());
                write!(formatter, "--config={path}: {}", self.problem)
            }
            None => formatter.write_str(&self.problem),
        }
    }
}

impl ConfigError {
    pub(super) fn in_file(path: &Path, problem: impl fmt::Display) -> ConfigError {
        ConfigError {
            file: Some(path.to_owned()),
            problem: one_line(&problem.to_string()),
        }
    }

    pub(super) fn of_text(problem: &str) -> ConfigError {
        ConfigError {
            file: None,
            problem: problem.to_owned(),
        }
    }

    pub(super) fn of_file(mut self, path: &Path) -> ConfigError {
        self.file = Some(path.to_owned());
        // Names in a file have no dashes before them.
        let lines = self.problem.lines();
        let lines = lines.map(|line| line.strip_prefix("--").unwrap_or(line));
        let problem = lines.collect::<Vec<_>>().join("\n");
        self.problem = problem.replace("did you mean --", "did you mean ");
        self
    }

    fn of_settings(problem: String) -> ConfigError {
        ConfigError {
            file: None,
            problem,
        }
    }

    /// All faults, one line each.
    ///
    /// # Errors
    /// There is at least one fault.
    pub(super) fn all(refusals: Vec<ConfigError>) -> Result<(), ConfigError> {
        if refusals.is_empty() {
            return Ok(());
        }
        let problems: Vec<String> = refusals.into_iter().map(|one| one.problem).collect();
        Err(ConfigError::of_settings(problems.join("\n")))
    }

    pub(super) fn of_setting(name: &str, problem: &str) -> ConfigError {
        ConfigError::of_settings(format!("--{name}: {problem}"))
    }

    pub(super) fn together(one: &str, other: &str) -> ConfigError {
        ConfigError::of_settings(format!(
            "--{one} and --{other} are set together or not at all"
        ))
    }

    pub(super) fn lacks(name: &str, needed: &str) -> ConfigError {
        ConfigError::of_settings(format!(
            "--{name} has no effect without --{needed}; set both"
        ))
    }

    pub(super) fn missing(name: &str, because: &str) -> ConfigError {
        ConfigError::of_settings(format!("--{name} must be specified with --{because}"))
    }

    pub(super) fn clash(one: &str, other: &str) -> ConfigError {
        ConfigError::of_settings(format!(
            "--{one} is the address and port of --{other}; give it another, or 0 to switch it off"
        ))
    }

    pub(super) fn of_value(name: &str, value: &dyn fmt::Display, fault: &str) -> ConfigError {
        ConfigError::of_settings(format!("--{name}={value}: {fault}"))
    }

    /// The message of clap in one line, or a line for each flag that the command of these arguments
    /// does not have or whose value is wrong. `None` when it is help or the version.
    pub fn of_flags(
        error: &clap::Error,
        arguments: &[OsString],
        definition: &clap::Command,
    ) -> Option<ConfigError> {
        let argument = context(error, ContextKind::InvalidArg);
        let flag = name_of(&argument);
        let is_of_flags = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return None,
            ErrorKind::UnknownArgument | ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
                true
            }
            _ => false,
        };
        if !is_of_flags {
            return Some(ConfigError::of_settings(message(error)));
        }
        let faults = unknown::faults(arguments, definition);
        let (program, takes_command) = unknown::program(arguments, definition);
        let mut lines: Vec<String> = faults.iter().map(|fault| line(fault, &program)).collect();
        let begins = |line: &String| {
            line.strip_prefix(flag)
                .is_some_and(|rest| !rest.starts_with('-'))
        };
        // linear: a few faults of a command line.
        if !lines.iter().any(begins) {
            let is_word = error.kind() == ErrorKind::UnknownArgument && !flag.starts_with('-');
            lines.insert(
                0,
                match is_word && takes_command {
                    true => {
                        format!("{flag} is unknown; a command goes after --: {program} -- {flag}")
                    }
                    false => line_of(error, &program),
                },
            );
        }
        Some(ConfigError::of_settings(lines.join("\n")))
    }
}

/// The line about a fault of a command line.
fn line(fault: &Fault, program: &str) -> String {
    match fault {
        Fault::Unknown(unknown) => told(unknown, program),
        Fault::Value(error) => message(error),
    }
}

/// The line about an error of clap, which may be that a flag is unknown.
fn line_of(error: &clap::Error, program: &str) -> String {
    if error.kind() != ErrorKind::UnknownArgument {
        return message(error);
    }
    let argument = context(error, ContextKind::InvalidArg);
    let flag = name_of(&argument);
    let unknown = Unknown {
        flag: flag.to_owned(),
        meant: None,
    };
    told(&unknown, program)
}

/// The flag in clap's description of an argument, such as `--flag <VALUE>` or `--flag[=<VALUE>]`.
fn name_of(argument: &str) -> &str {
    argument.split([' ', '=', '[']).next().unwrap_or_default()
}

/// The message of clap in one line.
fn message(error: &clap::Error) -> String {
    let argument = context(error, ContextKind::InvalidArg);
    let flag = name_of(&argument);
    let value = context(error, ContextKind::InvalidValue);
    let problem = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "this command is one of several, and the second word is missing; see its --help"
                .to_owned()
        }
        ErrorKind::InvalidUtf8 => {
            "an argument is not valid UTF-8; check what the shell has put there".to_owned()
        }
        ErrorKind::InvalidSubcommand => {
            let subcommand = context(error, ContextKind::InvalidSubcommand);
            format!("{subcommand} is not a command; see taffrail --help")
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("{flag} needs a value"),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let reason = std::error::Error::source(error)
                .map(reason)
                .unwrap_or_else(|| format!("it takes {}", all(error, ContextKind::ValidValue)));
            format!("{flag}={value}: {reason}")
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = all(error, ContextKind::InvalidArg);
            format!("{missing} is missing; see --help of the command")
        }
        ErrorKind::ArgumentConflict => format!("{flag} is given more than once"),
        _ => error.to_string().replacen("error: ", "", 1),
    };
    one_line(&problem)
}

/// The line about an unknown flag.
fn told(unknown: &Unknown, program: &str) -> String {
    let Unknown { flag, meant } = unknown;
    let instead = OF_KUBE_APISERVER.iter().find(|(name, _)| name == flag);
    let hint = match (instead, meant) {
        (Some((_, instead)), _) => (*instead).to_owned(),
        (None, Some(meant)) => format!("did you mean {meant}?"),
        (None, None) => format!("see {program} --help"),
    };
    format!("{} is unknown; {hint}", printable(flag))
}

fn context(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => printable(text),
        Some(ContextValue::Strings(texts)) => texts
            .first()
            .map_or_else(String::new, |text| printable(text)),
        _ => String::new(),
    }
}

/// A text without control characters, which would break the line or act on a terminal.
pub fn printable(text: &str) -> String {
    let escaped = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// The problem with a value.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let kind = error.downcast_ref().map(ParseIntError::kind);
    match kind {
        Some(IntErrorKind::PosOverflow) => "too large a number".to_owned(),
        Some(_) => "not a whole number, such as 100".to_owned(),
        None => error.to_string(),
    }
}

/// All texts of a context.
fn all(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::Strings(texts)) => texts.join(" or "),
        _ => context(error, kind),
    }
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}
