//! Pure. Finds the faults of a command line: flags that no command has, with flags of similar
//! names, and values that their flags refuse.

use std::borrow::Cow;
use std::ffi::OsString;

use clap::{Arg, Command};

use super::apiserver_flags::FLAGS;

/// A fault of a command line.
#[derive(Debug)]
pub(super) enum Fault {
    /// A flag that its command does not have.
    Unknown(Unknown),
    /// A value that its flag refuses.
    Value(clap::Error),
}

/// A flag that its command does not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown {
    /// With its dashes.
    pub(super) flag: String,
    /// The flag that was probably meant.
    pub(super) meant: Option<String>,
}

/// All faults, in order, each once.
pub(super) fn faults(arguments: &[OsString], definition: &Command) -> Vec<Fault> {
    let mut found: Vec<Fault> = Vec::new();
    let is_new = |found: &[Fault], flag: &str| {
        !found
            .iter()
            .any(|one| matches!(one, Fault::Unknown(known) if known.flag == flag))
    };
    let mut command = definition;
    let mut arguments = arguments.iter().map(|one| one.to_string_lossy()).peekable();
    while let Some(argument) = arguments.next() {
        let Some(flag) = argument.strip_prefix("--") else {
            command = command.find_subcommand(&*argument).unwrap_or(command);
            continue;
        };
        let (name, mut value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(Cow::Borrowed(value))),
            None => (flag, None),
        };
        let known = command
            .get_arguments()
            .find(|one| one.get_long() == Some(name));
        match known {
            _ if name.is_empty() => break,
            Some(known) => {
                if value.is_none() && takes_next(known) {
                    let is_value = |next: &Cow<'_, str>| {
                        known.is_allow_hyphen_values_set() || !next.starts_with('-')
                    };
                    value = arguments.next_if(is_value);
                }
                found.extend(refusal(known, value.as_deref()).map(Fault::Value));
            }
            None if matches!(name, "help" | "version") => {}
            None if !is_new(&found, &argument_name(name)) => {}
            None => found.push(Fault::Unknown(Unknown {
                flag: argument_name(name),
                meant: near(name, command),
            })),
        }
    }
    found
}

/// The name of the program with that of its command, and whether that runs a command after `--`.
pub(super) fn program(arguments: &[OsString], definition: &Command) -> (String, bool) {
    let (mut command, mut name) = (definition, definition.get_name().to_owned());
    for argument in arguments.iter().take_while(|one| *one != "--") {
        if let Some(found) = command.find_subcommand(argument) {
            command = found;
            name = format!("{name} {}", command.get_name());
        }
    }
    (name, command.get_positionals().any(Arg::is_last_set))
}

fn argument_name(name: &str) -> String {
    format!("--{name}")
}

/// The error of a flag that is given alone, with this value.
fn refusal(flag: &Arg, value: Option<&str>) -> Option<clap::Error> {
    let name = argument_name(flag.get_long()?);
    let argument = match value {
        Some(value) => format!("{name}={value}"),
        None => name,
    };
    Command::new("alone")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(flag.clone())
        .try_get_matches_from([argument])
        .err()
}

/// Whether the argument after this flag is its value.
fn takes_next(flag: &Arg) -> bool {
    flag.get_action().takes_values() && !flag.is_require_equals_set()
}

/// The flag that differs least from a name. A quarter of the name may differ; or the name is a part
/// of one flag, or one flag is a part of the name.
fn near(name: &str, command: &Command) -> Option<String> {
    // Flags of kube-apiserver are hidden, and may be meant.
    let is_apiserver = |one: &&Arg| {
        let name = one.get_long();
        FLAGS.iter().any(|flag| Some(flag.name) == name)
    };
    let offered = command
        .get_arguments()
        .filter(|one| !one.is_hide_set() || is_apiserver(one));
    let known: Vec<&str> = offered.filter_map(Arg::get_long).collect();
    let nearest = known
        .iter()
        .map(|known| (distance(name, known), *known))
        .min();
    let few = nearest.filter(|(distance, _)| *distance <= name.len() / 4);
    let parts = || {
        let is_part = |known: &&&str| {
            known.starts_with(&format!("{name}-"))
                || known.ends_with(&format!("-{name}"))
                || name.starts_with(**known)
        };
        let mut parts = known.iter().filter(is_part);
        let only = parts.next();
        only.filter(|_| parts.next().is_none()).copied()
    };
    let meant = few.map(|(_, known)| known).or_else(parts);
    meant.map(|known| format!("--{known}"))
}

/// How many characters must be added, left out or replaced to make one text the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, a) in one.bytes().enumerate() {
        let mut corner = line;
        let mut left = line + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, b) in row.iter_mut().skip(1).zip(other.bytes()) {
            let replaced = corner + usize::from(a != b);
            corner = *cell;
            left = replaced.min(corner + 1).min(left + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Command {
        let flag = |name: &'static str| Arg::new(name).long(name);
        Command::new("t")
            .args(
                [
                    "secure-port",
                    "event-ttl",
                    "retention-age",
                    "retention-bytes",
                    "config",
                ]
                .map(flag),
            )
            .arg(flag("controllers").allow_hyphen_values(true))
            .subcommand(Command::new("sub").arg(flag("only-here")))
    }

    #[test]
    fn all_are_found_with_the_flags_that_are_meant() {
        let told = |text: &str| {
            let arguments: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            let found = faults(&arguments, &definition()).into_iter();
            let found = found.map(|one| match one {
                Fault::Unknown(one) => format!("{} {}", one.flag, one.meant.unwrap_or_default()),
                Fault::Value(error) => format!("{:?}", error.kind()),
            });
            found.collect::<Vec<_>>().join(";")
        };
        for (given, wanted) in [
            ("--secure-prot 1 --v=4", "--secure-prot --secure-port;--v "),
            (
                "--port=1 --retention=1",
                "--port --secure-port;--retention ",
            ),
            ("--config-file x", "--config-file --config"),
            (
                "--only-here sub --only-here 1 --event-ttl",
                "--only-here ;--event-ttl ",
            ),
            ("--controllers --no sub", ""),
            ("--config sub --only-here 1", "--only-here "),
            (
                "--secure-port --no --event-ttl",
                "InvalidValue;--no ;InvalidValue",
            ),
            ("-- --no", ""),
        ] {
            assert_eq!(told(given), wanted, "{given}");
        }
    }

    #[test]
    fn the_program_is_named_with_its_command() {
        let run = Command::new("run").arg(Arg::new("words").last(true));
        let definition = Command::new("t").subcommand(run);
        let of = |text: &str| {
            let arguments: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            program(&arguments, &definition)
        };
        assert_eq!(of("t --no"), ("t".to_owned(), false));
        assert_eq!(of("t run --no -- run"), ("t run".to_owned(), true));
        assert_eq!(of("t -- run"), ("t".to_owned(), false));
    }

    #[test]
    fn texts_differ_by_what_has_to_change() {
        for (one, other, wanted) in [
            ("", "", 0),
            ("a", "", 1),
            ("prot", "port", 2),
            ("abc", "xbcd", 2),
        ] {
            assert_eq!(distance(one, other), wanted);
            assert_eq!(distance(other, one), wanted);
        }
    }
}
