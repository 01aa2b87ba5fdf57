//! Commands and port forwarding: upgrades that are copied between the client and a kubelet (CN-47
//! to CN-55, CN-66 to CN-69).

use std::net::IpAddr;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, EXPECT, HOST, HeaderName};
use http::{HeaderMap, Version};
use tokio::time::Instant;

use super::super::{Answered, watch};
use super::asked::{ANSWER_WITHIN, Found, failed, refused};
use super::stopping;
use super::translated::{self, Newer};
use crate::api::status::Status;
use crate::egress::headers::{add_upgrade, append_client, end_to_end, wants_upgrade};
use crate::egress::{UpgradeAnswer, UpgradeRequest};
use crate::registry::rest::KubeletRequest;
use crate::server::metrics::LongRunning;
use crate::server::request_scope::RequestScope;
use crate::server::routes::Target;
use crate::server::sessions::{is_websocket, relayed};
use crate::transport::{ConnectionFacts, RequestBody};

/// Headers that do not go to the kubelet.
const LEFT_OUT: [HeaderName; 4] = [AUTHORIZATION, CONTENT_LENGTH, EXPECT, HOST];
const IMPERSONATION: &str = "impersonate-";

/// Asks the kubelet for an upgrade, and has the connection relayed after it.
pub(super) async fn stream(
    scope: &RequestScope<'_>,
    target: &Target,
    request: KubeletRequest,
    body: RequestBody,
) -> Answered {
    let facts = scope.parts.extensions.get::<ConnectionFacts>();
    if scope.parts.version != Version::HTTP_11 || !wants_upgrade(scope.headers) {
        return Err(Box::new(Status::bad_request("Upgrade request required")));
    }
    if !matches!(body, RequestBody::Empty) {
        let text = "the body of an upgrade request must be empty";
        return Err(Box::new(Status::bad_request(text)));
    }
    let headers = passed_on(scope.headers, facts.map(|facts| facts.peer.ip()));
    let seat = watch::seat(scope)?;
    let subresource = target.storage.subresource().unwrap_or_default();
    let resource = target.storage.resource();
    let running = LongRunning::begin(&scope.parts.method, resource, subresource);
    let kubelets = &scope.server.kubelets;
    let kubelet = kubelets.target(&request.host, request.port, false).await;
    let kubelet = kubelet.map_err(Status::unknown)?;
    let is_translated = is_websocket(scope.headers) && !request.takes_websockets;
    let newer = Newer::of(scope.headers, subresource).filter(|_| is_translated);
    if let Some(newer) = newer {
        let found = Found {
            kubelet,
            path: request.path,
            guards: (seat, running),
        };
        return match newer {
            Newer::Command => translated::command(scope, found),
            Newer::Tunnel(protocols) => translated::tunnel(scope, found, headers, protocols).await,
        };
    }
    let asked = UpgradeRequest {
        method: scope.parts.method.clone(),
        path: request.path,
        headers,
        deadline: Some(Instant::now() + ANSWER_WITHIN),
    };
    let asked = scope
        .leaving
        .unless(kubelets.egress().upgrade(&kubelet, asked));
    let answered = asked.await.ok_or_else(stopping)?;
    let switched = match answered.map_err(|error| failed(&error))? {
        UpgradeAnswer::Switched(switched) => switched,
        UpgradeAnswer::Refused(answer) => return refused(answer),
    };
    relayed(
        switched,
        scope.leaving,
        scope.access.clone(),
        (seat, running),
    )
}

/// Returns the headers for the kubelet: those of the client without its credentials, and its
/// address (CN-39).
fn passed_on(headers: &HeaderMap, peer: Option<IpAddr>) -> HeaderMap {
    let mut passed = end_to_end(headers);
    let foreign = headers
        .keys()
        .filter(|name| name.as_str().starts_with(IMPERSONATION));
    for name in LEFT_OUT.iter().chain(foreign) {
        passed.remove(name);
    }
    add_upgrade(&mut passed, headers);
    append_client(&mut passed, peer);
    passed
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    #[test]
    fn credentials_of_the_client_stay_here_cn_39() {
        let given = headers(&[
            ("authorization", "Bearer secret"),
            ("impersonate-user", "bob"),
            ("connection", "Upgrade, x-hop"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-forwarded-for", "192.0.2.1"),
            ("cookie", "a=b"),
            ("host", "here"),
        ]);
        let passed = passed_on(&given, Some([10, 0, 0, 1].into()));
        let expected = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-forwarded-for", "192.0.2.1, 10.0.0.1"),
            ("cookie", "a=b"),
        ]);
        assert_eq!(passed, expected);
    }
}
