//! Tests which users may impersonate whom, and which requests are refused.

use std::future::ready;

use futures_util::future::{BoxFuture, FutureExt};
use http::Method;

use super::*;
use crate::api::options::Query;
use crate::api::request_info::RequestInfo;
use crate::auth::Authorization;

/// Allows the requests in the list: verb, group and resource, namespace and name.
struct Grants(&'static [&'static str]);

impl Authorizer for Grants {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
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
        let is_allowed = self.0.contains(&"*") || self.0.contains(&asked.as_str());
        ready(Authorization::allow_if(is_allowed)).boxed()
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

/// Asks as bob to get a pod as another user.
fn asked(headers: &HeaderMap, grants: &Grants) -> Result<Option<UserInfo>, (u16, String)> {
    asked_with(headers, grants, true)
}

fn asked_with(
    headers: &HeaderMap,
    grants: &Grants,
    is_constrained: bool,
) -> Result<Option<UserInfo>, (u16, String)> {
    let bob = UserInfo::authenticated("bob", Vec::new());
    let path = "/api/v1/namespaces/d/pods/p";
    let info = RequestInfo::parse(&Method::GET, path, false, "").unwrap();
    let query = Query::default();
    let attributes = Attributes::of(&bob, &info, &query);
    let found = impersonated(headers, is_constrained, &attributes, grants);
    let found = found.now_or_never().unwrap();
    found.map_err(|status| (status.code, status.message))
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
    let text = "an impersonation header is not UTF-8, or has a control character";
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

/// http.md 10.1
#[test]
fn without_constrained_impersonation_only_the_old_verb_counts_api_285() {
    let given = headers(&[("Impersonate-User", "ada")]);
    const CONSTRAINED: &[&str] = &[
        "impersonate-on:user-info:get :pods d:p",
        "impersonate:user-info authentication.k8s.io:users :ada",
    ];
    let (code, said) = asked_with(&given, &Grants(CONSTRAINED), false).unwrap_err();
    assert_eq!(code, 403);
    assert!(said.contains("cannot impersonate resource"), "{said}");
    let legacy = Grants(&["impersonate :users :ada"]);
    let ada = asked_with(&given, &legacy, false).unwrap().unwrap();
    assert_eq!(ada.name, "ada");
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
        assert!(said.contains(": impersonating "), "{said}");
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

/// A service account may have the right to act as the node of its own pod.
#[test]
fn a_token_may_act_as_its_node_ac_76() {
    let own = |node: &str| {
        let mut account = UserInfo::authenticated("system:serviceaccount:e:sa", Vec::new());
        let extra = [(NODE_OF_TOKEN.to_owned(), vec![node.to_owned()])];
        account.extra.extend(extra);
        let wanted = UserInfo {
            name: "system:node:n".to_owned(),
            ..UserInfo::default()
        };
        constrained_modes(&wanted, &account)
    };
    assert_eq!(own("n"), ["associated-node", "arbitrary-node"]);
    assert_eq!(own("m"), ["arbitrary-node"]);
    // Others than service accounts have no node.
    let mut user = UserInfo::authenticated("bob", Vec::new());
    let extra = [(NODE_OF_TOKEN.to_owned(), vec!["n".to_owned()])];
    user.extra.extend(extra);
    let wanted = UserInfo {
        name: "system:node:n".to_owned(),
        ..UserInfo::default()
    };
    assert_eq!(constrained_modes(&wanted, &user), ["arbitrary-node"]);
}

/// AC-78: the reasons why a part of a user can't be impersonated in a constrained mode.
#[test]
fn keys_of_extra_values_are_lower_case_domains_and_paths_ac_78() {
    for (key, value, why) in [
        (
            "",
            "x",
            "impersonating the empty string key in extra is not allowed",
        ),
        (
            "team",
            "x",
            "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \
             \"team\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
        (
            "a.b/Team",
            "x",
            "impersonating a non-lowercase key in extra is not allowed: \"a.b/Team\"",
        ),
        (
            "a.b/team",
            "",
            "impersonating the empty string value in extra is not allowed",
        ),
    ] {
        let fault = fault_of(key, &[value.to_owned()]);
        assert_eq!(fault.as_deref(), Some(why), "{key}");
    }
    assert_eq!(fault_of("a.b/team", &["x".to_owned()]), None);
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
