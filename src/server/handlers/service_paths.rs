//! Paths about the server itself: `/`, `/version`, `/metrics`, `/metrics/slis`.

use http::StatusCode;
use serde_json::json;

use super::{Answered, test_server};
use crate::api::status::Status;
use crate::server::encoding::JSON;
use crate::server::metrics::health_lines;
use crate::server::request_scope::{RequestScope, indented_json};
use crate::server::respond::{self, Answer};
use crate::server::{negotiation, version};

/// Returns the list of paths (API-13), as indented JSON whatever Accept says (API-55).
pub fn index(scope: &RequestScope<'_>) -> Answer {
    let document = json!({"paths": paths(scope)}).to_string().into_bytes();
    respond::document(StatusCode::OK, &indented_json(scope.headers), document)
}

/// Returns all paths, sorted.
pub(super) fn paths(scope: &RequestScope<'_>) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/metrics/slis",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
        "/taffrail/v1/backup",
        "/taffrail/v1/compact",
        "/taffrail/v1/history",
        "/taffrail/v1/inspect",
        "/taffrail/v1/revision",
        "/taffrail/v1/storage/rewrite",
        "/taffrail/v1/token/rotate",
    ]
    .map(str::to_owned)
    .to_vec();
    let features = scope.server.features;
    for (is_on, path) in [(features.statusz, "/statusz"), (features.flagz, "/flagz")] {
        paths.extend(is_on.then(|| path.to_owned()));
    }
    if scope.server.test.is_some() {
        paths.extend(test_server::PATHS.map(str::to_owned));
    }
    if scope.server.issuer.is_some() {
        let of_issuer = ["/.well-known/openid-configuration", "/openid/v1/jwks"];
        paths.extend(of_issuer.map(str::to_owned));
    }
    for group in scope.generation.catalog.groups() {
        let root = match group.name.as_str() {
            "" => "/api".to_owned(),
            name => format!("/apis/{name}"),
        };
        paths.extend(
            group
                .versions
                .iter()
                .map(|v| format!("{root}/{}", v.version)),
        );
        paths.push(root);
    }
    paths.sort();
    paths.dedup();
    paths
}

/// Returns `/version`, which is always indented JSON (API-38).
///
/// # Errors
/// 406
pub fn version(scope: &RequestScope<'_>) -> Answered {
    if !negotiation::takes_json(scope.headers) {
        return Err(Box::new(Status::not_acceptable_route(&[JSON])));
    }
    let form = indented_json(scope.headers);
    Ok(respond::document(
        StatusCode::OK,
        &form,
        version::document(),
    ))
}

/// Returns the metrics page (API-52).
pub fn metrics(scope: &RequestScope<'_>) -> Answer {
    respond::metrics(scope.server.metrics_page(), scope.headers)
}

/// Returns the metrics of health checks (API-52).
pub fn slis(scope: &RequestScope<'_>) -> Answer {
    respond::metrics(health_lines(&scope.server.metrics_page()), scope.headers)
}
