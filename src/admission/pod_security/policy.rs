//! The levels in the labels of a namespace. Pure.

use std::fmt;

use serde_json::{Map, Value};

use super::checks;
use super::pod_parts::{PodParts, Violation};
use crate::api::field_error::FieldError;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// The levels, the least strict first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Forbids nothing.
    Privileged,
    /// Forbids known ways to escape from a container.
    Baseline,
    /// Forbids everything that is not best practice.
    Restricted,
}

impl Level {
    fn of(text: &str) -> Option<Level> {
        match text {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

/// A level, and the version of Kubernetes whose rules it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    version: String,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

impl LevelVersion {
    /// The violations of a pod. The rules of all versions are those of the newest one (D-62).
    pub(super) fn violations(&self, pod: PodParts<'_>) -> Vec<Violation> {
        match self.level {
            Level::Privileged => Vec::new(),
            Level::Baseline => checks::baseline(pod),
            Level::Restricted => checks::restricted(pod),
        }
    }
}

/// The levels that a namespace sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// The level below which pods are refused.
    pub(super) enforce: LevelVersion,
    /// The level below which pods are noted in the audit log.
    pub(super) audit: LevelVersion,
    /// The level below which writers are warned.
    pub(super) warn: LevelVersion,
}

impl Policy {
    /// The policy of a namespace with these labels, and the faults of the labels. If a namespace
    /// sets a level to enforce and none to warn, the enforced level applies to warnings, too.
    pub(super) fn of(labels: Option<&Map<String, Value>>) -> (Policy, Vec<FieldError>) {
        let mut faults = Vec::new();
        let enforce = level_version(labels, "enforce", &mut faults);
        let audit = level_version(labels, "audit", &mut faults);
        let mut warn = level_version(labels, "warn", &mut faults);
        if label(labels, "warn").is_none() && enforce.level > warn.level {
            warn.clone_from(&enforce);
        }
        let policy = Policy {
            enforce,
            audit,
            warn,
        };
        (policy, faults)
    }

    /// Whether pods need no checks.
    pub(super) fn is_privileged(&self) -> bool {
        let levels = [self.enforce.level, self.audit.level, self.warn.level];
        levels == [Level::Privileged; 3]
    }
}

fn label<'l>(labels: Option<&'l Map<String, Value>>, name: &str) -> Option<&'l str> {
    labels?.get(&format!("{PREFIX}{name}"))?.as_str()
}

/// The level of a mode. An invalid level counts as the strictest one, an invalid version as the
/// newest.
fn level_version(
    labels: Option<&Map<String, Value>>,
    mode: &str,
    faults: &mut Vec<FieldError>,
) -> LevelVersion {
    let path = |name: &str| format!("metadata.labels[{PREFIX}{name}]");
    let mut level = Level::Privileged;
    if let Some(text) = label(labels, mode) {
        level = Level::of(text).unwrap_or_else(|| {
            let why = "must be one of privileged, baseline, restricted";
            faults.push(FieldError::invalid(path(mode), text, why));
            Level::Restricted
        });
    }
    let name = format!("{mode}-version");
    let mut version = "latest".to_owned();
    if let Some(text) = label(labels, &name) {
        if is_version(text) {
            text.clone_into(&mut version);
        } else {
            let why = "must be \"latest\" or \"v1.x\"";
            faults.push(FieldError::invalid(path(&name), text, why));
        }
    }
    LevelVersion { level, version }
}

fn is_version(text: &str) -> bool {
    let minor = text.strip_prefix("v1.");
    let is_number = minor.is_some_and(|minor| {
        let is_canonical = minor == "0" || !minor.starts_with('0');
        !minor.is_empty() && is_canonical && minor.bytes().all(|byte| byte.is_ascii_digit())
    });
    text == "latest" || is_number
}
