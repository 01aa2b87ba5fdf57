//! Links in the answers of other servers, which lead through this server (CN-33, CN-74).
//!
//! This folder owns which links are rewritten and how, and finds them in HTML while it streams.

mod body;
mod html;
mod references;

use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HeaderValue, LOCATION,
};
use http::{HeaderMap, Method, StatusCode};

use crate::api::percent::{cleaned_path, decoded_bytes, encoded_path};
use crate::api::text::url::Url;
use crate::egress::ForwardedBody;

use body::Coding;
pub use body::PassedBody;
use html::HtmlLinks;

/// Where the links of a server lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRules {
    /// The scheme, host and port that rewritten links begin with. Without them they begin with a
    /// path.
    origin: Option<(&'static str, String)>,
    /// The path, without escapes, below which this server has the other one. Empty for none.
    below: String,
    /// The same with escapes.
    encoded_below: String,
    /// The host and port by which this server knows the other one.
    server: String,
    /// The host that the client has asked.
    asked: String,
}

impl LinkRules {
    /// The rules for the server that a proxy leads to (CN-74): the path of the proxy, the server's
    /// host and port, and the host that the client has asked.
    pub fn of_proxy(below: String, server: String, asked: String) -> LinkRules {
        LinkRules {
            origin: None,
            encoded_below: encoded_path(below.as_bytes()),
            below,
            server,
            asked,
        }
    }

    /// The rules for an extension at this host and port (CN-33).
    pub fn of_extension(address: &str) -> LinkRules {
        LinkRules {
            origin: Some(("https", address.to_owned())),
            encoded_below: String::new(),
            below: String::new(),
            server: address.to_owned(),
            asked: address.to_owned(),
        }
    }

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
        let below = &self.encoded_below;
        if is_below(path, below) {
            return path.to_owned();
        }
        // Most paths are as they should be.
        if !path.contains('%') && !path.contains("//") && !path.contains("/.") {
            return format!("{below}{path}");
        }
        let decoded = decoded_bytes(path).and_then(|path| String::from_utf8(path).ok());
        let Some(decoded) = decoded else {
            return format!("{below}{path}");
        };
        if is_below(&decoded, &self.below) {
            return path.to_owned();
        }
        let whole = cleaned_path(&format!("{}{decoded}", self.below));
        encoded_path(whole.as_bytes())
    }

    /// Returns the link of an attribute in HTML, as it is written there.
    fn attribute(&self, written: &str) -> Option<String> {
        if let Some(link) = references::decoded(written) {
            let url = self.url(&link).ok()??;
            return Some(references::encoded(&url));
        }
        // It has a reference whose character is not known. Only the beginning of the link changes.
        let below = &self.encoded_below;
        let is_path = written.starts_with('/') && !written.starts_with("//");
        if !is_path || is_below(written, below) || written.contains("/.") {
            return None;
        }
        let origin = self.origin.as_ref();
        let origin = origin.map(|(scheme, host)| format!("{scheme}://{host}"));
        let link = format!("{}{below}{written}", origin.unwrap_or_default());
        Some(link.replace('"', "&#34;"))
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
        let coding = coding(headers).filter(|_| is_whole && is_html(headers));
        let location = headers.get(LOCATION);
        let Some(coding) = coding.filter(|_| location.is_none_or(HeaderValue::is_empty)) else {
            return body.into();
        };
        headers.remove(CONTENT_LENGTH);
        // Parts and copies of the page are those of another one.
        headers.remove(ACCEPT_RANGES);
        if let Some(tag) = headers.remove(ETAG)
            && let Some(weak) = weak(&tag)
        {
            headers.insert(ETAG, weak);
        }
        let replace = move |link: &str| self.attribute(link);
        PassedBody::rewritten(body, HtmlLinks::new(Box::new(replace)), coding)
    }
}

/// Returns the weak form of the tag of a page.
fn weak(tag: &HeaderValue) -> Option<HeaderValue> {
    let tag = tag.to_str().ok()?;
    let weak = if tag.starts_with("W/") { "" } else { "W/" };
    HeaderValue::try_from(format!("{weak}{tag}")).ok()
}

/// Whether a path is this one, or below it. Nothing is below an empty one.
fn is_below(path: &str, below: &str) -> bool {
    let rest = path.strip_prefix(below).filter(|_| !below.is_empty());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_html(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let media_type = media_type.and_then(|value| value.split(|byte| *byte == b';').next());
    media_type.is_some_and(|media_type| media_type.trim_ascii() == b"text/html")
}

/// Returns how a body is compressed, `None` for a coding that is not read.
fn coding(headers: &HeaderMap) -> Option<Coding> {
    match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"") => Some(Coding::Plain),
        Some(b"gzip") => Some(Coding::Gzip),
        Some(b"deflate") => Some(Coding::Deflate),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pod() -> LinkRules {
        LinkRules::of_proxy(
            "/api/v1/namespaces/n/pods/p/proxy".to_owned(),
            "10.0.0.1:80".to_owned(),
            "api.example:6443".to_owned(),
        )
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
        let rules = LinkRules::of_extension("10.0.0.2:443");
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
        assert_eq!(
            attribute("/x\" y='&eacute;'"),
            placed("/x&#34; y='&eacute;'")
        );
        assert_eq!(attribute("/../x?&eacute;"), None);
        assert_eq!(attribute(&format!("{}/x?&eacute;", rules.below)), None);
        assert_eq!(attribute("/a?x&debug"), placed("/a?x&amp;debug"));
        assert_eq!(attribute("//other.example/caf&eacute;"), None);
        assert_eq!(attribute("http://[x"), None);
    }
}
