//! The Service through which clients in the cluster reach the API, and the range of addresses that
//! it is of (API-228). Every daemon keeps them, as every kube-apiserver does.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior};

use super::ensure_system_namespaces;
use super::master_leases::MasterLeases;
use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::resource::ResourceDefinition;
use crate::api::status::{Status, StatusReason};
use crate::clock;
use crate::registry::services::Repaired;
use crate::registry::{NamespacedName, Registry, RegistryStore, RequestContext, UpdateSource};

/// The name of the Service, of its endpoints and of the range of addresses.
const NAME: &str = "kubernetes";
/// The namespace of the Service.
const NAMESPACE: &str = "default";
/// The manager that owns the condition of the range, as in kube-apiserver.
const RANGE_CONTROLLER: &str = "kubernetes-service-cidr-controller";
/// The time between two looks at the Service.
const PAUSE: Duration = Duration::from_secs(10);
/// The time after a failure.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The time between two repairs of what Services take.
const REPAIR_PAUSE: Duration = Duration::from_secs(180);
/// The time limit for the end of being an endpoint.
const TIME_TO_LEAVE: Duration = Duration::from_secs(2);
/// The time limit for one request.
const TIME: Duration = Duration::from_secs(30);

/// How clients in the cluster reach the API.
#[derive(Clone, Debug)]
pub struct ApiAddress {
    /// The address of the Service, the first one of its range.
    pub service: IpAddr,
    /// The ranges of addresses of Services, as texts.
    pub ranges: Vec<String>,
    /// The port where this daemon listens.
    pub port: u16,
    /// The address of this daemon for others. `None` if it listens for this machine only: then the
    /// Service has no endpoints.
    pub advertised: Option<IpAddr>,
}

/// Keeps the Service of the API.
#[derive(Clone)]
pub struct KubernetesServiceController {
    registry: Registry,
    address: ApiAddress,
    /// The leases of the servers that share the store. `None` if no other server does.
    leases: Option<MasterLeases>,
    /// Whether this server is no endpoint any more. It is held while endpoints are changed, so
    /// that a server that leaves is not put back.
    has_left: Arc<Mutex<bool>>,
}

impl KubernetesServiceController {
    /// Keeps the Service in a registry.
    pub fn new(
        registry: Registry,
        address: ApiAddress,
        leases: Option<MasterLeases>,
    ) -> KubernetesServiceController {
        KubernetesServiceController {
            registry,
            address,
            leases,
            has_left: Arc::default(),
        }
    }

    /// Keeps the Service, and repairs what Services take of the cluster. It may be cancelled at any
    /// point. A repair may take longer than a lease lasts, so it goes on beside.
    pub async fn run(self) {
        tokio::join!(self.keep_on(), self.repair_on());
    }

    async fn keep_on(&self) {
        let mut turns = tokio::time::interval(PAUSE);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            while let Err(status) = self.keep().await {
                tracing::warn!(%status, "can't keep the service of the API, trying again");
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }

    async fn repair_on(&self) {
        let mut repaired = Repaired::default();
        loop {
            let pause = match self.repair(&repaired).await {
                Ok(done) => {
                    repaired = done;
                    REPAIR_PAUSE
                }
                Err(status) => {
                    tracing::warn!(%status, "can't repair what services take, trying again");
                    PAUSE_AFTER_ERROR
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn context(&self) -> RequestContext {
        RequestContext::internal("kubernetes-service", Instant::now() + TIME)
    }

    /// Makes what is missing. Resources that are not served are left alone.
    ///
    /// # Errors
    /// The first failed read or write.
    pub async fn keep(&self) -> Result<(), Box<Status>> {
        let catalog = self.registry.current();
        let find = |resource| catalog.named(resource);
        if let Some(namespaces) = find("namespaces") {
            let default = NamespacedName::in_cluster(NAMESPACE);
            if found(namespaces.read(default, "0").await)?.is_none() {
                ensure_system_namespaces(&self.registry).await?;
            }
        }
        if let Some(cidrs) = find("servicecidrs.networking.k8s.io") {
            self.keep_range(&cidrs).await?;
        }
        if let Some(services) = find("services") {
            self.keep_service(&services).await?;
        }
        let Some(advertised) = self.address.advertised else {
            return Ok(());
        };
        let has_left = self.has_left.lock().await;
        if *has_left {
            return Ok(());
        }
        let mut servers = vec![advertised];
        if let Some(leases) = &self.leases {
            let renewing = leases.renew(advertised, self.context().origin());
            renewing.await.map_err(Status::internal)?;
            servers.extend(leases.servers().await.map_err(Status::internal)?);
        }
        self.keep_all_endpoints(servers).await
    }

    /// Takes this server from the endpoints, before it stops. Others do it when its lease has run
    /// out, if this fails or takes too long.
    pub async fn leave(&self) {
        let (Some(leases), Some(advertised)) = (&self.leases, self.address.advertised) else {
            return;
        };
        let leaving = async {
            let mut has_left = self.has_left.lock().await;
            *has_left = true;
            let removing = leases.remove(advertised, self.context().origin());
            removing.await.map_err(Status::internal)?;
            // The last one stays, as a Service without endpoints helps nobody.
            match leases.servers().await.map_err(Status::internal)? {
                none if none.is_empty() => Ok(()),
                servers => self.keep_all_endpoints(servers).await,
            }
        };
        let outcome: Result<(), Box<Status>> = tokio::time::timeout(TIME_TO_LEAVE, leaving)
            .await
            .unwrap_or_else(|late| Err(Box::new(Status::internal(late))));
        if let Err(status) = outcome {
            tracing::warn!(%status, "can't take this server from the endpoints of the API");
        }
    }

    /// Makes these servers the endpoints of the Service, in both kinds.
    async fn keep_all_endpoints(&self, mut servers: Vec<IpAddr>) -> Result<(), Box<Status>> {
        servers.sort_unstable();
        servers.dedup();
        let catalog = self.registry.current();
        if let Some(endpoints) = catalog.named("endpoints") {
            self.keep_endpoints(&endpoints, &Members::Endpoints, &servers)
                .await?;
        }
        if let Some(slices) = catalog.named("endpointslices.discovery.k8s.io") {
            self.keep_endpoints(&slices, &Members::Slice, &servers)
                .await?;
        }
        Ok(())
    }

    async fn repair(&self, before: &Repaired) -> Result<Repaired, Box<Status>> {
        let services = self.registry.current().named("services");
        let (Some(services), Some(allocators)) = (services, self.registry.service_allocators())
        else {
            return Ok(Repaired::default());
        };
        let repaired = allocators.repair(&services, before).await?;
        if repaired.mended > 0 {
            let count = repaired.mended;
            tracing::warn!(count, "mended addresses and ports of services");
        }
        Ok(repaired)
    }

    async fn create(
        &self,
        store: &RegistryStore,
        namespace: Option<&str>,
        object: Object,
    ) -> Result<(), Box<Status>> {
        let options = WriteOptions::default();
        match store
            .create(&self.context(), namespace, object, &options)
            .await
        {
            Err(status) if status.reason != StatusReason::ALREADY_EXISTS => Err(status),
            // Another daemon was faster.
            _ => Ok(()),
        }
    }

    /// The range of addresses, which is ready from the start.
    async fn keep_range(&self, cidrs: &RegistryStore) -> Result<(), Box<Status>> {
        let at = NamespacedName::in_cluster(NAME);
        let range = match found(cidrs.read(at, "0").await)? {
            Some(range) => range,
            None => {
                let spec = json!({ "cidrs": self.address.ranges });
                let object = object(cidrs.definition(), json!({"name": NAME}), [("spec", spec)]);
                self.create(cidrs, None, object).await?;
                Object::default()
            }
        };
        if range.at(&["status", "conditions"]).is_some() {
            return Ok(());
        }
        let now = crate::api::object::whole_seconds(clock::now());
        let status = json!({"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": now,
            "message": "Kubernetes default Service CIDR is ready",
        }]});
        let range = object(
            cidrs.definition(),
            json!({"name": NAME}),
            [("status", status)],
        );
        let source = UpdateSource::Apply {
            object: range,
            faults: Vec::new(),
        };
        let context = RequestContext {
            manager: RANGE_CONTROLLER.to_owned(),
            ..self.context()
        };
        let options = WriteOptions {
            force: true,
            ..WriteOptions::default()
        };
        let part = cidrs.definition().subresource("status");
        let applying = cidrs.update(&context, at, part, source, &options);
        applying.await.map(|_| ())
    }

    async fn keep_service(&self, services: &Arc<RegistryStore>) -> Result<(), Box<Status>> {
        let at = NamespacedName {
            namespace: Some(NAMESPACE),
            name: NAME,
        };
        let ports = json!([{
            "name": "https", "protocol": "TCP", "port": 443, "targetPort": self.address.port,
        }]);
        let Some(service) = found(services.read(at, "0").await)? else {
            let metadata = json!({
                "name": NAME, "namespace": NAMESPACE,
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            });
            let spec = json!({
                "clusterIP": self.address.service.to_string(), "ports": ports,
                "sessionAffinity": "None", "type": "ClusterIP", "ipFamilyPolicy": "SingleStack",
            });
            let service = object(services.definition(), metadata, [("spec", spec)]);
            let created = self.create(services, Some(NAMESPACE), service).await;
            return match created {
                // Whoever makes the Service at the same time has taken its address first.
                Err(status) if self.is_made_by_another(services, at).await => {
                    tracing::debug!(%status, "another daemon has made the service of the API");
                    Ok(())
                }
                outcome => outcome,
            };
        };
        if self.leases.is_some() || service.at(&["spec", "ports"]) == Some(&ports) {
            return Ok(());
        }
        let mut service = service;
        if let Some(Value::Object(spec)) = service.0.get_mut("spec") {
            spec.insert("ports".to_owned(), ports);
        }
        self.replace(services, at, service).await
    }

    /// Whether somebody else makes the Service, within a moment.
    async fn is_made_by_another(&self, services: &RegistryStore, at: NamespacedName<'_>) -> bool {
        for _ in 0..20 {
            if services.get(at, "").await.is_ok() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    async fn replace(
        &self,
        store: &RegistryStore,
        at: NamespacedName<'_>,
        object: Object,
    ) -> Result<(), Box<Status>> {
        let (context, options) = (self.context(), WriteOptions::default());
        let source = UpdateSource::Replace(object.into());
        match store.update(&context, at, None, source, &options).await {
            // Somebody else has changed it. It is looked at again.
            Err(status) if status.reason != StatusReason::CONFLICT => Err(status),
            _ => Ok(()),
        }
    }

    /// Keeps these servers, and no others, the endpoints of the Service.
    async fn keep_endpoints(
        &self,
        store: &RegistryStore,
        members: &Members,
        servers: &[IpAddr],
    ) -> Result<(), Box<Status>> {
        let at = NamespacedName {
            namespace: Some(NAMESPACE),
            name: NAME,
        };
        let stored = found(store.read(at, "0").await)?;
        let own =
            vec![json!({"name": "https", "port": self.address.port, "protocol": "TCP"})].into();
        // A server whose port is another one does not change that of the others.
        let is_alone = self.leases.is_none() || servers.len() < 2;
        let known = stored.as_ref().and_then(|stored| members.ports(stored));
        let ports = known.filter(|_| !is_alone).unwrap_or(own);
        let wanted = members.written(servers, stored.as_ref(), ports);
        match stored {
            None => {
                let metadata = json!({
                    "name": NAME, "namespace": NAMESPACE, "labels": members.labels(),
                });
                let object = object(store.definition(), metadata, wanted);
                self.create(store, Some(NAMESPACE), object).await
            }
            Some(stored)
                if wanted
                    .iter()
                    .all(|(name, value)| stored.0.get(*name) == Some(value)) =>
            {
                Ok(())
            }
            Some(mut stored) => {
                for (name, value) in wanted {
                    stored.0.insert(name.to_owned(), value);
                }
                self.replace(store, at, stored).await
            }
        }
    }
}

/// The two kinds that tell the endpoints of a Service.
enum Members {
    Endpoints,
    Slice,
}

impl Members {
    fn labels(&self) -> Value {
        match self {
            Members::Endpoints => json!({"endpointslice.kubernetes.io/skip-mirror": "true"}),
            Members::Slice => json!({"kubernetes.io/service-name": NAME}),
        }
    }

    /// The ports that a stored object tells.
    fn ports(&self, stored: &Object) -> Option<Value> {
        let ports = match self {
            Members::Endpoints => stored.0.get("subsets")?.pointer("/0/ports"),
            Members::Slice => stored.0.get("ports"),
        };
        ports.cloned().filter(Value::is_array)
    }

    /// The members of the object that tell these addresses. A slice has those of one family, which
    /// does not change.
    fn written(
        &self,
        addresses: &[IpAddr],
        stored: Option<&Object>,
        port: Value,
    ) -> Vec<(&'static str, Value)> {
        match self {
            Members::Endpoints => {
                let addresses = addresses
                    .iter()
                    .map(|address| json!({"ip": address.to_string()}));
                let subset = json!({"addresses": addresses.collect::<Vec<_>>(), "ports": port});
                vec![("subsets", json!([subset]))]
            }
            Members::Slice => {
                let is_v4 = match stored.map(|stored| stored.text(&["addressType"])) {
                    Some("IPv6") => false,
                    Some("IPv4") => true,
                    _ => addresses.first().is_none_or(IpAddr::is_ipv4),
                };
                let of_family = addresses.iter().filter(|one| one.is_ipv4() == is_v4);
                let endpoints = of_family.map(|address| {
                    json!({"addresses": [address.to_string()], "conditions": {"ready": true}})
                });
                vec![
                    ("addressType", if is_v4 { "IPv4" } else { "IPv6" }.into()),
                    ("endpoints", endpoints.collect::<Vec<_>>().into()),
                    ("ports", port),
                ]
            }
        }
    }
}

/// An object, or `None` if it is absent.
fn found(read: Result<Object, Box<Status>>) -> Result<Option<Object>, Box<Status>> {
    match read {
        Ok(object) => Ok(Some(object)),
        Err(status) if status.code == 404 => Ok(None),
        Err(status) => Err(status),
    }
}

/// A new object of a resource.
fn object(
    of: &ResourceDefinition,
    metadata: Value,
    members: impl IntoIterator<Item = (&'static str, Value)>,
) -> Object {
    let mut all = Map::new();
    all.insert("metadata".to_owned(), metadata);
    all.extend(
        members
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    let mut object = Object::of(all);
    object.set_type(&of.kind, &of.api_version());
    object
}
