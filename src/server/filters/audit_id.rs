//! The audit ID of a request, which connects the logs of client and server (API-143).

use http::{HeaderMap, HeaderName, HeaderValue};

/// `Audit-ID`.
pub const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The limit on the ID's length. Every log event of the request repeats the ID, so a longer one is
/// replaced.
const BYTES_MAX: usize = 128;

/// Returns the ID that the client sent, or a new one.
pub fn of(headers: &HeaderMap) -> String {
    headers
        .get(AUDIT_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|text| !text.is_empty() && text.len() <= BYTES_MAX)
        .map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned)
}

/// Adds the ID to a response.
pub fn set(headers: &mut HeaderMap, audit_id: &str) {
    if let Ok(mut value) = HeaderValue::from_str(audit_id) {
        // Each response has another value. Unless it is marked sensitive, HPACK would add it to the
        // compression table of an HTTP/2 connection, up to 9 KiB of memory.
        value.set_sensitive(true);
        headers.insert(AUDIT_ID, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_given_is_kept_api_143() {
        let mut headers = HeaderMap::new();
        headers.insert(AUDIT_ID, HeaderValue::from_static("my-own-id"));
        assert_eq!(of(&headers), "my-own-id");
        let mut answer = HeaderMap::new();
        set(&mut answer, "my-own-id");
        assert_eq!(answer.get("Audit-ID").unwrap(), "my-own-id");
    }

    #[test]
    fn a_request_without_a_usable_one_gets_a_new_one_api_143() {
        let mut long = HeaderMap::new();
        long.insert(AUDIT_ID, HeaderValue::from_str(&"a".repeat(129)).unwrap());
        for headers in [HeaderMap::new(), long] {
            assert_eq!(of(&headers).len(), 36);
            assert_ne!(of(&headers), of(&headers));
        }
    }
}
