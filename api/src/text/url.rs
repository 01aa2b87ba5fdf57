//! URLs as Go parses and prints them.

use std::fmt;

use super::quoting::go_quote;
use crate::percent;

/// A URL, or a reference that is relative to one. Parts that are absent are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// The scheme, in lower case.
    pub scheme: String,
    /// The rest of a URL whose scheme no slash follows, without its query.
    opaque: String,
    user: String,
    /// The host and port, without escapes.
    pub host: String,
    /// The path with its escapes.
    pub path: String,
    /// The query as it is written.
    pub query: String,
    /// Whether there is a question mark.
    has_query: bool,
    /// The fragment with its escapes.
    fragment: String,
}

impl Url {
    /// Parses a URL as Go's `ParseRequestURI`: it is absolute, and its fragment is a part of what
    /// comes before.
    ///
    /// # Errors
    /// Go's error.
    pub fn read_request(text: &str) -> Result<Url, String> {
        read(text, true).map_err(|why| format!("parse {}: {why}", go_quote(text)))
    }

    /// Parses a URL or a relative reference, with its fragment, as Go's `Parse`.
    ///
    /// # Errors
    /// Go's error.
    pub fn read_whole(text: &str) -> Result<Url, String> {
        let (url, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = read(url, false).map_err(|why| format!("parse {}: {why}", go_quote(url)))?;
        url.fragment = fragment.to_owned();
        Ok(url)
    }

    /// Whether it has an own form that no path follows, such as `mailto:a@b`.
    pub fn is_opaque(&self) -> bool {
        !self.opaque.is_empty()
    }

    /// Returns the host without its port, and the port.
    pub(crate) fn host_and_port(&self) -> (&str, &str) {
        let host = self.host.as_str();
        let after = host.rfind(']').map_or(0, |at| at + 1);
        let tail = host.get(after..).unwrap_or_default();
        let (name, port) = match tail.rfind(':') {
            Some(at) => {
                let (name, port) = host.split_at_checked(after + at).unwrap_or((host, ""));
                (name, port.trim_start_matches(':'))
            }
            None => (host, ""),
        };
        let bare = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        (bare.unwrap_or(name), port)
    }
}

fn read(text: &str, is_request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && is_request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = "*".to_owned();
        return Ok(url);
    }
    let (scheme, rest) = scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    url.has_query = rest.contains('?');
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if is_request {
            return Err("invalid URI for request".to_owned());
        }
        let first = rest.split('/').next().unwrap_or_default();
        if first.contains(':') {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let has_authority = !url.scheme.is_empty() || !is_request && !rest.starts_with("///");
    if let Some(authority) = rest.strip_prefix("//").filter(|_| has_authority) {
        let end = authority.find('/').unwrap_or(authority.len());
        let (authority, path) = authority.split_at_checked(end).unwrap_or((authority, ""));
        rest = path;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (user, host),
            None => ("", authority),
        };
        if !user.bytes().all(is_user_byte) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        url.user = user.to_owned();
        url.host = read_host(host)?;
    }
    let path = unescaped(rest, false)?;
    url.path = match has_only_path_bytes(rest) {
        true => rest.to_owned(),
        false => percent::encoded_path(path.as_bytes()),
    };
    Ok(url)
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(formatter, "{}:", self.scheme)?;
        }
        formatter.write_str(&self.opaque)?;
        if !self.host.is_empty() || !self.user.is_empty() {
            formatter.write_str("//")?;
            if !self.user.is_empty() {
                write!(formatter, "{}@", self.user)?;
            }
            formatter.write_str(&self.host)?;
        }
        formatter.write_str(&self.path)?;
        if self.has_query {
            write!(formatter, "?{}", self.query)?;
        }
        match self.fragment.is_empty() {
            true => Ok(()),
            false => write!(formatter, "#{}", self.fragment),
        }
    }
}

/// Splits a URL after its scheme.
fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => {
                let (scheme, rest) = text.split_at_checked(at).unwrap_or(("", text));
                return Ok((scheme, rest.get(1..).unwrap_or_default()));
            }
            _ => break,
        }
    }
    Ok(("", text))
}

fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

fn read_host(host: &str) -> Result<String, String> {
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        host.get(end + 1..).unwrap_or_default()
    } else {
        host.rfind(':')
            .and_then(|at| host.get(at..))
            .unwrap_or_default()
    };
    let digits = port.strip_prefix(':');
    let is_port = digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !port.is_empty() && !is_port {
        return Err(format!("invalid port {} after host", go_quote(port)));
    }
    let is_bad = |byte: &u8| matches!(byte, b' ' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}');
    if !host.starts_with('[')
        && let Some(byte) = host.bytes().find(is_bad)
    {
        let what = go_quote(&char::from(byte).to_string());
        return Err(format!("invalid character {what} in host name"));
    }
    unescaped(host, true)
}

/// Replaces the escapes in a part of a URL.
pub(crate) fn unescaped(text: &str, is_host: bool) -> Result<String, String> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        if *byte != b'%' {
            out.push(*byte);
            at += 1;
            continue;
        }
        let digits = text.get(at + 1..at + 3);
        let is_number = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digits = digits.filter(is_number);
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let code = code.filter(|code| !is_host || *code >= 0x80 || *code == b'%');
        let Some(code) = code else {
            let piece = text.get(at..(at + 3).min(text.len())).unwrap_or("%");
            return Err(format!("invalid URL escape {}", go_quote(piece)));
        };
        out.push(code);
        at += 3;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Returns whether a path is written as Go would escape it.
fn has_only_path_bytes(path: &str) -> bool {
    path.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]%/".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_printed_as_they_were() {
        for text in [
            "",
            "/",
            "a/b",
            "#here",
            "?",
            "?a=%20b&c",
            "mailto:x@example.com?subject=a",
            "https://user:p@example.com:8443/a%2Fb?q=1&r=2#f",
            "//example.com/x",
            "http://[fd00::1]:80",
        ] {
            assert_eq!(Url::read_whole(text).unwrap().to_string(), text);
        }
        let spaced = Url::read_whole("/with space/%7Etilde").unwrap();
        assert_eq!(spaced.to_string(), "/with%20space/~tilde");
    }
}
