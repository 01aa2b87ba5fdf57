//! The client: pools of connections by target, redirects, deadlines.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use http::{HeaderMap, Method, Request, Response, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::dial::{self, Connection};
use super::error::{EgressError, Failure};
use super::metrics::{self, Hosts};
use super::pool::{Lease, Pool};
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
            let refuse = |why: String| error(&target, &request, Failure::Redirect(why));
            let location = open.headers.get(LOCATION);
            let location = location.and_then(|value| value.to_str().ok());
            let scheme = if target.is_tls { "https" } else { "http" };
            let (method, path) = (&request.method, &request.path);
            let hop = redirect::next(open.status, location, method, scheme, path);
            let Some(hop) = hop.map_err(refuse)? else {
                return Ok(open);
            };
            if followed == REDIRECTS_MAX {
                let mut last = error(&target, &request, Failure::Closed);
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
        Err(error(&target, &request, Failure::Closed))
    }

    /// Sends one request, without redirects, and counts it.
    async fn exchange(
        &self,
        target: &Target,
        request: &EgressRequest,
    ) -> Result<OpenAnswer, EgressError> {
        let begin = Instant::now();
        let exchanged = timeout_at(request.deadline, self.attempts(target, request)).await;
        let exchanged = exchanged.unwrap_or(Err(Failure::Deadline));
        let status = exchanged.as_ref().ok().map(|(answer, _)| answer.status());
        let took = begin.elapsed();
        self.hosts
            .count(&target.authority, &request.method, status, took);
        let (answer, returned) = exchanged.map_err(|why| error(target, request, why))?;
        let (head, incoming) = answer.into_parts();
        Ok(OpenAnswer {
            status: head.status,
            headers: head.headers,
            body: AnswerBody {
                incoming,
                returned: Some(returned),
                method: request.method.clone(),
                url: url(target, request),
                deadline: request.deadline,
            },
        })
    }

    /// Sends one request. On a connection that the server has closed meanwhile, it is sent again on
    /// a new one, if it was not sent or may be repeated.
    async fn attempts(
        &self,
        target: &Target,
        request: &EgressRequest,
    ) -> Result<(Response<Incoming>, (Arc<Pool>, Connection)), Failure> {
        let pool = self.pool(target)?;
        let may_repeat = matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let mut may_reuse = true;
        loop {
            let Lease {
                mut connection,
                is_reused,
            } = pool.lease(target, may_reuse).await?;
            let (sent, was_sent) = match &mut connection {
                Connection::Http1(sender) => {
                    let message = message(target, request, Version::HTTP_11)?;
                    split(sender.try_send_request(message).await)
                }
                Connection::Http2(sender) => {
                    let message = message(target, request, Version::HTTP_2)?;
                    split(sender.try_send_request(message).await)
                }
            };
            match sent {
                Ok(answer) => return Ok((answer, (pool, connection))),
                Err(failure) if is_reused && failure == Failure::Closed => {
                    if was_sent && !may_repeat {
                        return Err(failure);
                    }
                    may_reuse = false;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Returns the pool of a target.
    fn pool(&self, target: &Target) -> Result<Arc<Pool>, Failure> {
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

type Message = Request<Full<Bytes>>;
type Sent = Result<Response<Incoming>, hyper::client::conn::TrySendError<Message>>;

/// Says also whether the server may have got the request.
fn split(sent: Sent) -> (Result<Response<Incoming>, Failure>, bool) {
    match sent {
        Ok(answer) => (Ok(answer), true),
        Err(mut unsent) => {
            let was_sent = unsent.take_message().is_none();
            let failure = match was_sent {
                true => dial::of_exchange(unsent.error()),
                false => Failure::Closed,
            };
            (Err(failure), was_sent)
        }
    }
}

fn message(target: &Target, request: &EgressRequest, version: Version) -> Result<Message, Failure> {
    let unusable = |why: &dyn std::fmt::Display| Failure::Transport(why.to_string());
    let is_http2 = version == Version::HTTP_2;
    let place = match is_http2 {
        true => url(target, request),
        false => request.path.clone(),
    };
    let mut message = Request::builder()
        .method(request.method.clone())
        .uri(place)
        .version(version)
        .body(Full::new(request.body.clone()))
        .map_err(|why| unusable(&why))?;
    let headers: &mut HeaderMap = message.headers_mut();
    *headers = request.headers.clone();
    if !headers.contains_key(USER_AGENT) {
        headers.insert(USER_AGENT, user_agent(is_http2));
    }
    if let Some(authorization) = target.authorization() {
        headers.insert(AUTHORIZATION, authorization.clone());
    }
    if !is_http2 {
        let host = HeaderValue::try_from(&target.authority).map_err(|why| unusable(&why))?;
        headers.insert(HOST, host);
    }
    Ok(message)
}

/// The client that a server sees unless the request names one: that of Go, as from kube-apiserver.
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

fn user_agent(is_http2: bool) -> HeaderValue {
    HeaderValue::from_static(match is_http2 {
        true => "Go-http-client/2.0",
        false => "Go-http-client/1.1",
    })
}

fn url(target: &Target, request: &EgressRequest) -> String {
    format!("{}{}", target.origin(), request.path)
}

fn error(target: &Target, request: &EgressRequest, failure: Failure) -> EgressError {
    EgressError {
        method: request.method.clone(),
        url: url(target, request),
        failure,
    }
}
