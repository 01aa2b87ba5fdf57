//! Headers of requests that are passed on for a client, and of their answers. Pure.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{
    CONNECTION, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};

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
    headers
}

/// Returns the headers of another server's answer that clients get (CN-32, CN-74).
pub fn of_answer(all: &HeaderMap) -> HeaderMap {
    let mut headers = end_to_end(all);
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
