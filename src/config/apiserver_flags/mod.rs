//! The flags of kube-apiserver 1.36 that are not settings of the daemon.
//!
//! A command line of kube-apiserver starts the daemon, so the daemon knows all flags of
//! kube-apiserver. Those that it obeys are settings, in `settings.rs`; the others are rows of the
//! table in `table.rs`. Each row has the type of its value and what becomes of it: a value that
//! has no effect is noted in the log, and a value whose neglect would weaken protection or lose
//! data is refused. `docs/kube-apiserver-flags.md` lists all of them.

mod egress_selector;
mod kind;
mod stand_ins;
mod table;

use std::collections::BTreeMap;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::tls_settings::{SNI_FLAG, SNI_SEPARATOR};
use kind::Kind;
pub(super) use table::FLAGS;

/// A flag of kube-apiserver that is not a setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApiserverFlag {
    /// Its name, without dashes.
    pub(super) name: &'static str,
    kind: Kind,
    /// The default of kube-apiserver. Its value changes nothing.
    default: &'static str,
    pub(super) fate: Fate,
}

/// The treatment of the value of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has its meaning in kube-apiserver, for this reason.
    Obeyed(&'static str),
    /// It changes nothing, for this reason, and is noted in the log.
    NoEffect(&'static str),
    /// It is refused with this advice, unless it has the default value or one of these.
    Refused(&'static [&'static str], &'static str),
}

impl ApiserverFlag {
    /// Returns the value in one form, so that it can be compared.
    ///
    /// # Errors
    /// kube-apiserver would refuse the value, or the daemon cannot do without its effect.
    fn parse(&self, text: &str) -> Result<String, String> {
        let value = self.kind.canonical(text)?;
        if let Fate::Refused(harmless, instead) = self.fate {
            let is_harmless = self.is_default(&value)
                || harmless
                    .iter()
                    .any(|one| self.kind.canonical(one).is_ok_and(|one| one == value));
            if !is_harmless {
                return Err(instead.to_owned());
            }
        }
        match self.name {
            egress_selector::FLAG if !value.is_empty() => {
                egress_selector::check(value.as_ref()).map(|()| value)
            }
            _ => Ok(value),
        }
    }

    fn is_default(&self, value: &str) -> bool {
        let default = self.kind.canonical(self.default);
        default.is_ok_and(|default| default == value)
    }

    fn argument(&'static self) -> Arg {
        let argument = Arg::new(self.name)
            .long(self.name)
            .hide(true)
            .action(ArgAction::Set)
            .value_parser(ValueParser::from(|text: &str| self.parse(text)));
        match self.kind {
            Kind::Bool => argument
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            _ => argument.allow_hyphen_values(true),
        }
    }
}

/// Returns what becomes of the value of such a flag, for help.
pub fn effect_of(name: &str) -> Option<String> {
    // linear: the help asks once for each flag.
    let flag = FLAGS.iter().find(|flag| flag.name == name)?;
    Some(match flag.fate {
        Fate::Obeyed(why) => format!("As in kube-apiserver: {why}"),
        Fate::NoEffect(why) => format!("Has no effect: {why}"),
        Fate::Refused(_, instead) => format!("Refused, unless it is the default: {instead}"),
    })
}

/// Adds the flags to a command, hidden.
pub fn augment(command: Command) -> Command {
    command.args(FLAGS.iter().map(ApiserverFlag::argument))
}

/// Flags that are settings here and lists in kube-apiserver, or lists of the daemon itself.
const LISTS: [&str; 27] = [
    "api-audiences",
    "authorization-mode",
    "controllers",
    "cors-allowed-origins",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "etcd-servers",
    "etcd-servers-overrides",
    "feature-gates",
    "kubelet-preferred-address-types",
    "oidc-required-claim",
    "oidc-signing-algs",
    "requestheader-allowed-names",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-uid-headers",
    "requestheader-username-headers",
    "runtime-config",
    "service-account-issuer",
    "service-account-key-file",
    "storage.versions",
    "strict-transport-security-directives",
    "tls-cipher-suites",
    "tls-curve-preferences",
    "tls-san",
    "tls-sni-cert-key",
    "watch-cache-sizes",
];

/// Whether a flag with this name may be given several times, as parts of one list.
pub fn is_list(name: &str) -> bool {
    // linear: a few names, for each argument of a command line.
    LISTS.contains(&name)
        || FLAGS
            .iter()
            .any(|flag| flag.name == name && flag.kind.is_list())
}

/// The character between the parts of a list that is given in several flags.
pub fn separator(name: &str) -> &'static str {
    match name {
        SNI_FLAG => SNI_SEPARATOR,
        _ => ",",
    }
}

/// The flags of a command line that are not settings, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenFlags(BTreeMap<&'static str, String>);

impl GivenFlags {
    /// The flags that the matches of a command have.
    pub fn of(matches: &ArgMatches) -> GivenFlags {
        let given = FLAGS.iter().filter_map(|flag| {
            let value: Option<&String> = matches.try_get_one(flag.name).ok().flatten();
            value.map(|value| (flag.name, value.clone()))
        });
        GivenFlags(given.collect())
    }

    /// These flags where they are given, else those of `lower`.
    pub fn over(mut self, lower: GivenFlags) -> GivenFlags {
        for (name, value) in lower.0 {
            self.0.entry(name).or_insert(value);
        }
        self
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The line about the flags that change nothing, if there are any.
    pub fn note(&self) -> Option<String> {
        let idle = FLAGS.iter().filter(|flag| {
            let value = self.value(flag.name);
            let is_given = value.is_some_and(|value| !flag.is_default(value));
            is_given && matches!(flag.fate, Fate::NoEffect(_))
        });
        let names: Vec<&str> = idle.map(|flag| flag.name).collect();
        (!names.is_empty()).then(|| {
            format!(
                "flags of kube-apiserver without effect: {}; see docs/kube-apiserver-flags.md",
                names.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests;
