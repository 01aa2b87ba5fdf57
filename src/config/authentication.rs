//! The settings of how users are authenticated, and their checks (AC-10, AC-15, AC-17).

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use super::{Config, ConfigError};

/// Texts separated by commas. Blanks belong to them, so that a check finds those of nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(pub Vec<String>);

impl FromStr for Texts {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Texts, Infallible> {
        Ok(Texts(match text.is_empty() {
            true => Vec::new(),
            false => text.split(',').map(str::to_owned).collect(),
        }))
    }
}

impl fmt::Display for Texts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(","))
    }
}

/// Whether requests without credentials are served: `true`, `false`, or `auto` if nobody has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnonymousAuth(pub Option<bool>);

impl FromStr for AnonymousAuth {
    type Err = String;

    fn from_str(text: &str) -> Result<AnonymousAuth, String> {
        match text {
            "auto" => Ok(AnonymousAuth(None)),
            text => {
                let given: super::Switch = text
                    .parse()
                    .map_err(|_| "neither true nor false nor auto".to_owned())?;
                Ok(AnonymousAuth(Some(given.0)))
            }
        }
    }
}

impl fmt::Display for AnonymousAuth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => formatter.write_str("auto"),
            Some(given) => given.fmt(formatter),
        }
    }
}

/// The claim that has the names of users, unless another one is named.
pub(super) const USERNAME_CLAIM: &str = "sub";

/// The algorithm of signatures, unless others are named.
pub(super) const SIGNING_ALGORITHM: &str = "RS256";

/// The algorithms of signatures that can be verified (AC-17).
const ALGORITHMS: [&str; 9] = [
    "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512",
];

impl Config {
    /// Whether a flag of OpenID Connect has another value than by default.
    pub fn uses_oidc_flags(&self) -> bool {
        let default = Config::default();
        let texts = |config: &Config| {
            [
                config.oidc_issuer_url.clone(),
                config.oidc_client_id.clone(),
                config.oidc_ca_file.to_string(),
                config.oidc_username_claim.clone(),
                config.oidc_username_prefix.clone(),
                config.oidc_groups_claim.clone(),
                config.oidc_groups_prefix.clone(),
                config.oidc_required_claim.to_string(),
                config.oidc_signing_algs.to_string(),
            ]
        };
        texts(self) != texts(&default)
    }

    pub(super) fn authentication(&self) -> Vec<ConfigError> {
        let mut refusals = self.front_proxy();
        refusals.extend(self.oidc());
        refusals
    }

    fn front_proxy(&self) -> Vec<ConfigError> {
        let lists = [
            ("username-headers", &self.requestheader_username_headers),
            ("uid-headers", &self.requestheader_uid_headers),
            ("group-headers", &self.requestheader_group_headers),
            (
                "extra-headers-prefix",
                &self.requestheader_extra_headers_prefix,
            ),
            ("allowed-names", &self.requestheader_allowed_names),
        ];
        let mut refusals = Vec::new();
        for (name, list) in lists {
            let name = format!("requestheader-{name}");
            // linear: a few names of headers, at the start.
            if list.0.iter().any(|text| text.trim().is_empty()) {
                let problem = format!("empty value in {name:?}");
                refusals.push(ConfigError::of_setting(&name, &problem));
            } else if let Some(unusable) = self.unusable_header(&name, list) {
                refusals.push(unusable);
            }
        }
        let uids = &self.requestheader_uid_headers.0;
        let has_standard = |name: &String| name.eq_ignore_ascii_case("X-Remote-Uid");
        // linear: a few names of headers, at the start.
        if !uids.is_empty() && !uids.iter().any(has_standard) {
            let name = "requestheader-uid-headers";
            let problem = format!(
                "--{name} is set without specifying the standard X-Remote-Uid header - API \
                 aggregation will not work"
            );
            refusals.push(ConfigError::of_setting(name, &problem));
        }
        refusals
    }

    /// Names that no header can have never match, so they are refused.
    fn unusable_header(&self, name: &str, list: &Texts) -> Option<ConfigError> {
        if name.ends_with("allowed-names") {
            return None;
        }
        let is_none = |text: &&String| {
            let text = text.trim().to_ascii_lowercase();
            http::HeaderName::from_bytes(text.as_bytes()).is_err()
        };
        // linear: a few names of headers, at the start.
        let text = list.0.iter().find(is_none)?;
        let problem = format!("{text:?} is not the name of a header");
        Some(ConfigError::of_setting(name, &problem))
    }

    fn oidc(&self) -> Vec<ConfigError> {
        let mut refusals = Vec::new();
        let mut refuse = |name: &str, problem: &str| {
            refusals.push(ConfigError::of_setting(name, problem));
        };
        let uses_flags = self.uses_oidc_flags();
        if uses_flags && self.authentication_config.is_set() {
            let problem = "authentication-config file and oidc-* flags are mutually exclusive";
            refuse("authentication-config", problem);
        } else if uses_flags && (self.oidc_issuer_url.is_empty() || self.oidc_client_id.is_empty())
        {
            let problem = "oidc-issuer-url and oidc-client-id must be specified together when any \
                           oidc-* flags are set";
            refuse("oidc-issuer-url", problem);
        }
        for algorithm in &self.oidc_signing_algs.0 {
            if !ALGORITHMS.contains(&algorithm.as_str()) {
                let problem = format!("oidc: unsupported signing alg: {algorithm:?}");
                refuse("oidc-signing-algs", &problem);
            }
        }
        for claim in &self.oidc_required_claim.0 {
            if !claim.contains('=') {
                let problem = format!("{claim} must be formatted as key=value");
                refuse("oidc-required-claim", &problem);
            }
        }
        refusals
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::refusal_of;
    use super::*;

    #[test]
    fn lists_of_headers_have_no_blank_entries_and_uids_the_standard_name_ac_10() {
        assert_eq!(
            refusal_of(&[("requestheader-allowed-names", " ,a")]),
            "--requestheader-allowed-names: empty value in \"requestheader-allowed-names\""
        );
        assert_eq!(
            refusal_of(&[("requestheader-username-headers", "X-A, ")]),
            "--requestheader-username-headers: empty value in \"requestheader-username-headers\""
        );
        assert!(
            refusal_of(&[("requestheader-group-headers", "a b")]).contains("not the name of a")
        );
        assert_eq!(
            refusal_of(&[("requestheader-uid-headers", "X-A")]),
            "--requestheader-uid-headers: --requestheader-uid-headers is set without specifying \
             the standard X-Remote-Uid header - API aggregation will not work"
        );
        assert_eq!(
            refusal_of(&[("requestheader-uid-headers", "X-A,x-remote-uid")]),
            ""
        );
    }

    #[test]
    fn flags_of_openid_connect_fit_together_ac_15_ac_17() {
        let both = "--oidc-issuer-url: oidc-issuer-url and oidc-client-id must be specified \
                    together when any oidc-* flags are set";
        for setting in [
            ("oidc-issuer-url", "https://a"),
            ("oidc-client-id", "a"),
            ("oidc-groups-claim", "a"),
        ] {
            assert_eq!(refusal_of(&[setting]), both);
        }
        let pair = [("oidc-issuer-url", "https://a"), ("oidc-client-id", "a")];
        assert_eq!(refusal_of(&pair), "");
        let with = |setting| refusal_of(&[pair[0], pair[1], setting]);
        assert_eq!(
            with(("oidc-signing-algs", "ES256,HS256")),
            "--oidc-signing-algs: oidc: unsupported signing alg: \"HS256\""
        );
        assert_eq!(
            with(("oidc-required-claim", "a=b,c")),
            "--oidc-required-claim: c must be formatted as key=value"
        );
        assert_eq!(
            with(("authentication-config", "/a")),
            "--authentication-config: authentication-config file and oidc-* flags are mutually \
             exclusive"
        );
    }

    #[test]
    fn anonymous_auth_is_automatic_until_it_is_given() {
        for (text, given) in [("auto", None), ("true", Some(true)), ("F", Some(false))] {
            let read: AnonymousAuth = text.parse().unwrap();
            assert_eq!(read.0, given);
        }
        assert!("yes".parse::<AnonymousAuth>().is_err());
    }
}
