use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::decode::BodyFormat;
use crate::status::Status;
use crate::version::{Asked, Preconditions, VersionMatch};
use actors::engine::Revision;

fn query(text: &str) -> Query {
    Query::parse(text)
}

fn refusal<T: std::fmt::Debug>(result: Result<T, impl Into<Status>>) -> (u16, String) {
    let status = result.map_err(Into::into).unwrap_err();
    (status.code, status.message)
}

/// API-78, API-6.
#[test]
fn parameters_are_decoded_and_the_first_counts() {
    let q = query("a=1&a=2&b=%C3%A4+x%2By&c&d=&%65=f&;g=1&h=%zz&=x&a%3Db=c%26");
    assert_eq!(q.first("a"), Some("1"));
    assert_eq!(q.all("a"), ["1", "2"]);
    assert_eq!(q.first("b"), Some("ä x+y"));
    assert_eq!((q.first("c"), q.first("d")), (Some(""), Some("")));
    assert_eq!(q.first("e"), Some("f"));
    assert_eq!(
        (q.first("h"), q.first("g"), q.first("none")),
        (None, None, None)
    );
    assert_eq!(q.first("a=b"), Some("c&"));
    let flags = query("t=true&o=1&e&x=x&f=false&F=FALSE&z=0");
    let yes: Vec<&str> = ["t", "o", "e", "x", "f", "F", "z", "none"]
        .into_iter()
        .filter(|name| flags.flag(name))
        .collect();
    assert_eq!(yes, ["t", "o", "e", "x"]);
}

/// http.md 3.1: the parameters of list and watch.
#[test]
fn list_options_are_read() {
    let options = ListOptions::parse(&query(
        "labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&resourceVersion=5&\
         resourceVersionMatch=Exact&limit=10&continue=abc&timeoutSeconds=7&watch=1&\
         allowWatchBookmarks=true&sendInitialEvents=false&unknown=1",
    ))
    .unwrap();
    let wanted = ListOptions {
        labels: "a=b".to_owned(),
        fields: "metadata.name=x".to_owned(),
        resource_version: "5".to_owned(),
        version_match: Some(VersionMatchText::Exact),
        limit: 10,
        continue_token: Some("abc".to_owned()),
        timeout_seconds: Some(7),
        watch: true,
        bookmarks: true,
        send_initial_events: Some(false),
    };
    assert_eq!(options, wanted);
    assert_eq!(
        ListOptions::parse(&query("")).unwrap(),
        ListOptions::default()
    );
    let odd = ListOptions::parse(&query("limit=-5&timeoutSeconds=0&continue=")).unwrap();
    assert_eq!(odd, ListOptions::default());
    let over = ListOptions::parse(&query("timeoutSeconds=-1")).unwrap();
    assert_eq!(over.timeout_seconds, Some(0));
    assert_eq!(VersionMatchText::Exact.known(), Some(VersionMatch::Exact));
}

/// API-78: the messages of kube-apiserver.
#[test]
fn invalid_numbers_are_a_400() {
    let parsed = |text| refusal(ListOptions::parse(&query(text)));
    let syntax = |text: &str| format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
    assert_eq!(parsed("limit=x"), (400, syntax("x")));
    assert_eq!(parsed("limit="), (400, syntax("")));
    assert_eq!(parsed("timeoutSeconds=1.5"), (400, syntax("1.5")));
    let range = "strconv.ParseInt: parsing \"99999999999999999999\": value out of range";
    assert_eq!(
        parsed("limit=99999999999999999999"),
        (400, range.to_owned())
    );
}

fn list_refusal(text: &str) -> String {
    let (code, message) = refusal(ListOptions::parse(&query(text)).unwrap().validate_list());
    assert_eq!(code, 422);
    message
        .strip_prefix("ListOptions.meta.k8s.io \"\" is invalid: ")
        .unwrap()
        .to_owned()
}

/// LI-1, API-84: the messages of kube-apiserver.
#[test]
fn lists_refuse_contradictory_options() {
    let path = "resourceVersionMatch";
    let version =
        format!("{path}: Forbidden: {path} is forbidden unless resourceVersion is provided");
    assert_eq!(list_refusal("resourceVersionMatch=Exact"), version);
    assert_eq!(
        list_refusal("resourceVersionMatch=Exact&resourceVersion=0"),
        format!("{path}: Forbidden: {path} \"exact\" is forbidden for resourceVersion \"0\"")
    );
    let unknown = format!(
        "{path}: Unsupported value: \"x\": supported values: \"Exact\", \"NotOlderThan\", \"\""
    );
    assert_eq!(
        list_refusal("resourceVersionMatch=x&resourceVersion=1"),
        unknown
    );
    let both = format!("[{version}, {unknown}]");
    assert_eq!(list_refusal("resourceVersionMatch=x"), both);
    assert_eq!(
        list_refusal("resourceVersionMatch=NotOlderThan&resourceVersion=1&continue=x"),
        format!("{path}: Forbidden: {path} is forbidden when continue is provided")
    );
    let initial = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list";
    assert_eq!(list_refusal("sendInitialEvents=false"), initial);
    for fine in [
        "",
        "resourceVersion=0&limit=1",
        "resourceVersionMatch=Exact&resourceVersion=5",
    ] {
        assert!(
            ListOptions::parse(&query(fine))
                .unwrap()
                .validate_list()
                .is_ok()
        );
    }
}

fn watch_refusal(text: &str) -> String {
    let mut options = ListOptions::parse(&query(text)).unwrap();
    options.default_watch();
    let (code, message) = refusal(options.validate_watch(true));
    assert_eq!(code, 422);
    message
        .strip_prefix("ListOptions.meta.k8s.io \"\" is invalid: ")
        .unwrap()
        .to_owned()
}

/// WA-3: the messages of kube-apiserver.
#[test]
fn watches_refuse_contradictory_options() {
    let path = "resourceVersionMatch";
    let requires =
        format!("{path}: Forbidden: sendInitialEvents requires setting {path} to NotOlderThan");
    let only = format!("{path}: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"");
    let unless = format!(
        "{path}: Forbidden: {path} is forbidden for watch unless sendInitialEvents is provided"
    );
    let with_continue = format!("{path}: Forbidden: {path} is forbidden when continue is provided");
    assert_eq!(watch_refusal("sendInitialEvents=true"), requires);
    assert_eq!(watch_refusal("sendInitialEvents=false"), requires);
    assert_eq!(
        watch_refusal("sendInitialEvents=true&resourceVersionMatch=Exact"),
        format!("[{requires}, {only}]")
    );
    assert_eq!(watch_refusal("resourceVersionMatch=NotOlderThan"), unless);
    assert_eq!(
        watch_refusal("resourceVersionMatch=Exact&resourceVersion=1"),
        format!("[{unless}, {only}]")
    );
    assert_eq!(
        watch_refusal("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x"),
        with_continue
    );
    assert_eq!(watch_refusal("continue=x&resourceVersion=0"), with_continue);
}

/// API-84, http.md 10.1: `sendInitialEvents` is refused without the feature gate WatchList.
#[test]
fn watches_refuse_initial_events_without_the_feature() {
    let refused = |text: &str| {
        let options = ListOptions::parse(&query(text)).unwrap();
        options
            .validate_watch(false)
            .err()
            .map(|error| Status::from(error).message)
    };
    let invalid = "ListOptions.meta.k8s.io \"\" is invalid: ";
    let path = "resourceVersionMatch";
    let forbidden = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless \
                     the WatchList feature gate is enabled";
    for asked in ["true", "false"] {
        assert_eq!(
            refused(&format!("sendInitialEvents={asked}&{path}=NotOlderThan")),
            Some(format!("{invalid}{forbidden}"))
        );
    }
    let requires =
        format!("{path}: Forbidden: sendInitialEvents requires setting {path} to NotOlderThan");
    let only = format!("{path}: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"");
    assert_eq!(
        refused(&format!("sendInitialEvents=true&{path}=Exact")),
        Some(format!("{invalid}[{requires}, {forbidden}, {only}]"))
    );
    assert_eq!(refused("resourceVersion=0"), None);
}

/// WA-5, API-85.
#[test]
fn a_plain_watch_starts_with_the_state() {
    let defaulted = |text| {
        let mut options = ListOptions::parse(&query(text)).unwrap();
        options.default_watch();
        assert!(options.validate_watch(true).is_ok());
        options.send_initial_events
    };
    assert_eq!(defaulted(""), Some(true));
    assert_eq!(defaulted("resourceVersion=0"), Some(true));
    assert_eq!(defaulted("resourceVersion=5"), None);
    let asked = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    assert_eq!(defaulted(asked), Some(false));
}

/// API-80, API-81: the messages of kube-apiserver.
#[test]
fn write_options_are_checked() {
    let parse = |text| WriteOptions::parse(&query(text), WriteVerb::Create);
    let all = parse("dryRun=All&dryRun=All&fieldManager=kubectl&fieldValidation=Strict").unwrap();
    assert!(all.dry_run);
    assert_eq!(all.field_manager, "kubectl");
    assert_eq!(all.field_validation, FieldValidation::Strict);
    assert_eq!(
        parse("fieldValidation=&force=x").unwrap(),
        WriteOptions::default()
    );
    let refused = |text| {
        let (code, message) = refusal(parse(text));
        assert_eq!(code, 422);
        message
            .strip_prefix("CreateOptions.meta.k8s.io \"\" is invalid: ")
            .unwrap()
            .to_owned()
    };
    for (given, shown) in [
        ("dryRun=", "[\"\"]"),
        ("dryRun=all", "[\"all\"]"),
        ("dryRun=All&dryRun=x", "[\"All\",\"x\"]"),
    ] {
        let wanted = format!("dryRun: Unsupported value: {shown}: supported values: \"All\"");
        assert_eq!(refused(given), wanted);
    }
    assert_eq!(
        refused("fieldValidation=x"),
        "fieldValidation: Unsupported value: \"x\": supported values: \"\", \"Ignore\", \
         \"Strict\", \"Warn\""
    );
    assert_eq!(
        refused("fieldManager=%07a%0a"),
        "[fieldManager: Invalid value: \"\\aa\\n\": invalid character U+0007 (at position 0), \
         fieldManager: Invalid value: \"\\aa\\n\": invalid character U+000A (at position 2)]"
    );
    let long = format!("fieldManager={}", "a".repeat(129));
    let wanted = "fieldManager: Too long: may not be more than 128 bytes";
    assert_eq!(refused(&long), wanted);
}

/// API-81: `force` is only for apply, regardless of its value.
#[test]
fn force_is_refused_on_other_patches() {
    for text in ["force=true", "force=false", "force="] {
        assert_eq!(
            refusal(WriteOptions::parse(&query(text), WriteVerb::Patch)),
            (
                422,
                "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified \
                 for non-apply patch"
                    .to_owned()
            )
        );
    }
    let update = refusal(WriteOptions::parse(&query("dryRun=x"), WriteVerb::Update));
    assert!(
        update
            .1
            .starts_with("UpdateOptions.meta.k8s.io \"\" is invalid: dryRun")
    );
}

/// API-155: the field manager of the request is recorded, except an invalid one.
#[test]
fn the_user_agent_names_the_manager_unless_the_request_does() {
    let manager = |named: &str, agent: &str| field_manager(&query(named), agent);
    assert_eq!(manager("", "kubectl/v1.36 (linux/amd64)"), "kubectl");
    assert_eq!(manager("", "a\u{7}b c"), "ab c");
    assert_eq!(manager("", &"ä".repeat(100)).len(), 128);
    assert_eq!(manager("", ""), "");
    assert_eq!(manager("fieldManager=me", "kubectl/v1"), "me");
    assert_eq!(manager("fieldManager=", "kubectl/v1"), "kubectl");
    assert_eq!(manager("fieldManager=a%0Ab", "kubectl/v1"), "kubectl");
    let long = format!("fieldManager={}", "m".repeat(129));
    assert_eq!(manager(&long, "kubectl/v1"), "kubectl");
}

/// Each unprintable character of a manager is a separate error that shows the whole name.
#[test]
fn a_refused_manager_is_not_repeated_for_each_of_its_characters() {
    let text = format!("fieldManager={}", "%01".repeat(20_000));
    let status = Status::from(WriteOptions::parse(&query(&text), WriteVerb::Create).unwrap_err());
    assert!(
        status.to_json().len() < 96 * 1024,
        "{}",
        status.to_json().len()
    );
}

fn deletion(text: &str, body: &str) -> Result<DeleteOptions, OptionsError> {
    DeleteOptions::parse(&query(text), body.as_bytes(), BodyFormat::Json)
}

/// http.md 3.1, API-83: with a body the query is ignored.
#[test]
fn delete_options_come_from_the_body_or_the_query() {
    let from_query = deletion(
        "dryRun=All&gracePeriodSeconds=5&propagationPolicy=Orphan&uid=u&uid=v&resourceVersion=",
        "",
    );
    let wanted = DeleteOptions {
        dry_run: true,
        grace_period_seconds: Some(5),
        propagation_policy: Some(Propagation::Orphan),
        preconditions: Preconditions {
            uid: Some("u".to_owned()),
            resource_version: None,
        },
        ..DeleteOptions::default()
    };
    assert_eq!(from_query.unwrap(), wanted);
    assert_eq!(
        deletion("dryRun=All&uid=u&resourceVersion=7", "{}").unwrap(),
        DeleteOptions::default()
    );
    let body = r#"{"kind":"DeleteOptions","apiVersion":"policy/v1","gracePeriodSeconds":-1,
        "orphanDependents":false,"dryRun":["All"],
        "preconditions":{"uid":"u","resourceVersion":"7"},"unknown":1}"#;
    let wanted = DeleteOptions {
        dry_run: true,
        grace_period_seconds: Some(-1),
        orphan_dependents: Some(false),
        preconditions: Preconditions {
            uid: Some("u".to_owned()),
            resource_version: Some("7".to_owned()),
        },
        ..DeleteOptions::default()
    };
    assert_eq!(deletion("propagationPolicy=Orphan", body).unwrap(), wanted);
    let yaml = b"propagationPolicy: Background";
    let options = DeleteOptions::parse(&query(""), yaml, BodyFormat::Yaml).unwrap();
    assert_eq!(options.propagation_policy, Some(Propagation::Background));
    let nulls = r#"{"preconditions":null,"dryRun":null,"propagationPolicy":null}"#;
    assert_eq!(deletion("", nulls).unwrap(), DeleteOptions::default());
    assert_eq!(deletion("", "null").unwrap(), DeleteOptions::default());
}

/// API-82: the messages of kube-apiserver.
#[test]
fn delete_options_are_checked() {
    let refused = |text, body| {
        let (code, message) = refusal(deletion(text, body));
        assert_eq!(code, 422);
        message
            .strip_prefix("DeleteOptions.meta.k8s.io \"\" is invalid: ")
            .unwrap()
            .to_owned()
    };
    let supported = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    let unsupported = |value: &str| {
        format!("propagationPolicy: Unsupported value: {value:?}: supported values: {supported}")
    };
    assert_eq!(
        refused("propagationPolicy=Sometimes", ""),
        unsupported("Sometimes")
    );
    assert_eq!(refused("", r#"{"propagationPolicy":""}"#), unsupported(""));
    let both = "propagationPolicy: Invalid value: \"z\": orphanDependents and deletionPropagation \
                cannot be both set";
    assert_eq!(
        refused("orphanDependents=x&propagationPolicy=z", ""),
        format!("[{both}, {}]", unsupported("z"))
    );
    assert_eq!(
        refused("", r#"{"dryRun":["Some"]}"#),
        "dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""
    );
}

/// API-83: an unreadable body is a 400.
#[test]
fn unreadable_delete_options_are_a_400() {
    let bodies = [
        "{",
        "[]",
        " ",
        "5",
        r#"{"kind":"Pod"}"#,
        r#"{"kind":5}"#,
        r#"{"gracePeriodSeconds":"x"}"#,
        r#"{"gracePeriodSeconds":1.5}"#,
        r#"{"dryRun":"All"}"#,
        r#"{"dryRun":[5]}"#,
        r#"{"orphanDependents":"x"}"#,
        r#"{"preconditions":[]}"#,
        r#"{"preconditions":{"uid":5}}"#,
    ];
    for body in bodies {
        assert_eq!(refusal(deletion("", body)).0, 400, "{body}");
    }
    for text in ["gracePeriodSeconds=x", "gracePeriodSeconds="] {
        assert_eq!(refusal(deletion(text, "")).0, 400);
    }
}

/// ST-6, ST-17: the messages of kube-apiserver.
#[test]
fn versions_are_decimal_numbers() {
    assert_eq!(parse_version(""), Ok(Asked::Unset));
    assert_eq!(parse_version("0"), Ok(Asked::Any));
    assert_eq!(parse_version("17"), Ok(Asked::At(Revision(17))));
    let text = "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": \
                invalid syntax";
    assert_eq!(parse_version("abc"), Err(text.to_owned()));
    let list = refusal(list_version("abc"));
    assert_eq!(list, (400, format!("invalid resource version: {text}")));
    assert_eq!(refusal(read_version("abc")), (500, text.to_owned()));
    for bad in ["-1", "+1", " 1", "1.5", "0x1", "1_0"] {
        assert!(
            parse_version(bad).unwrap_err().ends_with("invalid syntax"),
            "{bad}"
        );
    }
    let large = parse_version("99999999999999999999").unwrap_err();
    assert!(large.ends_with("value out of range"));
}

/// API-15.
#[test]
fn timeouts_are_cut_to_the_longest() {
    let longest = Duration::from_secs(60);
    let asked = |text| request_timeout(&query(text), longest);
    assert_eq!(asked("").unwrap(), None);
    assert_eq!(asked("timeout=0").unwrap(), None);
    assert_eq!(asked("timeout=-1s").unwrap(), None);
    assert_eq!(asked("timeout=1m30s").unwrap(), Some(longest));
    assert_eq!(
        asked("timeout=1.5s").unwrap(),
        Some(Duration::from_millis(1500))
    );
    let message = "invalid timeout specified in the request URL - time: invalid duration \"x\"";
    assert_eq!(refusal(asked("timeout=x")), (400, message.to_owned()));
}

proptest! {
    /// API-78: no query string causes a panic, and encoded parameters are decoded again.
    #[test]
    fn any_query_is_read(text in "[a-z%+&=;0-9]{0,40}|.{0,40}", value in ".{0,10}") {
        let _ = ListOptions::parse(&query(&text));
        let _ = WriteOptions::parse(&query(&text), WriteVerb::Patch);
        let encoded: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let q = query(&format!("k={encoded}"));
        prop_assert_eq!(q.first("k"), Some(value.as_str()));
    }

    /// API-83: no body causes a panic.
    #[test]
    fn any_delete_options_are_read_or_refused(
        kind in prop_oneof![Just(json!("DeleteOptions")), Just(json!(5)), Just(json!(null))],
        grace in prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!(1.5)), Just(json!([]))],
    ) {
        let body = json!({"kind": kind, "gracePeriodSeconds": grace}).to_string();
        let result = deletion("", &body);
        prop_assert_eq!(result.is_ok(), kind != json!(5) && grace == json!(1));
    }
}
