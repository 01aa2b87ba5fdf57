//! Maintains the `kubernetes` Service, through which clients in the cluster reach the API, and the
//! ServiceCIDR of its address (API-228). Every daemon does so, as every kube-apiserver does.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior};

use super::Milestone;
use super::ensure_system_namespaces;
use super::master_leases::MasterLeases;
use crate::api::object::Object;
use crate::api::options::WriteOptions;
use crate::api::resource::ResourceDefinition;
use crate::api::status::{Status, StatusReason};
use crate::clock;
use crate::registry::services::Repaired;
use crate::registry::{NamespacedName, Registry, RegistryStore, RequestContext, UpdateSource};

/// The name of the Service, of its endpoints and of the ServiceCIDR.
const NAME: &str = "kubernetes";
/// The namespace of the Service.
const NAMESPACE: &str = "default";
/// The field manager of the ServiceCIDR's condition, as in kube-apiserver.
const RANGE_CONTROLLER: &str = "kubernetes-service-cidr-controller";
/// The interval between checks of the Service.
const PAUSE: Duration = Duration::from_secs(10);
/// The pause after a failure.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
/// The interval between repairs of the addresses and ports that Services use.
const REPAIR_PAUSE: Duration = Duration::from_secs(180);
/// The time limit for removing this server from the endpoints.
const TIME_TO_LEAVE: Duration = Duration::from_secs(2);
/// How often a change of the endpoints is tried while other servers change them, too.
const ATTEMPTS: usize = 10;
/// The time limit for one request.
const TIME: Duration = Duration::from_secs(30);

/// The addresses at which clients reach the API.
#[derive(Clone, Debug)]
pub struct ApiAddress {
    /// The cluster IP of the Service, the first address of its range.
    pub service: IpAddr,
    /// The Service CIDRs, as texts.
    pub ranges: Vec<String>,
    /// The port at which others reach this daemon.
    pub port: u16,
    /// The port of the nodes for the Service, or 0.
    pub node_port: u16,
    /// The address of this daemon for other machines. `None` if it listens on loopback only, or
    /// something else keeps the endpoints: then the daemon keeps none.
    pub advertised: Option<IpAddr>,
}

/// The controller of the `kubernetes` Service.
#[derive(Clone)]
pub struct KubernetesServiceController {
    registry: Registry,
    address: ApiAddress,
    /// The leases of the servers that share the store. `None` if no other server does.
    leases: Option<MasterLeases>,
    /// Whether this server has left the endpoints. It is locked while endpoints are changed, so
    /// that a server that leaves is not added again.
    has_left: Arc<Mutex<bool>>,
    /// The result of the last repair.
    repaired: Arc<Mutex<Repaired>>,
    /// The progress of the start.
    pub milestones: ServiceMilestones,
}

/// The progress of the controller of the `kubernetes` Service after a start.
#[derive(Clone, Debug, Default)]
pub struct ServiceMilestones {
    /// The ServiceCIDR exists.
    pub range: Milestone,
    /// The Service exists, and has its endpoints.
    pub service: Milestone,
    /// The allocations of all Services were repaired once.
    pub repair: Milestone,
}

impl KubernetesServiceController {
    /// Creates the controller for the Service in a registry.
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
            repaired: Arc::default(),
            milestones: ServiceMilestones::default(),
        }
    }

    /// Maintains the Service, and repairs the allocations of Services. May be cancelled at any
    /// point. A repair may take longer than a lease lasts, so it runs concurrently.
    pub async fn run(self) {
        tokio::join!(self.keep_on(), self.repair_on());
    }

    async fn keep_on(&self) {
        let mut turns = tokio::time::interval(PAUSE);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            while let Err(status) = self.keep().await {
                tracing::warn!(%status, "reconciling the kubernetes service failed, retrying");
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }

    async fn repair_on(&self) {
        let mut pause = match self.milestones.repair.is_reached() {
            true => REPAIR_PAUSE,
            false => PAUSE_AFTER_ERROR,
        };
        loop {
            tokio::time::sleep(pause).await;
            pause = match self.repair().await {
                Ok(()) => REPAIR_PAUSE,
                Err(status) => {
                    tracing::warn!(%status, "repairing service allocations failed, retrying");
                    PAUSE_AFTER_ERROR
                }
            };
        }
    }

    fn context(&self) -> RequestContext {
        RequestContext::internal("kubernetes-service", Instant::now() + TIME)
    }

    /// Creates missing objects, and corrects others. Skips resources that are not served.
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
        let range = match find("servicecidrs.networking.k8s.io") {
            Some(cidrs) => self.keep_range(&cidrs).await,
            None => Ok(()),
        };
        self.milestones.range.reach_by(&range);
        range?;
        let service = match find("services") {
            Some(services) => self.keep_service(&services).await,
            None => Ok(()),
        };
        let service = match service {
            Ok(()) => self.keep_own_endpoints().await,
            refused => refused,
        };
        self.milestones.service.reach_by(&service);
        service
    }

    async fn keep_own_endpoints(&self) -> Result<(), Box<Status>> {
        let Some(advertised) = self.address.advertised else {
            return Ok(());
        };
        let has_left = self.has_left.lock().await;
        if *has_left {
            return Ok(());
        }
        if let Some(leases) = &self.leases {
            let renewing = leases.renew(advertised, self.context().origin());
            renewing.await.map_err(Status::internal)?;
        }
        self.keep_all_endpoints().await
    }

    /// Removes this server from the endpoints, before it stops. If this fails or takes too long,
    /// other servers remove it when its lease has expired.
    pub async fn leave(&self) {
        let (Some(leases), Some(advertised)) = (&self.leases, self.address.advertised) else {
            return;
        };
        let leaving = async {
            let mut has_left = self.has_left.lock().await;
            *has_left = true;
            let removing = leases.remove(advertised, self.context().origin());
            removing.await.map_err(Status::internal)?;
            self.keep_all_endpoints().await
        };
        let outcome: Result<(), Box<Status>> = tokio::time::timeout(TIME_TO_LEAVE, leaving)
            .await
            .unwrap_or_else(|late| Err(Box::new(Status::internal(late))));
        if let Err(status) = outcome {
            tracing::warn!(%status, "removing this server from the endpoints of the API failed");
        }
    }

    /// Makes the live servers the endpoints of the Service, in both kinds.
    async fn keep_all_endpoints(&self) -> Result<(), Box<Status>> {
        let catalog = self.registry.current();
        if let Some(endpoints) = catalog.named("endpoints") {
            self.keep_endpoints(&endpoints, &Members::Endpoints).await?;
        }
        if let Some(slices) = catalog.named("endpointslices.discovery.k8s.io") {
            self.keep_endpoints(&slices, &Members::Slice).await?;
        }
        Ok(())
    }

    /// The live servers, in order.
    async fn servers(&self) -> Result<Vec<IpAddr>, Box<Status>> {
        match &self.leases {
            Some(leases) => Ok(leases.servers().await.map_err(Status::internal)?),
            None => Ok(self.address.advertised.into_iter().collect()),
        }
    }

    /// Repairs the allocations of Services once.
    ///
    /// # Errors
    /// The first failed read or write.
    pub async fn repair(&self) -> Result<(), Box<Status>> {
        let services = self.registry.current().named("services");
        if let (Some(services), Some(allocators)) = (services, self.registry.service_allocators()) {
            let mut repaired = self.repaired.lock().await;
            *repaired = allocators.repair(&services, &repaired).await?;
            if repaired.mended > 0 {
                let count = repaired.mended;
                tracing::warn!(count, "repaired addresses and ports of services");
            }
        }
        self.milestones.repair.reach();
        Ok(())
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

    /// Creates the ServiceCIDR, which is ready from the start.
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
        let target = self.address.port;
        let (kind, ports) = match self.address.node_port {
            0 => (
                "ClusterIP",
                json!([{
                    "name": "https", "protocol": "TCP", "port": 443, "targetPort": target,
                }]),
            ),
            node_port => (
                "NodePort",
                json!([{
                    "name": "https", "protocol": "TCP", "port": 443, "targetPort": target,
                    "nodePort": node_port,
                }]),
            ),
        };
        let Some(service) = found(services.read(at, "0").await)? else {
            let metadata = json!({
                "name": NAME, "namespace": NAMESPACE,
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            });
            let spec = json!({
                "clusterIP": self.address.service.to_string(), "ports": ports,
                "sessionAffinity": "None", "type": kind, "ipFamilyPolicy": "SingleStack",
            });
            let service = object(services.definition(), metadata, [("spec", spec)]);
            let created = self.create(services, Some(NAMESPACE), service).await;
            return match created {
                // Another daemon that creates the Service at the same time has allocated its
                // address first.
                Err(status) if self.is_made_by_another(services, at).await => {
                    tracing::debug!(%status, "another daemon has created the kubernetes service");
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
            spec.insert("type".to_owned(), kind.into());
        }
        self.replace(services, at, service).await
    }

    /// Returns whether another daemon creates the Service within a moment.
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
            // Another writer has changed it. It is checked again later.
            Err(status) if status.reason != StatusReason::CONFLICT => Err(status),
            _ => Ok(()),
        }
    }

    /// Makes the live servers the only endpoints of the Service, in one of the two kinds.
    ///
    /// Each attempt reads the object from the store, then the leases, and replaces the object only
    /// if nobody has changed it since. In this order, a server that writes an outdated set loses
    /// against the one that has removed its lease, and no stale cache hides a change.
    async fn keep_endpoints(
        &self,
        store: &RegistryStore,
        members: &Members,
    ) -> Result<(), Box<Status>> {
        let mut refused = Ok(());
        for _ in 0..ATTEMPTS {
            refused = self.keep_endpoints_once(store, members).await;
            match &refused {
                Err(status) if is_lost_race(status) => {}
                _ => return refused,
            }
        }
        refused
    }

    async fn keep_endpoints_once(
        &self,
        store: &RegistryStore,
        members: &Members,
    ) -> Result<(), Box<Status>> {
        let at = NamespacedName {
            namespace: Some(NAMESPACE),
            name: NAME,
        };
        let stored = found(store.read(at, "").await)?;
        let servers = self.servers().await?;
        if servers.is_empty() {
            // The last server stays, because a Service without endpoints helps nobody.
            return Ok(());
        }
        let own =
            vec![json!({"name": "https", "port": self.address.port, "protocol": "TCP"})].into();
        // One of several servers does not change the port of the others.
        let is_alone = self.leases.is_none() || servers.len() < 2;
        let known = stored.as_ref().and_then(|stored| members.ports(stored));
        let ports = known.filter(|_| !is_alone).unwrap_or(own);
        let wanted = members.written(&servers, stored.as_ref(), ports);
        let (context, options) = (self.context(), WriteOptions::default());
        let Some(mut stored) = stored else {
            let metadata = json!({
                "name": NAME, "namespace": NAMESPACE, "labels": members.labels(),
            });
            let object = object(store.definition(), metadata, wanted);
            let creating = store.create(&context, Some(NAMESPACE), object, &options);
            return creating.await.map(drop);
        };
        if wanted
            .iter()
            .all(|(name, value)| stored.0.get(*name) == Some(value))
        {
            return Ok(());
        }
        for (name, value) in wanted {
            stored.0.insert(name.to_owned(), value);
        }
        let source = UpdateSource::Replace(stored.into());
        let updating = store.update(&context, at, None, source, &options);
        updating.await.map(drop)
    }
}

/// The two kinds of objects that contain the endpoints of a Service.
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

    /// The ports of a stored object.
    fn ports(&self, stored: &Object) -> Option<Value> {
        let ports = match self {
            Members::Endpoints => stored.0.get("subsets")?.pointer("/0/ports"),
            Members::Slice => stored.0.get("ports"),
        };
        ports.cloned().filter(Value::is_array)
    }

    /// The members of the object with these addresses. A slice has addresses of one family, which
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

/// Returns whether another server was faster.
fn is_lost_race(status: &Status) -> bool {
    status.reason == StatusReason::CONFLICT || status.reason == StatusReason::ALREADY_EXISTS
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::kinds::definitions::core;
    use crate::registry::tests::fixture::{Fixture, stored};

    fn address(number: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, number))
    }

    /// A server that shares a store with others.
    fn server(fixture: &Fixture, number: u8) -> KubernetesServiceController {
        let leases = MasterLeases::new(stored(&fixture.engine, Arc::new(core::masterleases())));
        let address = ApiAddress {
            node_port: 0,
            service: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
            ranges: vec!["10.0.0.0/24".to_owned()],
            port: 6443,
            advertised: Some(address(number)),
        };
        KubernetesServiceController::new(fixture.registry.clone(), address, Some(leases))
    }

    /// API-228: servers that come and go at the same time leave exactly those that are there, in
    /// both kinds.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn servers_that_leave_are_no_endpoints_however_busy_the_others_are_api_228() {
        let fixture = Fixture::over(|storages| storages);
        for round in 0..20 {
            let servers: Vec<_> = (1..=6).map(|number| server(&fixture, number)).collect();
            let tasks = servers.into_iter().enumerate().map(|(number, server)| {
                tokio::spawn(async move {
                    for _ in 0..5 {
                        // A lost race is an error that the loop of the controller repeats.
                        while server.keep().await.is_err() {}
                    }
                    if number >= 2 {
                        server.leave().await;
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.expect("it ends");
            }
            let wanted: Vec<Value> = [1, 2].map(|one| address(one).to_string().into()).into();
            let endpoints = fixture.get("endpoints", Some(NAMESPACE), NAME).await;
            let endpoints = endpoints.expect("it is there");
            let listed = endpoints.at(&["subsets"]).expect("subsets");
            let listed = listed.pointer("/0/addresses").and_then(Value::as_array);
            let listed = listed.expect("a list").iter().map(|one| one["ip"].clone());
            assert_eq!(listed.collect::<Vec<_>>(), wanted, "round {round}");
            let slice = fixture
                .get("endpointslices.discovery.k8s.io", Some(NAMESPACE), NAME)
                .await;
            let slice = slice.expect("it is there");
            let sliced = slice.at(&["endpoints"]).and_then(Value::as_array);
            let sliced = sliced.expect("a list").iter();
            let sliced: Vec<_> = sliced.map(|one| one["addresses"][0].clone()).collect();
            assert_eq!(sliced, wanted, "round {round}");
        }
    }
}
