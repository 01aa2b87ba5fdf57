//! The configuration of the plugin: the policy of namespaces without labels, and what is exempt
//! (HK-98). Pure.

use std::collections::HashSet;

use serde_json::Value;

use super::policy::{LevelVersion, Policy};
use crate::api::field_error::{FieldError, FieldErrorKind};
use crate::api::names::{dns_label, dns_subdomain};

/// The content of a configuration.
#[derive(Debug, Default)]
pub struct Settings {
    /// The policy of namespaces without labels.
    pub(super) defaults: Policy,
    /// Users who may write any pod.
    pub(super) users: HashSet<String>,
    /// Namespaces in which any pod may be.
    pub(super) namespaces: HashSet<String>,
    /// Runtime classes of pods that are not checked.
    pub(super) runtime_classes: HashSet<String>,
}

impl Settings {
    /// Reads a PodSecurityConfiguration, which has the right types.
    ///
    /// # Errors
    /// The faulty members.
    pub fn read(configuration: &Value) -> Result<Settings, Vec<FieldError>> {
        let mut faults = Vec::new();
        let Policy {
            enforce,
            audit,
            warn,
        } = Policy::default();
        let mut of = |mode, level| level_of(configuration, mode, level, &mut faults);
        let (enforce, warn, audit) = (of("enforce", enforce), of("warn", warn), of("audit", audit));
        let mut exempt = |list, check| texts(configuration, list, check, &mut faults);
        let namespaces = exempt("namespaces", dns_label);
        let runtime_classes = exempt("runtimeClasses", dns_subdomain);
        let users = exempt("usernames", user_name);
        let defaults = Policy {
            enforce,
            audit,
            warn,
        };
        match faults.is_empty() {
            true => Ok(Settings {
                defaults,
                users,
                namespaces,
                runtime_classes,
            }),
            false => Err(faults),
        }
    }
}

fn user_name(name: &str) -> Vec<String> {
    match name {
        "" => vec!["username must not be empty".to_owned()],
        _ => Vec::new(),
    }
}

/// The level and version of a mode. An empty text counts as none.
fn level_of(
    configuration: &Value,
    mode: &str,
    mut level: LevelVersion,
    faults: &mut Vec<FieldError>,
) -> LevelVersion {
    let text = |name: &str| {
        let found = configuration["defaults"][name].as_str();
        found.filter(|text| !text.is_empty())
    };
    if let Some(text) = text(mode) {
        level.set_level(&format!("defaults.{mode}"), text, faults);
    }
    let version = format!("{mode}-version");
    if let Some(text) = text(&version) {
        level.set_version(&format!("defaults.{version}"), text, faults);
    }
    level
}

/// The texts of a list of exemptions.
fn texts(
    configuration: &Value,
    list: &str,
    check: fn(&str) -> Vec<String>,
    faults: &mut Vec<FieldError>,
) -> HashSet<String> {
    let mut texts = HashSet::new();
    let items = configuration["exemptions"][list].as_array();
    for (place, item) in items.into_iter().flatten().enumerate() {
        let text = item.as_str().unwrap_or_default();
        let path = format!("exemptions.{list}[{place}]");
        let problems = check(text);
        if !problems.is_empty() {
            faults.push(FieldError::invalid(path, text, problems.join(", ")));
        } else if !texts.insert(text.to_owned()) {
            let value = text.into();
            faults.push(FieldError::new(FieldErrorKind::Duplicate, path, &value, ""));
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_are_absent_or_empty_forbid_and_exempt_nothing_hk_98() {
        for empty in [
            json!({}),
            json!({"defaults": {"enforce": "", "warn-version": ""}, "exemptions": {"usernames": []}}),
        ] {
            let settings = Settings::read(&empty).unwrap();
            assert_eq!(settings.defaults, Policy::default());
            assert!(settings.users.is_empty());
        }
        let configuration = json!({
            "defaults": {"enforce": "baseline", "enforce-version": "v1.30", "audit": "restricted"},
            "exemptions": {"usernames": ["a:b"], "namespaces": ["n"], "runtimeClasses": ["r.s"]},
        });
        let settings = Settings::read(&configuration).unwrap();
        assert_eq!(settings.defaults.enforce.to_string(), "baseline:v1.30");
        assert_eq!(settings.defaults.audit.to_string(), "restricted:latest");
        assert_eq!(settings.defaults.warn.to_string(), "privileged:latest");
        assert!(settings.users.contains("a:b") && settings.runtime_classes.contains("r.s"));
        assert!(settings.namespaces.contains("n"));
    }

    #[test]
    fn all_faults_are_named_in_the_words_of_kube_apiserver_hk_98() {
        let configuration = json!({
            "defaults": {"enforce": "x", "enforce-version": "v2", "warn": "Baseline"},
            "exemptions": {
                "usernames": ["", "a", "a"], "namespaces": ["A"], "runtimeClasses": ["_"],
            },
        });
        let faults = Settings::read(&configuration).unwrap_err();
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let of_level = "must be one of privileged, baseline, restricted";
        assert_eq!(
            faults[..3],
            [
                format!("defaults.enforce: Invalid value: \"x\": {of_level}"),
                "defaults.enforce-version: Invalid value: \"v2\": must be \"latest\" or \"v1.x\""
                    .to_owned(),
                format!("defaults.warn: Invalid value: \"Baseline\": {of_level}"),
            ]
        );
        for (fault, beginning) in faults[3..].iter().zip([
            "exemptions.namespaces[0]: Invalid value: \"A\": a lowercase RFC 1123 label must",
            "exemptions.runtimeClasses[0]: Invalid value: \"_\": a lowercase RFC 1123 subdomain",
            "exemptions.usernames[0]: Invalid value: \"\": username must not be empty",
            "exemptions.usernames[2]: Duplicate value: \"a\"",
        ]) {
            assert!(fault.starts_with(beginning), "{fault}");
        }
        assert_eq!(faults.len(), 7);
    }
}
