//! The APIs that are served, with the texts of kube-apiserver's flag (SF-48).

use std::fmt;
use std::str::FromStr;

use super::storage::{Switch, entries, joined};

/// `api/all=false`, `group/version=true` or `group/version/resource=false`, separated by commas. A
/// key alone means true. `v1` is the core group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConfig(Vec<(String, bool)>);

/// The keys that cover many versions.
const ALL: &str = "api/all";
const GENERALLY_AVAILABLE: &str = "api/ga";
const BETA: &str = "api/beta";
const ALPHA: &str = "api/alpha";

impl FromStr for RuntimeConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<RuntimeConfig, String> {
        let keys = entries(text).map(|entry| {
            let (key, value) = entry.split_once('=').unwrap_or((entry, "true"));
            let Switch(value) = value
                .trim()
                .parse()
                .map_err(|why| format!("invalid value of {key}: {why}"))?;
            let key = key.trim().trim_start_matches('/');
            let known = [ALL, GENERALLY_AVAILABLE, BETA, ALPHA].contains(&key);
            let parts: Vec<&str> = key.split('/').collect();
            let is_whole = parts.iter().all(|part| !part.is_empty()) && parts.len() <= 3;
            let is_version = parts.len() > 1 || is_version(key);
            if known || is_whole && is_version && parts.first() != Some(&"api") {
                return Ok((key.to_owned(), value));
            }
            Err(format!(
                "api/all, api/ga, api/beta, api/alpha, group/version or group/version/resource is \
                 expected, with v1 for the core group, not {key}"
            ))
        });
        Ok(RuntimeConfig(keys.collect::<Result<_, _>>()?))
    }
}

/// Whether a text has the form of a version: `v1`, `v2beta1`.
fn is_version(text: &str) -> bool {
    let rest = text.strip_prefix('v').unwrap_or_default();
    rest.starts_with(|c: char| c.is_ascii_digit())
}

impl RuntimeConfig {
    /// Whether a resource is served in a version: the entry of the resource decides, else that of
    /// its version, else that of all versions as mature as this one, else that of all.
    pub fn serves(&self, group: &str, version: &str, resource: &str) -> bool {
        let group_version = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let maturity = match version {
            version if version.contains("alpha") => ALPHA,
            version if version.contains("beta") => BETA,
            _ => GENERALLY_AVAILABLE,
        };
        let own = format!("{group_version}/{resource}");
        let keys = [own.as_str(), &group_version, maturity, ALL];
        let said = |key: &&str| self.0.iter().rev().find(|(name, _)| name == key);
        let said = keys.iter().find_map(said);
        said.is_none_or(|(_, value)| *value)
    }

    /// The keys that name a version or a resource.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let keys = self.0.iter().map(|(key, _)| key.as_str());
        keys.filter(|key| !key.starts_with("api/"))
    }
}

impl fmt::Display for RuntimeConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&joined(&self.0, |(key, value)| format!("{key}={value}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SF-48.
    #[test]
    fn the_most_special_key_decides() {
        let text = "api/all=false,apps/v1,apps/v1/daemonsets=false,v1=true,v1/secrets=false";
        let config: RuntimeConfig = text.parse().unwrap();
        assert_eq!(
            config.to_string(),
            "api/all=false,apps/v1=true,apps/v1/daemonsets=false,v1=true,v1/secrets=false"
        );
        assert!(config.serves("apps", "v1", "deployments"));
        assert!(!config.serves("apps", "v1", "daemonsets"));
        assert!(!config.serves("batch", "v1", "jobs"));
        assert!(config.serves("", "v1", "pods"));
        assert!(!config.serves("", "v1", "secrets"));
        let all = RuntimeConfig::default();
        assert!(all.serves("", "v1", "pods"));
        let ga: RuntimeConfig = "api/ga=false,api/beta=true".parse().unwrap();
        assert!(!ga.serves("", "v1", "pods") && ga.serves("a", "v1beta1", "b"));
        for text in ["apps", "api/foo", "a/b/c/d", "apps/", "apps/v1=maybe"] {
            assert!(text.parse::<RuntimeConfig>().is_err(), "{text}");
        }
    }
}
