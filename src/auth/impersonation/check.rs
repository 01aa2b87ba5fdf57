//! Checks the parts of the user whom a request impersonates (AC-76, AC-78).

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::metrics;
use super::mode::Mode;
use crate::api::names::dns_subdomain;
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;
use crate::api::user_info::{
    ANONYMOUS, AUTHENTICATED, MASTERS, NODES, UNAUTHENTICATED, UserInfo, node, service_account,
    service_account_groups,
};
use crate::auth::authorization::forbidden;
use crate::auth::authorizer::aggregate;
use crate::auth::{Attributes, Authorizer};

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// The number of groups, or of extra values, from which on a constrained mode first asks for all
/// of them at once.
const MANY: usize = 4;

/// The extra value that stands for those of a pod's token. The pod does not matter, so the answer
/// is the same for all pods of the account.
const ASSOCIATED_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";

/// Returns the requester of the mode for associated nodes as authorizers see it.
pub(super) fn of_associate(requester: &UserInfo) -> UserInfo {
    let keys = requester.extra.keys().cloned().collect();
    UserInfo {
        extra: BTreeMap::from([(ASSOCIATED_KEYS.to_owned(), keys)]),
        ..requester.clone()
    }
}

/// Adds the groups that a user has by its name or by its way to the server.
pub(super) fn completed(mode: Mode, mut wanted: UserInfo) -> UserInfo {
    if wanted.groups.is_empty() {
        let is_node = mode.is_constrained() && node(&wanted.name).is_some();
        let of_account = service_account(&wanted.name);
        wanted.groups = match (is_node, of_account) {
            (true, _) => vec![NODES.to_owned()],
            (false, Some((namespace, _))) => service_account_groups(namespace),
            (false, None) => Vec::new(),
        };
    }
    if wanted.name == ANONYMOUS {
        wanted.with_group(UNAUTHENTICATED)
    } else if wanted.is_in(UNAUTHENTICATED) {
        wanted
    } else {
        wanted.with_group(AUTHENTICATED)
    }
}

/// Asks the authorizers in one mode.
pub(super) struct Check<'c> {
    authorizer: &'c dyn Authorizer,
    /// The attributes that all questions about a user share.
    attributes: Attributes<'c>,
    mode: Mode,
}

impl<'c> Check<'c> {
    /// Asks in a mode. The old verb has users and groups in the core group.
    pub(super) fn new(
        mode: Mode,
        requester: &'c UserInfo,
        authorizer: &'c dyn Authorizer,
    ) -> Check<'c> {
        let group = match mode {
            Mode::Legacy => "",
            _ => AUTHENTICATION_GROUP,
        };
        Check {
            authorizer,
            attributes: Attributes {
                api_version: "v1",
                ..Attributes::on_resource(requester, mode.verb(), group, "")
            },
            mode,
        }
    }

    /// Checks that the requester may do an action as somebody else.
    pub(super) async fn action(&self, attributes: &Attributes<'_>) -> Result<(), Box<Status>> {
        let on = format!("impersonate-on:{}:{}", self.mode.name(), attributes.verb);
        self.ask(Attributes {
            verb: &on,
            ..*attributes
        })
        .await
    }

    /// Checks that the requester may be this user.
    pub(super) async fn user(&self, wanted: &UserInfo) -> Result<(), Box<Status>> {
        self.name(&wanted.name).await?;
        self.uid(&wanted.uid).await?;
        self.groups(&wanted.groups).await?;
        self.extra(&wanted.extra).await
    }

    async fn name(&self, user: &str) -> Result<(), Box<Status>> {
        let node = node(user).filter(|_| self.mode.is_constrained());
        let (resource, namespace, name) = match (node, service_account(user)) {
            (Some(_), _) if self.mode == Mode::AssociatedNode => ("nodes", "", "*"),
            (Some(name), _) => ("nodes", "", name),
            (None, Some((namespace, name))) => ("serviceaccounts", namespace, name),
            (None, None) => ("users", "", user),
        };
        self.ask(Attributes {
            resource,
            namespace,
            name,
            ..self.attributes
        })
        .await
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
        let is_constrained = self.mode.is_constrained();
        let about = Attributes {
            resource: "groups",
            ..self.attributes
        };
        if is_constrained && groups.iter().any(String::is_empty) {
            let why = "impersonating the empty string group is not allowed";
            return Err(forbidden(&about, why));
        }
        // linear: the groups of one request.
        if is_constrained && groups.iter().any(|name| name == MASTERS) {
            let name = MASTERS;
            let why = "impersonating the system:masters group is not allowed";
            return Err(forbidden(&Attributes { name, ..about }, why));
        }
        if is_constrained && groups.len() >= MANY {
            let all = Attributes { name: "*", ..about };
            if self.ask(all).await.is_ok() {
                return Ok(());
            }
        }
        for name in groups {
            self.ask(Attributes { name, ..about }).await?;
        }
        Ok(())
    }

    async fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Box<Status>> {
        let is_constrained = self.mode.is_constrained();
        let about = Attributes {
            api_group: AUTHENTICATION_GROUP,
            resource: "userextras",
            ..self.attributes
        };
        let fault = extra.iter().filter(|_| is_constrained);
        let fault = fault
            .filter_map(|(key, values)| fault_of(key, values))
            .next();
        if let Some(why) = fault {
            return Err(forbidden(&about, &why));
        }
        let count: usize = extra.values().map(Vec::len).sum();
        if is_constrained && count >= MANY {
            let all = Attributes {
                subresource: "*",
                name: "*",
                ..about
            };
            if self.ask(all).await.is_ok() {
                return Ok(());
            }
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

    /// Asks the authorizers. Their errors are part of the refusal, unlike those about the request
    /// itself.
    async fn ask(&self, attributes: Attributes<'_>) -> Result<(), Box<Status>> {
        let begin = Instant::now();
        let answer = self.authorizer.authorize(&attributes).await;
        metrics::asked(self.mode.name(), answer.is_allowed(), begin.elapsed());
        if answer.is_allowed() {
            return Ok(());
        }
        let reason = match (answer.error, answer.reason) {
            (Some(error), reason) if reason.is_empty() => error,
            (Some(error), reason) => format!("{error}: {reason}"),
            (None, reason) => reason.into(),
        };
        Err(forbidden(&attributes, &reason))
    }
}

/// Returns why an extra value can't be impersonated in a constrained mode, if it can't (AC-78).
pub(super) fn fault_of(key: &str, values: &[String]) -> Option<String> {
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
