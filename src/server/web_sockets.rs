//! The handshakes of WebSockets that this server speaks itself (RFC 6455, 4.2; API-129).

use http::header::{
    CONNECTION, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, Method, Uri, Version};

use super::request_scope::{RequestScope, refusal_form};
use super::respond::{self, Answer};
use super::sessions::is_websocket;
use crate::api::status::{Status, StatusReason};
use crate::egress::headers::wants_upgrade;
use crate::transport::RequestBody;
use crate::upgraded::websocket;

/// A request for an upgrade has a body, which nobody would read.
pub const WITH_BODY: &str = "the body of an upgrade request must be empty";

/// The version of RFC 6455.
const VERSION: HeaderValue = HeaderValue::from_static("13");
const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
const UPGRADED: HeaderValue = HeaderValue::from_static("Upgrade");

/// Whether a request asks for a WebSocket, which only HTTP/1.1 has.
pub fn is_asked_for(parts: &Parts) -> bool {
    let headers = &parts.headers;
    parts.version == Version::HTTP_11 && is_websocket(headers) && wants_upgrade(headers)
}

/// Returns the protocols that a client offers, in its order.
pub fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let all = lines.flat_map(|line| line.split(',')).map(str::trim);
    all.filter(|protocol| !protocol.is_empty())
}

/// Returns the headers that accept a WebSocket with this protocol, if any.
///
/// # Errors
/// 400 for a handshake that is not one of RFC 6455. As in kube-apiserver, the key may be any text.
pub fn accepted(parts: &Parts, protocol: Option<&str>) -> Result<HeaderMap, Box<Status>> {
    let headers = &parts.headers;
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if parts.method != Method::GET {
        return Err(refused("the handshake must be a GET"));
    }
    let key = text(SEC_WEBSOCKET_KEY).unwrap_or_default();
    if key.is_empty() {
        return Err(refused("the header Sec-WebSocket-Key is missing"));
    }
    if headers.get(SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
        return Err(refused("the header Sec-WebSocket-Version must be 13"));
    }
    let mut accepted = HeaderMap::new();
    accepted.insert(CONNECTION, UPGRADED);
    accepted.insert(UPGRADE, WEBSOCKET);
    accepted.insert(SEC_WEBSOCKET_ACCEPT, value(&websocket::accept(key))?);
    if let Some(protocol) = protocol {
        accepted.insert(SEC_WEBSOCKET_PROTOCOL, value(protocol)?);
    }
    Ok(accepted)
}

/// Returns the headers that accept a WebSocket for a watch: from a page or program that names its
/// origin, with the one protocol that it offers, or none.
///
/// # Errors
/// 400 or 403 for another handshake.
pub fn accepted_watch(parts: &Parts, body: &RequestBody) -> Result<HeaderMap, Box<Status>> {
    let headers = &parts.headers;
    let mut protocols = offered(headers);
    let accepted = accepted(parts, protocols.next())?;
    check_body(body)?;
    let origin = headers.get(ORIGIN).map(HeaderValue::as_bytes);
    let origin = origin.and_then(|origin| Uri::try_from(origin).ok());
    if origin.is_none_or(|origin| origin.scheme().is_none()) {
        let text = "websocket: the header Origin must be a URL, such as https://example.com; \
                    clients other than browsers must set it, too";
        let status = Status::failure(403, StatusReason::FORBIDDEN, text);
        return Err(Box::new(status));
    }
    match protocols.next() {
        Some(_) => Err(refused(
            "a watch has at most one protocol in the header Sec-WebSocket-Protocol",
        )),
        None => Ok(accepted),
    }
}

/// Returns the headers that accept a WebSocket with the first offered protocol that is known, and
/// that protocol. It is empty if the client offers none.
///
/// # Errors
/// 400 for another handshake. 403 if no offered protocol is known.
pub fn accepted_of(
    parts: &Parts,
    body: &RequestBody,
    known: &[&'static str],
) -> Result<(HeaderMap, &'static str), Box<Status>> {
    // linear: a few protocols.
    let found = |offered: &str| known.iter().find(|known| **known == offered).copied();
    let mut protocols = offered(&parts.headers).peekable();
    let offers_any = protocols.peek().is_some();
    let chosen = protocols.find_map(found);
    let accepted = accepted(parts, chosen)?;
    check_body(body)?;
    if offers_any && chosen.is_none() {
        let known = known.join(", ");
        let text = format!("websocket: no protocol in Sec-WebSocket-Protocol is known: {known}");
        let status = Status::failure(403, StatusReason::FORBIDDEN, text);
        return Err(Box::new(status));
    }
    Ok((accepted, chosen.unwrap_or_default()))
}

/// Returns the answer to a handshake that is refused.
pub fn refusal(scope: &RequestScope<'_>, status: &Status) -> Answer {
    let mut answer = respond::refusal(status, &refusal_form(scope.headers, &scope.query));
    answer.headers_mut().insert(SEC_WEBSOCKET_VERSION, VERSION);
    answer
}

fn check_body(body: &RequestBody) -> Result<(), Box<Status>> {
    match body {
        RequestBody::Empty => Ok(()),
        _ => Err(refused(WITH_BODY)),
    }
}

fn refused(why: &str) -> Box<Status> {
    Box::new(Status::bad_request(format!("websocket: {why}")))
}

/// Returns a protocol as the value of a header.
///
/// # Errors
/// 400 for a text that no header can have.
pub fn value(text: &str) -> Result<HeaderValue, Box<Status>> {
    let unusable = |_| Box::new(Status::bad_request("a protocol can't be in a header"));
    HeaderValue::try_from(text).map_err(unusable)
}
