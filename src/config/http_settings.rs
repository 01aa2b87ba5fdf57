//! Settings of responses, with the names of kube-apiserver's flags.

use std::fmt;
use std::str::FromStr;

use super::authentication::Texts;
use super::{Config, ConfigError};

/// The chance that a response ends its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chance(f64);

/// A chance is a number.
impl Eq for Chance {}

/// The greatest chance that kube-apiserver takes.
const CHANCE_MAX: f64 = 0.02;

impl Chance {
    /// The chance, from 0 to 1.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl FromStr for Chance {
    type Err = String;

    fn from_str(text: &str) -> Result<Chance, String> {
        let value: f64 = text
            .parse()
            .map_err(|_| "not a number such as 0.001".to_owned())?;
        match (0.0..=CHANCE_MAX).contains(&value) {
            true => Ok(Chance(value)),
            false => Err("can not be less than 0 or greater than 0.02".to_owned()),
        }
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The settings that browsers are concerned with.
const TRANSPORT_SECURITY: &str = "strict-transport-security-directives";
const ORIGINS: &str = "cors-allowed-origins";

impl Config {
    pub(super) fn responses(&self) -> Vec<ConfigError> {
        let mut refusals = self.transport_security();
        refusals.extend(self.origins());
        let port = self.kubernetes_service_node_port;
        let range = self.service_node_port_range;
        if port != 0 && !(range.first..=range.last).contains(&port) {
            let problem =
                format!("kubernetes service node port range {range} doesn't contain {port}");
            let name = "kubernetes-service-node-port";
            refusals.push(ConfigError::of_setting(name, &problem));
        }
        refusals
    }

    fn transport_security(&self) -> Vec<ConfigError> {
        let Texts(directives) = &self.strict_transport_security_directives;
        let faults = directives.iter().filter_map(|directive| {
            let (name, age) = directive.split_once('=').unwrap_or((directive, ""));
            let is_age = name == "max-age" && !age.contains('=') && directive.contains('=');
            match directive.as_str() {
                blank if blank.trim().is_empty() => Some("a directive is empty".to_owned()),
                "includeSubDomains" | "preload" => None,
                _ if is_age && http::HeaderValue::from_str(age).is_ok() => None,
                other => Some(format!(
                    "{other:?} is not one of max-age=expireTime, includeSubDomains, preload"
                )),
            }
        });
        faults
            .map(|problem| ConfigError::of_setting(TRANSPORT_SECURITY, &problem))
            .collect()
    }

    /// Each expression must hold the beginning and the end of the host. Otherwise one for
    /// `example.com` would allow `example.com.evil`.
    fn origins(&self) -> Vec<ConfigError> {
        let Texts(origins) = &self.cors_allowed_origins;
        let faults = origins.iter().filter_map(|origin| {
            if origin.is_empty() {
                return Some("an expression is empty".to_owned());
            }
            if let Err(error) = regex::Regex::new(origin) {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default();
                let why = why.strip_prefix("error: ").unwrap_or(why);
                return Some(format!("{origin:?} is not a regular expression: {why}"));
            }
            let begins = origin.contains('^') || origin.contains("//");
            let ends = origin.contains('$') || origin.contains(':');
            (!begins || !ends).then(|| {
                format!(
                    "{origin:?} does not pin to start/end of host in the origin header; begin it \
                     with ^ or //, and end it with $ or :"
                )
            })
        });
        faults
            .map(|problem| ConfigError::of_setting(ORIGINS, &problem))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::refusal_of;
    use super::*;

    #[test]
    fn a_chance_is_at_most_a_fiftieth() {
        for text in ["0", "0.001", "0.02"] {
            assert_eq!(text.parse::<Chance>().unwrap().to_string(), text);
        }
        for text in ["-0.1", "0.021", "NaN", "1", "often"] {
            assert!(text.parse::<Chance>().is_err(), "{text}");
        }
    }

    #[test]
    fn directives_are_those_of_the_header() {
        let refusal = |text| refusal_of(&[(TRANSPORT_SECURITY, text)]);
        assert_eq!(refusal("max-age=31536000,includeSubDomains,preload"), "");
        assert_eq!(
            refusal("max-age"),
            "--strict-transport-security-directives: \"max-age\" is not one of \
             max-age=expireTime, includeSubDomains, preload"
        );
        assert!(refusal("a,,b").lines().count() == 3);
        assert!(refusal("max-age=1=2").contains("is not one of"));
    }

    #[test]
    fn origins_are_expressions_that_hold_the_host() {
        let refusal = |text| refusal_of(&[(ORIGINS, text)]);
        assert_eq!(refusal(r"^https://example\.com$,//localhost(:|$)"), "");
        assert!(refusal("example.com").contains("does not pin"));
        assert!(refusal("^(").contains("is not a regular expression: unclosed group"));
        assert!(refusal("^a$,").contains("an expression is empty"));
    }
}
