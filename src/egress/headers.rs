//! Headers of requests that are passed on for a client, and of their answers. Pure.

use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method};

/// The clients whose proxies have passed a request on.
pub const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Headers that are about one connection.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    PROXY_CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The beginning of headers of an answer by which pages of other origins may read it.
const CORS: &str = "access-control-allow-";

/// Returns the headers that are not about the connection that they came over. The wish for trailers
/// stays, because bodies are passed on with them.
pub fn end_to_end(all: &HeaderMap) -> HeaderMap {
    let takes_trailers = asks_for_trailers(all);
    let mut headers = all.clone();
    for value in all.get_all(CONNECTION) {
        for name in value.as_bytes().split(|byte| *byte == b',') {
            if let Ok(name) = HeaderName::from_bytes(name.trim_ascii()) {
                headers.remove(name);
            }
        }
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    join_cookies(&mut headers);
    headers
}

/// Joins the cookies of HTTP/2, which may come in several headers. Over HTTP/1.1 there is one.
fn join_cookies(headers: &mut HeaderMap) {
    let all = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    let all: Vec<&[u8]> = all.collect();
    if all.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

/// Returns the headers of another server's answer that clients get (CN-32, CN-74).
pub fn of_answer(all: &HeaderMap) -> HeaderMap {
    let mut headers = end_to_end(all);
    // Chunks count, as for Go.
    if all.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    // Trailers are passed on, and HTTP/1.1 announces them.
    for names in all.get_all(TRAILER) {
        headers.append(TRAILER, names.clone());
    }
    let foreign = all.keys().filter(|name| name.as_str().starts_with(CORS));
    for name in foreign {
        headers.remove(name);
    }
    headers
}

fn asks_for_trailers(all: &HeaderMap) -> bool {
    let values = all.get_all(TE).into_iter();
    let mut tokens = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    // linear: a few codings.
    tokens.any(|token| token.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Appends the address of the client to those of the proxies before.
pub fn append_client(headers: &mut HeaderMap, peer: Option<IpAddr>) {
    let Some(peer) = peer else {
        return;
    };
    let prior = headers.get_all(FORWARDED_FOR).into_iter();
    let prior = prior.map(HeaderValue::as_bytes);
    let peer = peer.to_canonical().to_string();
    let all: Vec<&[u8]> = prior.chain([peer.as_bytes()]).collect();
    if let Ok(value) = HeaderValue::from_bytes(&all.join(&b", "[..])) {
        headers.insert(FORWARDED_FOR, value);
    }
}

/// Whether a request asks for another protocol on its connection (CN-35). HTTP/2 without TLS does
/// not count: a server that switched to it would take requests of its client for the daemon's.
pub fn is_upgrade(method: &Method, client: &HeaderMap) -> bool {
    let is_http2 = |protocol: &HeaderValue| {
        let protocol = protocol.as_bytes().to_ascii_lowercase();
        protocol.windows(3).any(|part| part == b"h2c")
    };
    let mut protocols = client.get_all(UPGRADE).iter().peekable();
    let has_one = protocols.peek().is_some();
    has_one && !protocols.any(is_http2) && *method != Method::HEAD && wants_upgrade(client)
}

/// Whether the header Connection asks for another protocol, as Go's servers read it.
pub fn wants_upgrade(client: &HeaderMap) -> bool {
    let wanted = UPGRADE.as_str();
    let asks = |value: &HeaderValue| {
        let value = value.as_bytes().to_ascii_lowercase();
        let mut parts = value.windows(wanted.len());
        parts.any(|part| part == wanted.as_bytes())
    };
    client.get_all(CONNECTION).into_iter().any(asks)
}

/// Adds the wish for another protocol, as the client has it.
pub fn add_upgrade(headers: &mut HeaderMap, client: &HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    for protocol in client.get_all(UPGRADE) {
        headers.append(UPGRADE, protocol.clone());
    }
}
