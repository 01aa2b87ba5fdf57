//! Descriptions of settings, from which flags, help and the sample configuration are made.
//!
//! clap could derive the flags. It generates a lot of code for so many settings (docs/packages.md).

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};

/// How the value of a flag is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `--flag VALUE` or `--flag=VALUE`.
    Value,
    /// `--flag` or `--flag=BOOL`.
    Switch,
    /// As `Value`, and the value may be a negative number.
    Negative,
    /// As `Value`, and the value may begin with a hyphen.
    Hyphens,
}

/// One setting, without its value.
pub(super) struct Description {
    /// The name of its field, by which clap knows it.
    pub field: &'static str,
    /// Its name in a file, which is the flag without two dashes.
    pub name: &'static str,
    /// The word for its value in the help.
    pub value_name: &'static str,
    /// The heading above it in the help.
    pub heading: &'static str,
    /// Its explanation, as lines that begin with a space.
    pub lines: &'static [&'static str],
    /// How its flag is given.
    pub form: Form,
    /// Makes the parser of its values.
    pub parser: fn() -> ValueParser,
}

impl Description {
    /// Adds flags to a command.
    pub fn add_all(descriptions: &'static [Description], command: Command) -> Command {
        command.args(descriptions.iter().map(Description::flag))
    }

    fn flag(&'static self) -> Arg {
        let lines: Vec<&str> = self.lines.iter().map(|line| line.trim()).collect();
        let flag = Arg::new(self.field)
            .long(self.name)
            .value_name(self.value_name)
            .help(lines.join(" "))
            .help_heading(self.heading)
            .value_parser((self.parser)())
            .action(ArgAction::Set);
        match self.form {
            Form::Value => flag,
            Form::Switch => flag
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            Form::Negative => flag.allow_negative_numbers(true),
            Form::Hyphens => flag.allow_hyphen_values(true),
        }
    }
}

/// A name with dashes for underscores.
pub(super) const fn with_dashes<const N: usize>(name: &[u8]) -> [u8; N] {
    let mut dashed = [b'-'; N];
    let mut at = 0;
    while at < N {
        if name[at] != b'_' {
            dashed[at] = name[at];
        }
        at += 1;
    }
    dashed
}
