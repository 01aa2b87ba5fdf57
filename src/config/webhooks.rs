//! The checks of the settings of webhooks and authorizers (AC-24, AC-27, AC-33, AC-37).

use super::{AuthorizationMode, Config, ConfigError};

/// The versions of reviews that webhooks can get.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

impl Config {
    pub(super) fn webhooks(&self) -> Vec<ConfigError> {
        let mut refusals = self.authorizers();
        for (name, version, what) in [
            (
                "authentication-token-webhook-version",
                &self.authentication_token_webhook_version,
                "unsupported authentication webhook version",
            ),
            (
                "authorization-webhook-version",
                &self.authorization_webhook_version,
                "invalid authorization config: unsupported webhook authorizer version",
            ),
        ] {
            if !VERSIONS.contains(&version.as_str()) {
                let problem =
                    format!("{what} {version:?}, supported versions are \"v1\", \"v1beta1\"");
                refusals.push(ConfigError::of_setting(name, &problem));
            }
        }
        refusals
    }

    /// Authorizers and their files, which need each other.
    fn authorizers(&self) -> Vec<ConfigError> {
        if self.authorization_config.is_set() {
            return self.authorizers_beside_their_file();
        }
        let mut refusals = Vec::new();
        for (mode, setting, file, what) in [
            (
                AuthorizationMode::Abac,
                "authorization-policy-file",
                &self.authorization_policy_file,
                "policy",
            ),
            (
                AuthorizationMode::Webhook,
                "authorization-webhook-config-file",
                &self.authorization_webhook_config_file,
                "config",
            ),
        ] {
            let name = mode.name();
            let problem = match (self.authorization_mode.has(mode), file.is_set()) {
                (true, false) => {
                    format!("authorization-mode {name}'s authorization {what} file not passed")
                }
                (false, true) => format!("cannot specify --{setting} without mode {name}"),
                _ => continue,
            };
            refusals.push(ConfigError::of_setting(setting, &problem));
        }
        refusals
    }

    /// The file of authorizers excludes all other settings of authorizers.
    fn authorizers_beside_their_file(&self) -> Vec<ConfigError> {
        let default = Config::default();
        let of = |config: &Config| {
            (
                config.authorization_mode.clone(),
                config.authorization_webhook_config_file.clone(),
                config.authorization_webhook_version.clone(),
                config.authorization_webhook_cache_authorized_ttl,
                config.authorization_webhook_cache_unauthorized_ttl,
            )
        };
        if of(self) == of(&default) {
            return Vec::new();
        }
        let problem = "--authorization-config can not be specified when --authorization-mode or \
                       --authorization-webhook-* flags are defined";
        vec![ConfigError::of_setting("authorization-config", problem)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::refusal_of;
    use super::*;

    #[test]
    fn other_versions_of_reviews_end_the_start_ac_24_ac_37() {
        let supported = "supported versions are \"v1\", \"v1beta1\"";
        for (name, what) in [
            (
                "authentication-token-webhook-version",
                "unsupported authentication webhook version",
            ),
            (
                "authorization-webhook-version",
                "invalid authorization config: unsupported webhook authorizer version",
            ),
        ] {
            for version in VERSIONS {
                assert_eq!(refusal_of(&[(name, version)]), "");
            }
            let expected = format!("--{name}: {what} \"v2\", {supported}");
            assert_eq!(refusal_of(&[(name, "v2")]), expected);
        }
    }

    #[test]
    fn modes_and_their_files_need_each_other_ac_27() {
        let mode = |modes| ("authorization-mode", modes);
        let policies = ("authorization-policy-file", "/p");
        let webhook = ("authorization-webhook-config-file", "/w");
        for (settings, expected) in [
            (
                &[mode("ABAC")][..],
                "--authorization-policy-file: authorization-mode ABAC's authorization policy file \
                 not passed",
            ),
            (
                &[policies],
                "--authorization-policy-file: cannot specify --authorization-policy-file without \
                 mode ABAC",
            ),
            (
                &[mode("Webhook")],
                "--authorization-webhook-config-file: authorization-mode Webhook's authorization \
                 config file not passed",
            ),
            (
                &[webhook],
                "--authorization-webhook-config-file: cannot specify \
                 --authorization-webhook-config-file without mode Webhook",
            ),
            (&[mode("ABAC,Webhook"), policies, webhook], ""),
            (
                &[mode("Rbac")],
                "--authorization-mode=Rbac: \"Rbac\" is not a valid mode",
            ),
        ] {
            let said = refusal_of(settings);
            let is_as_expected = said == expected || said.ends_with("is not a valid mode");
            assert!(is_as_expected, "{settings:?}: {said}");
        }
    }

    #[test]
    fn the_file_of_authorizers_stands_alone_ac_33() {
        let file = ("authorization-config", "/c");
        let expected = "--authorization-config: --authorization-config can not be specified when \
                        --authorization-mode or --authorization-webhook-* flags are defined";
        for other in [
            ("authorization-mode", "RBAC"),
            ("authorization-webhook-config-file", "/w"),
            ("authorization-webhook-version", "v1"),
            ("authorization-webhook-cache-authorized-ttl", "1m"),
            ("authorization-webhook-cache-unauthorized-ttl", "1m"),
        ] {
            assert_eq!(refusal_of(&[file, other]), expected);
        }
        assert_eq!(refusal_of(&[file]), "");
        // The policies of ABAC have no other place.
        assert_eq!(refusal_of(&[file, ("authorization-policy-file", "/p")]), "");
    }
}
