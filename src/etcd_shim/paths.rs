//! The paths that are not gRPC: health, version, and the data directory.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::Full;
use serde_json::json;
use tonic::body::Body;

use super::peer::Ends;
use super::store::SharedStore;
use super::{VERSION, data_directory, peer};

/// The path where Taffrail asks for the directory.
const DATA_DIRECTORY: &str = "/taffrail/v1/data-directory";

const JSON: &str = "application/json";

/// Answers a request.
pub(super) fn answer(
    store: &SharedStore,
    request: &http::request::Parts,
    ends: Ends,
) -> Response<Body> {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
    }
    match request.uri.path() {
        "/health" => health(store),
        "/livez" | "/readyz" => match store.fault() {
            None => text(StatusCode::OK, "ok\n"),
            Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n")),
        },
        "/version" => {
            let versions = json!({
                "etcdserver": VERSION,
                "etcdcluster": "3.6.0",
                "storage": "3.6.0",
            });
            content(StatusCode::OK, JSON, versions.to_string())
        }
        "/metrics" => metrics(store),
        DATA_DIRECTORY => directory(store, &request.headers, ends),
        _ => text(StatusCode::NOT_FOUND, "there is nothing at this path\n"),
    }
}

/// The health as etcd reports it, whoever has the store.
fn health(store: &SharedStore) -> Response<Body> {
    let (status, is_healthy, reason) = match store.fault() {
        None => (StatusCode::OK, "true", String::new()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, "false", why),
    };
    let reason = json!(reason);
    let report = format!("{{\"health\":\"{is_healthy}\",\"reason\":{reason}}}");
    content(status, JSON, report)
}

/// The few figures that show what clients have open, under the names that etcd gives them.
fn metrics(store: &SharedStore) -> Response<Body> {
    let streams = ("watch_stream_total", store.streams.get());
    let watches = ("watcher_total", store.watches.get());
    let lines = [streams, watches].map(|(name, value)| {
        let name = format!("etcd_debugging_mvcc_{name}");
        format!("# TYPE {name} gauge\n{name} {value}\n")
    });
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    content(StatusCode::OK, kind, lines.concat())
}

fn directory(store: &SharedStore, headers: &HeaderMap, ends: Ends) -> Response<Body> {
    if !peer::may_ask(ends, headers) {
        let why = "only a program of the same user on this machine may ask\n";
        return text(StatusCode::FORBIDDEN, why);
    }
    let answer = data_directory::answer(store);
    content(StatusCode::OK, JSON, answer.to_string())
}

/// A response in plain text.
pub(super) fn text(status: StatusCode, text: &str) -> Response<Body> {
    content(status, "text/plain; charset=utf-8", text.to_owned())
}

fn content(status: StatusCode, kind: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(Bytes::from(body))));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
