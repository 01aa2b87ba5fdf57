//! The client: pools of connections by target, redirects, deadlines.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::dial;
use super::error::{EgressError, Failure};
use super::metrics::{self, Hosts};
use super::outgoing::OutgoingBody;
use super::pool::{Connection, Lease, Pool};
use super::redirect::{self, REDIRECTS_MAX};
use super::request::{Answer, AnswerBody, EgressRequest, OpenAnswer};
use super::target::{Redirects, Target};

/// The most targets with a pool. The one that was not used for longest loses its pool.
pub(super) const POOLS_MAX: usize = 256;

/// The most bytes of a redirect's body that are read to use its connection again, as in Go.
const REDIRECT_BYTES_MAX: usize = 2 << 10;

/// Headers that may have secrets. They do not go to another host.
const SECRETS: [HeaderName; 3] = [AUTHORIZATION, COOKIE, HeaderName::from_static("cookie2")];

/// Headers that begin so name the user for whom a request is made.
const IMPERSONATION: &str = "impersonate-";

/// Pools by the keys of their targets, with the time of their last use.
type Pools = HashMap<[u8; 32], (Arc<Pool>, Instant)>;

/// Sends requests to other servers.
pub struct EgressClient {
    pools: Mutex<Pools>,
    hosts: Hosts,
}

impl Default for EgressClient {
    fn default() -> EgressClient {
        EgressClient::new()
    }
}

impl EgressClient {
    /// A client without connections.
    pub fn new() -> EgressClient {
        metrics::describe();
        EgressClient {
            pools: Mutex::default(),
            hosts: Hosts::default(),
        }
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// No complete answer within the deadline and the bound of bytes.
    pub async fn send(
        &self,
        target: &Target,
        request: EgressRequest,
    ) -> Result<Answer, EgressError> {
        let bytes_max = request.answer_bytes_max;
        let open = self.open(target, request).await?;
        Ok(Answer {
            status: open.status,
            headers: open.headers,
            body: open.body.whole(bytes_max).await?,
        })
    }

    /// Sends a request and returns when the head of the answer has come. The deadline covers the
    /// body, whose bytes are not bounded.
    ///
    /// # Errors
    /// No answer within the deadline.
    pub async fn open(
        &self,
        target: &Target,
        mut request: EgressRequest,
    ) -> Result<OpenAnswer, EgressError> {
        let mut target = target.clone();
        for followed in 0.. {
            let open = self.exchange(&target, &request).await?;
            if target.settings().redirects == Redirects::Refuse {
                return Ok(open);
            }
            let refuse =
                |why: String| error(&target, Outline::of(&request), Failure::Redirect(why));
            let location = open.headers.get(LOCATION);
            let location = location.and_then(|value| value.to_str().ok());
            let scheme = if target.is_tls { "https" } else { "http" };
            let (method, path) = (&request.method, &request.path);
            let hop = redirect::next(open.status, location, method, scheme, path);
            let Some(hop) = hop.map_err(refuse)? else {
                return Ok(open);
            };
            if followed == REDIRECTS_MAX {
                let mut last = error(&target, Outline::of(&request), Failure::Closed);
                last.method = hop.method;
                let origin = hop.origin.unwrap_or_else(|| target.origin());
                last.url = format!("{origin}{}", hop.path);
                last.failure = Failure::Redirect("stopped after 10 redirects".to_owned());
                return Err(last);
            }
            // The next request does not need this answer.
            let _ = open.body.whole(REDIRECT_BYTES_MAX).await;
            if let Some(origin) = hop.origin {
                let next = target.elsewhere(origin);
                let next = next.map_err(|why| refuse(why.to_string()))?;
                if !next.is_at(&target) {
                    remove_secrets(&mut request.headers);
                    target = next;
                }
            }
            if !hop.keeps_body {
                request.body = Bytes::new();
                request.headers.remove(CONTENT_TYPE);
            }
            request.method = hop.method;
            request.path = hop.path;
        }
        Err(error(&target, Outline::of(&request), Failure::Closed))
    }

    /// Sends one request, without redirects, and counts it.
    async fn exchange(
        &self,
        target: &Target,
        request: &EgressRequest,
    ) -> Result<OpenAnswer, EgressError> {
        let begin = Instant::now();
        let outline = Outline::of(request);
        let body = OutgoingBody::Whole(request.body.clone());
        let attempts = self.attempts(target, outline, body);
        let exchanged = timeout_at(request.deadline, attempts).await;
        let exchanged = exchanged.unwrap_or(Err(Failure::Deadline));
        self.count(target, outline, &exchanged, begin);
        let (answer, returned) = exchanged.map_err(|why| error(target, outline, why))?;
        let (head, incoming) = answer.into_parts();
        Ok(OpenAnswer {
            status: head.status,
            headers: head.headers,
            body: AnswerBody {
                incoming,
                returned: Some(returned),
                method: request.method.clone(),
                url: url(target, outline),
                deadline: request.deadline,
            },
        })
    }

    /// Counts a request.
    pub(super) fn count(
        &self,
        target: &Target,
        outline: Outline<'_>,
        exchanged: &Result<Exchanged, Failure>,
        begin: Instant,
    ) {
        let status = exchanged.as_ref().ok().map(|(answer, _)| answer.status());
        self.count_status(target, outline, status, begin);
    }

    /// Counts a request with this status; `None` is one without an answer.
    pub(super) fn count_status(
        &self,
        target: &Target,
        outline: Outline<'_>,
        status: Option<StatusCode>,
        begin: Instant,
    ) {
        let (host, took) = (&target.authority, begin.elapsed());
        self.hosts.count(host, outline.method, status, took);
    }

    /// Sends one request. On a connection that the server has closed meanwhile, it is sent again on
    /// a new one, if it was not sent or may be repeated.
    pub(super) async fn attempts(
        &self,
        target: &Target,
        outline: Outline<'_>,
        mut body: OutgoingBody,
    ) -> Result<Exchanged, Failure> {
        let pool = self.pool(target)?;
        let may_repeat = matches!(
            *outline.method,
            Method::GET | Method::HEAD | Method::OPTIONS
        );
        let mut may_reuse = true;
        loop {
            let Lease {
                mut connection,
                is_reused,
            } = pool.lease(target, may_reuse).await?;
            let again = body.again();
            let (sent, unsent) = match &mut connection {
                Connection::Http1(sender) => {
                    let message = message(target, outline, Version::HTTP_11, body)?;
                    split(sender.try_send_request(message).await)
                }
                Connection::Http2(place) => {
                    let message = message(target, outline, Version::HTTP_2, body)?;
                    split(place.sender.try_send_request(message).await)
                }
            };
            match sent {
                Ok(answer) => return Ok((answer, (pool, connection))),
                Err(failure) if is_reused && failure == Failure::Closed => {
                    let was_sent = unsent.is_none();
                    let Some(next) = unsent.or(again).filter(|_| may_repeat || !was_sent) else {
                        return Err(failure);
                    };
                    body = next;
                    may_reuse = false;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Returns the pool of a target.
    pub(super) fn pool(&self, target: &Target) -> Result<Arc<Pool>, Failure> {
        let mut pools = self.pools.lock();
        if let Some((pool, used)) = pools.get_mut(&target.key) {
            *used = Instant::now();
            return Ok(Arc::clone(pool));
        }
        drop(pools);
        // Certificates are read without the lock.
        let pool = Pool::new(target)?;
        let mut pools = self.pools.lock();
        if pools.len() >= POOLS_MAX {
            // linear: a few hundred pools, when a new one is made.
            let oldest = pools.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                pools.remove(&key);
            }
        }
        let entry = pools.entry(target.key);
        let (pool, _) = entry.or_insert_with(|| (pool, Instant::now()));
        Ok(Arc::clone(pool))
    }

    /// The number of pools, and of the idle connections in them.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        let pools = self.pools.lock();
        let idle = pools.values().map(|(pool, _)| pool.idle());
        (pools.len(), idle.sum())
    }
}

/// An answer, and the connection that another request may use after it.
pub(super) type Exchanged = (Response<Incoming>, (Arc<Pool>, Connection));

/// A request without its body.
#[derive(Clone, Copy)]
pub(super) struct Outline<'r> {
    pub(super) method: &'r Method,
    pub(super) path: &'r str,
    pub(super) headers: &'r HeaderMap,
    /// Whether the headers are those of another client, to which none is added.
    pub(super) is_forwarded: bool,
}

impl<'r> Outline<'r> {
    fn of(request: &'r EgressRequest) -> Outline<'r> {
        Outline {
            method: &request.method,
            path: &request.path,
            headers: &request.headers,
            is_forwarded: false,
        }
    }

    /// The outline of a request that is passed on for another client.
    pub(super) fn forwarded(
        method: &'r Method,
        path: &'r str,
        headers: &'r HeaderMap,
    ) -> Outline<'r> {
        Outline {
            method,
            path,
            headers,
            is_forwarded: true,
        }
    }
}

type Message = Request<OutgoingBody>;
type Sent = Result<Response<Incoming>, hyper::client::conn::TrySendError<Message>>;

/// Returns also the body of a request that the server can't have got.
fn split(sent: Sent) -> (Result<Response<Incoming>, Failure>, Option<OutgoingBody>) {
    match sent {
        Ok(answer) => (Ok(answer), None),
        Err(mut unsent) => match unsent.take_message() {
            Some(message) => (Err(Failure::Closed), Some(message.into_body())),
            None => (Err(dial::of_exchange(unsent.error())), None),
        },
    }
}

/// Makes the request as a connection of this version sends it.
pub(super) fn message(
    target: &Target,
    outline: Outline<'_>,
    version: Version,
    body: OutgoingBody,
) -> Result<Message, Failure> {
    let unusable = |why: &dyn std::fmt::Display| Failure::Transport(why.to_string());
    let is_http2 = version == Version::HTTP_2;
    let mut headers = outline.headers.clone();
    let host = match headers.remove(HOST).filter(|_| outline.is_forwarded) {
        Some(host) => host,
        None => HeaderValue::try_from(&target.authority).map_err(|why| unusable(&why))?,
    };
    let place = match is_http2 {
        true => {
            let uri = Uri::builder()
                .scheme(target.scheme())
                .authority(host.as_bytes());
            // The host of a client may not become a part of the path.
            uri.path_and_query(outline.path).build()
        }
        false => Uri::try_from(outline.path).map_err(Into::into),
    };
    let place = place.map_err(|why| unusable(&why))?;
    if !is_http2 {
        headers.insert(HOST, host);
    }
    if !outline.is_forwarded && !headers.contains_key(USER_AGENT) {
        headers.insert(USER_AGENT, user_agent(is_http2));
    }
    if let Some(authorization) = target.authorization() {
        headers.insert(AUTHORIZATION, authorization.clone());
    }
    let mut message = Request::builder()
        .method(outline.method.clone())
        .uri(place)
        .version(version)
        .body(body)
        .map_err(|why| unusable(&why))?;
    *message.headers_mut() = headers;
    Ok(message)
}

/// Removes the headers that are for the first host alone.
fn remove_secrets(headers: &mut HeaderMap) {
    let impersonating = headers
        .keys()
        .filter(|name| name.as_str().starts_with(IMPERSONATION));
    let impersonating: Vec<HeaderName> = impersonating.cloned().collect();
    for name in SECRETS.into_iter().chain(impersonating) {
        headers.remove(name);
    }
}

/// The client that a server sees unless the request names one: that of Go, as from kube-apiserver.
fn user_agent(is_http2: bool) -> HeaderValue {
    HeaderValue::from_static(match is_http2 {
        true => "Go-http-client/2.0",
        false => "Go-http-client/1.1",
    })
}

fn url(target: &Target, outline: Outline<'_>) -> String {
    format!("{}{}", target.origin(), outline.path)
}

/// Says which request has failed.
pub(super) fn error(target: &Target, outline: Outline<'_>, failure: Failure) -> EgressError {
    EgressError {
        method: outline.method.clone(),
        url: url(target, outline),
        failure,
    }
}
