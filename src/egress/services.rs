//! Where the requests to a Service go. Pure, except for the trait.

use futures_util::future::BoxFuture;

/// A Service as far as routing needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceView {
    /// Its name.
    pub name: String,
    /// `spec.type`; empty counts as ClusterIP.
    pub kind: String,
    /// `spec.clusterIP`.
    pub cluster_ip: String,
    /// `spec.externalName`.
    pub external_name: String,
    /// The first of `spec.ipFamilies`, whose addresses are preferred.
    pub family: String,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name, which ports of endpoints have too.
    pub name: String,
    /// Its number.
    pub port: u16,
}

/// A ready address of a Service's endpoints, and its ports by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceBackend {
    /// The IP address.
    pub address: String,
    /// Its family: `IPv4` or `IPv6`.
    pub family: String,
    /// The ports.
    pub ports: Vec<ServicePort>,
}

/// Whether requests go to a Service's own address or to one of its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// To the cluster IP.
    ClusterIp,
    /// To an endpoint (`--enable-aggregator-routing`), which the number chooses: by turns or at
    /// random.
    Endpoints(usize),
}

/// Why a Service cannot be reached, in kube-apiserver's words (HK-43).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The Service is absent.
    #[error("service \"{0}\" not found")]
    NotFound(String),
    /// It has no port of this number.
    #[error("no service port {port} found for service \"{name}\"")]
    NoPort {
        /// The Service.
        name: String,
        /// The number.
        port: u16,
    },
    /// It is headless.
    #[error("cannot route to service with ClusterIP \"{0}\"")]
    Headless(String),
    /// Its type is unknown, or has no endpoints.
    #[error("unsupported service type \"{0}\"")]
    Kind(String),
    /// None of its endpoints is ready.
    #[error("no endpoints available for service \"{0}\"")]
    NoEndpoints(String),
    /// It could not be read.
    #[error("{0}")]
    Unreadable(String),
}

/// Finds the `host:port` of Services. The registry implements it over its caches.
pub trait ServiceResolver: Send + Sync {
    /// Returns where requests for a port of a Service go now.
    fn resolve<'r>(
        &'r self,
        namespace: &'r str,
        name: &'r str,
        port: u16,
    ) -> BoxFuture<'r, Result<String, RouteError>>;
}

/// Returns the `host:port` for a port of a Service. The endpoints are those that are ready.
///
/// # Errors
/// [`RouteError`].
pub fn route(
    service: &ServiceView,
    ready: &[ServiceBackend],
    port: u16,
    routing: Routing,
) -> Result<String, RouteError> {
    let of_endpoints = match (routing, &*service.kind) {
        (Routing::ClusterIp, "ExternalName") => {
            return Ok(authority(&service.external_name, port));
        }
        (Routing::ClusterIp, "" | "ClusterIP" | "NodePort" | "LoadBalancer") => None,
        (Routing::Endpoints(turn), "" | "ClusterIP" | "NodePort" | "LoadBalancer") => Some(turn),
        (_, kind) => return Err(RouteError::Kind(kind.to_owned())),
    };
    let is_headless = matches!(&*service.cluster_ip, "" | "None");
    if of_endpoints.is_none() && is_headless {
        return Err(RouteError::Headless(service.cluster_ip.clone()));
    }
    // linear: a Service has a few ports.
    let found = service.ports.iter().find(|one| one.port == port);
    let found = found.ok_or_else(|| RouteError::NoPort {
        name: service.name.clone(),
        port,
    })?;
    let Some(turn) = of_endpoints else {
        return Ok(authority(&service.cluster_ip, port));
    };
    let reachable = ready.iter().filter_map(|backend| {
        // linear: an endpoint has a few ports.
        let port = backend.ports.iter().find(|one| one.name == found.name)?;
        Some((&*backend.family, &*backend.address, port.port))
    });
    let (first, others): (Vec<_>, Vec<_>) =
        reachable.partition(|(family, ..)| *family == service.family);
    let reachable = if first.is_empty() { others } else { first };
    let chosen = turn.checked_rem(reachable.len());
    let chosen = chosen.and_then(|place| reachable.get(place));
    match chosen {
        Some((_, address, port)) => Ok(authority(address, *port)),
        None => Err(RouteError::NoEndpoints(service.name.clone())),
    }
}

/// Returns a host and port as in a URL.
pub fn authority(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, port: u16) -> ServicePort {
        let name = name.to_owned();
        ServicePort { name, port }
    }

    fn service(kind: &str, cluster_ip: &str) -> ServiceView {
        ServiceView {
            name: "s".to_owned(),
            kind: kind.to_owned(),
            cluster_ip: cluster_ip.to_owned(),
            external_name: "a.example".to_owned(),
            family: String::new(),
            ports: vec![port("http", 80), port("https", 443)],
        }
    }

    fn text(routed: Result<String, RouteError>) -> String {
        routed.unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn a_service_is_reached_at_its_address_or_external_name_hk_43() {
        for (kind, ip, number, expected) in [
            ("ClusterIP", "10.0.0.1", 443, "10.0.0.1:443"),
            ("", "fd00::1", 80, "[fd00::1]:80"),
            ("NodePort", "10.0.0.1", 80, "10.0.0.1:80"),
            ("LoadBalancer", "10.0.0.1", 80, "10.0.0.1:80"),
            ("ExternalName", "", 8443, "a.example:8443"),
            (
                "ClusterIP",
                "10.0.0.1",
                1,
                "no service port 1 found for service \"s\"",
            ),
            (
                "ClusterIP",
                "None",
                443,
                "cannot route to service with ClusterIP \"None\"",
            ),
            ("Odd", "10.0.0.1", 443, "unsupported service type \"Odd\""),
        ] {
            let routed = route(&service(kind, ip), &[], number, Routing::ClusterIp);
            assert_eq!(text(routed), expected, "{kind} {ip} {number}");
        }
        let absent = RouteError::NotFound("x".to_owned());
        assert_eq!(absent.to_string(), "service \"x\" not found");
    }

    #[test]
    fn endpoints_of_the_first_family_are_preferred_cn_17() {
        let backend = |address: &str, family: &str| ServiceBackend {
            address: address.to_owned(),
            family: family.to_owned(),
            ports: vec![port("https", 8443)],
        };
        let (four, six) = (backend("10.1.0.1", "IPv4"), backend("fd00::3", "IPv6"));
        let mut service = service("ClusterIP", "None");
        service.family = "IPv6".to_owned();
        let to = |ready: &[ServiceBackend], turn| {
            text(route(&service, ready, 443, Routing::Endpoints(turn)))
        };
        for turn in 0..3 {
            assert_eq!(to(&[four.clone(), six.clone()], turn), "[fd00::3]:8443");
        }
        assert_eq!(to(std::slice::from_ref(&four), 0), "10.1.0.1:8443");
    }

    #[test]
    fn endpoints_are_chosen_by_turns_among_those_with_the_port_hk_43() {
        let backend = |address: &str, name: &str| ServiceBackend {
            address: address.to_owned(),
            family: "IPv4".to_owned(),
            ports: vec![port(name, 8443)],
        };
        let ready = [
            backend("10.1.0.1", "https"),
            backend("10.1.0.2", "metrics"),
            backend("fd00::3", "https"),
        ];
        let to = |kind: &str, number, turn| {
            let service = service(kind, "None");
            text(route(&service, &ready, number, Routing::Endpoints(turn)))
        };
        assert_eq!(to("ClusterIP", 443, 0), "10.1.0.1:8443");
        assert_eq!(to("ClusterIP", 443, 1), "[fd00::3]:8443");
        assert_eq!(to("ClusterIP", 443, 2), "10.1.0.1:8443");
        assert_eq!(
            to("ClusterIP", 80, 0),
            "no endpoints available for service \"s\""
        );
        assert_eq!(
            to("ClusterIP", 1, 0),
            "no service port 1 found for service \"s\""
        );
        assert_eq!(
            to("ExternalName", 443, 0),
            "unsupported service type \"ExternalName\""
        );
    }
}
