//! Requests that a pod, a service or a node answers itself (CN-70 to CN-77).

use http::header::{HOST, HeaderName, HeaderValue, LOCATION};
use http::{Method, Response, StatusCode, Version};

use super::super::{Answered, watch};
use super::answer_of;
use super::asked::{Asked, passed_on, upgraded, without_body};
use crate::api::percent::{cleaned_path, decoded_bytes, encoded_path};
use crate::api::status::Status;
use crate::egress::headers::{add_upgrade, is_upgrade, of_answer};
use crate::egress::{EgressError, Failure, ForwardRequest, authority};
use crate::kubelet::unverified;
use crate::registry::rest::ProxiedServer;
use crate::server::links::LinkRules;
use crate::server::metrics::LongRunning;
use crate::server::passed_on::{answered, of_request, upload};
use crate::server::request_scope::RequestScope;
use crate::server::respond::ResponseBody;
use crate::server::routes::Target;
use crate::transport::{ConnectionFacts, RequestBody};

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// Passes a request on to a server. `path` is the path there if it is not that of the URL.
pub(super) async fn proxied(
    scope: &RequestScope<'_>,
    target: &Target,
    server: ProxiedServer,
    path: Option<&str>,
    body: RequestBody,
) -> Answered {
    let parts = scope.parts;
    let is_upgrade = parts.version == Version::HTTP_11 && is_upgrade(&parts.method, &parts.headers);
    let mut place = Place::of(scope, target);
    if let Some(path) = path {
        place.lead_to(path, is_upgrade);
    }
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    if place.rest.is_empty() && is_read && !is_upgrade {
        return place.redirect(parts.uri.query());
    }
    let seat = watch::seat(scope)?;
    let running = LongRunning::begin(&parts.method, target.storage.resource(), "proxy");
    let kubelets = &scope.server.kubelets;
    let (found, egress, address) = match &server {
        ProxiedServer::Kubelet { host, port } => {
            let kubelet = kubelets.proxied(host, *port).await;
            (kubelet, kubelets.egress(), authority(host, *port))
        }
        ProxiedServer::Other { is_tls, host, port } => {
            let other = unverified(*is_tls, host, *port);
            (other, kubelets.others(), authority(host, *port))
        }
    };
    let server = found.map_err(Status::unknown)?;
    let facts = parts.extensions.get::<ConnectionFacts>();
    let mut headers = passed_on(scope.headers, facts.map(|facts| facts.peer.ip()));
    let asked = place.asked.clone();
    // A client of HTTP/1.0 may have asked for none.
    let host = Some(&asked).filter(|asked| !asked.is_empty());
    if let Some(Ok(host)) = host.map(HeaderValue::try_from) {
        headers.insert(HOST, host);
    }
    if is_upgrade {
        without_body(&body)?;
        add_upgrade(&mut headers, scope.headers);
        let asked = Asked {
            egress,
            server: &server,
            path: place.path(),
            headers,
        };
        return upgraded(scope, asked, (seat, running)).await;
    }
    if let Ok(uri) = HeaderValue::try_from(place.forwarded_uri()) {
        headers.insert(FORWARDED_URI, uri);
    }
    let request = ForwardRequest {
        method: parts.method.clone(),
        path: match parts.uri.query() {
            Some(query) => format!("{}?{query}", place.path()),
            None => place.path(),
        },
        headers,
        body: upload(body, &parts.headers),
        // The client decides how long it waits.
        deadline: None,
    };
    let asking = egress.forward(&server, request);
    let answer = answer_of(scope, !parts.method.is_safe(), asking).await?;
    let answer = answer.map_err(|error| unreachable(&error))?;
    let rules = LinkRules::of_proxy(place.below, address, asked);
    let mut headers = of_answer(&answer.headers);
    rules.relocate(&mut headers).map_err(unparsable)?;
    let body = rules.body(&parts.method, answer.status, &mut headers, answer.body);
    let access = scope.access.clone();
    let guards = (seat, running);
    let pieces = of_request(&parts.method, body, scope.leaving, access, guards)?;
    let body = ResponseBody::Chunks(pieces);
    Ok(answered(answer.status, headers, body))
}

/// Returns the Status for a server that has not answered (CN-75).
fn unreachable(error: &EgressError) -> Box<Status> {
    let why = &error.failure;
    if *why == Failure::NotAllowed {
        return Box::new(Status::bad_request(why.to_string()));
    }
    Box::new(Status::unreachable(why))
}

fn unparsable(why: String) -> Box<Status> {
    let why = format!("error trying to parse Location header: {why}");
    Box::new(Status::internal(why))
}

/// The parts of the path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// All of it, with the escapes of Go.
    whole: String,
    /// The path of the proxy, decoded.
    below: String,
    /// The path at the server, with such escapes and without detours. Empty without a slash after
    /// the proxy.
    rest: String,
    /// The host that the client has asked.
    asked: String,
}

impl Place {
    fn of(scope: &RequestScope<'_>, target: &Target) -> Place {
        let resource = &target.storage.resource().plural;
        let namespace = target.namespace.as_ref();
        let namespace = namespace.map(|name| format!("namespaces/{name}/"));
        let below = format!(
            "/api/v1/{}{resource}/{}/proxy",
            namespace.unwrap_or_default(),
            target.name
        );
        let uri = &scope.parts.uri;
        // A path may have bytes that are not UTF-8.
        let whole = encoded_path(&decoded_bytes(uri.path()).unwrap_or_default());
        let segments = below.split('/').count();
        let host = scope.headers.get(HOST).and_then(|host| host.to_str().ok());
        let authority = uri.authority().map(http::uri::Authority::as_str);
        Place {
            rest: after(&whole, segments),
            whole,
            below,
            asked: host.or(authority).unwrap_or_default().to_owned(),
        }
    }

    /// Leads to another path at the server, as admission has decided. A slash at the end of the
    /// URL stays, unless the request is an upgrade (CN-73).
    fn lead_to(&mut self, path: &str, is_upgrade: bool) {
        self.rest = match path {
            "" => String::new(),
            path => cleaned_path(&encoded_path(path.as_bytes())),
        };
        if !is_upgrade && self.whole.ends_with('/') && !self.rest.ends_with('/') {
            self.rest.push('/');
        }
    }

    /// The path at the server, encoded.
    fn path(&self) -> String {
        match &*self.rest {
            "" => "/".to_owned(),
            rest => rest.to_owned(),
        }
    }

    /// The path of the header `X-Forwarded-Uri`. It has the path at the server twice if that was
    /// written with detours, as in kube-apiserver (CN-73).
    fn forwarded_uri(&self) -> String {
        let before = self.whole.strip_suffix(&self.rest);
        let before = before.unwrap_or(&self.whole);
        cleaned_path(&format!("{before}{}", self.rest))
    }

    /// Redirects to the path with a slash at its end, so that relative links lead to the server.
    fn redirect(&self, query: Option<&str>) -> Answered {
        let query = query.map(|query| format!("?{query}"));
        let to = format!("{}/{}", self.whole, query.unwrap_or_default());
        let to = HeaderValue::try_from(to);
        let to = to.map_err(|_| Status::bad_request("the query has invalid characters"))?;
        let mut answer = Response::new(ResponseBody::Empty);
        *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
        answer.headers_mut().insert(LOCATION, to);
        Ok(answer)
    }
}

/// Returns the path after this many segments, without detours.
fn after(path: &str, segments: usize) -> String {
    match path.splitn(segments + 1, '/').nth(segments) {
        Some(rest) => cleaned_path(rest),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BELOW: &str = "/api/v1/namespaces/n/pods/p/proxy";

    fn place(below: &str) -> Place {
        let whole = encoded_path(&decoded_bytes(&format!("{BELOW}{below}")).unwrap());
        Place {
            rest: after(&whole, BELOW.split('/').count()),
            whole,
            below: BELOW.to_owned(),
            asked: String::new(),
        }
    }

    #[test]
    fn paths_at_the_server_are_clean_cn_73() {
        for (below, path, forwarded) in [
            ("", "/", ""),
            ("/", "/", "/"),
            ("//", "/", "/"),
            ("/a/b", "/a/b", "/a/b"),
            ("/a/b/", "/a/b/", "/a/b/"),
            ("/a%20b/é", "/a%20b/%C3%A9", "/a%20b/%C3%A9"),
            ("/%ff%FE/%e4", "/%FF%FE/%E4", "/%FF%FE/%E4"),
            ("/a%2fb", "/a/b", "/a/b"),
            ("/a//b", "/a/b", "/a/b/a/b"),
        ] {
            let place = place(below);
            assert_eq!(place.path(), path, "{below}");
            assert_eq!(
                place.forwarded_uri(),
                format!("{BELOW}{forwarded}"),
                "{below}"
            );
        }
        // Admission can lead to another path.
        for (below, admitted, path, upgraded) in [
            ("/a", "/b", "/b", "/b"),
            ("/a/", "/b", "/b/", "/b"),
            ("/a", "b/../../c d/", "/c%20d/", "/c%20d/"),
            ("/a/", "", "/", "/"),
        ] {
            let led = |is_upgrade: bool| {
                let mut place = place(below);
                place.lead_to(admitted, is_upgrade);
                place.path()
            };
            assert_eq!((&*led(false), &*led(true)), (path, upgraded), "{below}");
        }
        // It cannot leave the server.
        assert_eq!(place("/a/../../../b").path(), "/b");
        assert_eq!(place("/%2e%2e/%2E%2E%2fb").path(), "/b");
    }
}
