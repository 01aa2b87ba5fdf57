//! The checks of settings of webhooks for tokens (AC-24).

use super::{Config, ConfigError};

/// The versions of reviews that webhooks can get.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

impl Config {
    pub(super) fn webhooks(&self) -> Vec<ConfigError> {
        let version = &self.authentication_token_webhook_version;
        if VERSIONS.contains(&version.as_str()) {
            return Vec::new();
        }
        let problem = format!(
            "unsupported authentication webhook version {version:?}, supported versions are \
             \"v1\", \"v1beta1\""
        );
        vec![ConfigError::of_setting(
            "authentication-token-webhook-version",
            &problem,
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_of_reviews_end_the_start_ac_24() {
        let refusal = |version: &str| {
            let name = "authentication-token-webhook-version".to_owned();
            let config = Config::of_entries([(name, version.to_owned())]);
            config
                .err()
                .map_or(String::new(), |error| error.to_string())
        };
        assert_eq!(
            (refusal("v1"), refusal("v1beta1")),
            (String::new(), String::new())
        );
        assert_eq!(
            refusal("v2"),
            "--authentication-token-webhook-version: unsupported authentication webhook version \
             \"v2\", supported versions are \"v1\", \"v1beta1\""
        );
    }
}
