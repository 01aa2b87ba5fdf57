use serde_json::json;

use super::*;
use crate::field_error::MAX_FIELD_ERRORS;
use crate::samples::{configmaps, deployments, events, leases, namespaces, object};

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns a ConfigMap `a` in a namespace with these members of metadata.
fn with(metadata: &str) -> Object {
    let mut object = object(&format!("{{\"metadata\":{metadata}}}"));
    if object.name().is_empty() {
        object.set_meta("name", "a");
    }
    object.set_meta("namespace", "d");
    object
}

/// Returns the errors of an update at the kind's own endpoint.
fn updated(new: &Object, old: &Object, definition: &ResourceDefinition) -> Vec<FieldError> {
    validate_update(new, old, definition, &definition.rules().update.checks)
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn created(metadata: &str) -> Vec<String> {
    texts(&validate_create(&with(metadata), &configmaps()))
}

/// API-94: valid metadata has no faults.
#[test]
fn valid_metadata_has_no_errors() {
    assert_eq!(created(r#"{"name":"a"}"#), [""; 0]);
    let full = r#"{"labels":{"a":"","b_.-c":"A_.-z","ex.com/B":"1"},
        "annotations":{"Upper.Prefix/b":"any text"},"generation":7,"generateName":"ok-",
        "finalizers":["orphan","kubernetes","ex.com/f","ex.com/f"],
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"K","name":"n","uid":"u",
        "controller":true},{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}]}"#;
    assert_eq!(created(full), [""; 0]);
}

/// API-95, API-201, API-202.
#[test]
fn names_follow_the_rule_of_the_kind() {
    let nameless = object(r#"{"metadata":{"namespace":"d"}}"#);
    assert_eq!(
        texts(&validate_create(&nameless, &configmaps())),
        ["metadata.name: Required value: name or generateName is required"]
    );
    let upper = format!("metadata.name: Invalid value: \"Upper\": {SUBDOMAIN}");
    assert_eq!(created(r#"{"name":"Upper"}"#), [upper]);
    let long = "a".repeat(254);
    assert_eq!(
        created(&format!("{{\"name\":\"{long}\"}}")),
        [format!(
            "metadata.name: Invalid value: \"{long}\": must be no more than 253 characters"
        )]
    );
    let dotted = object(r#"{"metadata":{"name":"a.b"}}"#);
    assert_eq!(
        texts(&validate_create(&dotted, &namespaces())),
        ["metadata.name: Invalid value: \"a.b\": must not contain dots"]
    );
    let event = with(r#"{"name":"A_b:c","finalizers":["plain"]}"#);
    assert_eq!(validate_create(&event, &events()), []);
    let slashed = texts(&validate_create(&with(r#"{"name":"a/b"}"#), &events()));
    assert_eq!(
        slashed,
        ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]
    );
}

/// API-199.
#[test]
fn generate_names_are_checked_as_prefixes() {
    assert_eq!(created(r#"{"generateName":"b--"}"#), [""; 0]);
    for bad in ["ok.", "Bad-", "-bad", "a_b-", "-"] {
        let wrong = created(&format!("{{\"generateName\":\"{bad}\"}}"));
        let wanted = format!("metadata.generateName: Invalid value: \"{bad}\": {SUBDOMAIN}");
        assert_eq!(wrong, [wanted]);
    }
}

/// API-203.
#[test]
fn namespaces_are_for_namespaced_kinds() {
    let without = object(r#"{"metadata":{"name":"a"}}"#);
    assert_eq!(
        texts(&validate_create(&without, &configmaps())),
        ["metadata.namespace: Required value"]
    );
    assert_eq!(
        texts(&validate_create(&with("{}"), &namespaces())),
        ["metadata.namespace: Forbidden: not allowed on this type"]
    );
}

/// API-204: keys and values of labels, with one message for each fault.
#[test]
fn labels_are_checked_key_by_key() {
    let path = "metadata.labels: Invalid value";
    assert_eq!(
        created(r#"{"labels":{"":"v"}}"#),
        [
            format!("{path}: \"\": name part must be non-empty"),
            format!("{path}: \"\": {QUALIFIED}"),
        ]
    );
    let key = format!("{path}: \"-a\": {QUALIFIED}");
    assert_eq!(created(r#"{"labels":{"-a":"v"}}"#), [key]);
    let value = format!("{path}: \"ä\": {LABEL}");
    assert_eq!(created(r#"{"labels":{"k":"ä"}}"#), [value]);
}

/// API-204: annotation keys may have any case, but their total size is limited.
#[test]
fn annotations_have_a_total_size() {
    let key = format!("metadata.annotations: Invalid value: \"a b\": {QUALIFIED}");
    assert_eq!(created(r#"{"annotations":{"a b":"x"}}"#), [key]);
    let sized = |bytes: usize| {
        let value = "a".repeat(bytes);
        created(&format!("{{\"annotations\":{{\"k\":\"{value}\"}}}}"))
    };
    assert_eq!(sized(262_143), [""; 0]);
    let long = "metadata.annotations: Too long: may not be more than 262144 bytes";
    assert_eq!(sized(262_144), [long]);
}

/// API-205.
#[test]
fn finalizers_are_qualified_names_or_standard_ones() {
    let path = "metadata.finalizers";
    let plain = "name is neither a standard finalizer name nor is it fully qualified";
    assert_eq!(
        created(r#"{"finalizers":["ex.com/a","plain"]}"#),
        [format!("{path}[1]: Invalid value: \"plain\": {plain}")]
    );
    assert_eq!(
        created(r#"{"finalizers":[""]}"#),
        [
            format!("{path}: Invalid value: \"\": name part must be non-empty"),
            format!("{path}: Invalid value: \"\": {QUALIFIED}"),
            format!("{path}[0]: Invalid value: \"\": {plain}"),
        ]
    );
    assert_eq!(
        created(r#"{"finalizers":["orphan","foregroundDeletion"]}"#),
        [format!(
            "{path}: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
             foregroundDeletion cannot be both set"
        )]
    );
    let lease = with(r#"{"finalizers":["plain"]}"#);
    assert_eq!(validate_create(&lease, &leases()), []);
}

/// API-207.
#[test]
fn owners_need_all_their_members() {
    let owned = |owner: &str| created(&format!("{{\"ownerReferences\":[{owner}]}}"));
    let path = "metadata.ownerReferences";
    let all = [
        format!("{path}.apiVersion: Invalid value: \"\": version must not be empty"),
        format!("{path}.kind: Invalid value: \"\": must not be empty"),
        format!("{path}.name: Invalid value: \"\": must not be empty"),
        format!("{path}.uid: Invalid value: \"\": must not be empty"),
    ];
    assert_eq!(owned("{}"), all);
    for bad in ["v1/v2/v3", "/", "g/"] {
        let owner = format!(r#"{{"apiVersion":"{bad}","kind":"K","name":"n","uid":"u"}}"#);
        let wanted =
            format!("{path}.apiVersion: Invalid value: \"{bad}\": version must not be empty");
        assert_eq!(owned(&owner), [wanted]);
    }
    let event = r#"{"uid":"u","apiVersion":"v1","kind":"Event","name":"o","controller":true,"blockOwnerDeletion":false}"#;
    assert_eq!(
        owned(event),
        [format!(
            "{path}: Invalid value: {{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"o\",\
             \"uid\":\"u\",\"controller\":true,\"blockOwnerDeletion\":false}}: /v1, Kind=Event is \
             disallowed from being an owner"
        )]
    );
}

/// API-207.
#[test]
fn only_one_owner_is_the_controller() {
    let wrong = created(
        r#"{"ownerReferences":[
        {"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u1","controller":true},
        {"apiVersion":"v1","kind":"ConfigMap","name":"p","uid":"u2","controller":true}]}"#,
    );
    assert_eq!(
        wrong,
        [
            "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\
          \"name\":\"o\",\"uid\":\"u1\",\"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\
          \"ConfigMap\",\"name\":\"p\",\"uid\":\"u2\",\"controller\":true}]: Only one reference can \
          have Controller set to true. Found \"true\" in references for ConfigMap/o and \
          ConfigMap/p"
        ]
    );
}

/// API-207: equal references are merged with a warning. Different references with the same uid
/// stay.
#[test]
fn repeated_owners_are_dropped_with_a_warning() {
    let k = r#"{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}"#;
    let l = r#"{"apiVersion":"v1","kind":"L","name":"n","uid":"u"}"#;
    let mut object = with(&format!("{{\"ownerReferences\":[{k},{l},{k},{k}]}}"));
    let warnings = deduplicate_owners(&mut object, OwnersStage::Read);
    assert_eq!(
        warnings,
        [
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references \
          in 1.20+, and may reject such requests as early as 1.24; please fix your requests; \
          duplicate UID(s) observed: u, u"
        ]
    );
    let kept = object.at(&["metadata", "ownerReferences"]).cloned();
    let wanted: Value = serde_json::from_str(&format!("[{k},{l}]")).unwrap();
    assert_eq!(kept, Some(wanted));
    assert_eq!(deduplicate_owners(&mut object, OwnersStage::Read), [""; 0]);
    let mut bare = Object::default();
    assert_eq!(deduplicate_owners(&mut bare, OwnersStage::Read), [""; 0]);
    assert_eq!(bare, Object::default());
}

/// http.md 5.1: the fields that an update may not change, reported once for each check of the kind.
#[test]
fn system_fields_are_immutable() {
    let old = with(r#"{"uid":"u","creationTimestamp":"2020-01-01T00:00:00Z","generation":3}"#);
    let mut new = old.clone();
    assert_eq!(updated(&new, &old, &configmaps()), []);
    new.set_meta("uid", "v");
    let uid = "metadata.uid: Invalid value: \"v\": field is immutable";
    assert_eq!(texts(&updated(&new, &old, &configmaps())), [uid, uid]);
    assert_eq!(texts(&updated(&new, &old, &namespaces())).len(), 4);
    assert_eq!(texts(&updated(&new, &old, &leases())), [uid, uid]);
    assert_eq!(texts(&updated(&new, &old, &events())), [uid]);
    let mut new = old.clone();
    new.set_meta("deletionTimestamp", "2001-01-01T00:00:00Z");
    let grace = new.metadata_mut();
    grace.insert("deletionGracePeriodSeconds".to_owned(), json!(5));
    grace.insert("generation".to_owned(), json!(2));
    assert_eq!(
        texts(&updated(&new, &old, &events())),
        [
            "metadata.generation: Invalid value: 2: must not be decremented",
            "metadata.deletionTimestamp: Invalid value: \"2001-01-01T00:00:00Z\": field is \
             immutable",
            "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
        ]
    );
}

/// API-148: the causes that kube-apiserver reports for one invalid label, by kind.
#[test]
fn an_update_repeats_an_error_for_each_check() {
    let old = with("{}");
    let new = with(r#"{"labels":{"k":"-"},"finalizers":["plain"]}"#);
    let count = |definition: ResourceDefinition, field: &str| {
        let errors = updated(&new, &old, &definition);
        errors.iter().filter(|e| e.path.starts_with(field)).count()
    };
    let labels = "metadata.labels";
    assert_eq!(count(configmaps(), labels), 4);
    assert_eq!(count(namespaces(), labels), 4);
    assert_eq!(count(deployments(), labels), 3);
    assert_eq!(count(leases(), labels), 3);
    assert_eq!(count(events(), labels), 2);
    let finalizers = "metadata.finalizers[0]";
    assert_eq!(count(configmaps(), finalizers), 2);
    assert_eq!(count(deployments(), finalizers), 1);
    assert_eq!(count(leases(), finalizers), 0);
}

/// API-148, API-205: the checks of an endpoint, in their order.
#[test]
fn an_endpoint_repeats_its_checks() {
    let old = with("{}");
    let new = with(r#"{"labels":{"k":"-"},"finalizers":["-","plain"]}"#);
    // L is the label, F the invalid finalizer, S a finalizer without a domain.
    let found = |checks: &[UpdateCheck]| -> String {
        let errors = validate_update(&new, &old, &deployments(), checks);
        let of = |error: &FieldError| match error.path.as_str() {
            "metadata.labels" => 'L',
            "metadata.finalizers" => 'F',
            _ => 'S',
        };
        errors.iter().map(of).collect()
    };
    assert_eq!(found(&[]), "LFL");
    assert_eq!(found(&[UpdateCheck::Object]), "LFLLFSS");
    assert_eq!(found(&[UpdateCheck::Changes]), "LFLLSS");
    assert_eq!(
        found(&[UpdateCheck::Object, UpdateCheck::Object]),
        "LFLLFSSLFSS"
    );
}

/// API-205.
#[test]
fn no_finalizer_is_added_to_an_object_under_deletion() {
    let old = with(
        r#"{"finalizers":["ex.com/a","ex.com/b"],"deletionTimestamp":"2020-01-01T00:00:00Z"}"#,
    );
    let mut new = old.clone();
    new.metadata_mut()
        .insert("finalizers".to_owned(), json!(["ex.com/b"]));
    assert_eq!(updated(&new, &old, &configmaps()), []);
    new.metadata_mut().insert(
        "finalizers".to_owned(),
        json!(["ex.com/d", "ex.com/a", "ex.com/c"]),
    );
    let wanted = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is \
                  being deleted, found new finalizers []string{\"ex.com/c\", \"ex.com/d\"}";
    assert_eq!(texts(&updated(&new, &old, &configmaps())), [wanted, wanted]);
}

/// A response stays small however many errors a body of several megabytes has.
#[test]
fn the_number_of_faults_reported_is_limited() {
    let labels: Map<String, Value> = (0..50_000).map(|i| (format!("-{i}"), json!("-"))).collect();
    let owners: Vec<Value> = (0..50_000).map(|_| json!({"controller": true})).collect();
    let finalizers: Vec<Value> = (0..50_000).map(|i| json!(format!("-{i}"))).collect();
    let mut new = with("{}");
    let metadata = new.metadata_mut();
    metadata.insert("annotations".to_owned(), Value::Object(labels.clone()));
    metadata.insert("labels".to_owned(), Value::Object(labels));
    metadata.insert("ownerReferences".to_owned(), Value::Array(owners));
    metadata.insert("finalizers".to_owned(), Value::Array(finalizers));
    assert_eq!(validate_create(&new, &configmaps()).len(), MAX_FIELD_ERRORS);
    assert_eq!(
        updated(&new, &with("{}"), &configmaps()).len(),
        MAX_FIELD_ERRORS
    );
}

/// API-200: other characters that Kubernetes allows are kept, and stored objects can be changed.
#[test]
fn names_of_new_objects_hold_no_control_characters() {
    for (member, name) in [
        ("name", "a\u{1b}[31m"),
        ("name", "a\nb"),
        ("name", "a\u{0}"),
        ("name", "\u{7f}"),
        ("name", "\u{9b}31m"),
        ("generateName", "a\tb"),
    ] {
        let mut new = object(r#"{"metadata":{"name":"a","namespace":"d"}}"#);
        new.set_meta(member, name);
        let errors = texts(&validate_create(&new, &events()));
        let wanted = format!(
            "metadata.{member}: Invalid value: {}: may not contain control characters",
            go_quote(name)
        );
        assert_eq!(errors, [wanted]);
        assert_eq!(updated(&new, &new, &events()), []);
        // Other rules have always refused them, with another message.
        let errors = texts(&validate_create(&new, &configmaps()));
        assert!(errors.concat().contains("RFC 1123"), "{errors:?}");
    }
    for name in ["a b", "Ä:_", "a.17f3e2", "日本", "\u{a0}"] {
        let mut new = object(r#"{"metadata":{"namespace":"d"}}"#);
        new.set_meta("name", name);
        assert_eq!(validate_create(&new, &events()), [], "{name}");
    }
}

/// A value is shown again in each of its errors.
#[test]
fn the_text_of_faults_is_limited() {
    let long = "n".repeat(1 << 20);
    let owner =
        json!({"apiVersion": "v1", "kind": "K", "uid": "u", "name": long, "controller": true});
    let mut new = with("{}");
    new.metadata_mut()
        .insert("ownerReferences".to_owned(), Value::Array(vec![owner; 20]));
    let bytes = |errors: Vec<FieldError>| texts(&errors).iter().map(String::len).sum::<usize>();
    assert!(bytes(validate_create(&new, &configmaps())) < 80 * 1024);
    assert!(bytes(updated(&new, &with("{}"), &configmaps())) < 80 * 1024);
    let mut new = with("{}");
    new.set_meta("name", &"\"".repeat(3 << 20));
    assert!(bytes(validate_create(&new, &configmaps())) < 80 * 1024);
}
