//! Links in the answers of other servers, which lead through this server (CN-33, CN-74).
//!
//! This folder owns which links are rewritten and how, and finds them in HTML while it streams.

mod body;
mod html;
mod references;

use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, LOCATION,
};
use http::{HeaderMap, Method, StatusCode};

use crate::api::percent::{cleaned_path, decoded_bytes, encoded_path};
use crate::api::text::url::Url;
use crate::egress::ForwardedBody;

use body::Packing;
pub use body::PassedBody;
use html::HtmlLinks;

/// Where the links of a server lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkRules {
    /// The scheme, host and port that rewritten links begin with. Without them they begin with a
    /// path.
    pub origin: Option<(&'static str, String)>,
    /// The path, without escapes, below which this server has the other one. Empty for none.
    pub below: String,
    /// The host and port by which this server knows the other one.
    pub server: String,
    /// The host that the client has asked.
    pub asked: String,
}

impl LinkRules {
    /// Returns the URL to which a link leads instead. `None` if it stays, because it is relative or
    /// leads to another server.
    ///
    /// # Errors
    /// It is not a URL.
    pub fn url(&self, link: &str) -> Result<Option<String>, String> {
        let mut url = Url::read_whole(link)?;
        let is_own = url.host.is_empty() || url.host == self.server;
        let is_asked = !url.host.is_empty() && url.host == self.asked;
        let is_absolute = url.path.starts_with('/') && !url.is_opaque();
        if !is_absolute || !(is_own || is_asked) {
            return Ok(None);
        }
        if !is_asked || self.origin.is_some() {
            let (scheme, host) = self.origin.clone().unwrap_or_default();
            (url.scheme, url.host) = (scheme.to_owned(), host);
        }
        if !self.below.is_empty() {
            url.path = self.placed(&url.path);
        }
        Ok(Some(url.to_string()).filter(|url| url != link))
    }

    /// Returns a path, with its escapes, below that of the other server.
    fn placed(&self, path: &str) -> String {
        let below = encoded_path(self.below.as_bytes());
        let decoded = decoded_bytes(path).and_then(|path| String::from_utf8(path).ok());
        let Some(decoded) = decoded else {
            return format!("{below}{path}");
        };
        let rest = decoded.strip_prefix(&self.below);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return path.to_owned();
        }
        let whole = cleaned_path(&format!("{}{decoded}", self.below));
        encoded_path(whole.as_bytes())
    }

    /// Returns the link of an attribute in HTML, as it is written there.
    fn attribute(&self, written: &str) -> Option<String> {
        match references::decoded(written) {
            Some(link) => {
                let url = self.url(&link).ok()??;
                Some(references::encoded(&url))
            }
            // Only its beginning is known.
            None => {
                let is_path = written.starts_with('/') && !written.starts_with("//");
                let origin = self.origin.as_ref();
                let origin = origin.map(|(scheme, host)| format!("{scheme}://{host}"));
                let below = encoded_path(self.below.as_bytes());
                let link = format!("{}{below}{written}", origin.unwrap_or_default());
                is_path.then_some(link)
            }
        }
    }

    /// Rewrites the header `Location` of an answer.
    ///
    /// # Errors
    /// It is not a URL.
    pub fn relocate(&self, headers: &mut HeaderMap) -> Result<(), String> {
        let Some(location) = headers.get(LOCATION).filter(|value| !value.is_empty()) else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(location.as_bytes());
        let url = self.url(&text)?;
        if let Some(value) = url.and_then(|url| HeaderValue::try_from(url).ok()) {
            headers.insert(LOCATION, value);
        }
        Ok(())
    }

    /// Returns the body of an answer to a request with this method. The links of HTML are
    /// rewritten, unless a `Location` leads elsewhere.
    pub fn body(
        self,
        method: &Method,
        status: StatusCode,
        headers: &mut HeaderMap,
        body: ForwardedBody,
    ) -> PassedBody {
        let has_body = method != Method::HEAD && !matches!(status.as_u16(), 204 | 304);
        let is_whole = has_body && !headers.contains_key(CONTENT_RANGE);
        let packing = packing(headers).filter(|_| is_whole && is_html(headers));
        let location = headers.get(LOCATION);
        let Some(packing) = packing.filter(|_| location.is_none_or(HeaderValue::is_empty)) else {
            return body.into();
        };
        headers.remove(CONTENT_LENGTH);
        let replace = move |link: &str| self.attribute(link);
        PassedBody::rewritten(body, HtmlLinks::new(Box::new(replace)), packing)
    }
}

fn is_html(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let media_type = media_type.and_then(|value| value.split(|byte| *byte == b';').next());
    media_type.is_some_and(|media_type| media_type.trim_ascii() == b"text/html")
}

/// Returns how a body is packed, `None` for a coding that is not read.
fn packing(headers: &HeaderMap) -> Option<Packing> {
    match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"") => Some(Packing::Plain),
        Some(b"gzip") => Some(Packing::Gzip),
        Some(b"deflate") => Some(Packing::Deflate),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pod() -> LinkRules {
        LinkRules {
            origin: None,
            below: "/api/v1/namespaces/n/pods/p/proxy".to_owned(),
            server: "10.0.0.1:80".to_owned(),
            asked: "api.example:6443".to_owned(),
        }
    }

    #[test]
    fn links_to_the_server_lead_through_the_proxy_cn_74() {
        let rules = of_pod();
        for (link, expected) in [
            ("/", "{}/"),
            ("/a/b/?q=1&r=2#f", "{}/a/b/?q=1&r=2#f"),
            ("/with space", "{}/with%20space"),
            ("/%7Etilde", "{}/~tilde"),
            ("/../a//b", "{}/../a//b"),
            ("http://10.0.0.1:80/own", "{}/own"),
            (
                "http://api.example:6443/own",
                "http://api.example:6443{}/own",
            ),
            ("//api.example:6443/own", "//api.example:6443{}/own"),
            ("/%ff", "{}/%ff"),
        ] {
            let expected = match link {
                "/../a//b" => "/api/v1/namespaces/n/pods/p/a/b".to_owned(),
                _ => expected.replace("{}", &rules.below),
            };
            assert_eq!(rules.url(link), Ok(Some(expected)), "{link}");
        }
        for link in [
            "",
            "relative",
            "../up",
            "#here",
            "?a",
            "mailto:x@example.com",
            "//other.example/x",
            "https://other.example/y",
            "http://10.0.0.1:80",
            "/api/v1/namespaces/n/pods/p/proxy",
            "/api/v1/namespaces/n/pods/p/proxy/x%20y",
        ] {
            assert_eq!(rules.url(link), Ok(None), "{link}");
        }
        let why = "parse \"http://[x\": missing ']' in host";
        assert_eq!(rules.url("http://[x"), Err(why.to_owned()));
    }

    #[test]
    fn links_of_extensions_name_the_extension_cn_33() {
        let rules = LinkRules {
            origin: Some(("https", "10.0.0.2:443".to_owned())),
            below: String::new(),
            server: "10.0.0.2:443".to_owned(),
            asked: "10.0.0.2:443".to_owned(),
        };
        let url = |link: &str| rules.url(link).unwrap();
        assert_eq!(url("/x/../y").unwrap(), "https://10.0.0.2:443/x/../y");
        assert_eq!(
            url("http://10.0.0.2:443/x").unwrap(),
            "https://10.0.0.2:443/x"
        );
        assert_eq!(url("https://10.0.0.2:443/x"), None);
        assert_eq!(url("x"), None);
        assert_eq!(url("https://other.example/x"), None);
    }

    #[test]
    fn links_are_written_as_in_html_cn_74() {
        let rules = of_pod();
        let attribute = |written: &str| rules.attribute(written);
        let placed = |rest: &str| Some(format!("{}{rest}", rules.below));
        assert_eq!(attribute("/a?b=1&amp;c=2"), placed("/a?b=1&amp;c=2"));
        assert_eq!(attribute("/a?b=1&c='"), placed("/a?b=1&amp;c=&#39;"));
        assert_eq!(attribute("&#47;a&#x2F;"), placed("/a/"));
        assert_eq!(attribute("/caf&eacute;"), placed("/caf&eacute;"));
        assert_eq!(attribute("//other.example/caf&eacute;"), None);
        assert_eq!(attribute("http://[x"), None);
    }
}
