//! Where a redirect leads. Pure.

use http::{Method, StatusCode, Uri};

/// The most redirects of a request, as in Go.
pub(super) const REDIRECTS_MAX: usize = 10;

/// The request that a redirect asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hop {
    /// `None` if it stays at its server.
    pub(super) origin: Option<String>,
    pub(super) path: String,
    pub(super) method: Method,
    /// Whether the body is sent again.
    pub(super) keeps_body: bool,
}

/// Returns the next request, or `None` if the answer is not a redirect that can be followed.
///
/// # Errors
/// The location is not a URL.
pub(super) fn next(
    status: StatusCode,
    location: Option<&str>,
    method: &Method,
    scheme: &str,
    path: &str,
) -> Result<Option<Hop>, String> {
    let keeps = match status.as_u16() {
        301..=303 => false,
        307 | 308 => true,
        _ => return Ok(None),
    };
    let Some(location) = location.filter(|location| !location.is_empty()) else {
        return Ok(None);
    };
    let unusable = || format!("failed to parse Location header {location:?}");
    let place = location.split('#').next().unwrap_or_default();
    let (origin, path) = if let Some((scheme, rest)) = place.split_once("://") {
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(&*scheme, "http" | "https") {
            return Err(format!("unsupported protocol scheme {scheme:?}"));
        }
        split(&scheme, rest)
    } else if let Some(rest) = place.strip_prefix("//") {
        split(scheme, rest)
    } else {
        (None, beside(path, place))
    };
    path.parse::<Uri>().map_err(|_| unusable())?;
    let is_kept = keeps || matches!(*method, Method::GET | Method::HEAD);
    Ok(Some(Hop {
        origin,
        path,
        method: match is_kept {
            true => method.clone(),
            false => Method::GET,
        },
        keeps_body: keeps,
    }))
}

/// Splits what follows the scheme into the origin, and the path with its query.
fn split(scheme: &str, rest: &str) -> (Option<String>, String) {
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/{path}"),
    };
    (Some(format!("{scheme}://{authority}")), path)
}

/// Resolves a relative reference against the path of a request (RFC 3986, 5.2).
fn beside(path: &str, reference: &str) -> String {
    let base = path.split('?').next().unwrap_or_default();
    if reference.is_empty() {
        return path.to_owned();
    }
    if reference.starts_with('?') {
        return format!("{base}{reference}");
    }
    let (place, query) = reference.split_at(reference.find('?').unwrap_or(reference.len()));
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    let whole = match place.starts_with('/') {
        true => place.to_owned(),
        false => format!("{folder}/{place}"),
    };
    let mut kept: Vec<&str> = Vec::new();
    let mut is_folder = false;
    for part in whole.split('/').skip(1) {
        is_folder = matches!(part, "." | "..");
        match part {
            "." => {}
            ".." => {
                kept.pop();
            }
            part => kept.push(part),
        }
    }
    let end = if is_folder && !kept.is_empty() {
        "/"
    } else {
        ""
    };
    format!("/{}{end}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(status: u16, location: &str, method: Method) -> Result<Option<Hop>, String> {
        let status = StatusCode::from_u16(status).unwrap();
        next(status, Some(location), &method, "https", "/a/b?c")
    }

    #[test]
    fn the_status_decides_about_method_and_body_hk_41() {
        for (status, method, expected, keeps) in [
            (301, Method::POST, Method::GET, false),
            (302, Method::PUT, Method::GET, false),
            (303, Method::HEAD, Method::HEAD, false),
            (307, Method::POST, Method::POST, true),
            (308, Method::POST, Method::POST, true),
        ] {
            let hop = to(status, "/x", method).unwrap().unwrap();
            assert_eq!((hop.method, hop.keeps_body), (expected, keeps), "{status}");
        }
        assert_eq!(to(300, "/x", Method::GET), Ok(None));
        assert_eq!(to(304, "/x", Method::GET), Ok(None));
        assert_eq!(to(302, "", Method::GET), Ok(None));
    }

    #[test]
    fn locations_are_resolved_against_the_request_hk_41() {
        for (location, origin, path) in [
            ("https://h:1/x?y#z", Some("https://h:1"), "/x?y"),
            ("HTTP://h", Some("http://h"), "/"),
            ("//h?q", Some("https://h"), "/?q"),
            ("/x", None, "/x"),
            ("x", None, "/a/x"),
            ("../x?y=../z", None, "/x?y=../z"),
            ("../../..", None, "/"),
            (".", None, "/a/"),
            ("?q", None, "/a/b?q"),
            ("#f", None, "/a/b?c"),
        ] {
            let hop = to(307, location, Method::POST).unwrap().unwrap();
            assert_eq!(
                (hop.origin.as_deref(), &*hop.path),
                (origin, path),
                "{location}"
            );
        }
        assert!(to(302, "ftp://h/", Method::GET).is_err());
        assert!(to(302, "/a b", Method::GET).is_err());
    }
}
