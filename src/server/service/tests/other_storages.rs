//! Tests of paths whose storage is not a stored resource. New kinds of storage need no change of
//! handlers.

use actors::object::CachedObject;
use futures_util::future::ready;
use http::Method;

use super::*;
use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::resource::ResourceDefinition;
use crate::kinds::definitions::{apps, core};
use crate::registry::NamespacedName;
use crate::registry::rest::{
    Answering, Connected, Connecter, Created, Getter, NamedCreater, RestStorage, Updater,
};
use crate::registry::store::{UpdateSource, Written};
use crate::storage::codec::Codec;

/// A subresource of deployments or pods with its own kind.
struct Other {
    resource: Arc<ResourceDefinition>,
    name: &'static str,
    kind: Arc<ResourceDefinition>,
}

impl Other {
    fn new(resource: ResourceDefinition, name: &'static str, kind: &[&str; 3]) -> Other {
        let [group, version, kind] = kind;
        Other {
            resource: Arc::new(resource),
            name,
            kind: Arc::new(ResourceDefinition::named(group, version, kind, name)),
        }
    }

    fn is(&self, name: &str) -> Option<&Other> {
        (self.name == name).then_some(self)
    }

    fn shown(&self, object: &Object) -> Result<Arc<CachedObject>, Box<Status>> {
        let codec = Codec::new(self.kind.clone());
        let wire = codec.wire(&Key::new("/none"), object, Revision(7));
        wire.map(Arc::new)
            .map_err(|error| Box::new(Status::internal(error)))
    }

    fn named(&self, name: &str) -> Object {
        let mut object = Object::default();
        object.set_type(&self.kind.kind, &self.kind.api_version());
        object.set_meta("name", name);
        object
    }
}

impl RestStorage for Other {
    fn resource(&self) -> &Arc<ResourceDefinition> {
        &self.resource
    }

    fn subresource(&self) -> Option<&str> {
        Some(self.name)
    }

    fn request_kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn response_kind(&self) -> &Arc<ResourceDefinition> {
        &self.kind
    }

    fn getter(&self) -> Option<&dyn Getter> {
        self.is("sizing").map(|other| other as _)
    }

    fn updater(&self) -> Option<&dyn Updater> {
        self.is("sizing").map(|other| other as _)
    }

    fn named_creater(&self) -> Option<&dyn NamedCreater> {
        self.is("eviction").map(|other| other as _)
    }

    fn connecter(&self) -> Option<&dyn Connecter> {
        self.is("proxy").map(|other| other as _)
    }
}

impl Getter for Other {
    fn get<'a>(&'a self, at: NamespacedName<'a>, _: &'a str) -> Answering<'a, Arc<CachedObject>> {
        Box::pin(ready(self.shown(&self.named(at.name))))
    }
}

impl Updater for Other {
    fn update<'a>(
        &'a self,
        _: &'a RequestContext,
        _: NamespacedName<'a>,
        source: UpdateSource,
        _: &'a WriteOptions,
    ) -> Answering<'a, Written> {
        let UpdateSource::Replace(mut replacement) = source else {
            panic!("it has no PATCH");
        };
        let object = replacement.take().unwrap();
        let written = self.shown(&object).map(|object| Written {
            object,
            created: false,
        });
        Box::pin(ready(written))
    }
}

impl NamedCreater for Other {
    fn create_named<'a>(
        &'a self,
        _: &'a RequestContext,
        at: NamespacedName<'a>,
        mut object: Object,
        _: &'a WriteOptions,
    ) -> Answering<'a, Created> {
        object.set_meta("name", &format!("{}-of-{}", object.name(), at.name));
        Box::pin(ready(self.shown(&object).map(Created::Object)))
    }
}

impl Connecter for Other {
    fn methods(&self) -> &[Method] {
        &[Method::GET, Method::POST]
    }

    fn connect<'a>(
        &'a self,
        _: &'a RequestContext,
        at: NamespacedName<'a>,
        path: &'a str,
        query: &'a Query,
    ) -> Answering<'a, Connected> {
        let tail = query.first("tail").unwrap_or_default();
        let said = format!("{} {path} {tail}", at.name);
        Box::pin(ready(Err(Box::new(Status::unknown(said)))))
    }
}

async fn service_with_others() -> Service {
    let stored = stored(true).await;
    let others = [
        Other::new(
            apps::deployments(),
            "sizing",
            &["autoscaling", "v1", "Sizing"],
        ),
        Other::new(core::pods(), "eviction", &["policy", "v1", "Eviction"]),
        Other::new(core::pods(), "proxy", &["", "v1", "PodProxyOptions"]),
    ];
    for other in others {
        stored.registry.add_other(Arc::new(other));
    }
    over(stored, InFlightLimits::default())
}

const SIZING: &str = "/apis/apps/v1/namespaces/d/deployments/web/sizing";
const POD: &str = "/api/v1/namespaces/d/pods/web";

#[test]
fn a_subresource_has_kinds_and_verbs_of_its_own() {
    run(async {
        let service = service_with_others().await;
        let got = call(&service, "GET", SIZING, "").await;
        assert_eq!(
            (got.code, got.json()["kind"].as_str()),
            (200, Some("Sizing"))
        );
        let body = r#"{"kind":"Sizing","apiVersion":"autoscaling/v1","metadata":{"name":"web"},
            "spec":{"replicas":3}}"#;
        let put = call(&service, "PUT", SIZING, body).await;
        assert_eq!(put.code, 200, "{}", put.text);
        assert_eq!(put.json()["spec"]["replicas"], 3);
        // A body of the parent's kind is refused.
        let body = r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web"}}"#;
        assert_eq!(call(&service, "PUT", SIZING, body).await.code, 400);
        for method in ["PATCH", "DELETE", "POST"] {
            let refused = call(&service, method, SIZING, "{}").await;
            assert_eq!(refused.code, 405, "{method}: {}", refused.text);
        }
        // The parent's own paths are unchanged.
        let listed = call(&service, "GET", "/apis/apps/v1/deployments", "").await;
        assert_eq!(listed.code, 200);
    });
}

#[test]
fn something_is_created_by_post_on_a_named_path() {
    run(async {
        let service = service_with_others().await;
        let body = r#"{"metadata":{"name":"x"}}"#;
        let path = format!("{POD}/eviction");
        let made = call(&service, "POST", &path, body).await;
        assert_eq!(made.code, 201, "{}", made.text);
        assert_eq!(made.json()["metadata"]["name"], "x-of-web");
        assert_eq!(call(&service, "GET", &path, "").await.code, 405);
        // A plain resource creates nothing there.
        assert_eq!(call(&service, "POST", POD, body).await.code, 405);
    });
}

#[test]
fn a_connection_takes_its_methods_and_the_rest_of_the_path() {
    run(async {
        let service = service_with_others().await;
        for method in ["GET", "POST"] {
            let path = format!("{POD}/proxy/a/b?tail=9");
            let got = call(&service, method, &path, "").await;
            let said = got.json()["message"].clone();
            assert_eq!((got.code, said), (500, "web a/b 9".into()), "{method}");
        }
        let path = format!("{POD}/proxy");
        assert_eq!(call(&service, "PUT", &path, "{}").await.code, 405);
        // Other resources have no such subresource.
        let path = format!("{POD}/status/more");
        assert_eq!(call(&service, "GET", &path, "").await.code, 404);
    });
}

/// API-25: a kind of another version is listed with that version. A resource that is not stored has
/// no hash.
#[test]
fn discovery_shows_what_stands_behind_each_path() {
    run(async {
        let service = service_with_others().await;
        let entry = async |list: &str, name: &str| {
            let list = call(&service, "GET", list, "").await.json();
            let resources = list["resources"].as_array().expect("a list").clone();
            let found = resources.into_iter().find(|entry| entry["name"] == name);
            found.expect("it is shown")
        };
        let expected = json!({
            "name": "deployments/sizing", "singularName": "", "namespaced": true,
            "group": "autoscaling", "version": "v1", "kind": "Sizing",
            "verbs": ["get", "update"],
        });
        assert_eq!(entry("/apis/apps/v1", "deployments/sizing").await, expected);
        let proxy = entry("/api/v1", "pods/proxy").await;
        assert_eq!(proxy["verbs"], json!(["create", "get"]));
        let eviction = entry("/api/v1", "pods/eviction").await;
        assert_eq!(eviction["verbs"], json!(["create"]));
        assert!(eviction.get("storageVersionHash").is_none());
    });
}
