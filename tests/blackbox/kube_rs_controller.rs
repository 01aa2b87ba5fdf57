//! A controller that uses kube-rs' runtime: it protects ConfigMaps by a finalizer, creates a Secret
//! for each, recreates the Secret when it is deleted, and cleans up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::harness::{AS_INSTALLED, Call, Daemon};
use crate::kube_rs::{client, client_by};

const FINALIZER: &str = "example.com/cleanup";
const MANAGER: &str = "controller-of-the-test";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const TIMEOUT: Duration = Duration::from_secs(60);

/// What reconciliations share.
struct Context {
    client: Client,
    /// The names of those that were cleaned up. A cleanup is repeated if its object has changed
    /// meanwhile.
    cleaned: Mutex<BTreeSet<String>>,
}

type Failure = finalizer::Error<kube::Error>;

async fn reconcile(object: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, Failure> {
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), "default");
    finalizer(&api, FINALIZER, object, async |event| match event {
        Event::Apply(object) => has_secret(&object, &context).await,
        Event::Cleanup(object) => {
            context.cleaned.lock().insert(object.name_any());
            Ok(Action::await_change())
        }
    })
    .await
}

/// Applies the Secret of a ConfigMap.
async fn has_secret(object: &ConfigMap, context: &Context) -> Result<Action, kube::Error> {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(object.name_any()),
            owner_references: Some(object.controller_owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        data: object.data.clone().map(|data| {
            let data = data.into_iter();
            data.map(|(name, value)| (name, ByteString(value.into_bytes())))
                .collect()
        }),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), "default");
    let parameters = PatchParams::apply(MANAGER).force();
    api.patch(&object.name_any(), &parameters, &Patch::Apply(&secret))
        .await?;
    Ok(Action::await_change())
}

/// The names of a set.
fn cleaned(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Waits until something is the case.
async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is().await {
        assert!(begun.elapsed() < TIMEOUT, "{what} does not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

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

/// A controller that runs meanwhile.
struct Running {
    context: Arc<Context>,
    /// The errors of what it could not do, each with its causes.
    errors: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts the controller with a client of its own.
fn start(client: &Client) -> Running {
    let configmaps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let context = Arc::new(Context {
        client: client.clone(),
        cleaned: Mutex::default(),
    });
    let errors: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&errors);
    let controller = Controller::new(configmaps, watcher::Config::default())
        .owns(secrets, watcher::Config::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(200)),
            Arc::clone(&context),
        );
    let task = tokio::spawn(controller.for_each(move |result| {
        if let Err(error) = result {
            noted.lock().push(with_causes(&error));
        }
        std::future::ready(())
    }));
    Running {
        context,
        errors,
        task,
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

/// API-106, API-113, API-172, API-209.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_owns_restores_and_cleans_up() {
    let daemon = Daemon::start().await;
    let client = client(&daemon).await;
    let running = start(&client);
    owns_restores_and_cleans_up(&client, &running.context).await;
}

/// The rights of the controller: no more than it needs.
const RIGHTS: [(&str, &[&str]); 2] = [
    ("configmaps", &["list", "watch", "patch"]),
    ("secrets", &["list", "watch", "patch", "create"]),
];

/// [`RIGHTS`] without one of them, as the rules of a role.
fn rules_without(resource: &str, verb: &str) -> Value {
    let rules = RIGHTS.map(|(of, verbs)| {
        let is_left = |one: &&&str| of != resource || **one != verb;
        let verbs: Vec<&&str> = verbs.iter().filter(is_left).collect();
        json!({ "apiGroups": [""], "resources": [of], "verbs": verbs })
    });
    json!(rules)
}

/// Creates an account with a role that has no rules yet. Returns a client of it.
async fn account(daemon: &Daemon) -> Client {
    let admin = daemon.client();
    let create =
        async |path: &str, object: Value| admin.call(Call::post(path, &object)).await.expect(201);
    let metadata = json!({ "name": "keeper" });
    create(ACCOUNTS, json!({ "metadata": metadata })).await;
    let roles = format!("{RBAC}/roles");
    create(&roles, json!({ "metadata": metadata, "rules": [] })).await;
    let binding = json!({
        "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "keeper" },
        "subjects": [{ "kind": "ServiceAccount", "name": "keeper", "namespace": "default" }],
    });
    create(&format!("{RBAC}/rolebindings"), binding).await;
    let token = create(&format!("{ACCOUNTS}/keeper/token"), json!({})).await;
    let token = json!({ "token": token["status"]["token"] });
    let path = daemon.kubeconfig_of("keeper", &token);
    client_by(Kubeconfig::read_from(path).unwrap()).await
}

async fn has_rules(daemon: &Daemon, rules: Value) {
    let path = format!("{RBAC}/roles/keeper");
    let patch = Call::merge_patch(&path, &json!({ "rules": rules }));
    daemon.client().call(patch).await.expect(200);
}

/// AC-27, AC-30, AC-31: a controller says which right it lacks, and goes on when it has the right.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_works_under_an_account_with_few_rights_ac_27() {
    let daemon = Daemon::with(&[AS_INSTALLED]).await;
    let (admin, keeper) = (client(&daemon).await, account(&daemon).await);
    let configmaps: Api<ConfigMap> = Api::namespaced(admin.clone(), "default");
    for (resource, verb, name) in [
        ("configmaps", "list", ""),
        ("configmaps", "watch", ""),
        ("configmaps", "patch", " \"first\""),
        ("secrets", "watch", ""),
        ("secrets", "patch", " \"first\""),
        ("secrets", "create", " \"first\""),
    ] {
        has_rules(&daemon, rules_without(resource, verb)).await;
        let running = start(&keeper);
        let object = configmap("first", "one");
        let parameters = PostParams::default();
        configmaps.create(&parameters, &object).await.unwrap();
        let expected = format!(
            "{resource}{name} is forbidden: User \"system:serviceaccount:default:keeper\" cannot \
             {verb} resource \"{resource}\" in API group \"\" in the namespace \"default\""
        );
        until(&expected, async || {
            let errors = running.errors.lock();
            errors.iter().any(|error| error.contains(&expected))
        })
        .await;
        has_rules(&daemon, rules_without("", "")).await;
        let secrets: Api<Secret> = Api::namespaced(admin.clone(), "default");
        until("a secret after all", async || {
            secrets.get_opt("first").await.unwrap().is_some()
        })
        .await;
        let parameters = DeleteParams::foreground();
        configmaps.delete("first", &parameters).await.unwrap();
        until("the end of both", async || {
            configmaps.get_opt("first").await.unwrap().is_none()
                && secrets.get_opt("first").await.unwrap().is_none()
        })
        .await;
    }
    let running = start(&keeper);
    owns_restores_and_cleans_up(&admin, &running.context).await;
    // Others, such as a conflict, are part of normal operation.
    let errors = running.errors.lock();
    let refused = errors.iter().find(|error| error.contains("forbidden"));
    assert_eq!(refused, None);
}

/// The work of a controller for the ConfigMaps of a user.
async fn owns_restores_and_cleans_up(client: &Client, context: &Context) {
    let configmaps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    for name in ["a", "b"] {
        let object = configmap(name, "one");
        let parameters = PostParams::default();
        configmaps.create(&parameters, &object).await.unwrap();
    }
    let value_of = async |name: &str| {
        let secret = secrets.get_opt(name).await.unwrap();
        let data = secret.and_then(|secret| secret.data)?;
        Some(String::from_utf8(data["k"].0.clone()).unwrap())
    };
    for name in ["a", "b"] {
        until("its secret", async || value_of(name).await.is_some()).await;
        let held = configmaps.get(name).await.unwrap();
        assert_eq!(held.finalizers(), [FINALIZER]);
    }
    // A change of the owner, and the loss of what it owns.
    let patch = Patch::Merge(json!({"data": {"k": "two"}}));
    configmaps
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    until("a change", async || {
        value_of("a").await.as_deref() == Some("two")
    })
    .await;
    let lost = secrets.get("b").await.unwrap().uid();
    secrets.delete("b", &DeleteParams::default()).await.unwrap();
    until("another secret", async || {
        let found = secrets.get_opt("b").await.unwrap();
        found.is_some_and(|found| found.uid() != lost)
    })
    .await;

    configmaps
        .delete("a", &DeleteParams::foreground())
        .await
        .unwrap();
    until("the end of both", async || {
        configmaps.get_opt("a").await.unwrap().is_none()
            && secrets.get_opt("a").await.unwrap().is_none()
    })
    .await;
    assert_eq!(*context.cleaned.lock(), cleaned(&["a"]));
    assert!(configmaps.get_opt("b").await.unwrap().is_some());
}
