//! URLs as Go parses them.

use std::fmt::Write as _;

use crate::text::quoting::go_quote;

/// A URL.
#[derive(Clone, Debug, PartialEq)]
pub struct Url {
    pub(in super::super) scheme: String,
    user: String,
    pub(in super::super) host: String,
    /// The path with its escapes.
    pub(in super::super) path: String,
    pub(in super::super) query: String,
    fragment: String,
}

impl Url {
    /// Parses a URL as Go's `ParseRequestURI`: it is absolute, and its fragment is part of it.
    ///
    /// # Errors
    /// Go's error.
    pub(in super::super) fn read_request(text: &str) -> Result<Url, String> {
        read(text, true).map_err(|why| format!("parse {}: {why}", go_quote(text)))
    }

    /// Parses a URL with its fragment.
    pub(in super::super) fn read_whole(text: &str) -> Result<Url, String> {
        let (url, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = read(url, false).map_err(|why| format!("parse {}: {why}", go_quote(url)))?;
        url.fragment = fragment.to_owned();
        Ok(url)
    }

    /// Returns the host without its port, and the port.
    pub(in super::super) fn host_and_port(&self) -> (&str, &str) {
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
    let mut url = Url {
        scheme: String::new(),
        user: String::new(),
        host: String::new(),
        path: String::new(),
        query: String::new(),
        fragment: String::new(),
    };
    if text == "*" {
        url.path = "*".to_owned();
        return Ok(url);
    }
    let (scheme, rest) = scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query.to_owned();
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            // The rest after the scheme is opaque.
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
        false => escaped(&path),
    };
    Ok(url)
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
    let bad = |byte: &u8| {
        matches!(
            byte,
            b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
        )
    };
    if !host.starts_with('[')
        && let Some(byte) = host
            .bytes()
            .find(|byte| *byte != b'<' && *byte != b'>' && *byte != b'"' && bad(byte))
    {
        let what = go_quote(&char::from(byte).to_string());
        return Err(format!("invalid character {what} in host name"));
    }
    unescaped(host, true)
}

/// Replaces the escapes in a part of a URL.
pub(in super::super) fn unescaped(text: &str, is_host: bool) -> Result<String, String> {
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

fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            true => out.push(char::from(byte)),
            false => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}
