//! Tests which users may impersonate whom, and which requests are refused.

use std::future::ready;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, FutureExt};
use http::Method;

use http::header::{HeaderName, HeaderValue};

use super::check::fault_of;
use super::mode::NODE_OF_TOKEN;
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
    let impersonations = Impersonations::new(is_constrained);
    let found = impersonations.impersonated(headers, &attributes, grants);
    let found = found.now_or_never().unwrap();
    let found = found.map(|found| found.map(|found| (*found.user).clone()));
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

/// Returns the names of the modes that apply.
fn modes(wanted: &UserInfo, requester: &UserInfo) -> Vec<&'static str> {
    let applying = Mode::ALL.into_iter();
    let applying = applying.filter(|mode| mode.applies(wanted, requester));
    applying.map(Mode::name).collect()
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
        modes(&wanted, &account)
    };
    assert_eq!(own("n"), ["associated-node", "arbitrary-node", "legacy"]);
    assert_eq!(own("m"), ["arbitrary-node", "legacy"]);
    // Others than service accounts have no node.
    let mut user = UserInfo::authenticated("bob", Vec::new());
    let extra = [(NODE_OF_TOKEN.to_owned(), vec!["n".to_owned()])];
    user.extra.extend(extra);
    let wanted = UserInfo {
        name: "system:node:n".to_owned(),
        ..UserInfo::default()
    };
    assert_eq!(modes(&wanted, &user), ["arbitrary-node", "legacy"]);
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

/// Counts questions, and allows what the test says at the time.
struct Switch {
    is_on: AtomicBool,
    questions: AtomicUsize,
    refuses: &'static str,
}

impl Authorizer for Switch {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let mut refused = self.refuses.split_ascii_whitespace();
        let is_refused = refused.any(|name| name == attributes.name);
        let is_allowed = self.is_on.load(Ordering::Relaxed)
            && attributes.verb.starts_with("impersonate")
            && attributes.verb != "impersonate"
            && !is_refused;
        ready(Authorization::allow_if(is_allowed)).boxed()
    }
}

fn switch(refuses: &'static str) -> Switch {
    Switch {
        is_on: AtomicBool::new(true),
        questions: AtomicUsize::new(0),
        refuses,
    }
}

/// Asks to read a path as another user.
async fn reads(
    impersonations: &Impersonations,
    switch: &Switch,
    (requester, given, path): (&UserInfo, &[(&'static str, &'static str)], &str),
) -> Result<Impersonation, u16> {
    let info = RequestInfo::parse(&Method::GET, path, false, "").unwrap();
    let query = Query::default();
    let attributes = Attributes::of(requester, &info, &query);
    let headers = headers(given);
    let found = impersonations.impersonated(&headers, &attributes, switch);
    found
        .await
        .map(Option::unwrap)
        .map_err(|status| status.code)
}

#[tokio::test(start_paused = true)]
async fn what_a_mode_allows_counts_for_ten_seconds_for_the_same_request_ac_78() {
    let (impersonations, switch) = (Impersonations::new(true), switch(""));
    let bob = UserInfo::authenticated("bob", Vec::new());
    let ada = &[("Impersonate-User", "ada")][..];
    let asked = async |requester, given, path| {
        let before = switch.questions.load(Ordering::Relaxed);
        let found = reads(&impersonations, &switch, (requester, given, path)).await;
        let questions = switch.questions.load(Ordering::Relaxed) - before;
        (found.map(|found| found.constraint), questions)
    };
    let yes = Ok(Some("impersonate:user-info"));
    assert_eq!(asked(&bob, ada, "/api/v1/nodes/n").await, (yes, 2));
    assert_eq!(asked(&bob, ada, "/api/v1/nodes/n").await, (yes, 0));
    // The user is known for another action, not for another requester or with another group.
    assert_eq!(asked(&bob, ada, "/api/v1/nodes/m").await, (yes, 1));
    let eve = UserInfo::authenticated("eve", Vec::new());
    assert_eq!(asked(&eve, ada, "/api/v1/nodes/n").await, (yes, 2));
    let crew = [ada[0], ("Impersonate-Group", "crew")];
    assert_eq!(asked(&bob, &crew, "/api/v1/nodes/n").await, (yes, 3));
    switch.is_on.store(false, Ordering::Relaxed);
    tokio::time::advance(Duration::from_millis(9_990)).await;
    assert_eq!(asked(&bob, ada, "/api/v1/nodes/n").await, (yes, 0));
    assert_eq!(asked(&bob, ada, "/api/v1/nodes/o").await.0, Err(403));
    tokio::time::advance(Duration::from_millis(20)).await;
    assert_eq!(asked(&bob, ada, "/api/v1/nodes/n").await.0, Err(403));
}

/// AC-78: a refusal is not kept, and neither are answers of the old verb.
#[test]
fn answers_of_the_old_verb_and_refusals_are_not_kept_ac_78() {
    let impersonations = Impersonations::new(true);
    let bob = UserInfo::authenticated("bob", Vec::new());
    let info = RequestInfo::parse(&Method::GET, "/api/v1/nodes/n", false, "").unwrap();
    let query = Query::default();
    let attributes = Attributes::of(&bob, &info, &query);
    let ada = headers(&[("Impersonate-User", "ada")]);
    let found = |grants: &Grants| {
        let found = impersonations.impersonated(&ada, &attributes, grants);
        let found = found.now_or_never().unwrap();
        found.map(|found| found.unwrap().constraint).ok()
    };
    for _ in 0..2 {
        assert_eq!(found(&Grants(&[])), None);
        let legacy = Grants(&["impersonate :users :ada"]);
        assert_eq!(found(&legacy), Some(None));
    }
}

/// AC-76: who may be in all groups is asked once about many of them.
#[tokio::test]
async fn many_groups_and_extra_values_are_asked_for_at_once_ac_76() {
    let group = |name| ("Impersonate-Group", name);
    let user = ("Impersonate-User", "ada");
    let four = [user, group("a"), group("b"), group("c"), group("d")];
    let extra = |value| ("Impersonate-Extra-a.b%2fc", value);
    let extras = [user, extra("a"), extra("b"), extra("c"), extra("d")];
    let bob = UserInfo::authenticated("bob", Vec::new());
    for (given, refuses, questions) in [
        (&four[..], "", 3),
        (&four, "*", 7),
        (&four[..4], "", 5),
        (&extras, "", 3),
        (&extras, "*", 7),
        (&extras[..4], "", 5),
    ] {
        let (impersonations, switch) = (Impersonations::new(true), switch(refuses));
        let found = reads(&impersonations, &switch, (&bob, given, "/api/v1/nodes"));
        found.await.unwrap();
        let asked = switch.questions.load(Ordering::Relaxed);
        assert_eq!(asked, questions, "{given:?} {refuses}");
    }
    let (impersonations, switch) = (Impersonations::new(true), switch("* c"));
    let found = reads(&impersonations, &switch, (&bob, &four, "/api/v1/nodes"));
    assert_eq!(found.await.unwrap_err(), 403);
}

/// AC-76: the pods of an account share the answer, and each is the node of its own.
#[tokio::test]
async fn pods_of_an_account_share_the_answer_and_act_as_their_own_nodes_ac_76_ac_78() {
    let (impersonations, switch) = (Impersonations::new(true), switch(""));
    let pod = |node: &str| {
        let mut account = UserInfo::authenticated("system:serviceaccount:e:sa", Vec::new());
        let extra = [(NODE_OF_TOKEN.to_owned(), vec![node.to_owned()])];
        account.extra.extend(extra);
        account
    };
    for (node, header, questions) in [("n", "system:node:n", 2), ("m", "system:node:m", 2)] {
        let given = [("Impersonate-User", header)];
        let pod = pod(node);
        let found = reads(&impersonations, &switch, (&pod, &given, "/api/v1/nodes"));
        let found = found.await.unwrap();
        assert_eq!(found.user.name, header);
        assert_eq!(found.user.groups, ["system:nodes", "system:authenticated"]);
        assert_eq!(found.constraint, Some("impersonate:associated-node"));
        assert_eq!(switch.questions.load(Ordering::Relaxed), questions);
    }
    // Another node than that of the token takes another right, which is asked for.
    let given = [("Impersonate-User", "system:node:m")];
    let pod = pod("n");
    let found = reads(&impersonations, &switch, (&pod, &given, "/api/v1/nodes"));
    let constraint = found.await.unwrap().constraint;
    assert_eq!(constraint, Some("impersonate:arbitrary-node"));
    assert_eq!(switch.questions.load(Ordering::Relaxed), 4);
}
