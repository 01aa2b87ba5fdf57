//! Tests of the plugins with a transport that answers at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use super::{Configuration, MutatingWebhooks, ValidatingWebhooks, WebhookSources};
use crate::admission::client::{Answering, Change, ResourceClient};
use crate::admission::hooks::client::{ClientConfig, PostError, WebhookTransport};
use crate::admission::hooks::{HookSource, Hooks};
use crate::admission::{Admission, Attributes, Operation, Plugin, Rounds};
use crate::api::object::Object;
use crate::api::options::{DeleteOptions, WriteOptions};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::api::user_info::UserInfo;
use crate::api::warnings::Warnings;
use crate::auth::AlwaysAllow;
use crate::kinds::definitions::core::configmaps;

/// Webhooks that answer by their URL, and the reviews that they got.
#[derive(Default)]
struct Answers {
    by_url: HashMap<String, Json>,
    asked: Mutex<Vec<(String, Json)>>,
}

impl WebhookTransport for Answers {
    fn post<'p>(
        &'p self,
        server: &'p ClientConfig,
        body: Bytes,
        _: Instant,
    ) -> BoxFuture<'p, Result<Bytes, PostError>> {
        let url = server.url.clone().unwrap_or_default();
        let review: Json = serde_json::from_slice(&body).expect("a review");
        let uid = review["request"]["uid"].clone();
        self.asked.lock().push((url.clone(), review));
        let Some(mut response) = self.by_url.get(&url).cloned() else {
            let why = "connection refused".to_owned();
            return std::future::ready(Err(PostError::Failed(why))).boxed();
        };
        response["uid"] = uid;
        let review = json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
        });
        let body = serde_json::to_vec(&review).expect("JSON");
        std::future::ready(Ok(body.into())).boxed()
    }
}

/// A fixed set of configurations.
struct Fixed(Arc<Hooks<Configuration>>);

impl HookSource<Configuration> for Fixed {
    fn newest(&self) -> Option<Arc<Hooks<Configuration>>> {
        Some(Arc::clone(&self.0))
    }

    fn filled(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// One namespace, `d`, with a label.
struct Namespaces;

impl ResourceClient for Namespaces {
    fn get<'c>(&'c self, _: Option<&'c str>, name: &'c str) -> Answering<'c, Option<Object>> {
        let labels = json!({"metadata": {"name": "d", "labels": {"team": "a"}}});
        let found = labels.as_object().cloned().map(Object::of);
        std::future::ready(Ok(found.filter(|_| name == "d"))).boxed()
    }

    fn list<'c>(&'c self, _: Option<&'c str>) -> Answering<'c, Vec<Object>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn change_status<'c>(
        &'c self,
        _: Option<&'c str>,
        _: &'c str,
        _: Change<'c>,
    ) -> Answering<'c, ()> {
        std::future::ready(Ok(())).boxed()
    }
}

/// A webhook of ConfigMaps in this configuration, with further members.
fn webhook(name: &str, more: Json) -> Json {
    let mut webhook = json!({
        "name": name, "clientConfig": {"url": name}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "matchPolicy": "Equivalent",
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["*"], "scope": "*",
        }],
    });
    let members = webhook.as_object_mut().expect("an object");
    members.extend(more.as_object().cloned().expect("an object"));
    webhook
}

fn patch(operations: Json) -> Json {
    let text = serde_json::to_vec(&operations).expect("JSON");
    json!({"allowed": true, "patch": BASE64_STANDARD.encode(text), "patchType": "JSONPatch"})
}

struct World {
    answers: Arc<Answers>,
    admission: Admission,
    definition: ResourceDefinition,
}

impl World {
    fn new(configurations: &[(&str, Json)], answers: &[(&str, Json)], is_mutating: bool) -> World {
        let by_name = configurations.iter().map(|(name, webhooks)| {
            let text = json!({"webhooks": webhooks}).to_string();
            let configuration = Configuration::read(text.as_bytes()).expect("a configuration");
            ((*name).to_owned(), Arc::new(configuration))
        });
        let by_name: BTreeMap<_, _> = by_name.collect();
        let by_url = answers.iter();
        let answers = Arc::new(Answers {
            by_url: by_url
                .map(|(url, answer)| ((*url).to_owned(), answer.clone()))
                .collect(),
            asked: Mutex::default(),
        });
        let sources = WebhookSources {
            configurations: Arc::new(Fixed(Arc::new(Hooks {
                generation: 1,
                by_name,
            }))),
            namespaces: Arc::new(Namespaces),
            authorizer: Arc::new(AlwaysAllow),
            transport: answers.clone(),
        };
        let plugin: Arc<dyn Plugin> = match is_mutating {
            true => Arc::new(MutatingWebhooks::new(sources)),
            false => Arc::new(ValidatingWebhooks::new(sources)),
        };
        World {
            answers,
            admission: Admission::new(vec![plugin]),
            definition: configmaps(),
        }
    }

    /// Runs both stages, and returns the object and the warnings.
    fn run(
        &self,
        operation: Operation<'_>,
        object: Option<Json>,
        old: Option<&Object>,
    ) -> Result<(Option<Object>, Vec<String>), Box<Status>> {
        let (user, warnings) = (UserInfo::default(), Warnings::default());
        let object = object.and_then(|object| object.as_object().cloned());
        let mut object = object.map(Object::of);
        let attributes = Attributes {
            operation,
            definition: &self.definition,
            kind: &self.definition,
            stored: &self.definition,
            subresource: None,
            namespace: Some("d"),
            name: "a",
            old_object: old,
            user: &user,
            warnings: &warnings,
            annotations: None,
            versions: &[],
            converter: None,
            deadline: Instant::now() + std::time::Duration::from_secs(30),
            rounds: Rounds::default(),
        };
        let admitted = self.admission.admit(&attributes, object.as_mut());
        admitted.now_or_never().expect("at once")?;
        let validated = self.admission.validate(&attributes, object.as_ref());
        validated.now_or_never().expect("at once")?;
        Ok((object, warnings.take()))
    }

    fn create(&self, object: Json) -> Result<(Option<Object>, Vec<String>), Box<Status>> {
        let options = WriteOptions::default();
        self.run(Operation::Create(&options), Some(object), None)
    }

    fn asked(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.answers.asked.lock());
        asked.into_iter().map(|(url, _)| url).collect()
    }
}

fn config_map() -> Json {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "a", "namespace": "d", "labels": {"app": "x"}}, "data": {"k": "v"},
    })
}

#[tokio::test]
async fn mutating_webhooks_run_by_name_and_again_if_needed_hk_23_hk_29() {
    let add = |key: &str| {
        let path = format!("/data/{key}");
        patch(json!([{"op": "add", "path": path, "value": "1"}]))
    };
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let world = World::new(
        &[
            ("c", json!([webhook("c", json!({}))])),
            (
                "a",
                json!([webhook("z", again.clone()), webhook("y", json!({}))]),
            ),
            ("b", json!([webhook("b", again)])),
        ],
        &[
            ("z", add("z")),
            ("y", add("y")),
            ("b", json!({"allowed": true})),
            ("c", add("c")),
        ],
        true,
    );
    let (object, _) = world.create(config_map()).expect("allowed");
    let data = object.expect("an object").0["data"].clone();
    assert_eq!(data, json!({"k": "v", "z": "1", "y": "1", "c": "1"}));
    // y and c have changed the object after z and b had seen it.
    assert_eq!(world.asked(), ["z", "y", "b", "c", "z", "b"]);
}

#[tokio::test]
async fn failures_refuse_or_are_ignored_hk_25_hk_35() {
    let ignore = json!({"failurePolicy": "Ignore"});
    let impossible = patch(json!([{"op": "remove", "path": "/x"}]));
    let prefix = "Internal error occurred: ";
    for (more, answer, expected) in [
        (
            json!({}),
            None,
            Some("failed calling webhook \"w\": failed to call webhook: connection refused"),
        ),
        (ignore.clone(), None, None),
        (
            ignore.clone(),
            Some(impossible),
            Some(
                "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
            ),
        ),
        (
            json!({}),
            Some(json!({"allowed": true, "patch": "W3t9XQ==", "patchType": "X"})),
            Some("failed calling webhook \"w\": unsupported patch type \"X\""),
        ),
        (
            json!({"failurePolicy": "Ignore"}),
            Some(json!({"allowed": true, "patch": "e30=", "patchType": "JSONPatch"})),
            None,
        ),
    ] {
        let answers: Vec<(&str, Json)> = answer.into_iter().map(|answer| ("w", answer)).collect();
        let world = World::new(&[("a", json!([webhook("w", more)]))], &answers, true);
        let refused = world.create(config_map()).err();
        let text = refused.map(|status| (status.code, status.message));
        let expected = expected.map(|text| (500, format!("{prefix}{text}")));
        assert_eq!(text, expected);
    }
}

#[tokio::test]
async fn results_are_read_without_strictness_and_completed_hk_26() {
    let changes = json!([
        {"op": "add", "path": "/unknown", "value": 1},
        {"op": "remove", "path": "/kind"},
        {"op": "add", "path": "/data/n", "value": "1"},
    ]);
    let world = World::new(
        &[("a", json!([webhook("w", json!({}))]))],
        &[("w", patch(changes))],
        true,
    );
    let (object, _) = world.create(config_map()).expect("allowed");
    let object = object.expect("an object");
    assert_eq!(object.kind(), "ConfigMap");
    assert_eq!(object.0.get("unknown"), None);
    let wrong = patch(json!([{"op": "add", "path": "/data", "value": []}]));
    let world = World::new(
        &[("a", json!([webhook("w", json!({}))]))],
        &[("w", wrong)],
        true,
    );
    let refused = world.create(config_map()).expect_err("a wrong type");
    assert_eq!(refused.code, 500);
    assert!(
        refused.message.contains("cannot unmarshal array"),
        "{refused}"
    );
}

#[tokio::test]
async fn deletions_have_nothing_to_change_hk_20_hk_28() {
    let old = config_map().as_object().cloned().map(Object::of);
    let options = DeleteOptions::default();
    let delete = |answer: Json| {
        let world = World::new(
            &[("a", json!([webhook("w", json!({}))]))],
            &[("w", answer)],
            true,
        );
        let outcome = world.run(Operation::Delete(&options), None, old.as_ref());
        let review = world.answers.asked.lock().remove(0).1;
        (outcome, review)
    };
    let (outcome, review) = delete(json!({"allowed": true}));
    assert!(outcome.is_ok());
    assert_eq!(review["request"]["object"], Json::Null);
    assert_eq!(review["request"]["oldObject"]["data"], json!({"k": "v"}));
    assert_eq!(review["request"]["options"]["kind"], "DeleteOptions");
    let (outcome, _) = delete(patch(json!([{"op": "remove", "path": "/data"}])));
    let text = outcome.expect_err("a patch of nothing").message;
    assert!(text.contains("attempted to modify the object"), "{text}");
}

#[tokio::test]
async fn all_validating_webhooks_are_asked_and_their_warnings_shown_hk_32_hk_33() {
    let world = World::new(
        &[(
            "a",
            json!([webhook("v", json!({})), webhook("w", json!({}))]),
        )],
        &[
            (
                "v",
                json!({"allowed": false, "status": {"message": "no"}, "warnings": ["one"]}),
            ),
            (
                "w",
                json!({"allowed": true, "warnings": ["two", "", "a\tb"]}),
            ),
        ],
        false,
    );
    let refused = world.create(config_map()).expect_err("refused");
    assert_eq!(
        refused.message,
        "admission webhook \"v\" denied the request: no"
    );
    assert_eq!(world.asked(), ["v", "w"]);
    let world = World::new(
        &[("a", json!([webhook("w", json!({}))]))],
        &[(
            "w",
            json!({"allowed": true, "warnings": ["two", "", "a\tb"]}),
        )],
        false,
    );
    let (_, warnings) = world.create(config_map()).expect("allowed");
    assert_eq!(warnings, ["two"]);
}

#[tokio::test]
async fn selectors_and_conditions_decide_after_the_rules_hk_11_hk_12_hk_13() {
    let selects =
        |key: &str, label: &str, value: &str| json!({key: {"matchLabels": {label: value}}});
    let condition = |text: &str| json!({"matchConditions": [{"name": "c", "expression": text}]});
    for (more, is_asked) in [
        (selects("objectSelector", "app", "x"), true),
        (selects("objectSelector", "app", "y"), false),
        (selects("namespaceSelector", "team", "a"), true),
        (selects("namespaceSelector", "team", "b"), false),
        (condition("object.data.k == 'v'"), true),
        (condition("object.data.k == 'w'"), false),
        (
            condition("request.operation == 'CREATE' && request.namespace == 'd'"),
            true,
        ),
        (condition("request.kind.kind == 'Secret'"), false),
    ] {
        let world = World::new(
            &[("a", json!([webhook("w", more.clone())]))],
            &[("w", json!({"allowed": true}))],
            false,
        );
        world.create(config_map()).expect("allowed");
        assert_eq!(!world.asked().is_empty(), is_asked, "{more}");
    }
    let failing = condition("object.spec.x == 1");
    let world = World::new(&[("a", json!([webhook("w", failing)]))], &[], false);
    let refused = world.create(config_map()).expect_err("a failed condition");
    assert_eq!(
        (refused.code, &*refused.message),
        (
            403,
            "configmaps \"a\" is forbidden: expression 'object.spec.x == 1' resulted in error: no \
             such key: spec"
        )
    );
}

#[tokio::test]
async fn dry_runs_need_webhooks_without_side_effects_hk_34() {
    let dry = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    for (effects, is_allowed) in [("None", true), ("NoneOnDryRun", true), ("Some", false)] {
        let world = World::new(
            &[("a", json!([webhook("w", json!({"sideEffects": effects}))]))],
            &[("w", json!({"allowed": true}))],
            false,
        );
        let outcome = world.run(Operation::Create(&dry), Some(config_map()), None);
        match is_allowed {
            true => {
                assert!(outcome.is_ok());
                let review = world.answers.asked.lock().remove(0).1;
                assert_eq!(review["request"]["dryRun"], true);
                assert_eq!(review["request"]["options"]["dryRun"], json!(["All"]));
            }
            false => {
                let refused = outcome.expect_err("side effects");
                let text = "admission webhook \"w\" does not support dry run";
                assert_eq!((refused.code, &*refused.message), (400, text));
            }
        }
    }
}
