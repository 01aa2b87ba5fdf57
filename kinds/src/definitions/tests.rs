use std::collections::BTreeMap;
use std::sync::OnceLock;

use api::decode::{BodyFormat, decode_object};
use api::managed_fields::{Application, FieldManager};
use api::object::Object;
use api::options::FieldValidation;
use api::patch::{Patch, PatchKind};
use api::resource::{
    Cell, DefaultPropagation, GenerationRule, NameRule, ResourceDefinition, UpdateCheck,
};
use api::schema::{Schema, Shape, Type};
use api::status::Status;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

fn recorded(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("JSON")
}

fn of_row<'r>(records: &'r [Value], row: &ResourceDefinition) -> &'r Value {
    let is_same = |record: &&Value| {
        (&record["group"], &record["version"], &record["plural"])
            == (&json!(row.group), &json!(row.version), &json!(row.plural))
    };
    records.iter().find(is_same).expect("a record of each row")
}

/// http.md 6.1, API-28: the rows are those of kube-apiserver's discovery, in its order of groups.
/// The recording has neither create-only resources nor subresources that were added later.
#[test]
fn rows_are_those_of_discovery() {
    let records = recorded(include_str!("../../recorded/discovery.json"));
    let rows = built_in();
    let mut own: Vec<&str> = rows.iter().map(|row| row.group.as_str()).collect();
    own.dedup();
    let theirs = records.iter().map(|record| record["group"].as_str());
    let mut theirs: Vec<&str> = theirs.map(|group| group.expect("a text")).collect();
    theirs.dedup();
    assert_eq!(own, theirs);
    assert_eq!(rows.len(), records.len());
    for row in rows {
        let verbs =
            |verbs: &[Verb]| -> Vec<&str> { verbs.iter().map(|verb| verb.as_str()).collect() };
        let subresources: BTreeMap<&str, Vec<&str>> = row
            .subresources
            .iter()
            .map(|part| (part.name.as_str(), verbs(&part.verbs)))
            .collect();
        let own = json!({
            "group": row.group, "version": row.version, "plural": row.plural, "kind": row.kind,
            "singular": row.singular, "namespaced": row.is_namespaced(),
            "shortNames": row.short_names, "categories": row.categories,
            "verbs": verbs(&row.verbs), "subresources": subresources,
        });
        assert_eq!(&own, of_row(&records, &row));
    }
}

/// http.md 5.2, 6.2, API-109, API-114, API-197: the recorded behaviour of kube-apiserver for each
/// kind. `names` records whether it accepts a subdomain, capitals, a colon, and 71 characters.
/// `create` and `update` list the errors of the kind's own validation: L for a label, F for a
/// finalizer, SS for two unqualified finalizers. `checks` of a subresource lists all errors,
/// starting with those of every kind.
#[test]
fn rows_have_the_rules_of_kubernetes() {
    let records = recorded(include_str!("../../recorded/rules.json"));
    for row in built_in() {
        let rules = row.rules();
        let record = of_row(&records, &row);
        let is_kept = |kept: &FieldPath, path: &str| kept.to_string() == path;
        let changes = match &rules.generation {
            GenerationRule::OnChangeOf(paths) => paths.as_slice(),
            _ => &[],
        };
        let rises_with = |path: &str| changes.iter().any(|changed| is_kept(changed, path));
        let starts = match rules.generation {
            GenerationRule::OnChangeOf(_) => "one",
            _ => "kept",
        };
        let own = json!([
            starts,
            rises_with("metadata.labels"),
            rises_with("metadata.annotations"),
            rules.create_on_update,
            rules.unconditional_update,
            rules.propagation == DefaultPropagation::Orphan,
        ]);
        let orphans = record["finalizers"] == json!(["orphan"]);
        let theirs = json!([
            record["generation"],
            record["onLabels"],
            record["onAnnotations"],
            record["createOnUpdate"],
            record["unconditionalUpdate"],
            orphans,
        ]);
        assert_eq!(own, theirs, "{row:?}");
        if record["finalizers"] == json!([]) {
            assert_eq!(record["onDelete"], rules.returns_deleted, "{row:?}");
        }
        let accepted = match rules.name_rule {
            NameRule::DnsSubdomain | NameRule::DnsSubdomainWhole => [true, false, false, true],
            NameRule::DnsLabel => [false; 4],
            NameRule::PathSegment | NameRule::OfKind => [true; 4],
        };
        // The validation of these kinds has further rules for names.
        match row.plural.as_str() {
            "apiservices" | "cronjobs" | "customresourcedefinitions" | "ipaddresses" | "jobs" => {}
            _ => assert_eq!(record["names"], json!(accepted), "{row:?}"),
        }
        let on_create = errors(&[UpdateCheck::Object], rules.strict_finalizers);
        assert_eq!(record["create"], on_create, "{row:?}");
        let on_update = errors(&rules.update.checks, rules.strict_finalizers);
        assert_eq!(record["update"], on_update, "{row:?}");
        // A Scale is written by the rules of its object.
        let parts = row.subresources.iter();
        for part in parts.filter(|part| part.kind.is_none()) {
            let endpoint = rules.endpoint(&part.name);
            let keeps = |path: &str| endpoint.keeps.iter().any(|kept| is_kept(kept, path));
            let kept = [
                ("labels", "metadata.labels"),
                ("annotations", "metadata.annotations"),
                ("finalizers", "metadata.finalizers"),
                ("owners", "metadata.ownerReferences"),
            ];
            let own: Vec<&str> = kept
                .into_iter()
                .filter_map(|(name, path)| keeps(path).then_some(name))
                .collect();
            assert_eq!(
                json!(own),
                record[&part.name]["keeps"],
                "{row:?} {}",
                part.name
            );
            let own = errors(&endpoint.checks, rules.strict_finalizers);
            let mut found = format!("LFL{own}");
            // Kept fields are taken from the stored object, so they have no errors.
            found.retain(|error| match error {
                'L' => !keeps("metadata.labels"),
                _ => !keeps("metadata.finalizers"),
            });
            let checks = &record[&part.name]["checks"];
            assert_eq!(checks, &found, "{row:?} {}", part.name);
        }
    }
}

/// Returns the errors that these metadata checks find.
fn errors(checks: &[UpdateCheck], is_strict: bool) -> String {
    let strict = if is_strict { "SS" } else { "" };
    let of = |check: &UpdateCheck| match check {
        UpdateCheck::Object => format!("LF{strict}"),
        UpdateCheck::Changes => format!("L{strict}"),
    };
    checks.iter().map(of).collect()
}

/// Every path in a row exists in the type of its objects.
#[test]
fn the_paths_of_rows_exist() {
    for row in built_in() {
        // Rows have paths of the version that caches hold.
        let rows = built_in();
        let mut hubs = rows
            .iter()
            .filter(|other| other.key_prefix == row.key_prefix);
        let hub = hubs.find(|other| !other.has_own_form()).unwrap_or(&row);
        let rules = row.rules();
        let (schema, id) = hub.object_type().found().expect("a known type");
        let generation = match &rules.generation {
            GenerationRule::OnChangeBeside(_) => panic!("no built-in kind has it"),
            GenerationRule::None => &[],
            GenerationRule::OnChangeOf(paths) | GenerationRule::FromAbsentOnChangeOf(paths) => {
                paths.as_slice()
            }
        };
        let selectable = row
            .behaviour
            .selectable_fields()
            .iter()
            .flat_map(|field| &field.paths);
        let parts = rules.subresources.iter().flat_map(|(_, part)| &part.keeps);
        let cells = row
            .behaviour
            .columns()
            .iter()
            .flat_map(|column| match &column.cell {
                Cell::Text(path) => std::slice::from_ref(path),
                Cell::Count(paths) => paths.as_slice(),
                _ => &[],
            });
        let all = generation
            .iter()
            .chain(selectable)
            .chain(parts)
            .chain(cells);
        for path in all.chain(&rules.drops).chain(&rules.update.keeps) {
            let top = Type {
                shape: Shape::Struct(id),
                is_pointer: false,
                go_name: String::new(),
                values: Box::default(),
                schema_name: None,
                schema_or: None,
            };
            assert!(exists(schema, &top, path), "{path} of {row:?}");
        }
    }
}

fn exists(schema: &Schema, of: &Type, path: &[String]) -> bool {
    let Some((name, below)) = path.split_first() else {
        return true;
    };
    match &of.shape {
        Shape::Struct(id) => {
            let field = schema.get(*id).and_then(|of| of.field(name));
            field.is_some_and(|field| exists(schema, &field.of, below))
        }
        Shape::Map(value) => exists(schema, value, below),
        _ => false,
    }
}

/// API-89, API-156, API-171: the template generation annotation of DaemonSets must be a number.
/// Each verb has its own message for an invalid one.
#[test]
fn the_count_of_templates_is_a_number() {
    const COUNT: &str = "deprecated.daemonset.template.generation";
    let row = apps::daemonsets();
    let body = |count: &str| {
        let annotations = json!({COUNT: count});
        json!({"metadata": {"name": "a", "annotations": annotations}, "spec": {}})
    };
    let read = |count: &str| {
        let body = body(count).to_string();
        decode_object(body.as_bytes(), BodyFormat::Json, &row).map(|read| read.object)
    };
    for count in ["7", "007", "+5", "-3"] {
        assert!(read(count).is_ok(), "{count}");
    }
    let words =
        |count: &str, problem: &str| format!("strconv.ParseInt: parsing \"{count}\": {problem}");
    for (count, problem) in [
        ("", "invalid syntax"),
        ("1x", "invalid syntax"),
        ("0x1", "invalid syntax"),
        ("99999999999999999999", "value out of range"),
    ] {
        let refusal = Status::from(read(count).unwrap_err());
        let wanted = format!(
            "DaemonSet in version \"v1\" cannot be handled as a DaemonSet: {}",
            words(count, problem)
        );
        assert_eq!((refusal.code, refusal.message), (400, wanted));
    }
    let wrong = words("1x", "invalid syntax");
    let live = read("1").unwrap();
    for (kind, code) in [(PatchKind::Merge, 422), (PatchKind::Strategic, 500)] {
        let patch = json!({"metadata": {"annotations": {COUNT: "1x"}}});
        let patch = Patch::parse(kind, patch.to_string().as_bytes()).unwrap();
        let refusal = patch.apply(&live, &row, FieldValidation::Ignore);
        let refusal = Status::from(refusal.unwrap_err());
        assert_eq!(refusal.code, code);
        assert!(refusal.message.ends_with(&wrong), "{}", refusal.message);
    }
    let empty = OnceLock::new();
    let manager = FieldManager {
        definition: &row,
        versions: &[],
        subresource: "",
        filter: None,
        now: Timestamp::UNIX_EPOCH,
        empty: &empty,
        awaited: None,
    };
    let mut object = live.clone();
    object.metadata_mut()["annotations"][COUNT] = "1x".into();
    let application = Application {
        object: &object,
        manager: "q",
        force: true,
    };
    let refusal = manager.apply(Some(&live), application, |_| {});
    let refusal = Status::from(refusal.unwrap_err());
    let wanted = format!("failed to convert to unversioned (/a; apps/v1, Kind=DaemonSet): {wrong}");
    assert_eq!((refusal.code, refusal.message), (500, wanted));
}

/// API-88, API-154, API-156, KV-29: kinds of versions that are not served are known, and the result
/// of a patch is decoded by them.
#[test]
fn versions_that_are_not_served_are_known_and_patches_are_read_by_them() {
    let rows = built_in();
    let row = rows.iter().find(|row| row.plural == "deployments");
    let row = row.expect("a row");
    let body = br#"{"apiVersion":"extensions/v1beta1","kind":"Deployment"}"#;
    let refused = decode_object(body, BodyFormat::Json, row).expect_err("another version");
    assert_eq!(
        refused.to_string(),
        "the API version in the data (extensions/v1beta1) does not match the expected API version \
         (apps/v1)"
    );
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"template": {"metadata": {"labels": {"app": "a"}}}}});
    let object = Object::of(object.as_object().expect("an object").clone());
    let patched = |patch: &Value, validation| {
        let patch = Patch::parse(PatchKind::Merge, patch.to_string().as_bytes());
        patch.expect("a patch").apply(&object, row, validation)
    };
    for (version, limit, step) in [
        ("apps/v1beta1", json!(2), json!("25%")),
        ("apps/v1beta2", json!(10), json!("25%")),
        ("extensions/v1beta1", json!(i32::MAX), json!(1)),
    ] {
        let patch = json!({"apiVersion": version});
        let patched = patched(&patch, FieldValidation::Strict).expect(version);
        let object = patched.object;
        assert_eq!(object.api_version(), "apps/v1");
        let spec = &object.0["spec"];
        assert_eq!(spec["revisionHistoryLimit"], limit, "{version}");
        assert_eq!(spec["strategy"]["rollingUpdate"]["maxSurge"], step);
        let labels = object.0["metadata"].get("labels");
        assert_eq!(labels.is_some(), version != "apps/v1beta2", "{version}");
    }
    // Only that version has the field.
    let rollback =
        |version: &str| json!({"apiVersion": version, "spec": {"rollbackTo": {"revision": 2}}});
    let rolled = patched(&rollback("extensions/v1beta1"), FieldValidation::Strict);
    let annotations = &rolled.expect("an object").object.0["metadata"]["annotations"];
    assert_eq!(annotations["deprecated.deployment.rollback.to"], "2");
    for (patch, why) in [
        (
            rollback("apps/v1"),
            "strict decoding error: unknown field \"spec.rollbackTo\"",
        ),
        (
            json!({"apiVersion": "extensions/v1beta1", "spec": {"replicas": "x"}}),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of \
             type int32",
        ),
        (
            json!({"apiVersion": "apps/v1beta1", "kind": "Scale"}),
            "converting (v1beta1.Scale) to (apps.Deployment): unknown conversion",
        ),
        (
            json!({"apiVersion": "apps/v1beta9"}),
            "no kind \"Deployment\" is registered for version \"apps/v1beta9\" in scheme \
             \"pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "b"}}),
            "illegal base64 data at input byte 0",
        ),
        (
            json!({"apiVersion": null, "kind": "ReplicaSet"}),
            "converting (apps.ReplicaSet) to (apps.Deployment): unknown conversion",
        ),
        (
            json!({"apiVersion": null, "kind": "Pod"}),
            "no kind \"Pod\" is registered for the internal version of group \"apps\" in scheme \
             \"pkg/api/legacyscheme/scheme.go:30\"",
        ),
    ] {
        let refused = patched(&patch, FieldValidation::Strict);
        let refused = Status::from(refused.expect_err("another kind"));
        assert!(refused.message.ends_with(why), "{}", refused.message);
    }
}
