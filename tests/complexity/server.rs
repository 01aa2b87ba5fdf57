//! All resources over a store in memory, without HTTP: the calling thread does all the work.

use std::sync::Arc;

use actors::lessor::{LeaseReuse, LessorHandle};
use actors::testing::FaultyEngine;
use serde_json::{Value, json};
use taffrail::api::decode::{BodyFormat, decode_object, decode_value};
use taffrail::api::object::Object;
use taffrail::api::options::WriteOptions;
use taffrail::api::patch::{Patch, PatchKind};
use taffrail::api::status::Status;
use taffrail::auth::Authenticators;
use taffrail::auth::Authorizer;
use taffrail::auth::Authorizers;
use taffrail::auth::Revocations;
use taffrail::config::ADMISSION_PLUGINS;
use taffrail::kinds::definitions::{built_in, core};
use taffrail::kinds::validation::addresses::Range;
use taffrail::registry::deletion::Collector;
use taffrail::registry::keys::object_key;
use taffrail::registry::reviews;
use taffrail::registry::services::PortRange;
use taffrail::registry::{
    ClusterParts, NamespacedName, Registry, RequestContext, ServiceNetwork, StoredVersion,
    UpdateSource,
};
use taffrail::storage::codec::{Codec, object_of};
use taffrail::storage::dry_run::DryRun;
use taffrail::storage::factory::{Engines, StorageFactory, StorageOptions};
use taffrail::storage::keys::Keys;
use taffrail::storage::transformer::Identity;
use taffrail::storage::underlying::{StoredDecoder, Underlying};
use taffrail::storage::{ResourceStorage, StoredResource};
use tokio::time::{Duration, Instant};

use crate::requests::{Request, Verb};

const ROOT: &str = "/registry";

/// Plugins that ask for objects which recorded bodies name, and which are not there.
const LEFT_OUT: [&str; 3] = ["ServiceAccount", "Priority", "RuntimeClass"];

/// A registry over a store of its own.
pub struct Server {
    registry: Registry,
    context: RequestContext,
}

fn storage(engine: &Arc<FaultyEngine>, resource: Arc<StoredResource>) -> ResourceStorage {
    let hub = &resource.hub;
    let keys = Keys::new(ROOT, &hub.key_prefix).unwrap();
    let codec = Codec::new(Arc::clone(hub));
    let decoder = Arc::new(StoredDecoder::new(codec.clone(), Arc::new(Identity)));
    let lessor = LessorHandle::new(engine.clone(), LeaseReuse::default());
    let store = Underlying::new(engine.clone(), keys.clone(), decoder, lessor, None);
    let storage = Arc::new(store);
    let dry_run = Arc::new(DryRun::new(storage.clone(), codec, keys));
    ResourceStorage {
        resource,
        storage,
        dry_run,
        obeyed: None,
        converter: None,
        base: None,
    }
}

fn storages(engine: &Arc<FaultyEngine>) -> Vec<StoredVersion> {
    let factory = StorageFactory::new(StorageOptions::default(), built_in()).unwrap();
    let plans = factory
        .plans(&Engines::of(engine.clone()), &Identity)
        .unwrap();
    let versions = plans.iter().flat_map(|plan| {
        let storage = storage(engine, Arc::clone(plan.resource()));
        let versions = plan.versions().iter();
        versions.map(move |version| (Arc::clone(version), storage.clone()))
    });
    versions.collect()
}

impl Server {
    pub fn start() -> Server {
        let engine = FaultyEngine::new();
        let taken_ports = Arc::new(core::rangeallocations());
        let taken = storage(&engine, Arc::new(StoredResource::of(taken_ports.clone())));
        let network = ServiceNetwork {
            address_ranges: vec![Range::parse("10.96.0.0/12").unwrap()],
            node_ports: PortRange {
                first: 30_000,
                last: 32_767,
            },
            range_allocations: (taken_ports, taken),
        };
        let plugins = ADMISSION_PLUGINS.iter();
        let plugins = plugins.filter(|plugin| plugin.is_built && plugin.is_usual);
        let parts = ClusterParts {
            definition_cache: None,
            network: Some(network),
            admission_plugins: plugins
                .map(|plugin| plugin.name)
                .filter(|name| !LEFT_OUT.contains(name))
                .collect(),
            plugin_settings: Default::default(),
            delete_collection_workers: 1,
            authorizer: None,
            rbac: None,
            hooks: None,
            policies: Default::default(),
            definitions: Default::default(),
            node_addresses: Default::default(),
        };
        let storages = storages(&engine);
        let registry =
            Registry::with_parts(ROOT, Duration::ZERO, Collector::Absent, storages, parts);
        let authenticators = Authenticators::new(Vec::new(), Revocations::default());
        let authorizer: Arc<dyn Authorizer> = Arc::new(Authorizers::new(Vec::new()));
        registry.add_others(reviews::paths(
            &Arc::new(authenticators),
            &authorizer,
            &[],
            registry.admission(),
        ));
        let deadline = Instant::now() + Duration::from_secs(3600);
        Server {
            registry,
            context: RequestContext::internal("search", deadline),
        }
    }

    /// Carries out a request. Nothing is stored in a dry run.
    pub async fn execute(&self, request: &Request, dry_run: bool) -> Result<(), Box<Status>> {
        let kind = &request.kind;
        let catalog = self.registry.current();
        let path = (&kind.group, &kind.version, &kind.plural);
        let storage = catalog.endpoint(path.0, path.1, path.2, &request.subresource);
        let storage = storage.unwrap();
        let mut options = WriteOptions {
            dry_run,
            ..WriteOptions::default()
        };
        let mut context = self.context.clone();
        context.warnings = Default::default();
        let body = &request.body;
        let decoded = || {
            let decoded = decode_object(body, BodyFormat::Json, storage.request_kind())?;
            Ok::<_, Box<Status>>(decoded.object)
        };
        let source = match request.verb {
            Verb::Create => {
                let creater = storage.creater().unwrap();
                let object = decoded()?;
                let created = creater.create(&context, request.namespace, object, &options);
                return created.await.map(drop);
            }
            Verb::Update => UpdateSource::Replace(decoded()?.into()),
            Verb::MergePatch => UpdateSource::Patch(Patch::parse(PatchKind::Merge, body)?),
            Verb::StrategicPatch => UpdateSource::Patch(Patch::parse(PatchKind::Strategic, body)?),
            Verb::JsonPatch => UpdateSource::Patch(Patch::parse(PatchKind::Json, body)?),
            Verb::Apply(manager) => {
                context.manager = manager.to_owned();
                options.field_manager = manager.to_owned();
                options.force = true;
                let decoded = decode_value(body, BodyFormat::Json);
                let (value, faults) = decoded.map_err(|why| Status::bad_request(&why))?;
                let Value::Object(members) = value else {
                    panic!("an object is applied")
                };
                let object = Object::of(members);
                UpdateSource::Apply { object, faults }
            }
        };
        let updater = match request.verb {
            Verb::Update => storage.updater(),
            _ => storage.patcher(),
        };
        let at = NamespacedName {
            namespace: request.namespace,
            name: &request.name,
        };
        let updating = updater.unwrap().update(&context, at, source, &options);
        updating.await.map(drop)
    }

    /// Stores an object as it is, whatever the rules say, in the place of one of this name.
    pub async fn put(&self, request: &Request) -> Result<(), String> {
        let kind = &request.kind;
        let decoded = decode_object(&request.body, BodyFormat::Json, kind);
        let mut object = decoded.map_err(|error| error.to_string())?.object;
        for (name, text) in [
            ("uid", "6f0c7a4e-6c9a-4b58-8f0e-3f3c2b1a0d9e"),
            ("creationTimestamp", "2026-01-02T03:04:05Z"),
            ("namespace", request.namespace.unwrap_or_default()),
        ] {
            if !text.is_empty() {
                object.set_meta(name, text);
            }
        }
        object.metadata_mut().remove("resourceVersion");
        object.metadata_mut().remove("deletionTimestamp");
        let name = request.name.as_str();
        let key = object_key(kind, request.namespace, name).map_err(|error| error.to_string())?;
        let catalog = self.registry.current();
        let store = catalog.find(&kind.group, &kind.version, &kind.plural);
        let store = store.ok_or("it is not stored")?;
        let storing = store
            .storage()
            .create(&key, object.into(), self.context.origin());
        storing.await.map(drop).map_err(|error| error.to_string())
    }

    /// The object that a request is about.
    pub async fn get(&self, request: &Request) -> Option<Value> {
        let kind = &request.kind;
        let catalog = self.registry.current();
        let store = catalog.find(&kind.group, &kind.version, &kind.plural)?;
        let at = NamespacedName {
            namespace: request.namespace,
            name: &request.name,
        };
        let found = store.get(at, "").await.ok()?;
        let object = object_of(&found).unwrap();
        Some(Value::Object(object.into_document()))
    }

    /// The namespace of all bodies.
    pub async fn namespace(&self) {
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        let catalog = self.registry.current();
        let store = catalog.find("", "v1", "namespaces").unwrap();
        let request = Request {
            kind: store.definition().clone(),
            subresource: String::new(),
            namespace: None,
            name: "default".to_owned(),
            verb: Verb::Create,
            body: body.to_string().into_bytes(),
        };
        self.execute(&request, false).await.unwrap();
    }
}
