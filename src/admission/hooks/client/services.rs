//! Where the Services of webhooks and of APIServices are (HK-43, CN-17).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value as Json;

use crate::admission::client::ResourceClient;
use crate::api::object::Object;
use crate::api::status::Status;
use crate::egress::{
    RouteError, Routing, ServiceBackend, ServicePort, ServiceResolver, ServiceView, route,
};

/// The label by which an EndpointSlice names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The EndpointSlices of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceEndpoints {
    /// The number of slices.
    pub slices: usize,
    /// The addresses that are ready.
    pub ready: Vec<ServiceBackend>,
}

/// Finds Services in the cluster.
pub struct ClusterServices {
    /// The Services.
    pub services: Arc<dyn ResourceClient>,
    /// Their EndpointSlices.
    pub slices: Arc<dyn ResourceClient>,
    /// The `host:port` of this daemon, which is the Service `kubernetes` (HK-43).
    pub own: String,
    /// Whether requests go to endpoints (`--enable-aggregator-routing`).
    pub to_endpoints: bool,
    /// The next endpoint.
    pub turn: AtomicUsize,
}

impl ClusterServices {
    async fn find(&self, namespace: &str, name: &str, port: u16) -> Result<String, RouteError> {
        if (namespace, name, port) == ("default", "kubernetes", 443) {
            return Ok(self.own.clone());
        }
        let found = self.service(namespace, name).await;
        let unreadable = |status: Box<Status>| RouteError::Unreadable(status.to_string());
        let Some(service) = found.map_err(unreadable)? else {
            return Err(RouteError::NotFound(name.to_owned()));
        };
        if !self.to_endpoints {
            return route(&service, &[], port, Routing::ClusterIp);
        }
        let endpoints = self.endpoints(namespace, name).await;
        let ready = endpoints.map_err(unreadable)?.ready;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        route(&service, &ready, port, Routing::Endpoints(turn))
    }

    /// Returns a Service, if it is there.
    ///
    /// # Errors
    /// It could not be read.
    pub async fn service(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ServiceView>, Box<Status>> {
        let found = self.services.get(Some(namespace), name).await?;
        Ok(found.as_ref().map(view))
    }

    /// Returns the endpoints of a Service.
    ///
    /// # Errors
    /// They could not be read.
    pub async fn endpoints(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<ServiceEndpoints, Box<Status>> {
        let label = (SERVICE_LABEL, name);
        let slices = self.slices.labelled(namespace, label).await?;
        Ok(ServiceEndpoints {
            slices: slices.len(),
            ready: slices.iter().flat_map(backends).collect(),
        })
    }

    /// Whether an address that was found is a cluster IP.
    pub(super) fn is_cluster_ip(&self, address: &str) -> bool {
        let is_ip = address.parse::<SocketAddr>().is_ok();
        is_ip && !self.to_endpoints && address != self.own
    }
}

impl ServiceResolver for ClusterServices {
    fn resolve<'r>(
        &'r self,
        namespace: &'r str,
        name: &'r str,
        port: u16,
    ) -> BoxFuture<'r, Result<String, RouteError>> {
        self.find(namespace, name, port).boxed()
    }
}

fn view(service: &Object) -> ServiceView {
    let text = |name: &str| service.text(&["spec", name]).to_owned();
    let families = service.items(&["spec", "ipFamilies"]);
    ServiceView {
        name: service.name().to_owned(),
        kind: text("type"),
        cluster_ip: text("clusterIP"),
        external_name: text("externalName"),
        family: families
            .first()
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned(),
        ports: ports(service.items(&["spec", "ports"])),
    }
}

fn ports(ports: &[Json]) -> Vec<ServicePort> {
    let ports = ports.iter().filter_map(|port| {
        let number = port.get("port").and_then(Json::as_u64)?;
        let name = port.get("name").and_then(Json::as_str);
        Some(ServicePort {
            name: name.unwrap_or_default().to_owned(),
            port: u16::try_from(number).ok()?,
        })
    });
    ports.collect()
}

/// Returns the ready addresses of an EndpointSlice. Readiness that is unknown counts.
fn backends(slice: &Object) -> Vec<ServiceBackend> {
    let ports = ports(slice.items(&["ports"]));
    let family = slice.text(&["addressType"]);
    let endpoints = slice.items(&["endpoints"]).iter();
    let ready = endpoints
        .filter(|endpoint| endpoint.pointer("/conditions/ready") != Some(&Json::Bool(false)));
    let addresses = ready.filter_map(|endpoint| {
        let address = endpoint.pointer("/addresses/0")?.as_str()?;
        Some(ServiceBackend {
            address: address.to_owned(),
            family: family.to_owned(),
            ports: ports.clone(),
        })
    });
    addresses.collect()
}
