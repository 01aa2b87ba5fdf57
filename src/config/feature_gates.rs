//! Feature gates, with the texts of kube-apiserver's flag (http.md 10.1).

use std::fmt;
use std::str::FromStr;

use super::storage::{Switch, entries, joined};

/// The gates of kube-apiserver 1.36: name, stage, default, and whether the default is fixed.
const KNOWN: &str = include_str!("feature_gates.txt");

/// The gates that change what clients see here. All are beta and on unless they are switched off.
const OBEYED: [&str; 6] = [
    "APIResponseCompression",
    "ComponentFlagz",
    "ComponentStatusz",
    "ConstrainedImpersonation",
    "StorageVersionHash",
    "WatchList",
];

/// The names that set all gates of a stage, with the stage.
const SETS: [(&str, &str); 2] = [("AllAlpha", "alpha"), ("AllBeta", "beta")];

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
    /// Whether it is on by default.
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
    // The name may have its component before it.
    let (name, value) = entry
        .split_once('=')
        .ok_or_else(|| format!("missing bool value for {entry}"))?;
    let name = name.trim();
    let name = name.strip_prefix("kube:").unwrap_or(name);
    let Switch(value) = value
        .trim()
        .parse()
        .map_err(|why| format!("invalid value of {name}: {why}"))?;
    if SETS.iter().any(|(set, _)| *set == name) {
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
    /// Whether a gate is on: its own setting decides, else that of all gates of its stage, else its
    /// default. Locked gates never change.
    pub fn is_on(&self, name: &str) -> bool {
        let said = |name: &str| {
            let last = self.0.iter().rev().find(|(known, _)| known == name);
            last.map(|(_, value)| *value)
        };
        let Some(known) = FeatureGate::all().find(|known| known.name == name) else {
            return false;
        };
        let set = || {
            let set = SETS.iter().find(|(_, stage)| *stage == known.stage);
            set.filter(|_| !known.is_locked)
                .and_then(|(set, _)| said(set))
        };
        said(name).or_else(set).unwrap_or(known.default)
    }

    /// A line for each gate that is set to another value than its default and changes nothing here:
    /// a feature that it would turn off is always on, and one that it would turn on does not exist.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let changed = self.0.iter().filter(|(name, value)| {
            let known = FeatureGate::all().find(|known| known.name == name);
            // Some beta gates are on by default and others are off.
            known.is_none_or(|known| name == "AllBeta" || known.default != *value)
        });
        let without_effect = changed.filter(|(name, _)| !OBEYED.contains(&name.as_str()));
        without_effect.map(|(name, value)| {
            let rest = match (name.as_str(), value) {
                ("AllBeta", false) => format!(" but {}", OBEYED.join(", ")),
                _ => String::new(),
            };
            format!("feature-gates={name}: changes nothing here{rest}")
        })
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
        let unused: Vec<String> = gates.warnings().collect();
        assert_eq!(unused, ["feature-gates=AllAlpha: changes nothing here"]);
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

    /// http.md 10.1
    #[test]
    fn a_gate_is_on_by_its_own_name_or_by_that_of_its_stage() {
        let is_on = |text: &str, name: &str| text.parse::<FeatureGates>().unwrap().is_on(name);
        assert!(is_on("", "WatchList") && !is_on("", "HPAScaleToZero"));
        assert!(!is_on("WatchList=true,WatchList=false", "WatchList"));
        assert!(!is_on("AllBeta=false", "WatchList"));
        assert!(is_on("WatchList=true,AllBeta=false", "WatchList"));
        assert!(is_on("AllAlpha=true", "HPAScaleToZero"));
        assert!(is_on(
            "AllAlpha=true,AllBeta=false",
            "ConsistentListFromCache"
        ));
        assert!(!is_on("", "Foo"));
        let gates: FeatureGates = "AllBeta=false,HPAScaleToZero=true".parse().unwrap();
        let warnings: Vec<String> = gates.warnings().collect();
        assert_eq!(
            warnings,
            [
                "feature-gates=AllBeta: changes nothing here but APIResponseCompression, \
                 ComponentFlagz, ComponentStatusz, ConstrainedImpersonation, StorageVersionHash, \
                 WatchList",
                "feature-gates=HPAScaleToZero: changes nothing here"
            ]
        );
    }

    /// The page about gates says of each what it does here.
    #[test]
    fn the_page_about_gates_has_a_row_for_each() {
        let page = include_str!("../../docs/feature-gates.md");
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let rows: Vec<Vec<&str>> = rows.map(|row| row.split(" | ").collect()).collect();
        let all: Vec<FeatureGate> = FeatureGate::all().collect();
        assert_eq!(rows.len(), all.len());
        for (row, gate) in rows.iter().zip(all) {
            assert_eq!(row[0], format!("| `{}`", gate.name));
            let default = if gate.default { "on" } else { "off" };
            let locked = if gate.is_locked { ", locked" } else { "" };
            assert_eq!(
                row[1],
                format!("{}, {default}{locked}", gate.stage),
                "{row:?}"
            );
            let is_obeyed = row[2].starts_with("**obeyed**: ");
            assert_eq!(is_obeyed, OBEYED.contains(&gate.name), "{row:?}");
            assert!(row[2].len() > " |".len() + 10, "{row:?}");
        }
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
