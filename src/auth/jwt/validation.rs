//! Validates issuers and compiles their expressions (AC-18 to AC-21).

use std::collections::HashSet;
use std::sync::LazyLock;

use http::Uri;
use regex::Regex;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::config::{AuthenticationConfiguration, JwtConfig, Mappings, PrefixedClaim};
use super::expressions::{CLAIMS, Expression, USER, Wanted};
use crate::api::cel::Environment;
use crate::api::field_error::{FieldError, FieldErrorKind, joined};
use crate::api::names::{dns_subdomain, path_segment};

/// The most issuers.
const ISSUERS_MAX: usize = 64;

const MATCH_ANY: &str = "MatchAny";
const BOTH: &str = "claim and expression can't both be set";
const NEITHER: &str = "claim or expression is required";

/// The compiled expressions of an issuer.
#[derive(Default)]
pub(super) struct Expressions {
    pub(super) username: Option<Expression>,
    pub(super) groups: Option<Expression>,
    pub(super) uid: Option<Expression>,
    /// Each with its key.
    pub(super) extra: Vec<(String, Expression)>,
    /// Each with its message.
    pub(super) claim_rules: Vec<(Expression, String)>,
    pub(super) user_rules: Vec<(Expression, String)>,
}

/// Validates a configuration. Returns the expressions of each issuer.
///
/// # Errors
/// All faults, in the words of Kubernetes.
pub(super) fn validate(
    config: &AuthenticationConfiguration,
    disallowed: &[String],
) -> Result<Vec<Expressions>, String> {
    if config.jwt.len() > ISSUERS_MAX {
        let count = config.jwt.len();
        let detail = format!("must have at most {ISSUERS_MAX} items");
        let error = FieldError::new(FieldErrorKind::TooMany, "jwt", &json!(count), detail);
        return Err(error.to_string());
    }
    let mut errors = Vec::new();
    let (mut urls, mut discovery_urls) = (HashSet::new(), HashSet::new());
    let mut compiled = Vec::new();
    for (index, issuer) in config.jwt.iter().enumerate() {
        let mut checks = Checks {
            path: format!("jwt[{index}]"),
            errors: Vec::new(),
        };
        compiled.push(checks.issuer(issuer));
        errors.append(&mut checks.errors);
        let url = &issuer.issuer.url;
        let duplicate = |name: &str, url: &str| {
            let path = format!("jwt[{index}].issuer.{name}");
            FieldError::new(FieldErrorKind::Duplicate, path, &json!(url), "")
        };
        if !urls.insert(url.as_str()) {
            errors.push(duplicate("url", url));
        }
        let discovery_url = issuer.issuer.discovery_url.as_deref().unwrap_or_default();
        if !discovery_url.is_empty() && !discovery_urls.insert(discovery_url) {
            errors.push(duplicate("discoveryURL", discovery_url));
        }
    }
    if let Some(anonymous) = &config.anonymous
        && !anonymous.enabled
        && !anonymous.conditions.is_empty()
    {
        errors.push(FieldError::new(
            FieldErrorKind::Invalid,
            "anonymous.conditions",
            &json!(anonymous.conditions),
            "enabled should be set to true when conditions are defined",
        ));
    }
    if !errors.is_empty() {
        return Err(joined(&errors));
    }
    // linear: at most 64 issuers, when the configuration is read.
    let mut all = config.jwt.iter().map(|issuer| &issuer.issuer.url);
    if let Some(url) = all.find(|url| disallowed.contains(url)) {
        let listed = disallowed.join(" ");
        let detail = format!("URL must not overlap with disallowed issuers: [{listed}]");
        let error = FieldError::invalid("issuer.url", url.as_str(), detail);
        return Err(error.to_string());
    }
    Ok(compiled)
}

/// The checks of one issuer.
struct Checks {
    path: String,
    errors: Vec<FieldError>,
}

impl Checks {
    fn at(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    fn invalid(&mut self, field: &str, value: impl Into<Value>, detail: impl Into<String>) {
        let path = self.at(field);
        self.errors.push(FieldError::invalid(path, value, detail));
    }

    fn required(&mut self, field: &str, detail: impl Into<String>) {
        let path = self.at(field);
        self.errors.push(FieldError::required(path, detail));
    }

    fn duplicate(&mut self, field: &str, value: &str) {
        let path = self.at(field);
        let error = FieldError::new(FieldErrorKind::Duplicate, path, &json!(value), "");
        self.errors.push(error);
    }

    fn compile(
        &mut self,
        field: &str,
        text: &str,
        environment: &Environment,
        wanted: Wanted,
    ) -> Option<Expression> {
        match Expression::compile(text, environment, wanted) {
            Ok(expression) => Some(expression),
            Err(why) => {
                self.invalid(field, text, why);
                None
            }
        }
    }

    fn issuer(&mut self, config: &JwtConfig) -> Expressions {
        self.urls(config);
        self.audiences(config);
        let authority = &config.issuer.certificate_authority;
        if !authority.is_empty() && !has_certificate(authority) {
            let why = "data does not contain any valid RSA or ECDSA certificates";
            self.invalid("issuer.certificateAuthority", "<omitted>", why);
        }
        let selector = config.issuer.egress_selector_type.as_str();
        if !matches!(selector, "" | "controlplane" | "cluster") {
            let why = "egress selector must be either controlplane or cluster";
            self.invalid("issuer.egressSelectorType", selector, why);
        }
        let mut expressions = Expressions::default();
        self.claim_rules(config, &mut expressions);
        self.mappings(&config.claim_mappings, &mut expressions);
        self.email(config);
        self.user_rules(config, &mut expressions);
        expressions
    }

    fn urls(&mut self, config: &JwtConfig) {
        let issuer = &config.issuer;
        match issuer.url.is_empty() {
            true => self.required("issuer.url", "URL is required"),
            false => self.url("issuer.url", &issuer.url),
        }
        let Some(discovery) = issuer
            .discovery_url
            .as_deref()
            .filter(|url| !url.is_empty())
        else {
            return;
        };
        if discovery.trim_end_matches('/') == issuer.url.trim_end_matches('/') {
            let why = "discoveryURL must be different from URL";
            self.invalid("issuer.discoveryURL", discovery, why);
        }
        self.url("issuer.discoveryURL", discovery);
    }

    fn url(&mut self, field: &str, url: &str) {
        let (before, fragment) = url
            .split_once('#')
            .map_or((url, None), |(a, b)| (a, Some(b)));
        let uri: Uri = match before.parse() {
            Ok(uri) => uri,
            Err(why) => return self.invalid(field, url, format!("parse {url:?}: {why}")),
        };
        if uri.scheme_str() != Some("https") || uri.host().is_none_or(str::is_empty) {
            self.invalid(field, url, "URL scheme must be https");
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            self.invalid(field, url, "URL must not contain a username or password");
        }
        if uri.query().is_some_and(|query| !query.is_empty()) {
            self.invalid(field, url, "URL must not contain a query");
        }
        if fragment.is_some_and(|fragment| !fragment.is_empty()) {
            self.invalid(field, url, "URL must not contain a fragment");
        }
    }

    fn audiences(&mut self, config: &JwtConfig) {
        let audiences = &config.issuer.audiences;
        let policy = config.issuer.audience_match_policy.as_str();
        if audiences.is_empty() {
            let path = self.at("issuer.audiences");
            self.required(
                "issuer.audiences",
                format!("at least one {path} is required"),
            );
            return;
        }
        let mut seen = HashSet::new();
        for (index, audience) in audiences.iter().enumerate() {
            let field = format!("issuer.audiences[{index}]");
            if audience.is_empty() {
                self.required(&field, "audience can't be empty");
            }
            if !seen.insert(audience) {
                self.duplicate(&field, audience);
            }
        }
        let field = "issuer.audienceMatchPolicy";
        match (audiences.len(), policy) {
            (_, MATCH_ANY) | (1, "") => {}
            (1, _) => {
                let why = "audienceMatchPolicy must be empty or MatchAny for single audience";
                self.invalid(field, policy, why);
            }
            _ => {
                let why = "audienceMatchPolicy must be MatchAny for multiple audiences";
                self.invalid(field, policy, why);
            }
        }
    }

    fn claim_rules(&mut self, config: &JwtConfig, expressions: &mut Expressions) {
        let (mut claims, mut seen) = (HashSet::new(), HashSet::new());
        for (index, rule) in config.claim_validation_rules.iter().enumerate() {
            let at = format!("claimValidationRules[{index}]");
            let field = |name: &str| format!("{at}.{name}");
            match (rule.claim.is_empty(), rule.expression.is_empty()) {
                (true, true) => self.required(&at, NEITHER),
                (false, false) => self.invalid(&at, rule.claim.as_str(), BOTH),
                (false, true) => {
                    if !rule.message.is_empty() {
                        let why = "message can't be set when claim is set";
                        self.invalid(&field("message"), rule.message.as_str(), why);
                    }
                    if !claims.insert(rule.claim.as_str()) {
                        self.duplicate(&field("claim"), &rule.claim);
                    }
                }
                (true, false) => {
                    if !rule.required_value.is_empty() {
                        let why = "requiredValue can't be set when expression is set";
                        self.invalid(&field("requiredValue"), rule.required_value.as_str(), why);
                    }
                    let (text, name) = (rule.expression.as_str(), field("expression"));
                    if !seen.insert(text) {
                        self.duplicate(&name, text);
                    } else if let Some(rule_of) = self.compile(&name, text, &CLAIMS, Wanted::Bool) {
                        expressions
                            .claim_rules
                            .push((rule_of, rule.message.clone()));
                    }
                }
            }
        }
    }

    fn mappings(&mut self, mappings: &Mappings, expressions: &mut Expressions) {
        let Mappings {
            username,
            groups,
            uid,
            extra,
        } = mappings;
        if username.claim.is_empty() && username.expression.is_empty() {
            self.required("claimMappings.username", NEITHER);
        }
        expressions.username = self.prefixed("claimMappings.username", username, Wanted::String);
        expressions.groups = self.prefixed("claimMappings.groups", groups, Wanted::Strings);
        if !uid.claim.is_empty() && !uid.expression.is_empty() {
            self.invalid("claimMappings.uid", "", BOTH);
        } else if !uid.expression.is_empty() {
            let field = "claimMappings.uid.expression";
            expressions.uid = self.compile(field, &uid.expression, &CLAIMS, Wanted::String);
        }
        let mut keys = HashSet::new();
        for (index, mapping) in extra.iter().enumerate() {
            let at = format!("claimMappings.extra[{index}]");
            self.key(&format!("{at}.key"), &mapping.key);
            if !mapping.key.is_empty() && !keys.insert(mapping.key.as_str()) {
                self.duplicate(&format!("{at}.key"), &mapping.key);
            }
            let field = format!("{at}.valueExpression");
            if mapping.value_expression.is_empty() {
                self.required(&field, "valueExpression is required");
                continue;
            }
            let text = &mapping.value_expression;
            if let Some(value) = self.compile(&field, text, &CLAIMS, Wanted::Strings) {
                expressions.extra.push((mapping.key.clone(), value));
            }
        }
    }

    fn prefixed(
        &mut self,
        at: &str,
        mapping: &PrefixedClaim,
        wanted: Wanted,
    ) -> Option<Expression> {
        let PrefixedClaim {
            claim,
            prefix,
            expression,
        } = mapping;
        let field = format!("{at}.prefix");
        match (claim.is_empty(), expression.is_empty(), prefix) {
            (false, false, _) => self.invalid(at, "", BOTH),
            (false, true, None) => {
                let why = "prefix is required when claim is set. It can be set to an empty string \
                           to disable prefixing";
                self.required(&field, why);
            }
            (true, false, Some(prefix)) => {
                let why = "prefix can't be set when expression is set";
                self.invalid(&field, prefix.as_str(), why);
            }
            (true, true, Some(prefix)) if !prefix.is_empty() => {
                let why = "non-empty claim name is required when prefix is set";
                self.required(&format!("{at}.claim"), why);
            }
            _ => {}
        }
        if expression.is_empty() {
            return None;
        }
        self.compile(&format!("{at}.expression"), expression, &CLAIMS, wanted)
    }

    fn key(&mut self, field: &str, key: &str) {
        if key.is_empty() {
            return self.required(field, "");
        }
        if key.to_lowercase() != key {
            self.invalid(field, key, "key must be lowercase");
        }
        let Some((domain, path)) = key.split_once('/').filter(|(_, path)| !path.is_empty()) else {
            return self.invalid(
                field,
                key,
                "must be a domain-prefixed path (such as \"acme.io/foo\")",
            );
        };
        for why in dns_subdomain(domain)
            .into_iter()
            .chain(path_segment(path).into_iter().take(1))
        {
            self.invalid(field, key, why);
        }
        let is_reserved = |of: &str| {
            let rest = domain.strip_suffix(of);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        if is_reserved("k8s.io") || is_reserved("kubernetes.io") {
            let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
            self.invalid(field, key, why);
        }
    }

    /// A name from an address of mail needs a look at whether it was verified (AC-20).
    fn email(&mut self, config: &JwtConfig) {
        let mappings = &config.claim_mappings;
        let username = mappings.username.expression.as_str();
        if !EMAIL.is_match(username) {
            return;
        }
        let extra = mappings.extra.iter().map(|extra| &*extra.value_expression);
        let rules = config.claim_validation_rules.iter();
        let rules = rules.map(|rule| &*rule.expression);
        let mut all = extra.chain(rules).chain([username]);
        if !all.any(|text| EMAIL_VERIFIED.is_match(text)) {
            let why = "claims.email_verified must be used in claimMappings.username.expression or \
                       claimMappings.extra[*].valueExpression or \
                       claimValidationRules[*].expression when claims.email is used in \
                       claimMappings.username.expression";
            self.invalid("claimMappings.username.expression", username, why);
        }
    }

    fn user_rules(&mut self, config: &JwtConfig, expressions: &mut Expressions) {
        let mut seen = HashSet::new();
        for (index, rule) in config.user_validation_rules.iter().enumerate() {
            let field = format!("userValidationRules[{index}].expression");
            let text = rule.expression.as_str();
            if text.is_empty() {
                self.required(&field, "expression is required");
            } else if !seen.insert(text) {
                self.duplicate(&field, text);
            } else if let Some(compiled) = self.compile(&field, text, &USER, Wanted::Bool) {
                expressions
                    .user_rules
                    .push((compiled, rule.message.clone()));
            }
        }
    }
}

/// An access to a claim, written as a member, an optional member or an index.
fn access(claim: &str) -> Option<Regex> {
    let text = format!(r#"\bclaims\s*(\.\s*\??\s*{claim}\b|\[\s*\??\s*['"]{claim}['"]\s*\])"#);
    Regex::new(&text).ok()
}

/// A pattern that is always valid, so it is there.
struct Access(Option<Regex>);

impl Access {
    fn is_match(&self, text: &str) -> bool {
        self.0
            .as_ref()
            .is_some_and(|pattern| pattern.is_match(text))
    }
}

static EMAIL: LazyLock<Access> = LazyLock::new(|| Access(access("email")));
static EMAIL_VERIFIED: LazyLock<Access> = LazyLock::new(|| Access(access("email_verified")));

fn has_certificate(pem: &str) -> bool {
    let mut certificates = CertificateDer::pem_slice_iter(pem.as_bytes());
    certificates.any(|one| one.is_ok_and(|der| crate::x509::Certificate::read(&der).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::super::config::{AnonymousCondition, AnonymousConfig, ExtraMapping, UserRule};
    use super::super::config::{Claim, ClaimRule};
    use super::*;

    fn text(text: &str) -> String {
        text.to_owned()
    }

    fn issuer() -> JwtConfig {
        let mut config = JwtConfig::default();
        config.issuer.url = text("https://a.example/b");
        config.issuer.audiences = vec![text("a")];
        config.claim_mappings.username.claim = text("sub");
        config.claim_mappings.username.prefix = Some(text(""));
        config
    }

    fn refusal(change: impl FnOnce(&mut JwtConfig)) -> String {
        let mut config = issuer();
        change(&mut config);
        let config = AuthenticationConfiguration {
            jwt: vec![config],
            anonymous: None,
        };
        validate(&config, &[]).err().unwrap_or_default()
    }

    #[test]
    fn urls_are_https_and_nothing_else_ac_18() {
        let of = |url: &str| refusal(|config| config.issuer.url = text(url));
        assert_eq!(of("https://a.example"), "");
        assert_eq!(of(""), "jwt[0].issuer.url: Required value: URL is required");
        let invalid =
            |url: &str, why: &str| format!("jwt[0].issuer.url: Invalid value: \"{url}\": {why}");
        for (url, why) in [
            ("http://a", "URL scheme must be https"),
            (
                "https://a:b@c",
                "URL must not contain a username or password",
            ),
            ("https://a?b", "URL must not contain a query"),
            ("https://a#b", "URL must not contain a fragment"),
        ] {
            assert_eq!(of(url), invalid(url, why));
        }
        assert!(of("https://a b").contains("Invalid value"));
        let discovery = |url: &str| refusal(|config| config.issuer.discovery_url = Some(text(url)));
        assert!(
            discovery("https://a.example/b/").contains("discoveryURL must be different from URL")
        );
        assert_eq!(discovery("https://other"), "");
        assert!(discovery("http://other").contains("jwt[0].issuer.discoveryURL: Invalid value"));
    }

    #[test]
    fn issuers_differ_from_each_other_and_from_our_own_ac_18() {
        let two = AuthenticationConfiguration {
            jwt: vec![issuer(), issuer()],
            anonymous: None,
        };
        let refused = validate(&two, &[]).err().unwrap();
        assert_eq!(
            refused,
            "jwt[1].issuer.url: Duplicate value: \"https://a.example/b\""
        );
        let one = AuthenticationConfiguration {
            jwt: vec![issuer()],
            anonymous: None,
        };
        assert_eq!(
            validate(&one, &[text("https://a.example/b")])
                .err()
                .unwrap(),
            "issuer.url: Invalid value: \"https://a.example/b\": URL must not overlap with \
             disallowed issuers: [https://a.example/b]"
        );
        let many = AuthenticationConfiguration {
            jwt: vec![issuer(); 65],
            anonymous: None,
        };
        let refused = validate(&many, &[]).err().unwrap();
        assert!(refused.starts_with("jwt: Too many: 65"), "{refused}");
    }

    #[test]
    fn audiences_and_authorities_are_checked_ac_18() {
        let of = |audiences: &[&str], policy: &str| {
            refusal(|config| {
                config.issuer.audiences = audiences.iter().map(|one| text(one)).collect();
                config.issuer.audience_match_policy = text(policy);
            })
        };
        assert_eq!(of(&["a", "b"], "MatchAny"), "");
        assert_eq!(of(&["a"], "MatchAny"), "");
        for (audiences, policy, why) in [
            (
                &[][..],
                "",
                "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
            ),
            (&["a", "b"], "", "must be MatchAny for multiple audiences"),
            (
                &["a"],
                "Some",
                "must be empty or MatchAny for single audience",
            ),
            (
                &[""],
                "",
                "jwt[0].issuer.audiences[0]: Required value: audience can't be empty",
            ),
            (
                &["a", "a"],
                "MatchAny",
                "jwt[0].issuer.audiences[1]: Duplicate value: \"a\"",
            ),
        ] {
            let refused = of(audiences, policy);
            assert!(refused.contains(why), "{refused}");
        }
        let refused = refusal(|config| config.issuer.certificate_authority = text("secret"));
        let start = "jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": ";
        assert!(refused.starts_with(start), "{refused}");
        assert!(!refused.contains("secret"));
        let refused = refusal(|config| config.issuer.egress_selector_type = text("other"));
        assert!(
            refused.contains("either controlplane or cluster"),
            "{refused}"
        );
    }

    #[test]
    fn claims_map_to_users_in_one_way_ac_19() {
        let username = |claim: &str, prefix: Option<&str>, expression: &str| {
            refusal(|config| {
                config.claim_mappings.username = PrefixedClaim {
                    claim: text(claim),
                    prefix: prefix.map(text),
                    expression: text(expression),
                };
            })
        };
        for (refused, why) in [
            (
                username("", None, ""),
                "jwt[0].claimMappings.username: Required value: claim or expression is required",
            ),
            (
                username("a", Some(""), "claims.a"),
                "jwt[0].claimMappings.username: Invalid value: \"\": claim and expression can't both be set",
            ),
            (
                username("a", None, ""),
                "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
            ),
            (
                username("", Some("p"), "claims.a"),
                "jwt[0].claimMappings.username.prefix: Invalid value: \"p\": prefix can't be set when expression is set",
            ),
            (
                username("", None, "1"),
                "jwt[0].claimMappings.username.expression: Invalid value: \"1\": must evaluate to string",
            ),
        ] {
            assert_eq!(refused, why);
        }
        assert_eq!(username("", None, "claims.sub"), "");
        let uid = refusal(|config| {
            config.claim_mappings.uid = Claim {
                claim: text("a"),
                expression: text("claims.a"),
            };
        });
        assert!(uid.contains("claimMappings.uid: Invalid value"), "{uid}");
        let extra = |keys: &[&str], expression: &str| {
            refusal(|config| {
                let mapping = |key: &&str| ExtraMapping {
                    key: text(key),
                    value_expression: text(expression),
                };
                config.claim_mappings.extra = keys.iter().map(mapping).collect();
            })
        };
        assert_eq!(extra(&["a.example/b", "a.example/c"], "claims.a"), "");
        for (keys, why) in [
            (&["a"][..], "domain-prefixed path"),
            (&["a.example/B"], "key must be lowercase"),
            (
                &["a.kubernetes.io/b"],
                "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use",
            ),
            (&["k8s.io/b"], "are reserved for Kubernetes use"),
            (&["a/b", "a/b"], "extra[1].key: Duplicate value: \"a/b\""),
            (&[""], "extra[0].key: Required value"),
        ] {
            let refused = extra(keys, "claims.a");
            assert!(refused.contains(why), "{refused}");
        }
        assert_eq!(extra(&["notk8s.io/b"], "claims.a"), "");
        let refused = extra(&["a/b"], "");
        assert!(
            refused.contains("extra[0].valueExpression: Required value"),
            "{refused}"
        );
    }

    #[test]
    fn rules_are_claims_or_expressions_each_once_ac_20() {
        let rules = |rules: &[(&str, &str, &str, &str)]| {
            refusal(|config| {
                let rules = rules.iter().map(|rule| ClaimRule {
                    claim: text(rule.0),
                    required_value: text(rule.1),
                    expression: text(rule.2),
                    message: text(rule.3),
                });
                config.claim_validation_rules = rules.collect();
            })
        };
        assert_eq!(
            rules(&[("a", "b", "", ""), ("", "", "claims.a == 'b'", "m")]),
            ""
        );
        for (refused, why) in [
            (
                rules(&[("", "", "", "")]),
                "claimValidationRules[0]: Required value: claim or expression is required",
            ),
            (
                rules(&[("a", "", "true", "")]),
                "claim and expression can't both be set",
            ),
            (
                rules(&[("a", "", "", "m")]),
                "message can't be set when claim is set",
            ),
            (
                rules(&[("", "b", "true", "")]),
                "requiredValue can't be set when expression is set",
            ),
            (
                rules(&[("a", "b", "", ""), ("a", "c", "", "")]),
                "[1].claim: Duplicate value: \"a\"",
            ),
            (
                rules(&[("", "", "true", ""), ("", "", "true", "")]),
                "[1].expression: Duplicate value: \"true\"",
            ),
            (rules(&[("", "", "'a'", "")]), "must evaluate to bool"),
        ] {
            assert!(refused.contains(why), "{refused}");
        }
        let users = |expressions: &[&str]| {
            refusal(|config| {
                let rule = |expression: &&str| UserRule {
                    expression: text(expression),
                    message: String::new(),
                };
                config.user_validation_rules = expressions.iter().map(rule).collect();
            })
        };
        assert_eq!(users(&["user.username != ''"]), "");
        assert!(users(&["true", "true"]).contains("Duplicate value"));
        assert!(users(&[""]).contains("expression is required"));
        assert!(users(&["user.name != ''"]).contains("compilation failed: ERROR: <input>:1:5"));
    }

    #[test]
    fn a_name_from_mail_needs_its_verification_ac_20() {
        let of = |username: &str, rule: &str| {
            refusal(|config| {
                config.claim_mappings.username = PrefixedClaim {
                    expression: text(username),
                    ..PrefixedClaim::default()
                };
                let rule = ClaimRule {
                    expression: text(rule),
                    ..ClaimRule::default()
                };
                config.claim_validation_rules = vec![rule];
            })
        };
        assert!(of("claims.email", "true").contains("claims.email_verified must be used"));
        assert!(of("claims.email_verified ? claims.email : claims.sub", "true").is_empty());
        assert_eq!(of("claims.email", "claims.email_verified"), "");
        assert_eq!(
            of(
                "claims.email",
                "claims.?email_verified.orValue(true) == true"
            ),
            ""
        );
        assert_eq!(of("claims.email_other", "true"), "");
    }

    #[test]
    fn anonymous_conditions_need_anonymous_requests_ac_16() {
        let config = AuthenticationConfiguration {
            jwt: Vec::new(),
            anonymous: Some(AnonymousConfig {
                enabled: false,
                conditions: vec![AnonymousCondition {
                    path: text("/livez"),
                }],
            }),
        };
        let refused = validate(&config, &[]).err().unwrap();
        assert!(
            refused.starts_with("anonymous.conditions: Invalid value: "),
            "{refused}"
        );
        assert!(refused.ends_with(": enabled should be set to true when conditions are defined"));
    }
}
