//! The levels in the labels of a namespace. Pure.

use std::fmt;

use serde_json::{Map, Value};

use super::checks;
use super::pod_parts::{PodParts, Violation};
use crate::api::field_error::FieldError;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// The version of the newest rules.
const LATEST: &str = "latest";

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

    /// Whether both have the same version.
    pub(super) fn has_version_of(&self, other: &LevelVersion) -> bool {
        self.version == other.version
    }

    fn is_equivalent(&self, other: &LevelVersion) -> bool {
        let levels = [self.level, other.level];
        levels == [Level::Privileged; 2] || self == other
    }

    /// Sets the level, if it is valid. Returns whether it is.
    pub(super) fn set_level(
        &mut self,
        path: &str,
        text: &str,
        faults: &mut Vec<FieldError>,
    ) -> bool {
        match Level::of(text) {
            Some(level) => self.level = level,
            None => {
                let why = "must be one of privileged, baseline, restricted";
                faults.push(FieldError::invalid(path, text, why));
                return false;
            }
        }
        true
    }

    /// Sets the version. An invalid one counts as the newest.
    pub(super) fn set_version(&mut self, path: &str, text: &str, faults: &mut Vec<FieldError>) {
        self.version = match is_version(text) {
            true => text.to_owned(),
            false => {
                let why = "must be \"latest\" or \"v1.x\"";
                faults.push(FieldError::invalid(path, text, why));
                LATEST.to_owned()
            }
        };
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

/// The default policy where no configuration sets another one: nothing is forbidden.
impl Default for Policy {
    fn default() -> Policy {
        let privileged = LevelVersion {
            level: Level::Privileged,
            version: LATEST.to_owned(),
        };
        Policy {
            enforce: privileged.clone(),
            audit: privileged.clone(),
            warn: privileged,
        }
    }
}

impl Policy {
    /// The policy of a namespace with these labels, and the faults of the labels. Levels and
    /// versions without a label are those of `defaults`. If a namespace sets a level to enforce and
    /// none to warn, the enforced level applies to warnings, too, if it is stricter.
    pub(super) fn of(
        labels: Option<&Map<String, Value>>,
        defaults: &Policy,
    ) -> (Policy, Vec<FieldError>) {
        let mut policy = defaults.clone();
        let mut faults = Vec::new();
        let is_enforced = set(labels, "enforce", &mut policy.enforce, &mut faults);
        if is_enforced == Some(false) {
            policy.enforce.level = Level::Restricted;
        }
        for (mode, of) in [("audit", &mut policy.audit), ("warn", &mut policy.warn)] {
            if set(labels, mode, of, &mut faults) == Some(false) {
                of.level = Level::Privileged;
            }
        }
        let Policy { enforce, warn, .. } = &mut policy;
        let is_said = label(labels, "warn").is_some();
        if !is_said && is_enforced == Some(true) && enforce.level > warn.level {
            warn.level = enforce.level;
            if label(labels, "warn-version").is_none() {
                warn.version.clone_from(&enforce.version);
            }
        }
        (policy, faults)
    }

    /// Whether pods need no checks.
    pub(super) fn is_privileged(&self) -> bool {
        let levels = [self.enforce.level, self.audit.level, self.warn.level];
        levels == [Level::Privileged; 3]
    }

    /// Whether the checks of templates, which are never refused, need not run.
    pub(super) fn is_silent(&self) -> bool {
        [self.audit.level, self.warn.level] == [Level::Privileged; 2]
    }

    /// Returns the modes that labels set to a level which forbids something, as warnings show
    /// them. `None` if the policy has the same effect as the default one.
    pub(super) fn shown(
        &self,
        labels: Option<&Map<String, Value>>,
        defaults: &Policy,
    ) -> Option<String> {
        let modes = [
            ("enforce", &self.enforce, &defaults.enforce),
            ("audit", &self.audit, &defaults.audit),
            ("warn", &self.warn, &defaults.warn),
        ];
        let is_default = modes
            .iter()
            .all(|(_, own, default)| own.is_equivalent(default));
        if self.is_privileged() || is_default {
            return None;
        }
        let is_said = |mode: &str| {
            let version = format!("{mode}-version");
            label(labels, mode)
                .or_else(|| label(labels, &version))
                .is_some()
        };
        let shown = modes
            .iter()
            .filter(|(mode, own, _)| own.level > Level::Privileged && is_said(mode));
        let shown: Vec<String> = shown
            .map(|(mode, own, _)| format!("{mode}={own}"))
            .collect();
        Some(shown.join(", "))
    }
}

fn label<'l>(labels: Option<&'l Map<String, Value>>, name: &str) -> Option<&'l str> {
    labels?.get(&format!("{PREFIX}{name}"))?.as_str()
}

/// Sets the level and the version that labels give to a mode. An invalid version counts as the
/// newest. Returns whether the level is valid, if there is one.
fn set(
    labels: Option<&Map<String, Value>>,
    mode: &str,
    of: &mut LevelVersion,
    faults: &mut Vec<FieldError>,
) -> Option<bool> {
    let path = |name: &str| format!("metadata.labels[{PREFIX}{name}]");
    let is_valid = label(labels, mode).map(|text| of.set_level(&path(mode), text, faults));
    let name = format!("{mode}-version");
    if let Some(text) = label(labels, &name) {
        of.set_version(&path(&name), text, faults);
    }
    is_valid
}

fn is_version(text: &str) -> bool {
    let minor = text.strip_prefix("v1.");
    let is_number = minor.is_some_and(|minor| {
        let is_canonical = minor == "0" || !minor.starts_with('0');
        !minor.is_empty() && is_canonical && minor.bytes().all(|byte| byte.is_ascii_digit())
    });
    text == LATEST || is_number
}
