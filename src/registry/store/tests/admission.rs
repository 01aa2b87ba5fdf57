//! The attributes that plugins see, and the rounds of mutating admission (http.md section 8).

use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::Mutex;
use serde_json::json;

use crate::admission::{
    Admission, Admitted, Attributes, MutatingPlugin, Operation, Plugin, ValidatingPlugin,
};
use crate::api::annotations::Annotations;
use crate::api::object::Object;
use crate::api::options::{Query, WriteOptions};
use crate::api::resource::ResourceDefinition;
use crate::registry::rest::{Connecter as _, ConnectionStore, Upstreams};
use crate::registry::store::{RegistryStore, StoreOptions, UpdateSource};
use crate::registry::tests::fixture::{Fixture, refusal, shown};
use crate::registry::{NamespacedName, RequestContext};

/// A plugin like one that calls webhooks: it labels objects, requests reinvocation, adds
/// annotations with names made at run time, and refuses shells.
#[derive(Default)]
struct Hook {
    seen: Mutex<Vec<String>>,
}

fn named(of: &ResourceDefinition) -> String {
    format!("{} of {}", of.kind, of.api_version())
}

impl Plugin for Hook {
    fn name(&self) -> &'static str {
        "Hook"
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for Hook {
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p> {
        attributes.rounds.changed();
        let round = if attributes.rounds.is_again() { 2 } else { 1 };
        let (kind, stored) = (named(attributes.kind), named(attributes.stored));
        let resource = attributes.definition.qualified();
        let options = object
            .as_ref()
            .map(|object| object.0.get("command").cloned());
        let command = options.flatten().unwrap_or_default();
        self.seen.lock().push(format!(
            "{round}: {resource} {:?} {kind}, {stored} {command}",
            attributes.subresource
        ));
        attributes.annotate(format!("hook.example.com/round-{round}"), || {
            "seen".to_owned()
        });
        if let (Some(object), Operation::Create(_)) = (object, &attributes.operation) {
            let labels = json!({ "round": round.to_string() });
            object.metadata_mut().insert("labels".to_owned(), labels);
        }
        async { Ok(()) }.boxed()
    }
}

impl ValidatingPlugin for Hook {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        _object: Option<&'p Object>,
    ) -> Admitted<'p> {
        let refused = matches!(attributes.operation, Operation::Connect);
        async move {
            match refused {
                true => Err(attributes.forbidden(None, "no shells")),
                false => Ok(()),
            }
        }
        .boxed()
    }
}

/// A store with the plugin, over the storages of a fixture.
fn hooked(fixture: &Fixture, resource: &str) -> (Arc<RegistryStore>, Arc<Hook>) {
    let plain = fixture.store(resource);
    let hook = Arc::new(Hook::default());
    let options = StoreOptions {
        admission: Admission::new(vec![hook.clone()]),
        ..StoreOptions::default()
    };
    let (definition, storages) = (plain.definition().clone(), plain.storages().clone());
    (
        Arc::new(RegistryStore::new(definition, storages, options)),
        hook,
    )
}

fn seen(hook: &Hook) -> Vec<String> {
    std::mem::take(&mut hook.seen.lock())
}

async fn create(
    store: &RegistryStore,
    context: &RequestContext,
    body: serde_json::Value,
) -> Object {
    let object = Object::of(body.as_object().expect("an object").clone());
    let options = WriteOptions::default();
    let creating = store.create(context, Some("d"), object, &options);
    shown(&creating.await.expect("created"))
}

/// A plugin that requests reinvocation runs once more, and its last change counts. Its annotations
/// have names that are made at run time.
#[tokio::test]
async fn a_plugin_runs_again_and_annotates() {
    let mut fixture = Fixture::new().await;
    let annotations = Annotations::default();
    fixture.context.annotations = Some(annotations.clone());
    let (store, hook) = hooked(&fixture, "configmaps");
    let body = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}});
    let made = create(&store, &fixture.context, body).await;
    assert_eq!(made.text(&["metadata", "labels", "round"]), "2");
    let of_first = "1: configmaps None ConfigMap of v1, ConfigMap of v1 null";
    assert_eq!(seen(&hook), [of_first, &of_first.replacen('1', "2", 1)]);
    let all = annotations.all().into_iter();
    let names: Vec<String> = all.map(|(name, _)| name.into_owned()).collect();
    assert_eq!(
        names,
        ["hook.example.com/round-1", "hook.example.com/round-2"]
    );
}

/// A plugin sees the kind of the request and the stored form of the object: an update of a Scale
/// has its own kind, and changes another object.
#[tokio::test]
async fn a_plugin_sees_the_kinds_of_request_and_object() {
    let fixture = Fixture::new().await;
    let (store, hook) = hooked(&fixture, "deployments.apps");
    let body = json!({
        "kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    create(&store, &fixture.context, body).await;
    seen(&hook);
    let scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": "a", "namespace": "d"}, "spec": {"replicas": 3},
    });
    let scale = Object::of(scale.as_object().expect("an object").clone());
    let at = NamespacedName {
        namespace: Some("d"),
        name: "a",
    };
    let part = store
        .definition()
        .subresource("scale")
        .expect("it scales")
        .clone();
    let (source, options) = (UpdateSource::Replace(scale.into()), WriteOptions::default());
    let updating = store.update(&fixture.context, at, Some(&part), source, &options);
    let updated = shown(&updating.await.expect("updated").object);
    assert_eq!(updated.0["spec"]["replicas"], 3);
    assert_eq!(
        seen(&hook)[0],
        "1: deployments.apps Some(\"scale\") Scale of autoscaling/v1, Deployment of apps/v1 null"
    );
}

/// API-221: admission runs for connections, with their options, before the object is read.
#[tokio::test]
async fn a_plugin_is_asked_about_connections() {
    let fixture = Fixture::new().await;
    let (store, hook) = hooked(&fixture, "pods");
    let paths = ConnectionStore::paths(&store, &Upstreams::default());
    let path = |name: &str| {
        let mut paths = paths.iter();
        let is_this = |path: &&ConnectionStore| {
            crate::registry::RestStorage::subresource(*path) == Some(name)
        };
        paths.find(is_this).expect("a path of pods")
    };
    let at = NamespacedName {
        namespace: Some("d"),
        name: "a",
    };
    let query = Query::parse("command=ls&command=-l&stdin=true");
    let connected = path("exec").connect(&fixture.context, at, "", &query).await;
    let (code, _, message) = refusal(connected);
    assert_eq!(
        (code, &*message),
        (403, "pods \"a\" is forbidden: no shells")
    );
    let kind = "PodExecOptions of v1";
    assert_eq!(
        seen(&hook)[0],
        format!("1: pods Some(\"exec\") {kind}, {kind} [\"ls\",\"-l\"]")
    );
    // Logs are read with GET, which has no admission.
    let query = Query::default();
    let log = path("log").connect(&fixture.context, at, "", &query).await;
    assert_eq!((refusal(log).0, seen(&hook).len()), (404, 0));
}
