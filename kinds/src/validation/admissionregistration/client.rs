//! Validation of the client configuration of webhooks: URLs and services.

use api::field::Field;
use api::names;
use api::text::quoting::go_quote;

use api::error_list::ErrorList;

/// The hint at the end of errors about webhook URLs.
const FORM: &str = "; desired format: https://host[/path]";

/// Validates the URL of a webhook.
pub fn validate_webhook_url(field: &Field<'_>, errors: &mut ErrorList) {
    let url = match Url::parse(field.text()) {
        Ok(url) => url,
        Err(wrong) => {
            let shown = go_quote(field.text());
            let detail = format!("url must be a valid URL: parse {shown}: {wrong}{FORM}");
            errors.push(field.required(detail));
            return;
        }
    };
    let mut push = |shown: &str, detail: &str| {
        errors.push(field.invalid_value(shown, detail));
    };
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        push(&url.scheme, &detail);
    }
    if url.host.is_empty() {
        push("", &format!("host must be specified{FORM}"));
    }
    if let Some(user) = url.user {
        push(user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        push(url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        push(url.query, "query parameters are not permitted in the URL");
    }
}

/// Validates the service of a webhook.
pub fn validate_webhook_service(service: &Field<'_>, errors: &mut ErrorList) {
    let (name, namespace) = (service.member("name"), service.member("namespace"));
    // kube-apiserver reports each missing one at the path of the other.
    if namespace.text().is_empty() {
        errors.push(name.required(""));
    }
    if name.text().is_empty() {
        errors.push(namespace.required(""));
    }
    let port = service.member("port");
    if port.int().is_some_and(|port| !(1..=65535).contains(&port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(port.invalid(detail));
    }
    let path = service.member("path");
    validate_path(&path, errors);
}

fn validate_path(path: &Field<'_>, errors: &mut ErrorList) {
    let text = path.text();
    if text.is_empty() || text == "/" {
        return;
    }
    if text == "//" {
        errors.push(path.invalid("segment[0] may not be empty"));
        return;
    }
    if !text.starts_with('/') {
        errors.push(path.invalid("must start with a '/'"));
    }
    // Skips the first byte, which is a slash in a valid path.
    let rest = text.as_bytes().get(1..).unwrap_or_default();
    let rest = String::from_utf8_lossy(rest);
    let steps = rest.strip_suffix('/').unwrap_or(&rest);
    for (index, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            errors.push(path.invalid(format!("segment[{index}] may not be empty")));
            continue;
        }
        let wrong = names::dns_subdomain(step).into_iter();
        errors.extend(wrong.map(|message| path.invalid(format!("segment[{index}]: {message}"))));
    }
}

/// The parts of a URL that validation needs.
struct Url<'u> {
    scheme: String,
    user: Option<&'u str>,
    host: &'u str,
    query: &'u str,
    fragment: &'u str,
}

impl<'u> Url<'u> {
    /// Parses a URL like Go's `net/url`, with its error messages.
    fn parse(text: &'u str) -> Result<Url<'u>, String> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = split_scheme(before)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Url {
            scheme: scheme.to_ascii_lowercase(),
            user: None,
            host: "",
            query,
            fragment,
        };
        let is_opaque = !rest.starts_with('/');
        if is_opaque && !scheme.is_empty() {
            return Ok(url);
        }
        let first = rest.split('/').next().unwrap_or_default();
        if is_opaque && first.contains(':') {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
        let mut path = rest;
        if let Some(after) = rest.strip_prefix("//") {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, after) = after.split_at(end);
            path = after;
            let (user, host) = match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, authority),
            };
            check_port(host)?;
            check_escapes(host)?;
            (url.user, url.host) = (user, host);
        }
        check_escapes(path)?;
        check_escapes(fragment)?;
        Ok(url)
    }
}

/// Splits a URL into its scheme, if any, and the rest.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => {
                let (scheme, rest) = text.split_at(index);
                return Ok((scheme, rest.strip_prefix(':').unwrap_or(rest)));
            }
            _ => break,
        }
    }
    Ok(("", text))
}

/// Checks that a host is followed by nothing or by a colon and digits.
fn check_port(host: &str) -> Result<(), String> {
    let after = match host.strip_prefix('[') {
        Some(inner) => match inner.rsplit_once(']') {
            Some((_, after)) => after,
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host.rfind(':').map_or("", |at| host.split_at(at).1),
    };
    let is_port = match after.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|digit| digit.is_ascii_digit()),
        None => after.is_empty(),
    };
    match is_port {
        true => Ok(()),
        false => Err(format!("invalid port {} after host", go_quote(after))),
    }
}

/// Checks that each percent sign is followed by two hexadecimal digits.
fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let escape: String = text.split_at(at).1.chars().take(3).collect();
        let digits = escape.bytes().skip(1).filter(u8::is_ascii_hexdigit);
        if digits.count() != 2 {
            return Err(format!("invalid URL escape {}", go_quote(&escape)));
        }
    }
    Ok(())
}
