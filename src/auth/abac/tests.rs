//! Policies, their lines and their decisions (AC-40, AC-41).

use http::Method;

use super::policy::TYPES;
use super::*;
use crate::api::options::Query;
use crate::api::request_info::RequestInfo;
use crate::auth::Decision;

fn policies(lines: &[&str]) -> Policies {
    Policies::parse("p.jsonl", lines.join("\n").as_bytes()).unwrap()
}

/// A line of the current version with these members of its spec.
fn line(spec: &str) -> String {
    let head = r#""apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy""#;
    format!("{{{head},\"spec\":{{{spec}}}}}")
}

fn refused(text: &str) -> String {
    Policies::parse("f", text.as_bytes())
        .unwrap_err()
        .to_string()
}

fn alice() -> UserInfo {
    UserInfo::authenticated("alice", vec!["devs".to_owned()])
}

fn is_allowed(policies: &Policies, user: &UserInfo, method: Method, path: &str) -> bool {
    let query = Query::default();
    let info = RequestInfo::parse(&method, path, false, "").unwrap();
    let attributes = Attributes::of(user, &info, &query);
    let answer = policies.authorize(&attributes).now_or_never().unwrap();
    let expected = match answer.decision {
        Decision::Allow => "",
        Decision::NoOpinion => "No policy matched.",
        Decision::Deny => panic!("policies deny nothing"),
    };
    assert_eq!(answer.reason, expected);
    answer.is_allowed()
}

/// Whether a policy with this spec lets alice of the devs do that.
fn allows(spec: &str, method: Method, path: &str) -> bool {
    is_allowed(&policies(&[&line(spec)]), &alice(), method, path)
}

const ALL: &str = r#""namespace":"*","resource":"*","apiGroup":"*","nonResourcePath":"*""#;
const PODS: &str = "/api/v1/namespaces/n/pods";

#[test]
fn the_types_of_lines_are_known_ac_40() {
    assert!(TYPES.policy.found().is_some() && TYPES.flat.found().is_some());
}

#[test]
fn blank_lines_and_comments_are_skipped_and_unknown_fields_ignored_ac_40() {
    let known = line(&format!(r#""user":"alice","colour":"red",{ALL}"#));
    let policies = policies(&["", "  # a comment", "\t", &known, "\r"]);
    assert_eq!(policies.policies.len(), 1);
    assert!(is_allowed(&policies, &alice(), Method::GET, PODS));
}

#[test]
fn a_bad_line_is_named_with_its_number_and_content_ac_40() {
    let good = line(r#""user":"alice""#);
    let said = refused(&format!("{good}\n\n{{\"user\":"));
    let start = "error reading policy file f, line 3: {\"user\":: couldn't get version/kind; \
                 json parse error: ";
    assert!(said.starts_with(start), "{said}");
    let bad = line(r#""user":1"#);
    let said = refused(&bad);
    assert_eq!(
        said,
        format!(
            "error reading policy file f, line 1: {bad}: json: cannot unmarshal number into Go \
             struct field PolicySpec.spec.user of type string"
        )
    );
    let bad = r#"{"apiVersion":"abac.authorization.kubernetes.io/v2","kind":"Policy"}"#;
    assert!(refused(bad).ends_with(
        ": no kind \"Policy\" is registered for version \"abac.authorization.kubernetes.io/v2\""
    ));
    assert!(refused("[]").contains("line 1: []: couldn't get version/kind; json parse error: "));
    let long = "x".repeat(LINE_BYTES_MAX);
    let said = refused(&long);
    assert_eq!(
        said,
        "error reading policy file f: bufio.Scanner: token too long"
    );
}

#[test]
fn a_missing_file_is_named_ac_40() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none");
    let said = Policies::load(&path).unwrap_err().to_string();
    assert!(
        said.starts_with(&format!("open {}: No such file", path.display())),
        "{said}"
    );
    std::fs::write(&path, line(r#""user":"a""#)).unwrap();
    assert_eq!(Policies::load(&path).unwrap().policies.len(), 1);
}

#[test]
fn a_file_that_others_can_write_is_refused_ac_40() {
    use std::os::unix::fs::PermissionsExt;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), line(r#""user":"a""#)).unwrap();
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(file.path(), open).unwrap();
    let said = Policies::load(file.path()).unwrap_err().to_string();
    assert!(
        said.contains("others than its owner can write it"),
        "{said}"
    );
}

#[test]
fn user_and_group_must_both_match_and_one_must_be_given_ac_41() {
    for (spec, expected) in [
        (r#""user":"alice""#, true),
        (r#""user":"bob""#, false),
        (r#""group":"devs""#, true),
        (r#""group":"ops""#, false),
        (r#""user":"alice","group":"devs""#, true),
        (r#""user":"alice","group":"ops""#, false),
        (r#""user":"bob","group":"devs""#, false),
        (r#""user":"*""#, true),
        (r#""group":"*""#, true),
        (r#""user":"alice","group":"*""#, true),
        (r#""user":"bob","group":"*""#, false),
        // A star stands for everybody with credentials, whatever the group.
        (r#""user":"*","group":"ops""#, true),
        (r#""readonly":false"#, false),
    ] {
        let spec = format!("{spec},{ALL}");
        assert_eq!(allows(&spec, Method::POST, PODS), expected, "{spec}");
        assert_eq!(allows(&spec, Method::GET, "/version"), expected, "{spec}");
    }
    let everybody = policies(&[&line(&format!(r#""user":"*",{ALL}"#))]);
    let anonymous = UserInfo::anonymous();
    assert!(!is_allowed(&everybody, &anonymous, Method::GET, PODS));
}

#[test]
fn readonly_policies_allow_get_list_and_watch_alone_ac_41() {
    let spec = format!(r#""user":"alice","readonly":true,{ALL}"#);
    for (method, path, expected) in [
        (Method::GET, PODS, true),
        (Method::GET, "/api/v1/namespaces/n/pods/p", true),
        (Method::GET, "/api/v1/watch/namespaces/n/pods", true),
        (Method::POST, PODS, false),
        (Method::DELETE, "/api/v1/namespaces/n/pods/p", false),
        (Method::GET, "/version", true),
        (Method::HEAD, "/version", false),
        (Method::POST, "/version", false),
    ] {
        let allowed = allows(&spec, method.clone(), path);
        assert_eq!(allowed, expected, "{method} {path}");
    }
}

#[test]
fn namespace_resource_and_group_are_equal_or_a_star_ac_41() {
    let with = |spec: &str| format!(r#""user":"alice",{spec}"#);
    for (spec, path, expected) in [
        (r#""namespace":"n","resource":"pods""#, PODS, true),
        (
            r#""namespace":"n","resource":"pods""#,
            "/api/v1/namespaces/n/pods/p/log",
            true,
        ),
        (r#""namespace":"m","resource":"pods""#, PODS, false),
        (r#""namespace":"n","resource":"secrets""#, PODS, false),
        (r#""resource":"pods""#, PODS, false),
        (r#""namespace":"n""#, PODS, false),
        (
            r#""namespace":"n","resource":"pods","apiGroup":"apps""#,
            PODS,
            false,
        ),
        (r#""namespace":"*","resource":"*""#, PODS, true),
        (
            r#""namespace":"*","resource":"*""#,
            "/apis/apps/v1/deployments",
            false,
        ),
        (
            r#""namespace":"*","resource":"*","apiGroup":"*""#,
            "/apis/apps/v1/deployments",
            true,
        ),
        (r#""resource":"nodes""#, "/api/v1/nodes/n", true),
        (r#""nonResourcePath":"*""#, PODS, false),
    ] {
        assert_eq!(allows(&with(spec), Method::GET, path), expected, "{spec}");
    }
}

#[test]
fn paths_are_equal_or_begin_with_what_precedes_a_star_ac_41() {
    for (wanted, path, expected) in [
        ("*", "/version", true),
        ("/version", "/version", true),
        ("/version", "/version/", false),
        ("/ver*", "/version", true),
        ("/healthz*", "/version", false),
        ("", "/version", false),
    ] {
        let spec = format!(r#""user":"alice","nonResourcePath":"{wanted}""#);
        assert_eq!(allows(&spec, Method::GET, path), expected, "{wanted}");
    }
}

#[test]
fn lines_without_version_or_kind_are_flat_and_allow_more_ac_41() {
    for (line, method, path, expected) in [
        ("{}", Method::POST, PODS, true),
        ("{}", Method::GET, "/version", true),
        (r#"{"readonly":true}"#, Method::POST, PODS, false),
        (r#"{"user":"alice"}"#, Method::POST, PODS, true),
        (r#"{"user":"*"}"#, Method::POST, PODS, true),
        (r#"{"user":"bob"}"#, Method::GET, PODS, false),
        (r#"{"group":"devs"}"#, Method::GET, PODS, true),
        (r#"{"group":"ops"}"#, Method::GET, PODS, false),
        (r#"{"resource":"pods"}"#, Method::GET, PODS, true),
        (r#"{"resource":"pods"}"#, Method::GET, "/version", false),
        (r#"{"namespace":"m"}"#, Method::GET, PODS, false),
        (
            r#"{"namespace":"n"}"#,
            Method::GET,
            "/apis/apps/v1/namespaces/n/deployments",
            true,
        ),
        (
            r#"{"kind":"Policy","user":"alice"}"#,
            Method::GET,
            PODS,
            true,
        ),
        (
            r#"{"apiVersion":"abac.authorization.kubernetes.io/v0","kind":"Policy","user":"bob"}"#,
            Method::GET,
            PODS,
            false,
        ),
    ] {
        let policies = policies(&[line]);
        let allowed = is_allowed(&policies, &alice(), method, path);
        assert_eq!(allowed, expected, "{line} {path}");
    }
    let everybody = policies(&["{}"]);
    let anonymous = UserInfo::anonymous();
    assert!(!is_allowed(&everybody, &anonymous, Method::GET, PODS));
}

#[test]
fn rules_are_those_of_the_policies_for_the_user_and_namespace_in_their_order_ac_41() {
    let policies = policies(&[
        &line(r#""group":"devs","namespace":"n","resource":"pods","readonly":true"#),
        &line(r#""user":"bob","namespace":"*","resource":"secrets""#),
        &line(r#""user":"alice","namespace":"*","nonResourcePath":"/logs*","resource":"nodes""#),
        &line(r#""user":"alice","namespace":"m","resource":"jobs","apiGroup":"batch""#),
    ]);
    let rules = policies.rules_for(&alice(), "n").now_or_never().unwrap();
    let read = ResourceRule::new(&["get", "list", "watch"], "", &["pods"]);
    let all = ResourceRule::new(&["*"], "", &["nodes"]);
    assert_eq!(rules.of_resources, [read, all]);
    assert_eq!(rules.of_paths, [NonResourceRule::new(&["*"], &["/logs*"])]);
}

#[test]
fn thousands_of_policies_for_others_cost_nothing_ac_41() {
    let others = (0..5_000).map(|number| line(&format!(r#""user":"u{number}",{ALL}"#)));
    let mut lines: Vec<String> = others.collect();
    lines.push(line(&format!(r#""group":"devs",{ALL}"#)));
    let policies = Policies::parse("f", lines.join("\n").as_bytes()).unwrap();
    assert_eq!(policies.places(&alice()).count(), 1);
    assert!(is_allowed(&policies, &alice(), Method::GET, PODS));
}
