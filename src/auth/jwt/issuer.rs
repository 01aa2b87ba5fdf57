//! An issuer: whom its tokens are for, and which users they make (AC-22).

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::super::access::Access;
use super::super::authenticator::{Authenticated, Unauthorized};
use super::super::compact_token::CompactToken;
use super::super::token_lookups::Found;
use super::config::{JwtConfig, PrefixedClaim};
use super::expressions::{self, Expression};
use super::key_source::KeySource;
use super::keys::Algorithm;
use super::metrics;
use super::validation::Expressions;
use crate::api::user_info::UserInfo;
use crate::clock;
use crate::egress::EgressClient;

/// The key of the extra value with the id of the token.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The tolerated difference of clocks for tokens of the future, in seconds.
const NOT_BEFORE_LEEWAY: f64 = 300.0;

const EMAIL: &str = "email";
const EMAIL_VERIFIED: &str = "email_verified";

/// An issuer whose tokens are accepted.
pub(super) struct Issuer {
    pub(super) config: JwtConfig,
    expressions: Expressions,
    pub(super) keys: KeySource,
    hash: String,
    /// The access of all its users.
    pub(super) access: Access,
}

impl Issuer {
    pub(super) fn new(
        config: JwtConfig,
        expressions: Expressions,
        client: Arc<EgressClient>,
    ) -> Issuer {
        Issuer {
            keys: KeySource::new(&config.issuer, client),
            hash: metrics::hash(config.issuer.url.as_bytes()),
            config,
            expressions,
            access: Access::default(),
        }
    }

    /// Returns the user of a token of this issuer.
    pub(super) async fn found(&self, token: &CompactToken<'_>) -> Found {
        let began = Instant::now();
        let user = self.verified_user(token).await;
        metrics::latency(&self.hash, user.is_ok(), began.elapsed());
        let user = user.map_err(|why| Unauthorized::Token(printable(&why)))?;
        Ok(Some(Authenticated {
            user: Arc::new(user),
            access: self.access.clone(),
            ..Authenticated::default()
        }))
    }

    async fn verified_user(&self, token: &CompactToken<'_>) -> Result<UserInfo, String> {
        let unverified = |why: String| format!("oidc: verify token: {why}");
        let names = &self.config.algorithms;
        let is_accepted = names.is_empty() || names.contains(&token.algorithm);
        if !is_accepted || Algorithm::named(&token.algorithm).is_none() {
            let name = token.algorithm.escape_debug();
            return Err(unverified(format!(
                "oidc: malformed jwt: unexpected signature algorithm \"{name}\""
            )));
        }
        check_times(&token.claims).map_err(unverified)?;
        self.keys.verify(token).await.map_err(unverified)?;
        self.check_audience(&token.claims)?;
        self.user(&token.claims)
    }

    fn check_audience(&self, claims: &Value) -> Result<(), String> {
        let audiences: Vec<&str> = match claims.get("aud") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let mut wanted: Vec<&str> = self
            .config
            .issuer
            .audiences
            .iter()
            .map(|one| &**one)
            .collect();
        // linear: a few audiences.
        if audiences.iter().any(|one| wanted.contains(one)) {
            return Ok(());
        }
        wanted.sort_unstable();
        let (wanted, audiences) = (listed(&wanted), listed(&audiences));
        Err(format!(
            "oidc: expected audience in {wanted} got {audiences}"
        ))
    }

    /// Returns the user that these verified claims make.
    fn user(&self, claims: &Value) -> Result<UserInfo, String> {
        let mappings = &self.config.claim_mappings;
        let values = expressions::claims(claims);
        let name = match &self.expressions.username {
            Some(expression) => {
                let name = expression.text(&values);
                name.map_err(|why| {
                    format!("oidc: error evaluating username claim expression: {why}")
                })?
            }
            None => username(&mappings.username, claims)?,
        };
        if name.is_empty() {
            return Err("oidc: the username of the token is empty".to_owned());
        }
        let groups = match &self.expressions.groups {
            Some(expression) => {
                let groups = expression.texts(&values);
                groups.map_err(|why| {
                    format!("oidc: error evaluating group claim expression: {why}")
                })?
            }
            None => groups(&mappings.groups, claims)?,
        };
        let mut user = UserInfo::authenticated(name, groups);
        user.uid = match &self.expressions.uid {
            Some(expression) => {
                let uid = expression.text(&values);
                uid.map_err(|why| format!("oidc: error evaluating uid claim expression: {why}"))?
            }
            None if mappings.uid.claim.is_empty() => String::new(),
            None => text_claim("uid", &mappings.uid.claim, claims)?,
        };
        if let Some(id) = claims.get("jti").and_then(Value::as_str)
            && !id.is_empty()
        {
            let id = vec![format!("JTI={id}")];
            user.extra.insert(CREDENTIAL_ID.to_owned(), id);
        }
        for (key, expression) in &self.expressions.extra {
            let found = expression.texts(&values);
            let found = found
                .map_err(|why| format!("oidc: error evaluating extra claim expression: {why}"))?;
            if !found.is_empty() {
                user.extra.insert(key.clone(), found);
            }
        }
        self.check_claims(claims)?;
        let rules = &self.expressions.claim_rules;
        check_rules("claim", rules, &values)?;
        let value = expressions::user(&user);
        let rules = &self.expressions.user_rules;
        check_rules("user", rules, &expressions::claims(&value))?;
        Ok(user)
    }

    /// Checks the claims that must have one value.
    fn check_claims(&self, claims: &Value) -> Result<(), String> {
        let rules = self.config.claim_validation_rules.iter();
        for rule in rules.filter(|rule| !rule.claim.is_empty()) {
            let name = &rule.claim;
            let found = claims
                .get(name)
                .ok_or_else(|| format!("oidc: required claim {name} not present in ID token"))?;
            let found = found
                .as_str()
                .ok_or_else(|| format!("oidc: parse claim {name}: it is not a string"))?;
            if found != rule.required_value {
                return Err(format!(
                    "oidc: required claim {name} value does not match. Got = {found}, want = {}",
                    rule.required_value
                ));
            }
        }
        Ok(())
    }
}

/// The most letters of a refusal.
const REFUSAL_MAX: usize = 1024;

/// Returns a text that cannot disturb a log or a terminal. It may repeat claims.
fn printable(why: &str) -> String {
    let letters = why.chars().take(REFUSAL_MAX);
    let plain = letters.map(|letter| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    });
    plain.collect()
}

fn check_rules(
    what: &str,
    rules: &[(Expression, String)],
    of: &crate::api::cel::Value<'_>,
) -> Result<(), String> {
    for (rule, message) in rules {
        let holds = rule.holds(of);
        let failed =
            |why: String| format!("oidc: error evaluating {what} validation expression: {why}");
        if !holds.map_err(failed)? {
            return Err(format!(
                "oidc: error evaluating {what} validation expression: validation expression '{}' \
                 failed: {message}",
                rule.shown()
            ));
        }
    }
    Ok(())
}

/// Checks that a token is valid now. One without an expiry never is.
fn check_times(claims: &Value) -> Result<(), String> {
    let now = clock::now().as_second() as f64;
    let time = |name: &str| match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let time = value.as_f64().filter(|time| time.is_finite());
            time.map(Some)
                .ok_or_else(|| format!("oidc: the claim {name} is not a time"))
        }
    };
    let expires = time("exp")?.unwrap_or_default();
    if expires < now {
        return Err(format!("oidc: token is expired (Token Expiry: {expires})"));
    }
    match time("nbf")? {
        Some(begins) if begins > now + NOT_BEFORE_LEEWAY => Err(format!(
            "oidc: current time {now} before the nbf (not before) time: {begins}"
        )),
        _ => Ok(()),
    }
}

fn username(mapping: &PrefixedClaim, claims: &Value) -> Result<String, String> {
    let name = text_claim("username", &mapping.claim, claims)?;
    if mapping.claim == EMAIL {
        match claims.get(EMAIL_VERIFIED) {
            None | Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Err("oidc: email not verified".to_owned()),
            Some(_) => {
                return Err("oidc: parse 'email_verified' claim: it is not a bool".to_owned());
            }
        }
    }
    if name.is_empty() {
        return Ok(name);
    }
    Ok(format!(
        "{}{name}",
        mapping.prefix.as_deref().unwrap_or_default()
    ))
}

fn groups(mapping: &PrefixedClaim, claims: &Value) -> Result<Vec<String>, String> {
    let claim = &mapping.claim;
    if claim.is_empty() {
        return Ok(Vec::new());
    }
    let elsewhere = claims
        .get("_claim_names")
        .and_then(|names| names.get(claim));
    let wrong =
        || format!("oidc: parse groups claim {claim:?}: neither a string nor a list of them");
    let texts = match claims.get(claim) {
        None if elsewhere.is_some() => {
            return Err(
                "oidc: could not expand distributed claims: this server does not read \
                        claims from elsewhere"
                    .to_owned(),
            );
        }
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(all)) => {
            let texts = all.iter().map(|one| one.as_str().ok_or_else(wrong));
            texts.collect::<Result<Vec<_>, _>>()?
        }
        Some(_) => return Err(wrong()),
    };
    let prefix = mapping.prefix.as_deref().unwrap_or_default();
    Ok(texts.iter().map(|text| format!("{prefix}{text}")).collect())
}

fn text_claim(what: &str, claim: &str, claims: &Value) -> Result<String, String> {
    match claims.get(claim) {
        None => Err(format!(
            "oidc: parse {what} claims {claim:?}: claim not present"
        )),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!(
            "oidc: parse {what} claims {claim:?}: it is not a string"
        )),
    }
}

/// Formats texts as Go prints a slice of them.
fn listed(texts: &[&str]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}
