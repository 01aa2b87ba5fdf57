//! Commands and port forwarding: upgrades that are copied between the client and a kubelet (CN-47
//! to CN-55, CN-66 to CN-69).

use http::Version;

use super::super::{Answered, watch};
use super::asked::{Asked, Found, passed_on, upgraded, without_body};
use super::translated::{self, Newer};
use crate::api::status::Status;
use crate::egress::headers::{add_upgrade, wants_upgrade};
use crate::registry::rest::{CommandStreams, KubeletRequest};
use crate::server::metrics::LongRunning;
use crate::server::request_scope::RequestScope;
use crate::server::routes::Target;
use crate::server::sessions::is_websocket;
use crate::transport::{ConnectionFacts, RequestBody};

/// Asks the kubelet for an upgrade, and has the connection relayed after it.
pub(super) async fn stream(
    scope: &RequestScope<'_>,
    target: &Target,
    request: KubeletRequest,
    streams: CommandStreams,
    body: RequestBody,
) -> Answered {
    let facts = scope.parts.extensions.get::<ConnectionFacts>();
    if scope.parts.version != Version::HTTP_11 || !wants_upgrade(scope.headers) {
        return Err(Box::new(Status::bad_request("Upgrade request required")));
    }
    without_body(&body)?;
    let mut headers = passed_on(scope.headers, facts.map(|facts| facts.peer.ip()));
    add_upgrade(&mut headers, scope.headers);
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
            Newer::Command => translated::command(scope, found, streams),
            Newer::Tunnel(protocols) => translated::tunnel(scope, found, headers, protocols).await,
        };
    }
    let asked = Asked {
        egress: kubelets.egress(),
        server: &kubelet,
        path: request.path,
        headers,
    };
    upgraded(scope, asked, (seat, running)).await
}
