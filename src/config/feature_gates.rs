//! Feature gates, with the texts of kube-apiserver's flag (http.md 10.1).

use std::fmt;
use std::str::FromStr;

use super::storage::{Switch, entries, joined};

/// The gates of kube-apiserver 1.36: name, stage, default, and whether the default is fixed.
const KNOWN: &str = include_str!("feature_gates.txt");

/// `name=true`, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(pub Vec<(String, bool)>);

/// A gate of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    /// Its name.
    pub name: &'static str,
    /// `alpha`, `beta`, `ga` or `deprecated`.
    pub stage: &'static str,
    /// Whether it is on if nobody says anything.
    pub default: bool,
    /// Whether it can't be changed.
    pub is_locked: bool,
}

impl FeatureGate {
    /// All gates, by name.
    pub fn all() -> impl Iterator<Item = FeatureGate> {
        KNOWN.lines().filter_map(|line| {
            let mut words = line.split(' ');
            Some(FeatureGate {
                name: words.next()?,
                stage: words.next()?,
                default: words.next()? == "on",
                is_locked: words.next().is_some(),
            })
        })
    }
}

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<FeatureGates, String> {
        let gates = entries(text).map(gate);
        Ok(FeatureGates(gates.collect::<Result<_, _>>()?))
    }
}

fn gate(entry: &str) -> Result<(String, bool), String> {
    // The name may have its component in front.
    let (name, value) = entry
        .split_once('=')
        .ok_or_else(|| format!("missing bool value for {entry}"))?;
    let name = name.trim();
    let name = name.strip_prefix("kube:").unwrap_or(name);
    let Switch(value) = value
        .trim()
        .parse()
        .map_err(|why| format!("invalid value of {name}: {why}"))?;
    let sets = [("AllAlpha", "alpha"), ("AllBeta", "beta")];
    if sets.iter().any(|(set, _)| *set == name) {
        return Ok((name.to_owned(), value));
    }
    let known = FeatureGate::all().find(|known| known.name == name);
    match known {
        None => Err(format!("unrecognized feature gate: {name}")),
        Some(known) if known.is_locked && known.default != value => Err(format!(
            "cannot set feature gate {name} to {value}, feature is locked to {}",
            known.default
        )),
        Some(_) => Ok((name.to_owned(), value)),
    }
}

impl FeatureGates {
    /// The gates that are set to another value than their default. None changes anything here: what
    /// they would turn off is always on, what they would turn on does not exist.
    pub fn without_effect(&self) -> impl Iterator<Item = &str> {
        let changed = self.0.iter().filter(|(name, value)| {
            let known = FeatureGate::all().find(|known| known.name == name);
            known.is_none_or(|known| known.default != *value)
        });
        changed.map(|(name, _)| name.as_str())
    }
}

impl fmt::Display for FeatureGates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&joined(&self.0, |(name, value)| format!("{name}={value}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_gates_are_accepted_and_locked_ones_refuse_a_change() {
        let text = "WatchList=false,kube:RetryGenerateName=true, AllAlpha=true";
        let gates: FeatureGates = text.parse().unwrap();
        assert_eq!(
            gates.to_string(),
            "WatchList=false,RetryGenerateName=true,AllAlpha=true"
        );
        let unused: Vec<&str> = gates.without_effect().collect();
        assert_eq!(unused, ["WatchList", "AllAlpha"]);
        for (text, why) in [
            ("Foo=true", "unrecognized feature gate: Foo"),
            ("WatchList", "missing bool value for WatchList"),
            (
                "WatchList=x",
                "invalid value of WatchList: neither true nor false",
            ),
            (
                "RetryGenerateName=false",
                "cannot set feature gate RetryGenerateName to false, feature is locked to true",
            ),
        ] {
            assert_eq!(text.parse::<FeatureGates>(), Err(why.to_owned()));
        }
        assert_eq!("".parse(), Ok(FeatureGates::default()));
    }

    #[test]
    fn the_table_of_gates_is_whole() {
        let all: Vec<FeatureGate> = FeatureGate::all().collect();
        assert_eq!(all.len(), KNOWN.lines().count());
        let stages = ["alpha", "beta", "ga", "deprecated"];
        assert!(all.iter().all(|gate| stages.contains(&gate.stage)));
        assert!(all.is_sorted_by_key(|gate| gate.name));
    }
}
