//! A catalog over a store in memory, for tests.

use std::sync::Arc;

use actors::lessor::{LeaseReuse, LessorHandle};
use actors::object::CachedObject;
use actors::testing::FaultyEngine;
use serde_json::Value;
use tokio::time::{Duration, Instant};

use crate::api::object::Object;
use crate::api::options::{DeleteOptions, ListOptions, WriteOptions};
use crate::api::patch::{Patch, PatchKind};
use crate::api::resource::ResourceDefinition;
use crate::api::selector::Selection;
use crate::api::status::{Status, StatusReason};
use crate::kinds::definitions::{built_in, core};
use crate::kinds::validation::addresses::Range;
use crate::registry::deletion::Collector;
use crate::registry::services::PortRange;
use crate::registry::{
    Answer, ClusterParts, NamespacedName, Registry, RegistryStore, RequestContext, ServiceNetwork,
    StoredVersion, UpdateSource,
};
use crate::storage::codec::{Codec, object_of};
use crate::storage::dry_run::DryRun;
use crate::storage::keys::Keys;
use crate::storage::transformer::Identity;
use crate::storage::underlying::{StoredDecoder, Underlying};
use crate::storage::{ResourceStorage, StoredResource};

/// The prefix of keys in tests.
pub(crate) const ROOT: &str = "/registry";

/// How long events are kept.
pub(crate) const EVENT_TTL: Duration = Duration::from_secs(100);

/// A catalog over a store in memory, with the namespace `d` in it.
pub(crate) struct Fixture {
    pub(crate) registry: Registry,
    pub(crate) engine: Arc<FaultyEngine>,
    pub(crate) context: RequestContext,
}

/// Returns an object from JSON.
pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => Object::of(members),
        other => panic!("{other} is not an object"),
    }
}

/// Decodes a cached object.
pub(crate) fn shown(cached: &CachedObject) -> Object {
    object_of(cached).expect("a cached object is one")
}

/// Returns the code, reason and message of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(
    answer: Result<T, Box<Status>>,
) -> (u16, StatusReason, String) {
    let status = answer.expect_err("it is refused");
    (status.code, status.reason, status.message)
}

/// Returns the storages of all built-in resources over an engine.
fn storages(
    engine: &Arc<FaultyEngine>,
    wrap: impl Fn(ResourceStorage) -> ResourceStorage,
) -> Vec<StoredVersion> {
    let rows = built_in().into_iter().map(|row| stored(engine, row));
    rows.map(|(row, storages)| (row, wrap(storages))).collect()
}

/// Returns the storage of one row over an engine.
pub(crate) fn stored(engine: &Arc<FaultyEngine>, row: Arc<ResourceDefinition>) -> StoredVersion {
    let keys = Keys::new(ROOT, &row.key_prefix).expect("it has a prefix");
    let codec = Codec::new(row.clone());
    let decoder = Arc::new(StoredDecoder::new(codec.clone(), Arc::new(Identity)));
    let lessor = LessorHandle::new(engine.clone(), LeaseReuse::default());
    let store = Underlying::new(engine.clone(), keys.clone(), decoder, lessor, None);
    let storage = Arc::new(store);
    let dry_run = Arc::new(DryRun::new(storage.clone(), codec, keys));
    let resource = Arc::new(StoredResource::of(row.clone()));
    let storages = ResourceStorage {
        resource,
        storage,
        dry_run,
        obeyed: None,
        converter: None,
        base: None,
    };
    (row, storages)
}

impl Fixture {
    pub(crate) async fn new() -> Fixture {
        let fixture = Fixture::over(|storages| storages);
        fixture
            .create("namespaces", None, r#"{"metadata":{"name":"d"}}"#)
            .await
            .expect("created");
        fixture
    }

    /// Creates a fixture with wrapped storages and without namespaces.
    pub(crate) fn over(wrap: impl Fn(ResourceStorage) -> ResourceStorage) -> Fixture {
        let engine = FaultyEngine::new();
        let storages = storages(&engine, wrap);
        let registry = Registry::new(ROOT, EVENT_TTL, Collector::Absent, storages);
        Fixture::of(engine, registry)
    }

    /// Creates a fixture over an engine, whose Services allocate from these addresses and ports.
    pub(crate) fn with_network(
        engine: &Arc<FaultyEngine>,
        wrap: impl Fn(ResourceStorage) -> ResourceStorage,
        (addresses, node_ports): (&str, PortRange),
    ) -> Fixture {
        let taken_ports = Arc::new(core::rangeallocations());
        let network = ServiceNetwork {
            address_ranges: vec![Range::parse(addresses).expect("a range")],
            node_ports,
            range_allocations: stored(engine, taken_ports),
        };
        let parts = ClusterParts {
            network: Some(network),
            admission_plugins: vec!["NamespaceLifecycle"],
            plugin_settings: Default::default(),
            delete_collection_workers: 1,
            authorizer: None,
            rbac: None,
            hooks: None,
            policies: Default::default(),
            definitions: Default::default(),
            node_addresses: Default::default(),
            definition_cache: None,
        };
        let storages = storages(engine, wrap);
        let registry = Registry::with_parts(ROOT, EVENT_TTL, Collector::Absent, storages, parts);
        Fixture::of(engine.clone(), registry)
    }

    fn of(engine: Arc<FaultyEngine>, registry: Registry) -> Fixture {
        let deadline = Instant::now() + Duration::from_secs(60);
        Fixture {
            registry,
            engine,
            context: RequestContext::internal("test", deadline),
        }
    }

    pub(crate) fn store(&self, resource: &str) -> Arc<RegistryStore> {
        self.registry
            .current()
            .named(resource)
            .expect("in the table")
    }

    pub(crate) async fn create(
        &self,
        resource: &str,
        namespace: Option<&str>,
        body: &str,
    ) -> Result<Object, Box<Status>> {
        self.create_with(resource, namespace, body, &WriteOptions::default())
            .await
    }

    pub(crate) async fn create_with(
        &self,
        resource: &str,
        namespace: Option<&str>,
        body: &str,
        options: &WriteOptions,
    ) -> Result<Object, Box<Status>> {
        let store = self.store(resource);
        let object = self.parse(&store, body);
        let created = store
            .create(&self.context, namespace, object, options)
            .await?;
        Ok(shown(&created))
    }

    fn parse(&self, store: &RegistryStore, body: &str) -> Object {
        let mut object = object(serde_json::from_str(body).expect("the test's body is JSON"));
        object.set_type(&store.definition().kind, &store.definition().api_version());
        object
    }

    pub(crate) async fn get(
        &self,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Object, Box<Status>> {
        self.store(resource)
            .get(NamespacedName { namespace, name }, "")
            .await
            .map(|cached| shown(&cached))
    }

    pub(crate) async fn names(&self, resource: &str, namespace: Option<&str>) -> Vec<String> {
        let store = self.store(resource);
        let everything = Arc::new(Selection::default());
        let list = store
            .list(namespace, &ListOptions::default(), everything)
            .await;
        let list = list.expect("it can be listed");
        list.items
            .iter()
            .map(|item| item.attributes().name().to_owned())
            .collect()
    }

    /// PUT. Returns whether it created the object, and the object.
    pub(crate) async fn put(
        &self,
        resource: &str,
        path: (Option<&str>, &str, Option<&str>),
        body: &str,
    ) -> Result<(bool, Object), Box<Status>> {
        let store = self.store(resource);
        let source = UpdateSource::Replace(self.parse(&store, body).into());
        self.update(&store, path, source, &WriteOptions::default())
            .await
    }

    /// A JSON merge patch.
    pub(crate) async fn merge(
        &self,
        resource: &str,
        path: (Option<&str>, &str, Option<&str>),
        patch: &str,
    ) -> Result<Object, Box<Status>> {
        let store = self.store(resource);
        let patch = Patch::parse(PatchKind::Merge, patch.as_bytes())?;
        let source = UpdateSource::Patch(patch);
        let written = self
            .update(&store, path, source, &WriteOptions::default())
            .await?;
        Ok(written.1)
    }

    pub(crate) async fn update(
        &self,
        store: &RegistryStore,
        (namespace, name, subresource): (Option<&str>, &str, Option<&str>),
        source: UpdateSource,
        options: &WriteOptions,
    ) -> Result<(bool, Object), Box<Status>> {
        let object = NamespacedName { namespace, name };
        let subresource = subresource.map(|name| {
            let known = store.definition().subresource(name);
            known.expect("a subresource of the resource")
        });
        let updating = store.update(&self.context, object, subresource, source, options);
        let written = updating.await?;
        Ok((written.created, shown(&written.object)))
    }

    /// DELETE. Returns 200 or 202, and the body of the response.
    pub(crate) async fn delete(
        &self,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(u16, Value), Box<Status>> {
        let store = self.store(resource);
        let deletion = store
            .delete(&self.context, NamespacedName { namespace, name }, options)
            .await?;
        let code = if deletion.accepted { 202 } else { 200 };
        let told = match deletion.answer {
            Answer::Object => Value::Object(shown(&deletion.object).0),
            Answer::Status(status) => serde_json::to_value(&*status).expect("a document"),
        };
        Ok((code, told))
    }
}
