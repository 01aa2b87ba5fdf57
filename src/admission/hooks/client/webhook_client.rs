//! Sends reviews over the egress client.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::Instant;

use super::path::{cleaned, split};
use super::services::ClusterServices;
use super::{ClientConfig, PostError, ServiceReference, WebhookTransport};
use crate::admission::hooks::failure_lines::FailureLines;
use crate::auth::kubeconfigs::{Presented, UsersByServer};
use crate::auth::webhook::successful_body;
use crate::egress::{
    Address, EgressClient, EgressError, EgressRequest, Failure, HttpPolicy, Redirects, Roots,
    ServiceResolver, Target, TargetSettings,
};

/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// How often a webhook is asked that wants to be asked later.
const ATTEMPTS_MAX: usize = 11;

/// The port of a Service unless the reference names one.
const PORT: u16 = 443;

/// Sends reviews over the network.
pub struct WebhookClient {
    client: Arc<EgressClient>,
    services: Arc<ClusterServices>,
    users: Option<Arc<UsersByServer>>,
    hints: FailureLines,
}

impl WebhookClient {
    /// Creates a client that finds these Services, and authenticates by these users (HK-98).
    pub fn new(
        client: Arc<EgressClient>,
        services: Arc<ClusterServices>,
        users: Option<Arc<UsersByServer>>,
    ) -> WebhookClient {
        WebhookClient {
            client,
            services,
            users,
            hints: FailureLines::default(),
        }
    }

    async fn call(
        &self,
        server: &ClientConfig,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, PostError> {
        let place = Place::of(server)?;
        let presented = match &self.users {
            Some(users) => users.presented_to(&place.server()).await,
            None => None,
        };
        let presented = presented.unwrap_or_default();
        let address = self.address(&place, deadline).await?;
        let target = place.target(server, &presented, address.as_deref())?;
        for attempt in 1.. {
            let mut request = place.request(body.clone(), deadline);
            for (name, value) in &presented.headers {
                request.headers.append(name, value.clone());
            }
            let answer = self.client.send(&target, request).await;
            let answer = answer.map_err(|error| {
                self.hint(&place, address.as_deref(), &error.failure);
                of_egress(error)
            })?;
            let wait = pause(answer.status, &answer.headers).filter(|_| attempt < ATTEMPTS_MAX);
            let Some(wait) = wait else {
                return match successful_body(&answer) {
                    Ok(()) => Ok(answer.body),
                    Err(why) => Err(PostError::Failed(why)),
                };
            };
            // A webhook may name a time that no clock has.
            let next = Instant::now().checked_add(wait);
            if next.is_none_or(|next| next >= deadline) {
                tokio::time::sleep_until(deadline).await;
                return Err(PostError::Failed(place.error(deadline, Failure::Deadline)));
            }
            tokio::time::sleep(wait).await;
        }
        Err(PostError::Failed(place.error(deadline, Failure::Deadline)))
    }

    /// Returns the `host:port` of the Service of a webhook, if it is one.
    async fn address(&self, place: &Place, deadline: Instant) -> Result<Option<String>, PostError> {
        let Some((service, port)) = &place.service else {
            return Ok(None);
        };
        let resolving = self
            .services
            .resolve(&service.namespace, &service.name, *port);
        let found = tokio::time::timeout_at(deadline, resolving).await;
        let found = found.map_err(|_| place.error(deadline, Failure::Deadline));
        let found = found.and_then(|found| {
            found.map_err(|error| place.error(deadline, Failure::Dial(error.to_string())))
        });
        found.map(Some).map_err(PostError::Failed)
    }

    /// Reminds the operator that cluster IPs need a kube-proxy, if a Service was not reached at
    /// its one.
    fn hint(&self, place: &Place, address: Option<&str>, failure: &Failure) {
        let is_unreached = matches!(failure, Failure::Deadline | Failure::Dial(_));
        let Some(((service, _), address)) = place.service.as_ref().zip(address) else {
            return;
        };
        let about = (&service.namespace, &service.name);
        if is_unreached
            && self.services.is_cluster_ip(address)
            && self.hints.turn(about, "").is_some()
        {
            tracing::warn!(
                service = %format_args!("{}/{}", service.namespace, service.name),
                address,
                "the Service of a webhook was not reached at its cluster IP; no cluster IP is \
                 reachable without a kube-proxy on this machine: name the webhook by its url, or \
                 use --enable-aggregator-routing"
            );
        }
    }
}

impl WebhookTransport for WebhookClient {
    fn post<'p>(
        &'p self,
        server: &'p ClientConfig,
        body: Bytes,
        deadline: Instant,
    ) -> BoxFuture<'p, Result<Bytes, PostError>> {
        self.call(server, body, deadline).boxed()
    }
}

/// Where a webhook is.
struct Place {
    /// Scheme, host and port.
    origin: String,
    /// The path, cleaned.
    path: String,
    /// The Service and its port, if the webhook is one.
    service: Option<(ServiceReference, u16)>,
}

impl Place {
    fn of(server: &ClientConfig) -> Result<Place, PostError> {
        if let Some(service) = &server.service {
            let port = service.port.unwrap_or(PORT);
            return Ok(Place {
                origin: format!("https://{}.{}.svc:{port}", service.name, service.namespace),
                path: cleaned(service.path.as_deref().unwrap_or_default()),
                service: Some((service.clone(), port)),
            });
        }
        let Some(url) = server.url.as_deref().filter(|url| !url.is_empty()) else {
            let why = "webhook configuration must have either service or URL";
            return Err(PostError::Unusable(why.to_owned()));
        };
        let (origin, path) = split(url);
        Ok(Place {
            origin: origin.to_owned(),
            path: cleaned(path),
            service: None,
        })
    }

    /// Returns the server with everything that a connection to it needs.
    fn target(
        &self,
        server: &ClientConfig,
        presented: &Presented,
        address: Option<&str>,
    ) -> Result<Target, PostError> {
        let bundle = BASE64_STANDARD.decode(&server.ca_bundle);
        let bundle = bundle.map_err(|error| PostError::Unusable(error.to_string()))?;
        let roots = match bundle.is_empty() {
            true => Roots::System,
            false => Roots::Bundle(bundle),
        };
        let settings = TargetSettings {
            http: match is_loopback(&self.origin) {
                true => HttpPolicy::Http1AndHttp2,
                false => HttpPolicy::Http1,
            },
            redirects: Redirects::Follow,
            address: address.map_or(Address::Url, |found| Address::At(found.to_owned())),
            credentials: presented.credentials.clone(),
            identity: presented.identity.clone(),
            ..TargetSettings::new(self.origin.clone(), roots)
        };
        Target::new(settings).map_err(|error| PostError::Unusable(error.to_string()))
    }

    /// Returns the `host:port` by which users of kubeconfigs are chosen.
    fn server(&self) -> String {
        let authority = self.origin.split("://").nth(1).unwrap_or_default();
        let port = authority.rsplit_once(':').map(|(_, port)| port);
        let has_port = port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        match has_port {
            true => authority.to_owned(),
            false => format!("{authority}:{PORT}"),
        }
    }

    /// Returns the path with the time that is left, in whole seconds (HK-19).
    fn path_until(&self, deadline: Instant) -> String {
        let left = deadline.saturating_duration_since(Instant::now());
        let seconds = left.as_millis().div_ceil(1000);
        format!("{}?timeout={seconds}s", self.path)
    }

    fn request(&self, body: Bytes, deadline: Instant) -> EgressRequest {
        let mut headers = HeaderMap::new();
        let mut set = |name, text| headers.insert(name, HeaderValue::from_static(text));
        set(ACCEPT, "application/json, */*");
        set(CONTENT_TYPE, "application/json");
        set(USER_AGENT, "kube-apiserver-admission");
        EgressRequest {
            method: Method::POST,
            path: self.path_until(deadline),
            headers,
            body,
            deadline,
            answer_bytes_max: ANSWER_BYTES_MAX,
        }
    }

    /// Returns the text of a request that was not sent.
    fn error(&self, deadline: Instant, failure: Failure) -> String {
        let error = EgressError {
            method: Method::POST,
            url: format!("{}{}", self.origin, self.path_until(deadline)),
            failure,
        };
        error.to_string()
    }
}

fn of_egress(error: EgressError) -> PostError {
    let text = error.to_string();
    match error.failure {
        Failure::Roots | Failure::Identity(_) => PostError::Unusable(text),
        Failure::Body(_) => PostError::Failed(format!(
            "unexpected error when reading response body. Please retry. Original error: {text}"
        )),
        _ => PostError::Failed(text),
    }
}

/// Returns how long a webhook wants to be left alone before it is asked again (HK-41).
fn pause(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Whether a URL names this machine, so that HTTP/2 may be used (HK-45).
fn is_loopback(origin: &str) -> bool {
    let authority = origin.split("://").nth(1).unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_chosen_by_the_host_and_the_port_hk_98() {
        for (url, server) in [
            ("https://a.example/x", "a.example:443"),
            ("https://a.example:8443/x", "a.example:8443"),
            ("https://[::1]/x", "[::1]:443"),
            ("https://[::1]:1", "[::1]:1"),
        ] {
            let config = ClientConfig {
                url: Some(url.to_owned()),
                ..ClientConfig::default()
            };
            assert_eq!(Place::of(&config).unwrap().server(), server);
        }
        let service = ServiceReference {
            namespace: "n".to_owned(),
            name: "s".to_owned(),
            port: Some(9),
            path: None,
        };
        let config = ClientConfig {
            service: Some(service),
            ..ClientConfig::default()
        };
        assert_eq!(Place::of(&config).unwrap().server(), "s.n.svc:9");
    }
}
