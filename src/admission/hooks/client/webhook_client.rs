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
use super::{ClientConfig, PostError, ServiceReference, WebhookTransport};
use crate::admission::hooks::failure_lines::FailureLines;
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
    services: Arc<dyn ServiceResolver>,
    lines: FailureLines,
}

impl WebhookClient {
    /// Creates a client that finds Services by this resolver.
    pub fn new(client: Arc<EgressClient>, services: Arc<dyn ServiceResolver>) -> WebhookClient {
        WebhookClient {
            client,
            services,
            lines: FailureLines::default(),
        }
    }

    /// Logs why a Service may not answer.
    fn hint(&self, place: &Place, error: &EgressError) {
        let is_silent = match &error.failure {
            Failure::Deadline => true,
            Failure::Dial(why) => why.ends_with("i/o timeout"),
            _ => false,
        };
        if !is_silent || place.service.is_none() {
            return;
        }
        let why = error.to_string();
        if let Some((why, _)) = self.lines.turn(&place.origin, &why) {
            tracing::warn!(
                why,
                "the Service of a webhook does not answer; without a kube-proxy on this machine no \
                 cluster IP does: use a URL, or --enable-aggregator-routing"
            );
        }
    }

    async fn call(
        &self,
        server: &ClientConfig,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, PostError> {
        let place = Place::of(server)?;
        let target = self.target(server, &place, deadline).await?;
        for attempt in 1.. {
            let request = place.request(body.clone(), deadline);
            let answer = self
                .client
                .send(&target, request)
                .await
                .inspect_err(|error| self.hint(&place, error))
                .map_err(of_egress)?;
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

    async fn target(
        &self,
        server: &ClientConfig,
        place: &Place,
        deadline: Instant,
    ) -> Result<Target, PostError> {
        let bundle = BASE64_STANDARD.decode(&server.ca_bundle);
        let bundle = bundle.map_err(|error| PostError::Unusable(error.to_string()))?;
        let roots = match bundle.is_empty() {
            true => Roots::System,
            false => Roots::Bundle(bundle),
        };
        let address = match &place.service {
            None => Address::Url,
            Some((service, port)) => {
                let resolving = self
                    .services
                    .resolve(&service.namespace, &service.name, *port);
                let found = tokio::time::timeout_at(deadline, resolving).await;
                let found = found.map_err(|_| place.error(deadline, Failure::Deadline));
                let found = found.and_then(|found| {
                    let why = |error: crate::egress::RouteError| {
                        place.error(deadline, Failure::Dial(error.to_string()))
                    };
                    found.map_err(why)
                });
                Address::At(found.map_err(PostError::Failed)?)
            }
        };
        let settings = TargetSettings {
            http: match is_loopback(&place.origin) {
                true => HttpPolicy::Http1AndHttp2,
                false => HttpPolicy::Http1,
            },
            redirects: Redirects::Follow,
            address,
            ..TargetSettings::new(place.origin.clone(), roots)
        };
        Target::new(settings).map_err(|error| PostError::Unusable(error.to_string()))
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
