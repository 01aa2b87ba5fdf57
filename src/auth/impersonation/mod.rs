//! Requests that are carried out as another user (API-284, API-285).
//!
//! Each part of the user in the headers is checked. The verbs of constrained impersonation come
//! first; they also check the action that is done as the other user. The older verb `impersonate`
//! comes second. Nothing after this filter reads the headers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::authorization::{authorize, forbidden};
use super::authorizer::aggregate;
use crate::api::names::dns_subdomain;
use crate::api::percent;
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;
use crate::api::user_info::{
    ANONYMOUS, AUTHENTICATED, MASTERS, NODES, UNAUTHENTICATED, UserInfo, node, service_account,
    service_account_groups,
};
use crate::auth::{Attributes, Authorizer};

/// The prefix of all impersonation headers.
const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// Returns the user whom a request impersonates, or `None` if it impersonates nobody. `attributes`
/// are those of the request with the requesting user. `is_constrained` is whether the verbs of
/// constrained impersonation are enabled.
///
/// # Errors
/// 400 for headers without a user name. 403 for a user whom the requesting user may not
/// impersonate.
pub async fn impersonated(
    headers: &HeaderMap,
    is_constrained: bool,
    attributes: &Attributes<'_>,
    authorizer: &dyn Authorizer,
) -> Result<Option<UserInfo>, Box<Status>> {
    match wanted(headers)? {
        // Boxed, because few requests do this, and each request moves the memory that is not.
        Some(wanted) => {
            let checking = allowed(wanted, is_constrained, attributes, authorizer);
            Box::pin(checking).await.map(Some)
        }
        None => Ok(None),
    }
}

/// Returns the user whom the sender wants to be, if the sender may.
async fn allowed(
    wanted: UserInfo,
    is_constrained: bool,
    attributes: &Attributes<'_>,
    authorizer: &dyn Authorizer,
) -> Result<UserInfo, Box<Status>> {
    let legacy = Check::legacy(attributes.user, authorizer);
    let mut first = None;
    for mode in constrained_modes(&wanted, attributes.user) {
        if !is_constrained {
            break;
        }
        match constrained(mode, wanted.clone(), attributes, authorizer).await {
            Ok(user) => return Ok(user),
            Err(refusal) => first = first.or(Some(refusal)),
        }
    }
    let asked = legacy.user(wanted).await;
    // Like kube-apiserver, return the first of several refusals.
    asked.map_err(|refusal| first.unwrap_or(refusal))
}

/// Returns the user in the headers, unchecked.
fn wanted(headers: &HeaderMap) -> Result<Option<UserInfo>, Box<Status>> {
    let mut names = headers.keys();
    if !names.any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let first = |name| headers.get(name).map_or(Ok(""), text);
    let mut wanted = UserInfo {
        name: first(USER)?.to_owned(),
        uid: first(UID)?.to_owned(),
        groups: all(headers, GROUP)?,
        extra: BTreeMap::new(),
    };
    for name in headers.keys().map(HeaderName::as_str) {
        if let Some(key) = name.strip_prefix(EXTRA) {
            let values = all(headers, name)?;
            wanted
                .extra
                .entry(extra_key(key)?)
                .or_default()
                .extend(values);
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    let parts = [
        (!wanted.uid.is_empty(), "a uid"),
        (!wanted.groups.is_empty(), "groups"),
        (!wanted.extra.is_empty(), "extra"),
    ];
    match parts.into_iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(None),
        Some((_, what)) => Err(Box::new(Status::bad_request(format!(
            "requested {what} without impersonating a user name"
        )))),
    }
}

fn all(headers: &HeaderMap, name: &str) -> Result<Vec<String>, Box<Status>> {
    let values = headers.get_all(name).into_iter();
    let texts = values.map(|value| text(value).map(str::to_owned));
    texts.collect()
}

/// Returns the value of a header as text.
fn text(value: &HeaderValue) -> Result<&str, Box<Status>> {
    let text = std::str::from_utf8(value.as_bytes()).ok();
    text.filter(|text| is_plain(text)).ok_or_else(not_plain)
}

/// Returns the key of an extra value, percent-decoded if it is encoded.
fn extra_key(encoded: &str) -> Result<String, Box<Status>> {
    let key = percent::decoded(encoded).map_or_else(|| encoded.to_owned(), Cow::into_owned);
    Some(key).filter(|key| is_plain(key)).ok_or_else(not_plain)
}

/// Whether the text has no control characters. Parts of a user appear in logs and on terminals.
fn is_plain(text: &str) -> bool {
    !text.contains(char::is_control)
}

fn not_plain() -> Box<Status> {
    let message = "an impersonation header is not UTF-8, or has a control character";
    Box::new(Status::bad_request(message))
}

/// The mode for the node that the requester's own token names.
const ASSOCIATED_NODE: &str = "associated-node";

/// The extra value of a service account's token with the name of the node of its pod.
const NODE_OF_TOKEN: &str = "authentication.kubernetes.io/node-name";

/// Returns the modes of constrained impersonation that apply to this user, in order (AC-76). Nodes
/// and service accounts have fixed groups, so the headers must not have other parts.
fn constrained_modes(wanted: &UserInfo, requester: &UserInfo) -> Vec<&'static str> {
    let is_named_alone =
        wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
    match (node(&wanted.name), service_account(&wanted.name)) {
        (None, None) => vec!["user-info"],
        _ if !is_named_alone => Vec::new(),
        (Some(name), _) => {
            let of_token = requester.extra.get(NODE_OF_TOKEN).map(Vec::as_slice);
            let is_own = service_account(&requester.name).is_some()
                && matches!(of_token, Some([own]) if own == name);
            let own = is_own.then_some(ASSOCIATED_NODE);
            own.into_iter().chain(["arbitrary-node"]).collect()
        }
        (_, Some(_)) => vec!["serviceaccount"],
    }
}

/// Checks that the requesting user may impersonate this user, and may do this action as another
/// user.
async fn constrained(
    mode: &str,
    wanted: UserInfo,
    attributes: &Attributes<'_>,
    authorizer: &dyn Authorizer,
) -> Result<UserInfo, Box<Status>> {
    let on = format!("impersonate-on:{mode}:{}", attributes.verb);
    let acting = Attributes {
        verb: &on,
        ..*attributes
    };
    authorize(authorizer, &acting).await?;
    let verb = format!("impersonate:{mode}");
    let check = Check::constrained(attributes.user, authorizer, &verb);
    check.user(wanted).await
}

/// Checks whether the parts of a user may be impersonated.
struct Check<'c> {
    authorizer: &'c dyn Authorizer,
    /// The attributes that all checks share.
    attributes: Attributes<'c>,
    is_constrained: bool,
}

impl<'c> Check<'c> {
    /// Returns a check of the verb `impersonate`, with users and groups in the core group.
    fn legacy(user: &'c UserInfo, authorizer: &'c dyn Authorizer) -> Check<'c> {
        Check {
            authorizer,
            attributes: Attributes {
                api_version: "v1",
                ..Attributes::on_resource(user, "impersonate", "", "")
            },
            is_constrained: false,
        }
    }

    /// Returns a check of the verb of a mode.
    fn constrained(user: &'c UserInfo, authorizer: &'c dyn Authorizer, verb: &'c str) -> Check<'c> {
        let mut check = Check::legacy(user, authorizer);
        check.attributes.verb = verb;
        check.attributes.api_group = AUTHENTICATION_GROUP;
        check.is_constrained = true;
        check
    }

    /// Returns the complete user after checking all parts.
    async fn user(&self, mut wanted: UserInfo) -> Result<UserInfo, Box<Status>> {
        let known_groups = self.name(&wanted.name).await?;
        self.uid(&wanted.uid).await?;
        self.groups(&wanted.groups).await?;
        self.extra(&wanted.extra).await?;
        if wanted.groups.is_empty() {
            wanted.groups = known_groups;
        }
        Ok(if wanted.name == ANONYMOUS {
            wanted.with_group(UNAUTHENTICATED)
        } else if wanted.is_in(UNAUTHENTICATED) {
            wanted
        } else {
            wanted.with_group(AUTHENTICATED)
        })
    }

    /// Checks the user name. Returns the groups of a user with this name, if they are fixed.
    async fn name(&self, user: &str) -> Result<Vec<String>, Box<Status>> {
        let node = node(user).filter(|_| self.is_constrained);
        let (resource, namespace, name, groups) = match (node, service_account(user)) {
            (Some(name), _) => {
                let is_own = self.attributes.verb.ends_with(ASSOCIATED_NODE);
                let name = if is_own { "*" } else { name };
                ("nodes", "", name, vec![NODES.to_owned()])
            }
            (None, Some((namespace, name))) => {
                let groups = service_account_groups(namespace);
                ("serviceaccounts", namespace, name, groups)
            }
            (None, None) => ("users", "", user, Vec::new()),
        };
        self.ask(Attributes {
            resource,
            namespace,
            name,
            ..self.attributes
        })
        .await?;
        Ok(groups)
    }

    async fn uid(&self, uid: &str) -> Result<(), Box<Status>> {
        if uid.is_empty() {
            return Ok(());
        }
        self.ask(Attributes {
            api_group: AUTHENTICATION_GROUP,
            resource: "uids",
            name: uid,
            ..self.attributes
        })
        .await
    }

    async fn groups(&self, groups: &[String]) -> Result<(), Box<Status>> {
        let about = Attributes {
            resource: "groups",
            ..self.attributes
        };
        if self.is_constrained && groups.iter().any(String::is_empty) {
            let why = "impersonating the empty string group is not allowed";
            return Err(forbidden(&about, why));
        }
        // linear: the groups of one request.
        if self.is_constrained && groups.iter().any(|name| name == MASTERS) {
            let name = MASTERS;
            let why = "impersonating the system:masters group is not allowed";
            return Err(forbidden(&Attributes { name, ..about }, why));
        }
        for name in groups {
            self.ask(Attributes { name, ..about }).await?;
        }
        Ok(())
    }

    async fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Box<Status>> {
        let about = Attributes {
            api_group: AUTHENTICATION_GROUP,
            resource: "userextras",
            ..self.attributes
        };
        let fault = extra.iter().filter(|_| self.is_constrained);
        let fault = fault
            .filter_map(|(key, values)| fault_of(key, values))
            .next();
        if let Some(why) = fault {
            return Err(forbidden(&about, &why));
        }
        for (key, values) in extra {
            let about = Attributes {
                subresource: key,
                ..about
            };
            for name in values {
                self.ask(Attributes { name, ..about }).await?;
            }
        }
        Ok(())
    }

    async fn ask(&self, attributes: Attributes<'_>) -> Result<(), Box<Status>> {
        authorize(self.authorizer, &attributes).await
    }
}

/// Returns why an extra value can't be impersonated in a constrained mode, if it can't (AC-78).
fn fault_of(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let faults = faults_of_key(key);
    if let Some(faults) = aggregate(&faults) {
        return Some(format!(
            "impersonating an invalid key in extra is not allowed: {faults}"
        ));
    }
    if key != key.to_lowercase() {
        let key = go_quote(key);
        return Some(format!(
            "impersonating a non-lowercase key in extra is not allowed: {key}"
        ));
    }
    let has_empty = values.iter().any(String::is_empty);
    has_empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// Returns why a key is not a domain and a path, in the words of Kubernetes' field errors.
fn faults_of_key(key: &str) -> Vec<String> {
    const PATH: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
    let fault = |value: &str, why: &str| {
        let value = go_quote(value);
        format!("extra.key: Invalid value: {value}: {why}")
    };
    let parts = key.split_once('/');
    let Some((domain, path)) =
        parts.filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        let why = r#"must be a domain-prefixed path (such as "acme.io/foo")"#;
        return vec![fault(key, why)];
    };
    let faults = dns_subdomain(domain).into_iter();
    let mut faults: Vec<String> = faults.map(|why| fault(domain, &why.to_string())).collect();
    let is_of_path =
        |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(is_of_path) {
        let why = format!("Invalid path (regex used for validation is '{PATH}')");
        faults.push(fault(path, &why));
    }
    faults
}

#[cfg(test)]
mod tests;
