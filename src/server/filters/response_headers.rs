//! Headers of all responses that operators choose: for browsers, and for load balancing.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, CONNECTION, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, STRICT_TRANSPORT_SECURITY,
};
use regex::Regex;

/// The headers that an allowed origin gets besides its name, as kube-apiserver sends them.
const FOR_ORIGINS: [(HeaderName, &str); 4] = [
    (
        ACCESS_CONTROL_ALLOW_METHODS,
        "POST, GET, OPTIONS, PUT, DELETE, PATCH",
    ),
    (
        ACCESS_CONTROL_ALLOW_HEADERS,
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, \
         X-Requested-With, If-Modified-Since",
    ),
    (ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
    (ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"),
];

/// The headers of a configuration.
#[derive(Debug, Default)]
pub struct ResponseHeaders {
    transport_security: Option<HeaderValue>,
    origins: Vec<Regex>,
    goaway_chance: f64,
}

impl ResponseHeaders {
    /// Returns the headers for directives of transport security, expressions of allowed origins,
    /// and the chance that a response ends its connection. Expressions and directives that no
    /// header can have were refused before.
    pub fn new(directives: &[String], origins: &[String], goaway_chance: f64) -> ResponseHeaders {
        let directives = directives.join("; ");
        ResponseHeaders {
            transport_security: HeaderValue::from_str(&directives)
                .ok()
                .filter(|value| !value.is_empty()),
            origins: origins
                .iter()
                .filter_map(|origin| Regex::new(origin).ok())
                .collect(),
            goaway_chance,
        }
    }

    /// Returns the origin of a request, if its page may see the response.
    pub fn allowed_origin(&self, request: &HeaderMap) -> Option<HeaderValue> {
        if self.origins.is_empty() {
            return None;
        }
        let origin = request.get(ORIGIN)?;
        let text = origin.to_str().ok().filter(|text| !text.is_empty())?;
        // linear: the expressions of an operator, each of which may match.
        let is_allowed = self.origins.iter().any(|allowed| allowed.is_match(text));
        is_allowed.then(|| origin.clone())
    }

    /// Adds the headers to a response.
    pub fn add(&self, response: &mut HeaderMap, origin: Option<HeaderValue>, is_http2: bool) {
        if let Some(directives) = &self.transport_security {
            response.insert(STRICT_TRANSPORT_SECURITY, directives.clone());
        }
        if let Some(origin) = origin {
            response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            for (name, value) in FOR_ORIGINS {
                response.insert(name, HeaderValue::from_static(value));
            }
        }
        if is_http2 && self.goaway_chance > 0.0 && random() < self.goaway_chance {
            // The transport sends a GOAWAY instead of this header.
            response.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// Returns a random number from 0 to 1.
fn random() -> f64 {
    let random = uuid::Uuid::new_v4().as_u128() as u32;
    f64::from(random) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(origin: &str) -> Vec<String> {
        let directives = ["max-age=60", "preload"].map(str::to_owned);
        let headers = ResponseHeaders::new(&directives, &["//a(:|$)".to_owned()], 0.0);
        let mut request = HeaderMap::new();
        request.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        let mut response = HeaderMap::new();
        headers.add(&mut response, headers.allowed_origin(&request), true);
        let lines = response.iter();
        let mut lines: Vec<String> = lines
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn only_allowed_origins_get_their_headers() {
        let security = "strict-transport-security: max-age=60; preload";
        for other in ["https://b", "https://a.evil", ""] {
            assert_eq!(headers(other), [security]);
        }
        let all = headers("https://a:8080");
        assert_eq!(all.len(), 6);
        assert_eq!(all[4], "access-control-expose-headers: Date");
        assert_eq!(all[3], "access-control-allow-origin: https://a:8080");
    }

    #[test]
    fn a_share_of_the_responses_over_http2_ends_the_connection() {
        let ended = |chance, is_http2| {
            let headers = ResponseHeaders::new(&[], &[], chance);
            let ends = |_: &u32| {
                let mut response = HeaderMap::new();
                headers.add(&mut response, None, is_http2);
                response.contains_key(CONNECTION)
            };
            (0..1000).filter(ends).count()
        };
        assert_eq!(ended(0.0, true), 0);
        assert_eq!(ended(1.1, false), 0);
        assert_eq!(ended(1.1, true), 1000);
    }
}
