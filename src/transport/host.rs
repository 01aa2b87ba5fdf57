//! Which headers Host a request may have, over every version of HTTP.

use http::HeaderMap;
use http::header::HOST;

use super::service::Refusal;

/// Returns why the hosts of a request are refused.
pub(super) fn refused(headers: &HeaderMap) -> Option<Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Some(Refusal::SeveralHosts),
        (Some(host), None) if !is_host(host.as_bytes()) => Some(Refusal::MalformedHost),
        _ => None,
    }
}

/// Whether `text` may be a host and port. It checks only the bytes, by the set that Go accepts
/// there.
fn is_host(text: &[u8]) -> bool {
    let is_allowed =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;=[']_~".contains(byte);
    text.iter().all(is_allowed)
}
