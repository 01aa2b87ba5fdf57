//! Requests that are carried out as another user (API-284, API-285).
//!
//! Each part that the headers ask for is checked. The verbs of constrained impersonation come
//! first. They also check what is done as the other user. The older verb `impersonate` comes
//! second. Nothing after this filter reads the headers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::authorization::{authorize, forbidden};
use crate::api::names::dns_subdomain;
use crate::api::percent;
use crate::api::status::Status;
use crate::api::user_info::{
    ANONYMOUS, AUTHENTICATED, MASTERS, NODES, UNAUTHENTICATED, UserInfo, node, service_account,
    service_account_groups,
};
use crate::server::auth::{Attributes, Authorizer};

/// The prefix of all impersonation headers.
const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// The user that a request is carried out as, or `None` for the user who asks. `attributes` are
/// those of the request with the user who asks.
///
/// # Errors
/// 400 for headers that name no user. 403 for a user that the requesting user may not impersonate.
pub fn impersonated(
    headers: &HeaderMap,
    attributes: &Attributes<'_>,
    authorizer: &dyn Authorizer,
) -> Result<Option<UserInfo>, Box<Status>> {
    let Some(wanted) = wanted(headers)? else {
        return Ok(None);
    };
    let legacy = || Check::legacy(attributes.user, authorizer).user(wanted.clone());
    let user = match constrained_mode(&wanted) {
        None => legacy(),
        Some(mode) => {
            let constrained = constrained(mode, wanted.clone(), attributes, authorizer);
            // Like kube-apiserver, report the first of two refusals.
            constrained.or_else(|refusal| legacy().map_err(|_| refusal))
        }
    };
    user.map(Some)
}

/// The user that the headers ask for, unchecked.
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

/// The value of a header as text.
fn text(value: &HeaderValue) -> Result<&str, Box<Status>> {
    let text = std::str::from_utf8(value.as_bytes()).ok();
    text.filter(|text| is_plain(text)).ok_or_else(not_plain)
}

/// The key of an extra, percent-decoded if it is encoded.
fn extra_key(encoded: &str) -> Result<String, Box<Status>> {
    let key = percent::decoded(encoded).map_or_else(|| encoded.to_owned(), Cow::into_owned);
    Some(key).filter(|key| is_plain(key)).ok_or_else(not_plain)
}

/// Whether the text is free of control characters. Parts of a user appear in logs and on terminals.
fn is_plain(text: &str) -> bool {
    !text.contains(char::is_control)
}

fn not_plain() -> Box<Status> {
    let message = "a header of impersonation is no UTF-8, or has a control character";
    Box::new(Status::bad_request(message))
}

/// The mode of constrained impersonation that applies to this user. Nodes and service accounts have
/// fixed groups, so no other groups may be given for them.
fn constrained_mode(wanted: &UserInfo) -> Option<&'static str> {
    let is_named_alone =
        wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
    match (node(&wanted.name), service_account(&wanted.name)) {
        (None, None) => Some("user-info"),
        _ if !is_named_alone => None,
        (Some(_), _) => Some("arbitrary-node"),
        (_, Some(_)) => Some("serviceaccount"),
    }
}

/// Checks that the requesting user may do this as another user, and may impersonate this user.
fn constrained(
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
    authorize(authorizer, &acting)?;
    let verb = format!("impersonate:{mode}");
    Check::constrained(attributes.user, authorizer, &verb).user(wanted)
}

/// Checks whether the parts of a user may be impersonated.
struct Check<'c> {
    authorizer: &'c dyn Authorizer,
    /// The attributes that all questions share.
    attributes: Attributes<'c>,
    is_constrained: bool,
}

impl<'c> Check<'c> {
    /// Checks by the verb `impersonate`, with users and groups in the core group.
    fn legacy(user: &'c UserInfo, authorizer: &'c dyn Authorizer) -> Check<'c> {
        Check {
            authorizer,
            attributes: Attributes {
                user,
                verb: "impersonate",
                is_resource_request: true,
                path: "",
                api_group: "",
                api_version: "v1",
                resource: "",
                subresource: "",
                namespace: "",
                name: "",
                field_selector: "",
                label_selector: "",
            },
            is_constrained: false,
        }
    }

    /// Checks by the verb of a mode.
    fn constrained(user: &'c UserInfo, authorizer: &'c dyn Authorizer, verb: &'c str) -> Check<'c> {
        let mut check = Check::legacy(user, authorizer);
        check.attributes.verb = verb;
        check.attributes.api_group = AUTHENTICATION_GROUP;
        check.is_constrained = true;
        check
    }

    /// The complete user for what the headers ask for.
    fn user(&self, mut wanted: UserInfo) -> Result<UserInfo, Box<Status>> {
        let known_groups = self.name(&wanted.name)?;
        self.uid(&wanted.uid)?;
        self.groups(&wanted.groups)?;
        self.extra(&wanted.extra)?;
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

    /// The groups of a user with this name, if they are fixed.
    fn name(&self, user: &str) -> Result<Vec<String>, Box<Status>> {
        let node = node(user).filter(|_| self.is_constrained);
        let (resource, namespace, name, groups) = match (node, service_account(user)) {
            (Some(name), _) => ("nodes", "", name, vec![NODES.to_owned()]),
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
        })?;
        Ok(groups)
    }

    fn uid(&self, uid: &str) -> Result<(), Box<Status>> {
        if uid.is_empty() {
            return Ok(());
        }
        self.ask(Attributes {
            api_group: AUTHENTICATION_GROUP,
            resource: "uids",
            name: uid,
            ..self.attributes
        })
    }

    fn groups(&self, groups: &[String]) -> Result<(), Box<Status>> {
        let about = Attributes {
            resource: "groups",
            ..self.attributes
        };
        let is_unsafe = |name: &&String| name.is_empty() || *name == MASTERS;
        let refused = groups
            .iter()
            .find(|name| self.is_constrained && is_unsafe(name));
        if let Some(name) = refused {
            let why = "this mode impersonates no such group";
            return Err(forbidden(&Attributes { name, ..about }, why));
        }
        let mut groups = groups.iter();
        groups.try_for_each(|name| self.ask(Attributes { name, ..about }))
    }

    fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), Box<Status>> {
        let about = Attributes {
            api_group: AUTHENTICATION_GROUP,
            resource: "userextras",
            ..self.attributes
        };
        for (key, values) in extra {
            let about = Attributes {
                subresource: key,
                ..about
            };
            let is_sane = is_prefixed_path(key) && !values.iter().any(String::is_empty);
            if self.is_constrained && !is_sane {
                let why = "this mode impersonates keys like example.com/key, with values, alone";
                return Err(forbidden(&about, why));
            }
            let mut values = values.iter();
            values.try_for_each(|name| self.ask(Attributes { name, ..about }))?;
        }
        Ok(())
    }

    fn ask(&self, attributes: Attributes<'_>) -> Result<(), Box<Status>> {
        authorize(self.authorizer, &attributes)
    }
}

/// Whether the key of an extra is a domain and a path in lower case.
fn is_prefixed_path(key: &str) -> bool {
    let is_of_path =
        |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    key.split_once('/').is_some_and(|(domain, path)| {
        let is_path = !path.is_empty() && path.bytes().all(is_of_path);
        is_path && dns_subdomain(domain).is_empty() && key == key.to_lowercase()
    })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use http::Method;

    use super::*;
    use crate::api::options::Query;
    use crate::server::auth::Decision;
    use crate::server::request_info::RequestInfo;

    /// Allows the requests in the list: verb, group and resource, namespace and name.
    struct Grants(&'static [&'static str]);

    impl Authorizer for Grants {
        fn authorize(&self, attributes: &Attributes<'_>) -> (Decision, Cow<'static, str>) {
            assert_eq!(attributes.user.name, "bob");
            let Attributes {
                verb,
                api_group,
                resource,
                subresource,
                namespace,
                name,
                ..
            } = attributes;
            let resource = [resource, subresource].map(|part| *part).join("/");
            let resource = resource.trim_end_matches('/');
            let asked = format!("{verb} {api_group}:{resource} {namespace}:{name}");
            match self.0.contains(&"*") || self.0.contains(&asked.as_str()) {
                true => (Decision::Allow, Cow::default()),
                false => (Decision::NoOpinion, Cow::default()),
            }
        }
    }

    const ALL: Grants = Grants(&["*"]);

    fn headers(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        headers.collect()
    }

    /// Bob gets a pod as another user.
    fn asked(headers: &HeaderMap, grants: &Grants) -> Result<Option<UserInfo>, (u16, String)> {
        let bob = UserInfo::authenticated("bob", Vec::new());
        let path = "/api/v1/namespaces/d/pods/p";
        let info = RequestInfo::parse(&Method::GET, path, false, "").unwrap();
        let query = Query::default();
        let attributes = Attributes::of(&bob, &info, &query);
        impersonated(headers, &attributes, grants).map_err(|status| (status.code, status.message))
    }

    fn user(given: &[(&'static str, &'static str)], grants: &Grants) -> UserInfo {
        asked(&headers(given), grants).unwrap().unwrap()
    }

    fn refused(given: &[(&'static str, &'static str)], grants: &Grants) -> (u16, String) {
        asked(&headers(given), grants).unwrap_err()
    }

    #[test]
    fn who_asks_for_nobody_stays_the_one_who_asks_api_276_api_284() {
        for name in [
            "X-Remote-User",
            "X-Impersonate-User",
            "Impersonated",
            "Impersonate-Something",
            "Accept",
        ] {
            assert_eq!(asked(&headers(&[(name, "x")]), &Grants(&[])), Ok(None));
        }
        let empty = headers(&[("Impersonate-User", ""), ("Impersonate-Uid", "")]);
        assert_eq!(asked(&empty, &Grants(&[])), Ok(None));
    }

    #[test]
    fn parts_without_a_user_and_texts_that_are_none_are_bad_requests_api_284() {
        for (name, what) in [
            ("Impersonate-Uid", "a uid"),
            ("Impersonate-Group", "groups"),
            ("Impersonate-Extra-Scopes", "extra"),
        ] {
            let text = format!("requested {what} without impersonating a user name");
            assert_eq!(refused(&[(name, "x")], &ALL), (400, text));
        }
        let user = ("Impersonate-User", "x");
        for bad in [
            ("Impersonate-User", "a\tb"),
            ("Impersonate-Group", "a\tb"),
            ("Impersonate-Extra-a", "a\tb"),
            ("Impersonate-Extra-a%1bb", "x"),
        ] {
            assert_eq!(refused(&[bad, user], &ALL).0, 400, "{bad:?}");
        }
        let mut latin1 = headers(&[user]);
        let value = HeaderValue::from_bytes(b"caf\xe9").unwrap();
        latin1.insert("impersonate-group", value);
        let said = asked(&latin1, &ALL).unwrap_err();
        let text = "a header of impersonation is no UTF-8, or has a control character";
        assert_eq!(said, (400, text.to_owned()));
    }

    #[test]
    fn each_part_is_asked_for_by_the_verb_impersonate_api_284() {
        let given = [
            ("Impersonate-User", "ada"),
            ("Impersonate-Uid", "u1"),
            ("Impersonate-Group", "crew"),
            ("Impersonate-Group", "cooks"),
            ("Impersonate-Extra-Example.com%2fScopes", "view"),
            ("Impersonate-Extra-Bad%zz", "x"),
        ];
        const GRANTS: &[&str] = &[
            "impersonate :users :ada",
            "impersonate authentication.k8s.io:uids :u1",
            "impersonate :groups :crew",
            "impersonate :groups :cooks",
            "impersonate authentication.k8s.io:userextras/bad%zz :x",
            "impersonate authentication.k8s.io:userextras/example.com/scopes :view",
        ];
        let ada = user(&given, &Grants(GRANTS));
        assert_eq!((ada.name.as_str(), ada.uid.as_str()), ("ada", "u1"));
        assert_eq!(ada.groups, ["crew", "cooks", "system:authenticated"]);
        let extra: Vec<(&str, String)> = ada
            .extra
            .iter()
            .map(|(key, values)| (key.as_str(), values.join(",")))
            .collect();
        let expected = [("bad%zz", "x"), ("example.com/scopes", "view")];
        assert_eq!(extra, expected.map(|(key, value)| (key, value.to_owned())));
        for missing in 0..GRANTS.len() {
            let (before, after) = GRANTS.split_at(missing);
            let rest = [before, after.get(1..).unwrap()].concat();
            assert_eq!(refused(&given, &Grants(rest.leak())).0, 403, "{missing}");
        }
    }

    #[test]
    fn constrained_impersonation_looks_at_what_is_done_and_at_each_part_api_285() {
        let given = [("Impersonate-User", "ada"), ("Impersonate-Group", "crew")];
        const GRANTS: &[&str] = &[
            "impersonate-on:user-info:get :pods d:p",
            "impersonate:user-info authentication.k8s.io:users :ada",
            "impersonate:user-info authentication.k8s.io:groups :crew",
        ];
        let ada = user(&given, &Grants(GRANTS));
        assert_eq!(ada.groups, ["crew", "system:authenticated"]);
        for missing in 0..GRANTS.len() {
            let (before, after) = GRANTS.split_at(missing);
            let rest = [before, after.get(1..).unwrap()].concat();
            assert_eq!(refused(&given, &Grants(rest.leak())).0, 403, "{missing}");
        }
    }

    #[test]
    fn what_a_mode_does_not_impersonate_takes_the_old_verb_api_285() {
        let ada = ("Impersonate-User", "ada");
        for (odd, grant) in [
            (
                ("Impersonate-Group", "system:masters"),
                "groups :system:masters",
            ),
            (("Impersonate-Group", ""), "groups :"),
            (("Impersonate-Extra-scopes", "x"), "userextras/scopes :x"),
            (("Impersonate-Extra-a.b%2f", "x"), "userextras/a.b :x"),
            (("Impersonate-Extra-a.b%2fc", ""), "userextras/a.b/c :"),
            (("Impersonate-Extra-a.b%2f%43", "x"), "userextras/a.b/C :x"),
        ] {
            const CONSTRAINED: &[&str] = &[
                "impersonate-on:user-info:get :pods d:p",
                "impersonate:user-info authentication.k8s.io:users :ada",
            ];
            let group = if grant.starts_with("groups") {
                ""
            } else {
                "authentication.k8s.io"
            };
            let leaked = |text: String| -> &'static str { text.leak() };
            let by_mode = leaked(format!(
                "impersonate:user-info authentication.k8s.io:{grant}"
            ));
            let by_verb = leaked(format!("impersonate {group}:{grant}"));
            let constrained = [CONSTRAINED, &[by_mode]].concat();
            let (code, said) = refused(&[ada, odd], &Grants(constrained.leak()));
            assert_eq!(code, 403, "{odd:?}");
            assert!(
                said.contains("cannot impersonate:user-info resource"),
                "{said}"
            );
            assert!(said.contains(": this mode impersonates "), "{said}");
            user(
                &[ada, odd],
                &Grants(vec!["impersonate :users :ada", by_verb].leak()),
            );
        }
    }

    #[test]
    fn nodes_and_service_accounts_have_groups_of_their_own_api_281_api_285() {
        let account = ("Impersonate-User", "system:serviceaccount:e:sa");
        let accounts = [
            "system:serviceaccounts",
            "system:serviceaccounts:e",
            "system:authenticated",
        ];
        let legacy = Grants(&["impersonate :serviceaccounts e:sa"]);
        assert_eq!(user(&[account], &legacy).groups, accounts);
        let constrained = Grants(&[
            "impersonate-on:serviceaccount:get :pods d:p",
            "impersonate:serviceaccount authentication.k8s.io:serviceaccounts e:sa",
        ]);
        assert_eq!(user(&[account], &constrained).groups, accounts);
        let given = [account, ("Impersonate-Group", "crew")];
        assert_eq!(refused(&given, &constrained).0, 403);
        let crew = ["crew", "system:authenticated"];
        assert_eq!(user(&given, &ALL).groups, crew);

        let node = ("Impersonate-User", "system:node:n");
        let constrained = Grants(&[
            "impersonate-on:arbitrary-node:get :pods d:p",
            "impersonate:arbitrary-node authentication.k8s.io:nodes :n",
        ]);
        let nodes = ["system:nodes", "system:authenticated"];
        assert_eq!(user(&[node], &constrained).groups, nodes);
        let legacy = Grants(&["impersonate :users :system:node:n"]);
        assert_eq!(user(&[node], &legacy).groups, ["system:authenticated"]);
        let given = [node, ("Impersonate-Group", "crew")];
        assert_eq!(user(&given, &ALL).groups, crew);
    }

    #[test]
    fn the_groups_say_whether_credentials_were_shown_api_284() {
        let groups = |user: &'static str, group: &'static str| {
            let given = [("Impersonate-User", user), ("Impersonate-Group", group)];
            super::tests::user(&given, &ALL).groups.join(" ")
        };
        let anonymous = [("Impersonate-User", "system:anonymous")];
        assert_eq!(user(&anonymous, &ALL).groups, ["system:unauthenticated"]);
        let both = "crew system:unauthenticated";
        assert_eq!(groups("system:anonymous", "crew"), both);
        let given = groups("ada", "system:unauthenticated");
        assert_eq!(given, "system:unauthenticated");
        let given = groups("ada", "system:authenticated");
        assert_eq!(given, "system:authenticated");
    }

    #[test]
    fn of_two_refusals_the_first_is_told_api_285_api_290() {
        for (user, group, text) in [
            (
                "ada",
                "crew",
                "pods \"p\" is forbidden: User \"bob\" cannot impersonate-on:user-info:get \
                 resource \"pods\" in API group \"\" in the namespace \"d\"",
            ),
            (
                "system:serviceaccount:e:sa",
                "crew",
                "serviceaccounts \"sa\" is forbidden: User \"bob\" cannot impersonate resource \
                 \"serviceaccounts\" in API group \"\" in the namespace \"e\"",
            ),
            (
                "system:node:n",
                "crew",
                "users \"system:node:n\" is forbidden: User \"bob\" cannot impersonate resource \
                 \"users\" in API group \"\" at the cluster scope",
            ),
        ] {
            let given = [("Impersonate-User", user), ("Impersonate-Group", group)];
            assert_eq!(refused(&given, &Grants(&[])), (403, text.to_owned()));
        }
    }
}
