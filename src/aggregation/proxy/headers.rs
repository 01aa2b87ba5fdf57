//! The headers of requests to extensions, and of their answers (CN-30, CN-32). Pure.

use std::fmt::Write;
use std::net::IpAddr;

use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, LOCATION,
};
use http::{HeaderMap, StatusCode};

use crate::api::user_info::UserInfo;
use crate::egress::headers::{FORWARDED_FOR, append_client, end_to_end};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const REMOTE_USER: HeaderName = HeaderName::from_static("x-remote-user");
const REMOTE_UID: HeaderName = HeaderName::from_static("x-remote-uid");
const REMOTE_GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const REMOTE_EXTRA: &str = "x-remote-extra-";

/// The beginnings of headers that name users. Clients cannot set them.
const OF_USERS: [&str; 5] = [
    "impersonate-",
    "x-remote-user",
    "x-remote-uid",
    "x-remote-group",
    REMOTE_EXTRA,
];

/// The addresses in `X-Forwarded-For` from which on a request goes round in a circle.
pub const HOPS_MAX: usize = 32;

/// The facts about a request that its headers have for the extension.
#[derive(Clone, Copy, Debug)]
pub struct Forwarded<'f> {
    /// The user as whom the request is carried out.
    pub user: &'f UserInfo,
    /// The address of the client.
    pub peer: Option<IpAddr>,
    /// The `host:port` of the extension.
    pub host: &'f str,
    /// The path of the header `X-Forwarded-Uri`.
    pub uri: &'f str,
    /// The ID of the request in audit logs.
    pub audit_id: &'f str,
}

/// A user has a name, a group or a key that no header can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("net/http: invalid header field value for {0:?}")]
pub struct Unnameable(pub String);

/// Returns the headers of the request to an extension.
///
/// # Errors
/// The user cannot be named in headers.
pub fn outgoing(client: &HeaderMap, forwarded: &Forwarded<'_>) -> Result<HeaderMap, Unnameable> {
    let mut headers = end_to_end(client);
    let foreign = headers.keys().filter(|name| names_user(name)).cloned();
    let foreign: Vec<HeaderName> = foreign.collect();
    for name in foreign {
        headers.remove(name);
    }
    for name in [AUTHORIZATION, HOST, CONTENT_LENGTH, EXPECT] {
        headers.remove(name);
    }
    name_user(&mut headers, forwarded.user)?;
    let mut set = |name: HeaderName, text: &str| {
        // Addresses, encoded paths and ids can be headers.
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    };
    set(AUDIT_ID, forwarded.audit_id);
    set(FORWARDED_HOST, forwarded.host);
    set(FORWARDED_PROTO, "https");
    set(FORWARDED_URI, forwarded.uri);
    append_client(&mut headers, forwarded.peer);
    Ok(headers)
}

/// Whether a request has passed so many proxies that it goes round in a circle.
pub fn is_circling(client: &HeaderMap) -> bool {
    let values = client.get_all(FORWARDED_FOR).into_iter();
    let commas = values.map(|value| 1 + value.as_bytes().iter().filter(|b| **b == b',').count());
    commas.sum::<usize>() > HOPS_MAX
}

/// Names a user in the headers of front proxies.
///
/// # Errors
/// A header cannot have the name.
pub fn name_user(headers: &mut HeaderMap, user: &UserInfo) -> Result<(), Unnameable> {
    let value = |name: &str, text: &str| {
        // Spaces at the ends are lost on the way, and another user could come out.
        let is_whole = text.trim_matches([' ', '\t']) == text;
        let value = HeaderValue::from_bytes(text.as_bytes()).ok();
        let value = value.filter(|_| is_whole);
        value.ok_or_else(|| Unnameable(name.to_owned()))
    };
    headers.insert(REMOTE_USER, value("X-Remote-User", &user.name)?);
    if !user.uid.is_empty() {
        headers.insert(REMOTE_UID, value("X-Remote-Uid", &user.uid)?);
    }
    for group in &user.groups {
        headers.append(REMOTE_GROUP, value("X-Remote-Group", group)?);
    }
    for (key, values) in &user.extra {
        let name = format!("{REMOTE_EXTRA}{}", escaped(key));
        let unnameable = |_| Unnameable(name.clone());
        let header = HeaderName::try_from(&name).map_err(unnameable)?;
        for text in values {
            headers.append(&header, value(&name, text)?);
        }
    }
    Ok(())
}

/// Returns the key of a user's extra data as a part of a header's name. A `%` is encoded too, so
/// that the key can be decoded.
fn escaped(key: &str) -> String {
    let mut text = String::with_capacity(key.len());
    for byte in key.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
        match is_plain {
            true => text.push(char::from(byte.to_ascii_lowercase())),
            // Writing to a String does not fail.
            false => {
                let _ = write!(text, "%{byte:02x}");
            }
        }
    }
    text
}

/// Whether a header names a user. Servers that take an underscore for a dash must not find one
/// either.
pub fn names_user(name: &HeaderName) -> bool {
    let name = name.as_str().replace('_', "-");
    // linear: a few beginnings.
    OF_USERS.iter().any(|beginning| name.starts_with(beginning))
}

/// Whether an answer is a redirect, which clients do not get (CN-33).
pub fn is_redirect(status: StatusCode, headers: &HeaderMap) -> bool {
    let location = headers.get(LOCATION).filter(|value| !value.is_empty());
    status.is_redirection() && location.is_some()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::egress::headers::{is_upgrade, of_answer};

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        let all = all.iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        });
        let mut headers = HeaderMap::new();
        all.for_each(|(name, value)| {
            headers.append(name, value);
        });
        headers
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let all = headers.iter();
        let mut all: Vec<String> = all
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        all.sort();
        all
    }

    fn user() -> UserInfo {
        let mut user = UserInfo::authenticated("ada", vec!["crew".to_owned()]);
        let values = vec!["1".to_owned(), "2".to_owned()];
        user.extra.insert("example.com/a%b c".to_owned(), values);
        user
    }

    fn sent(client: &[(&str, &str)], user: &UserInfo) -> Result<Vec<String>, Unnameable> {
        let forwarded = Forwarded {
            user,
            peer: Some("::ffff:10.0.0.1".parse().unwrap()),
            host: "10.1.1.1:443",
            uri: "/apis/g/v1",
            audit_id: "id",
        };
        outgoing(&headers(client), &forwarded).map(|headers| shown(&headers))
    }

    #[test]
    fn the_user_replaces_what_the_client_said_cn_30() {
        let client = [
            ("authorization", "Bearer t"),
            ("X-Remote-User", "liar"),
            ("x-REMOTE-group", "system:masters"),
            ("X_Remote_User", "liar"),
            ("x-remote_extra-a", "liar"),
            ("X-Remote-Extra-Scopes", "liar"),
            ("X-Remote-Uid", "liar"),
            ("Impersonate-User", "liar"),
            ("impersonate_group", "system:masters"),
            ("Cookie", "a=b"),
            ("User-Agent", "me/1"),
            ("Accept-Encoding", "gzip"),
            ("Host", "evil"),
            ("Content-Length", "3"),
            ("X-Remote", "kept"),
            ("X-Forwarded-For", "1.1.1.1"),
            ("X-Forwarded-For", "2.2.2.2, 3.3.3.3"),
            ("X-Forwarded-Uri", "/lie"),
            ("X-Forwarded-Host", "lie"),
            ("X-Forwarded-Proto", "http"),
            ("Audit-Id", "lie"),
        ];
        let expected = [
            "accept-encoding: gzip",
            "audit-id: id",
            "cookie: a=b",
            "user-agent: me/1",
            "x-forwarded-for: 1.1.1.1, 2.2.2.2, 3.3.3.3, 10.0.0.1",
            "x-forwarded-host: 10.1.1.1:443",
            "x-forwarded-proto: https",
            "x-forwarded-uri: /apis/g/v1",
            "x-remote-extra-example.com%2fa%25b%20c: 1",
            "x-remote-extra-example.com%2fa%25b%20c: 2",
            "x-remote-group: crew",
            "x-remote-group: system:authenticated",
            "x-remote-user: ada",
            "x-remote: kept",
        ];
        assert_eq!(sent(&client, &user()).unwrap(), expected);
    }

    #[test]
    fn a_uid_arrives_and_names_that_no_header_has_do_not_cn_30() {
        let mut named = UserInfo::authenticated("\u{e9}ve", Vec::new());
        named.uid = "u-1".to_owned();
        let all = sent(&[], &named).unwrap();
        assert!(all.contains(&"x-remote-uid: u-1".to_owned()), "{all:?}");
        assert!(
            all.contains(&"x-remote-user: \u{e9}ve".to_owned()),
            "{all:?}"
        );
        for name in [
            "a\nb",
            "a\r\nX-Remote-Group: system:masters",
            "admin ",
            "\tadmin",
        ] {
            let error = sent(&[], &UserInfo::authenticated(name, Vec::new()));
            assert_eq!(
                error,
                Err(Unnameable("X-Remote-User".to_owned())),
                "{name:?}"
            );
        }
        let error = sent(&[], &UserInfo::authenticated("a", vec!["b\n".to_owned()]));
        assert_eq!(error, Err(Unnameable("X-Remote-Group".to_owned())));
    }

    #[test]
    fn headers_about_the_connection_end_here_cn_30() {
        let client = [
            ("Connection", "keep-alive, X-Secret , , close"),
            ("connection", "upgrade"),
            ("X-Secret", "1"),
            ("Keep-Alive", "1"),
            ("Proxy-Connection", "1"),
            ("Proxy-Authorization", "1"),
            ("Proxy-Authenticate", "1"),
            ("Transfer-Encoding", "chunked"),
            ("Trailer", "X"),
            ("Upgrade", "websocket"),
            ("Expect", "100-continue"),
            ("TE", "gzip, Trailers"),
        ];
        let all = sent(&client, &UserInfo::authenticated("a", Vec::new())).unwrap();
        let kept = all.iter().filter(|line| !line.starts_with("x-"));
        let kept: Vec<&String> = kept.collect();
        assert_eq!(kept, ["audit-id: id", "te: trailers"]);
        // The user cannot be taken away by the name of a header.
        let all = sent(&[("Connection", "X-Remote-User, X-Forwarded-For")], &user()).unwrap();
        assert!(all.contains(&"x-remote-user: ada".to_owned()));
        assert!(all.contains(&"x-forwarded-for: 10.0.0.1".to_owned()));
    }

    #[test]
    fn an_upgrade_needs_both_headers_cn_35() {
        for (client, expected) in [
            (&[("Connection", "Upgrade"), ("Upgrade", "x")][..], true),
            (
                &[("Connection", "keep-alive, UPGRADE"), ("Upgrade", "x")],
                true,
            ),
            (&[("Connection", "Upgrade")], false),
            (&[("Upgrade", "x")], false),
            (&[("Connection", "Upgrade"), ("Upgrade", "H2C")], false),
            (&[("Connection", "close"), ("Upgrade", "x")], false),
        ] {
            let client = headers(client);
            assert_eq!(is_upgrade(&Method::GET, &client), expected, "{client:?}");
            assert!(!is_upgrade(&Method::HEAD, &client));
        }
    }

    #[test]
    fn answers_lose_what_is_about_connections_and_other_origins_cn_32() {
        let answer = [
            ("Connection", "X-Gone"),
            ("X-Gone", "1"),
            ("Transfer-Encoding", "chunked"),
            ("Access-Control-Allow-Origin", "*"),
            ("Access-Control-Max-Age", "1"),
            ("Set-Cookie", "a"),
            ("Set-Cookie", "b"),
            ("Warning", "299 - \"x\""),
            ("Retry-After", "1"),
            ("Cache-Control", "public"),
        ];
        let passed = of_answer(&headers(&answer));
        let expected = [
            "access-control-max-age: 1",
            "cache-control: public",
            "retry-after: 1",
            "set-cookie: a",
            "set-cookie: b",
            "warning: 299 - \"x\"",
        ];
        assert_eq!(shown(&passed), expected);
    }

    #[test]
    fn redirects_are_seen_cn_33() {
        for (code, location, expected) in [
            (302, "/x", true),
            (399, "https://b/x", true),
            (304, "", false),
            (201, "/x", false),
        ] {
            let status = StatusCode::from_u16(code).unwrap();
            let headers = headers(&[("Location", location)]);
            assert_eq!(is_redirect(status, &headers), expected, "{code}");
        }
    }

    #[test]
    fn a_request_that_goes_round_in_a_circle_is_seen() {
        let of = |count: usize| headers(&[("X-Forwarded-For", &vec!["1.1.1.1"; count].join(","))]);
        assert!(!is_circling(&of(HOPS_MAX)));
        assert!(is_circling(&of(HOPS_MAX + 1)));
        assert!(!is_circling(&HeaderMap::new()));
    }
}
