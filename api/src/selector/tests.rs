use std::sync::Arc;

use actors::engine::{Key, Revision};
use actors::object::{Attributes, CachedObject, TypeMembers, WireParts};
use actors::watch::Predicate;
use proptest::prelude::*;
use smol_str::SmolStr;

use super::*;
use crate::samples::{configmaps, deployments, namespaces, pods};
use crate::status::{Status, StatusReason};

/// Returns an object with these attributes.
fn cached(name: &str, labels: &[(&str, &str)], fields: &[&str]) -> CachedObject {
    let mut labels: Vec<(SmolStr, SmolStr)> = labels
        .iter()
        .map(|(k, v)| ((*k).into(), (*v).into()))
        .collect();
    labels.sort();
    let attributes = Attributes {
        namespace: "d".into(),
        name: name.into(),
        labels: labels.into(),
        fields: fields.iter().map(|value| SmolStr::from(*value)).collect(),
    };
    let wire = WireParts {
        types: &Arc::new(TypeMembers(Box::default())),
        before: b"",
        revision_member: b"",
        after: b"",
    };
    let key = Key::new(format!("/registry/things/d/{name}"));
    CachedObject::new(&key, Revision(1), wire, &attributes).unwrap()
}

fn labels(text: &str) -> Selection {
    Selection::parse(text, "", &configmaps()).unwrap()
}

fn fields(text: &str) -> Selection {
    Selection::parse("", text, &configmaps()).unwrap()
}

fn refusal(labels: &str, fields: &str, definition: &ResourceDefinition) -> String {
    let status = Status::from(Selection::parse(labels, fields, definition).unwrap_err());
    assert_eq!(
        (status.code, status.reason),
        (400, StatusReason::BAD_REQUEST)
    );
    status.message
}

/// API-87: the operators, with the objects of a recorded scenario.
#[test]
fn label_operators_select_as_kubernetes_does() {
    let objects = [
        cached("a", &[("app", "web"), ("tier", "front"), ("n", "1")], &[]),
        cached("b", &[("app", "web"), ("tier", "back"), ("n", "5")], &[]),
        cached("c", &[("app", "db"), ("n", "10")], &[]),
        cached("d", &[("empty", "")], &[]),
        cached("e", &[], &[]),
    ];
    let cases = [
        ("", "abcde"),
        ("app=web", "ab"),
        ("app==web", "ab"),
        ("app!=web", "cde"),
        ("app in (web,db)", "abc"),
        ("app notin (web)", "cde"),
        ("app", "abc"),
        ("!app", "de"),
        ("n>4", "bc"),
        ("n<6", "ab"),
        ("n>10", ""),
        ("app>1", ""),
        ("app=web,tier=front", "a"),
        ("app=web,tier!=front", "b"),
        ("app in (web),n>2", "b"),
        ("empty=", "d"),
        ("app=", ""),
        ("app!=", "abcde"),
        ("empty in ()", "d"),
        ("empty notin ()", "abce"),
        ("empty in (,x)", "d"),
        ("app in ( web , db )", "abc"),
        (" app\t=\n web ", "ab"),
        ("none", ""),
        ("app=web,app=db", ""),
        ("!none,n", "abc"),
        ("in", ""),
        ("in notin (in)", "abcde"),
    ];
    for (selector, wanted) in cases {
        let selection = labels(selector);
        let selected: String = objects
            .iter()
            .filter(|object| selection.matches(object))
            .map(|object| object.attributes().name())
            .collect();
        assert_eq!(selected, wanted, "{selector}");
    }
}

/// API-86: the messages of kube-apiserver.
#[test]
fn errors_of_label_selectors_name_the_expected_token() {
    let cases = [
        ("app=web=db", "found '=', expected: ',' or 'end of string'"),
        (
            "app in",
            "unable to parse requirement: found '' expected: '('",
        ),
        (
            "app in web",
            "unable to parse requirement: found 'web' expected: '('",
        ),
        (
            "app nope (web)",
            "unable to parse requirement: found 'nope', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            "=web",
            "found '=', expected: !, identifier, or 'end of string'",
        ),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        (
            "n>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' \
             operators, the value must be an integer",
        ),
        (
            "app in (web",
            "unable to parse requirement: found '', expected: ',' or ')'",
        ),
        ("!app=web", "found '=', expected: ',' or 'end of string'"),
        (
            ",",
            "found ',', expected: !, identifier, or 'end of string'",
        ),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        (
            "a in (=)",
            "unable to parse requirement: found '=', expected: ',', ')' or identifier",
        ),
        (
            "a in (b c)",
            "unable to parse requirement: found 'c', expected: ',' or ')'",
        ),
        (
            "a!b",
            "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            "a><1",
            "unable to parse requirement: found '<', expected: identifier",
        ),
        (
            "!!a",
            "unable to parse requirement: found '!', expected: identifier",
        ),
    ];
    for (selector, wanted) in cases {
        assert_eq!(refusal(selector, "", &configmaps()), wanted, "{selector}");
    }
    let key = refusal("-a=b", "", &configmaps());
    let start = "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must";
    assert!(key.starts_with(start), "{key}");
    let value = refusal("a in (ok,-b)", "", &configmaps());
    let start = "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label";
    assert!(value.starts_with(start), "{value}");
    for bad in [
        "a=-b",
        "n>-5",
        "n>1.5",
        "n<99999999999999999999",
        "a/b/c",
        "aä=b",
    ] {
        let message = refusal(bad, "", &configmaps());
        assert!(
            message.starts_with("unable to parse requirement: "),
            "{message}"
        );
    }
}

/// API-87.
#[test]
fn field_selectors_compare_metadata() {
    let object = cached("a", &[], &[]);
    let selected = [
        "",
        ",",
        "=",
        "metadata.name=a",
        "metadata.name==a",
        "metadata.name!=b",
        "metadata.namespace=d",
        "metadata.name=a,metadata.namespace=d,",
        "metadata.name!=\\=",
    ];
    for selector in selected {
        assert!(fields(selector).matches(&object), "{selector}");
    }
    let others = [
        "metadata.name=b",
        "metadata.name!=a",
        "metadata.name=",
        "metadata.name= a",
        "metadata.name=a\\,b",
        "metadata.namespace!=d",
        "metadata.name=a,metadata.name=b",
    ];
    for selector in others {
        assert!(!fields(selector).matches(&object), "{selector}");
    }
    let odd = cached("a,=\\", &[], &[]);
    assert!(fields("metadata.name=a\\,\\=\\\\").matches(&odd));
}

/// http.md 6.3: the selectable fields of a kind, in the order of its definition.
#[test]
fn own_fields_are_compared_by_their_place() {
    let pod = cached("p", &[], &["node-1", "Running"]);
    let selects = |text| Selection::parse("", text, &pods()).unwrap().matches(&pod);
    assert!(selects("spec.nodeName=node-1,status.phase!=Failed"));
    assert!(!selects("spec.nodeName=node-2"));
    assert!(!selects("spec.nodeName=Running"));
    let bare = cached("p", &[], &[]);
    let absent = Selection::parse("", "spec.nodeName=", &pods()).unwrap();
    assert!(absent.matches(&bare));
}

/// API-86, API-215: the messages of kube-apiserver.
#[test]
fn fields_that_a_kind_has_not_are_refused() {
    let unknown = "\"data.k\" is not a known field selector: only \"metadata.name\", \
                   \"metadata.namespace\"";
    assert_eq!(refusal("", "data.k=1", &configmaps()), unknown);
    assert_eq!(refusal("", "data.k=1", &deployments()), unknown);
    let unsupported = "field label not supported: spec.foo";
    assert_eq!(refusal("", "spec.foo=1", &pods()), unsupported);
    let namespace = "field label not supported: metadata.namespace";
    assert_eq!(
        refusal("", "metadata.namespace=x", &namespaces()),
        namespace
    );
}

/// API-86: the messages of kube-apiserver.
#[test]
fn errors_of_field_selectors_name_the_fault() {
    let cases = [
        (
            "metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        (
            "metadata.name=a,x",
            "invalid selector: 'metadata.name=a,x'; can't understand 'x'",
        ),
        (
            "metadata.name=a=b",
            "invalid field selector: unescaped character in value: 61",
        ),
        (
            "metadata.name!==a",
            "invalid field selector: unescaped character in value: 61",
        ),
        (
            "metadata.name=a\\x",
            "invalid field selector: invalid escape sequence: \\x",
        ),
        (
            "metadata.name=a\\",
            "invalid field selector: invalid escape sequence: \\",
        ),
        (
            "=a",
            "\"\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
    ];
    for (selector, wanted) in cases {
        assert_eq!(refusal("", selector, &configmaps()), wanted, "{selector}");
    }
}

/// RG-2: selectors that narrow a list to one key or one namespace.
#[test]
fn exact_names_and_namespaces_are_found() {
    let both = fields("metadata.namespace=n,metadata.name=x");
    assert_eq!(
        (both.exact_name(), both.exact_namespace()),
        (Some("x"), Some("n"))
    );
    let not = fields("metadata.name!=x");
    assert_eq!((not.exact_name(), not.exact_namespace()), (None, None));
    assert!(!not.is_empty());
    assert!(fields("").is_empty() && labels("").is_empty());
}

/// WA-4: the selectors that are allowed with a name in the path.
#[test]
fn a_name_in_the_path_must_agree_with_the_selector() {
    let named = fields("").with_name("a").unwrap();
    assert_eq!(named, fields("metadata.name=a"));
    assert!(fields("metadata.name=a").with_name("a").is_ok());
    for other in [
        "metadata.name=b",
        "metadata.name!=b",
        "metadata.namespace=d",
    ] {
        let status = Status::from(fields(other).with_name("a").unwrap_err());
        let message = "fieldSelector metadata.name doesn't match requested name";
        assert_eq!((status.code, status.message.as_str()), (400, message));
    }
    let labelled = labels("app").with_name("a").unwrap();
    assert!(labelled.matches(&cached("a", &[("app", "")], &[])));
    assert!(!labelled.matches(&cached("b", &[("app", "")], &[])));
}

/// Watchers with equal selectors share one group (docs/design.md 4), so identities must be
/// equal for equal selectors and differ for others.
#[test]
fn identities_are_equal_for_equal_selectors_alone() {
    let same = [
        ("a=1,b!=2", "b notin (2) , a in (1)"),
        ("a in (y,x,x)", "a in (x,y)"),
        ("!a,a,a", "a,!a"),
        ("a", " a "),
    ];
    for (one, other) in same {
        assert_eq!(labels(one).identity(), labels(other).identity());
    }
    let texts = [
        "",
        "a",
        "!a",
        "a=",
        "a!=",
        "a=1",
        "a!=1",
        "a>1",
        "a<1",
        "a in (1,2)",
        "a,b",
    ];
    let mut all: Vec<String> = texts
        .map(|text| labels(text).identity().to_owned())
        .to_vec();
    let texts = [
        "metadata.name=a",
        "metadata.name!=a",
        "metadata.namespace=a",
        "metadata.name=a;name\\=b",
        "metadata.name=a,metadata.name=b",
    ];
    all.extend(texts.map(|text| fields(text).identity().to_owned()));
    all.push(
        Selection::parse("a", "metadata.name=a", &configmaps())
            .unwrap()
            .identity()
            .to_owned(),
    );
    let distinct: std::collections::HashSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(Selection::default().identity(), "");
}

fn requirement() -> impl Strategy<Value = String> {
    let word = "[a-c]{1,2}";
    prop_oneof![
        word.prop_map(|k| k),
        word.prop_map(|k| format!("!{k}")),
        (word, "==?|!=", "[a-c]{0,2}").prop_map(|(k, op, v)| format!("{k}{op}{v}")),
        (word, "in|notin", prop::collection::vec("[a-c]{0,2}", 0..4))
            .prop_map(|(k, op, v)| format!("{k} {op} ({})", v.join(","))),
        (word, "[<>]", 0..9_i64).prop_map(|(k, op, v)| format!("{k}{op}{v}")),
    ]
}

proptest! {
    /// API-87: an identity is itself a selector that selects the same objects.
    #[test]
    fn label_identities_can_be_parsed_again(
        requirements in prop::collection::vec(requirement(), 0..5),
        labels_of in prop::collection::btree_map("[a-c]{1,2}", "[a-c]{0,2}|[0-9]", 0..5),
    ) {
        let selection = labels(&requirements.join(","));
        let again = labels(selection.identity());
        prop_assert_eq!(&again, &selection);
        let pairs: Vec<(&str, &str)> =
            labels_of.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let object = cached("x", &pairs, &[]);
        // A conjunction of requirements selects an object if each of them does.
        let each = requirements.iter().all(|one| labels(one).matches(&object));
        prop_assert_eq!(selection.matches(&object), each);
    }

    /// API-86: any text is a selector or a 400.
    #[test]
    fn any_text_is_a_selector_or_refused(text in "[a-c=!<>(), \\\\in\u{e4}]{0,20}|.{0,30}") {
        let _ = Selection::parse(&text, "", &configmaps());
        let _ = Selection::parse("", &text, &pods());
    }

    /// API-87: every value can be selected after it is escaped.
    #[test]
    fn escaped_values_select_themselves(value in ".{0,12}") {
        let escaped: String = value
            .chars()
            .flat_map(|c| matches!(c, '\\' | ',' | '=').then_some('\\').into_iter().chain([c]))
            .collect();
        let selection = fields(&format!("metadata.name={escaped}"));
        prop_assert!(selection.matches(&cached(&value, &[], &[])));
        prop_assert_eq!(selection.exact_name(), Some(value.as_str()));
    }
}

/// A watch keeps its selectors as long as it lasts, so they need little more memory than their
/// text.
#[test]
fn a_selection_takes_a_few_bytes_for_each_of_its_text() {
    let words = || ('a'..='z').flat_map(|a| ('a'..='z').map(move |b| format!("{a}{b}")));
    let many = |write: fn(String) -> String| words().map(write).collect::<Vec<_>>().join(",");
    let list = many(|word| word);
    let pair = |labels: String| (labels, String::new());
    for (labels, fields) in [
        pair(list.clone()),
        pair(many(|word| format!("!{word}"))),
        pair(many(|word| format!("{word}>1"))),
        pair(many(|word| format!("{word}={word}"))),
        pair(format!("a in ({list})")),
        (String::new(), many(|word| format!("status.phase={word}"))),
    ] {
        let selection = Selection::parse(&labels, &fields, &pods()).unwrap();
        let kept = size_of_val(&*selection.labels)
            + size_of_val(&*selection.fields)
            + selection.identity.len();
        let given = labels.len() + fields.len();
        assert!(
            kept <= 6 * given,
            "{given} bytes become {kept}: {labels}{fields}"
        );
    }
}

/// The actors' interface selects the same cached objects.
#[test]
fn a_selection_is_a_predicate_over_cached_objects() {
    let object = cached("a", &[("app", "web")], &[]);
    assert!(labels("app=web").matches(&object));
    assert!(!labels("app=db").matches(&object));
}
