//! A program of kube-rs that installs webhooks by its typed clients, and answers their reviews with
//! the types of `kube::core` (HK-19 to HK-34, HK-77).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams,
    PostParams,
};
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation};
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use kube::core::{GroupVersionKind, Status};
use kube::{Api, Client, CustomResource, CustomResourceExt, ResourceExt};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::harness::Daemon;
use crate::harness::webhook::Webhook;
use crate::kube_rs::{client, refusal};

/// A request as a webhook of the program has read it: operation, name, dry run and the data.
type Asked = (Operation, String, bool, Option<String>);

type Log = Arc<Mutex<Vec<Asked>>>;

fn configmap(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("k".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

fn value(object: Option<&ConfigMap>) -> Option<String> {
    object?.data.as_ref()?.get("k").cloned()
}

/// Answers a review by a handler of typed requests.
fn answered(
    review: &Value,
    log: &Log,
    handler: impl Fn(&AdmissionRequest<ConfigMap>, AdmissionResponse) -> AdmissionResponse,
) -> (u16, String) {
    let review: AdmissionReview<ConfigMap> = serde_json::from_value(review.clone()).unwrap();
    let request: AdmissionRequest<ConfigMap> = review.try_into().unwrap();
    assert_eq!(request.kind.kind, "ConfigMap");
    assert_eq!(request.request_kind.as_ref(), Some(&request.kind));
    assert_eq!(request.namespace.as_deref(), Some("default"));
    assert_eq!(request.user_info.username.as_deref(), Some("admin"));
    let is_deletion = request.operation == Operation::Delete;
    assert_eq!(request.object.is_none(), is_deletion);
    let is_creation = request.operation == Operation::Create;
    assert_eq!(request.old_object.is_none(), is_creation);
    let object = request.object.as_ref().or(request.old_object.as_ref());
    log.lock().push((
        request.operation.clone(),
        request.name.clone(),
        request.dry_run,
        value(object),
    ));
    let answer = handler(&request, AdmissionResponse::from(&request)).into_review();
    (200, serde_json::to_string(&answer).unwrap())
}

/// Labels each object, and gives one without a value the value `default`.
fn completed(
    request: &AdmissionRequest<ConfigMap>,
    answer: AdmissionResponse,
) -> AdmissionResponse {
    let Some(object) = &request.object else {
        return answer;
    };
    let mut patch = vec![];
    if object.metadata.labels.is_none() {
        patch.push(json!({"op": "add", "path": "/metadata/labels", "value": {}}));
    }
    if object.labels().get("seen").is_none() {
        patch.push(json!({"op": "add", "path": "/metadata/labels/seen", "value": "yes"}));
    }
    if value(Some(object)).as_deref() == Some("") {
        patch.push(json!({"op": "replace", "path": "/data/k", "value": "default"}));
    }
    let patch = serde_json::from_value(patch.into()).unwrap();
    answer.with_patch(patch).unwrap()
}

/// Denies the value `bad`, changes to `worse`, and deletions of what is `kept`.
fn judged(
    request: &AdmissionRequest<ConfigMap>,
    mut answer: AdmissionResponse,
) -> AdmissionResponse {
    let new = value(request.object.as_ref());
    let old = value(request.old_object.as_ref());
    answer.warnings = Some(vec![format!("judged {}", request.name)]);
    match (&request.operation, new.as_deref(), old.as_deref()) {
        (Operation::Create, Some("bad"), _) => answer.deny("no bad things"),
        (Operation::Update, Some("worse"), Some(old)) => answer.deny(format!("worse than {old}")),
        (Operation::Delete, None, Some("kept")) => {
            let mut answer = answer.deny("it is kept");
            answer.result.code = 403;
            answer.result.reason = "Forbidden".to_owned();
            answer
        }
        _ => answer,
    }
}

fn rules() -> Option<Vec<RuleWithOperations>> {
    let list = |text: &str| Some(vec![text.to_owned()]);
    Some(vec![RuleWithOperations {
        api_groups: list(""),
        api_versions: list("v1"),
        resources: list("configmaps"),
        operations: list("*"),
        scope: None,
    }])
}

fn place(webhook: &Webhook) -> WebhookClientConfig {
    serde_json::from_value(webhook.client_config()).unwrap()
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

async fn install(client: &Client, mutating: &Webhook, validating: &Webhook) {
    let text = |text: &str| text.to_owned();
    let configuration = MutatingWebhookConfiguration {
        metadata: named("program"),
        webhooks: Some(vec![MutatingWebhook {
            name: text("complete.program.example.com"),
            admission_review_versions: vec![text("v1")],
            client_config: place(mutating),
            rules: rules(),
            side_effects: text("None"),
            ..MutatingWebhook::default()
        }]),
    };
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let made = api.create(&PostParams::default(), &configuration).await;
    let made = made.unwrap().webhooks.unwrap();
    assert_eq!(made[0].reinvocation_policy.as_deref(), Some("Never"));
    assert_eq!(made[0].timeout_seconds, Some(10));
    let configuration = ValidatingWebhookConfiguration {
        metadata: named("program"),
        webhooks: Some(vec![ValidatingWebhook {
            name: text("judge.program.example.com"),
            admission_review_versions: vec![text("v1")],
            client_config: place(validating),
            rules: rules(),
            side_effects: text("NoneOnDryRun"),
            ..ValidatingWebhook::default()
        }]),
    };
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let made = api.create(&PostParams::default(), &configuration).await;
    let made = made.unwrap().webhooks.unwrap();
    assert_eq!(made[0].match_policy.as_deref(), Some("Equivalent"));
    assert!(matches!(&made[0].client_config.ca_bundle, Some(ByteString(pem)) if !pem.is_empty()));
}

/// A running program with both webhooks, and what each has read.
struct Program {
    client: Client,
    mutated: Log,
    validated: Log,
    _webhooks: [Webhook; 2],
}

impl Program {
    async fn start(daemon: &Daemon) -> Program {
        let (mutated, validated) = (Log::default(), Log::default());
        let log = Arc::clone(&mutated);
        let mutating = Webhook::start(move |review| answered(review, &log, completed)).await;
        let log = Arc::clone(&validated);
        let validating = Webhook::start(move |review| answered(review, &log, judged)).await;
        let client = client(daemon).await;
        install(&client, &mutating, &validating).await;
        Program {
            client,
            mutated,
            validated,
            _webhooks: [mutating, validating],
        }
    }

    /// Takes what each webhook has read since the last call.
    fn asked(&self) -> [Vec<Asked>; 2] {
        [&self.mutated, &self.validated].map(|log| std::mem::take(&mut *log.lock()))
    }
}

fn asked(operation: Operation, name: &str, dry_run: bool, value: &str) -> Asked {
    (operation, name.to_owned(), dry_run, Some(value.to_owned()))
}

/// Asserts a refusal by the validating webhook.
#[track_caller]
fn denied<T: std::fmt::Debug>(result: Result<T, kube::Error>, code: u16, why: &str) -> Status {
    let status = refusal(result);
    let text = format!("admission webhook \"judge.program.example.com\" denied the request: {why}");
    assert_eq!((status.code, &*status.message), (code, &*text));
    status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_of_kube_rs_completes_and_denies_objects_hk_20_hk_24_hk_31() {
    let daemon = Daemon::start().await;
    let program = Program::start(&daemon).await;
    let api: Api<ConfigMap> = Api::default_namespaced(program.client.clone());
    let post = PostParams::default();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    // Mutated, and validated as it will be stored.
    let made = api.create(&post, &configmap("a", "")).await.unwrap();
    assert_eq!(value(Some(&made)).as_deref(), Some("default"));
    assert_eq!(made.labels().get("seen").map(String::as_str), Some("yes"));
    assert_eq!(api.get("a").await.unwrap(), made);
    let create = |name, dry_run, value| asked(Operation::Create, name, dry_run, value);
    let expected = [
        vec![create("a", false, "")],
        vec![create("a", false, "default")],
    ];
    assert_eq!(program.asked(), expected);
    // Allowed as it is.
    api.create(&post, &configmap("b", "kept")).await.unwrap();
    program.asked();
    // Denied, with the message of the program.
    denied(
        api.create(&post, &configmap("c", "bad")).await,
        400,
        "no bad things",
    );
    let expected = [
        vec![create("c", false, "bad")],
        vec![create("c", false, "bad")],
    ];
    assert_eq!(program.asked(), expected);
    assert_eq!(api.get_opt("c").await.unwrap(), None);
    // A dry run, which says so.
    let made = api.create(&dry, &configmap("d", "")).await.unwrap();
    assert_eq!(value(Some(&made)).as_deref(), Some("default"));
    let expected = [
        vec![create("d", true, "")],
        vec![create("d", true, "default")],
    ];
    assert_eq!(program.asked(), expected);
    denied(
        api.create(&dry, &configmap("d", "bad")).await,
        400,
        "no bad things",
    );
    assert_eq!(api.get_opt("d").await.unwrap(), None);
    program.asked();
    // Updates see the old object, too.
    let merge = |value: &str| Patch::Merge(json!({"data": {"k": value}}));
    let params = PatchParams::default();
    let changed = api.patch("a", &params, &merge("")).await.unwrap();
    assert_eq!(value(Some(&changed)).as_deref(), Some("default"));
    denied(
        api.patch("a", &params, &merge("worse")).await,
        400,
        "worse than default",
    );
    let update = |value| asked(Operation::Update, "a", false, value);
    let expected = [
        vec![update(""), update("worse")],
        vec![update("default"), update("worse")],
    ];
    assert_eq!(program.asked(), expected);
    // Server-side apply creates and updates.
    let applier = PatchParams::apply("program").force();
    let applied = Patch::Apply(configmap("e", ""));
    let made = api.patch("e", &applier, &applied).await.unwrap();
    assert_eq!(value(Some(&made)).as_deref(), Some("default"));
    let [mutated, _] = program.asked();
    assert_eq!(mutated, [create("e", false, "")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_of_kube_rs_decides_about_deletions_hk_17_hk_20_hk_31() {
    let daemon = Daemon::start().await;
    let program = Program::start(&daemon).await;
    let api: Api<ConfigMap> = Api::default_namespaced(program.client.clone());
    for (name, value) in [("a", "free"), ("b", "kept"), ("c", "free")] {
        api.create(&PostParams::default(), &configmap(name, value))
            .await
            .unwrap();
    }
    program.asked();
    let status = denied(
        api.delete("b", &DeleteParams::default()).await,
        403,
        "it is kept",
    );
    assert_eq!(status.reason, "Forbidden");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let delete = |name, value| asked(Operation::Delete, name, false, value);
    let [mutated, validated] = program.asked();
    let expected = [delete("b", "kept"), delete("a", "free")];
    assert_eq!(
        (&mutated[..], &validated[..]),
        (&expected[..], &expected[..])
    );
    // The objects of a collection have no name.
    let (deletion, all) = (DeleteParams::default(), ListParams::default());
    denied(
        api.delete_collection(&deletion, &all).await,
        403,
        "it is kept",
    );
    assert!(api.get_opt("b").await.unwrap().is_some());
    let [_, mut validated] = program.asked();
    validated.sort_by(|one, two| one.3.cmp(&two.3));
    assert!(validated.contains(&delete("", "kept")), "{validated:?}");
    assert!(validated.iter().all(|(_, name, ..)| name.is_empty()));
}

/// A Kettle as the program stores it.
#[derive(CustomResource, JsonSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "program.example.com",
    version = "v1",
    kind = "Kettle",
    namespaced,
    derive = "PartialEq"
)]
pub struct KettleSpec {
    litres: i32,
}

/// A Kettle as clients of the second version see it.
mod second {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    /// The spec of a Kettle in its second version.
    #[derive(CustomResource, JsonSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
    #[kube(
        group = "program.example.com",
        version = "v2",
        kind = "Kettle",
        namespaced,
        derive = "PartialEq"
    )]
    pub struct KettleSpec {
        pub millilitres: i32,
    }
}

/// Converts kettles, but none that holds 13 litres.
fn converted(review: &Value) -> (u16, String) {
    let review: ConversionReview = serde_json::from_value(review.clone()).unwrap();
    let request = ConversionRequest::from_review(review).unwrap();
    let (desired, objects) = (request.desired_api_version.clone(), request.objects.clone());
    let answer = ConversionResponse::for_request(request);
    let mut converted = Vec::new();
    for mut object in objects {
        let spec = object["spec"].clone();
        object["apiVersion"] = desired.clone().into();
        object["spec"] = match (spec["litres"].as_i64(), spec["millilitres"].as_i64()) {
            (Some(13), _) | (_, Some(13_000)) => {
                let failure = Status::failure("13 litres bring bad luck", "Superstition");
                let answer = answer.failure(failure).into_review();
                return (200, serde_json::to_string(&answer).unwrap());
            }
            (Some(litres), _) => json!({"millilitres": litres * 1000}),
            (_, Some(millilitres)) => json!({"litres": millilitres / 1000}),
            (None, None) => json!({}),
        };
        converted.push(object);
    }
    let answer = answer.success(converted).into_review();
    (200, serde_json::to_string(&answer).unwrap())
}

/// Defines kettles in both versions, which this webhook converts.
async fn define(client: &Client, webhook: &Webhook) {
    let mut definition = Kettle::crd();
    let second = second::Kettle::crd().spec.versions.remove(0);
    definition
        .spec
        .versions
        .push(extensions::CustomResourceDefinitionVersion {
            storage: false,
            ..second
        });
    definition.spec.conversion = Some(extensions::CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(extensions::WebhookConversion {
            conversion_review_versions: vec!["v1".to_owned()],
            client_config: Some(serde_json::from_value(webhook.client_config()).unwrap()),
        }),
    });
    let definitions: Api<extensions::CustomResourceDefinition> = Api::all(client.clone());
    let post = PostParams::default();
    definitions.create(&post, &definition).await.unwrap();
    let established = kube::runtime::conditions::is_crd_established();
    let name = "kettles.program.example.com";
    kube::runtime::wait::await_condition(definitions, name, established)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_of_kube_rs_converts_objects_hk_77_hk_78() {
    let daemon = Daemon::start().await;
    let client = client(&daemon).await;
    let webhook = Webhook::start(converted).await;
    define(&client, &webhook).await;
    let first: Api<Kettle> = Api::default_namespaced(client.clone());
    let second: Api<second::Kettle> = Api::default_namespaced(client.clone());
    let post = PostParams::default();
    let two = Kettle::new("two", KettleSpec { litres: 2 });
    first.create(&post, &two).await.unwrap();
    assert_eq!(second.get("two").await.unwrap().spec.millilitres, 2000);
    let of_four = second::KettleSpec { millilitres: 4000 };
    let four = second::Kettle::new("four", of_four);
    second.create(&post, &four).await.unwrap();
    assert_eq!(first.get("four").await.unwrap().spec.litres, 4);
    let merge = Patch::Merge(json!({"spec": {"millilitres": 5000}}));
    let params = PatchParams::default();
    second.patch("two", &params, &merge).await.unwrap();
    assert_eq!(first.get("two").await.unwrap().spec.litres, 5);
    let listed = second.list(&ListParams::default()).await.unwrap();
    let listed = listed.into_iter();
    let listed: Vec<_> = listed.map(|kettle| kettle.spec.millilitres).collect();
    assert_eq!(listed, [4000, 5000]);
    // A failure names the program's reason, and leaves the stored version as it is.
    let thirteen = Kettle::new("thirteen", KettleSpec { litres: 13 });
    first.create(&post, &thirteen).await.unwrap();
    let text = "conversion webhook for program.example.com/v1, Kind=Kettle failed: 13 litres \
                bring bad luck";
    let failed = refusal(second.get("thirteen").await);
    assert_eq!((failed.code, &*failed.message), (500, text));
    assert_eq!(first.get("thirteen").await.unwrap().spec.litres, 13);
    first
        .delete("thirteen", &DeleteParams::default())
        .await
        .unwrap();
    // So does a client without types.
    let kind = GroupVersionKind::gvk("program.example.com", "v2", "Kettle");
    let untyped = ApiResource::from_gvk(&kind);
    let untyped: Api<DynamicObject> = Api::default_namespaced_with(client, &untyped);
    let found = untyped.get("four").await.unwrap();
    assert_eq!(found.data["spec"], json!({"millilitres": 4000}));
}
