//! The types between the transport and the handlers: bodies, and the service trait.
//!
//! The body of a request arrives unread. A handler reads it with a limit and a timeout (API-21,
//! API-88), or leaves it. The body of a response says how to write it: at once, in chunks that
//! respect back-pressure, or as a watch that lives as long as its connection allows.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::poll_fn;
use futures_util::stream::{LocalBoxStream, Stream, StreamExt};
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::auth::PeerCertificates;
use super::metrics::MeteredWatch;
use crate::api::user_info::UserInfo;

pub use super::http1::Http1Body;
pub use super::http2::Http2Body;

/// Answers requests. Each HTTP thread has one value, which is cheap to clone and never leaves the
/// thread.
pub trait HttpService: Clone + Unpin + 'static {
    /// Answers one request. The future is dropped when the client cancels the request.
    fn call(
        &self,
        request: http::Request<RequestBody>,
    ) -> impl Future<Output = http::Response<ResponseBody>>;

    /// The user of a request with these headers, over this connection, if it has good credentials.
    /// Called for the requests of a connection until one has. The connection is that user's then.
    fn user(&self, headers: &http::HeaderMap, facts: &ConnectionFacts) -> Option<Arc<UserInfo>>;

    /// The daemon stops: end the watches of this thread gracefully. Requests may still arrive.
    fn drain(&self) {}

    /// Waits for the requests that are carried out to their end though their clients are gone.
    fn unattended_ended(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Changes whenever users have lost their access. Their watches then end.
    fn revocations(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }
}

/// Facts about the connection of a request, stored in the extensions of the request.
#[derive(Clone, Debug)]
pub struct ConnectionFacts {
    /// The client's address.
    pub peer: std::net::SocketAddr,
    /// Whether the connection speaks HTTP/2.
    pub http2: bool,
    /// The certificates that the client has shown.
    pub certificates: Option<Arc<PeerCertificates>>,
    /// The reads of the connection that may find much.
    pub reads: LongReads,
}

/// Lets few reads that may find much be in progress for a connection at a time. A request that is
/// found to hold too much waits for its client, and what it has found by then is held, too.
#[derive(Clone, Debug)]
pub struct LongReads(Arc<Semaphore>);

/// The weights of all long reads of a connection together.
const LONG_READS: usize = 16;

impl Default for LongReads {
    fn default() -> LongReads {
        LongReads(Arc::new(Semaphore::new(LONG_READS)))
    }
}

impl LongReads {
    /// Waits for a read's turn, which lasts until the permit is dropped. The weight is a share of
    /// all, 16.
    pub async fn turn(&self, weight: u32) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.0).acquire_many_owned(weight);
        turn.await.ok()
    }
}

/// The unread body of a request.
#[derive(Default)]
pub enum RequestBody {
    /// The request has no body.
    #[default]
    Empty,
    /// The body arrives over HTTP/1.1.
    Http1(Http1Body),
    /// The body arrives over HTTP/2.
    Http2(Http2Body),
    /// The body is complete.
    Bytes(Bytes),
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            RequestBody::Empty => "Empty",
            RequestBody::Http1(_) => "Http1(..)",
            RequestBody::Http2(_) => "Http2(..)",
            RequestBody::Bytes(_) => "Bytes(..)",
        })
    }
}

/// Why a request's body could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The body is longer than the limit (413). The rest is not read.
    #[error("the request body is longer than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The body did not arrive in time.
    #[error("the request body did not arrive within {within:?}")]
    TimedOut {
        /// The time allowed.
        within: Duration,
    },
    /// The connection or stream broke, or the framing is wrong.
    #[error("the request body broke off: {0}")]
    Broken(String),
}

impl RequestBody {
    /// Whether the body is complete.
    pub fn is_here(&self) -> bool {
        matches!(self, RequestBody::Empty | RequestBody::Bytes(_))
    }

    /// Reads the whole body: at most `limit` bytes, within `within` in total.
    ///
    /// A body in one piece is returned without a copy.
    ///
    /// # Errors
    /// [`BodyError`]. The bytes read so far are discarded.
    pub async fn collect(self, limit: usize, within: Duration) -> Result<Bytes, BodyError> {
        match self {
            RequestBody::Empty => Ok(Bytes::new()),
            RequestBody::Bytes(bytes) if bytes.len() > limit => Err(BodyError::TooLarge { limit }),
            RequestBody::Bytes(bytes) => Ok(bytes),
            RequestBody::Http1(incoming) => {
                if incoming.announced() > limit as u64 {
                    return Err(BodyError::TooLarge { limit });
                }
                timed(within, collect_http1(incoming, limit)).await
            }
            RequestBody::Http2(stream) => timed(within, collect_http2(stream, limit)).await,
        }
    }
}

async fn timed(
    within: Duration,
    reading: impl Future<Output = Result<Bytes, BodyError>>,
) -> Result<Bytes, BodyError> {
    tokio::time::timeout(within, reading)
        .await
        .unwrap_or(Err(BodyError::TimedOut { within }))
}

async fn collect_http1(mut body: Http1Body, limit: usize) -> Result<Bytes, BodyError> {
    let mut collected = Collected::new(limit);
    while let Some(data) = body.data().await {
        collected.push(data.map_err(|error| BodyError::Broken(error.to_string()))?)?;
    }
    Ok(collected.finish())
}

async fn collect_http2(mut body: Http2Body, limit: usize) -> Result<Bytes, BodyError> {
    let mut collected = Collected::new(limit);
    while let Some(data) = poll_fn(|context| body.poll_data(context)).await {
        collected.push(data.map_err(|error| BodyError::Broken(error.to_string()))?)?;
    }
    Ok(collected.finish())
}

/// The pieces of a body, joined only when there is more than one.
struct Collected {
    limit: usize,
    first: Bytes,
    joined: BytesMut,
}

impl Collected {
    fn new(limit: usize) -> Collected {
        Collected {
            limit,
            first: Bytes::new(),
            joined: BytesMut::new(),
        }
    }

    fn push(&mut self, piece: Bytes) -> Result<(), BodyError> {
        if self.first.len() + self.joined.len() + piece.len() > self.limit {
            return Err(BodyError::TooLarge { limit: self.limit });
        }
        if self.joined.is_empty() && self.first.is_empty() {
            self.first = piece;
            return Ok(());
        }
        if !self.first.is_empty() {
            self.joined.extend_from_slice(&self.first);
            self.first = Bytes::new();
        }
        self.joined.extend_from_slice(&piece);
        Ok(())
    }

    fn finish(self) -> Bytes {
        if self.joined.is_empty() {
            self.first
        } else {
            self.joined.freeze()
        }
    }
}

/// The size of one piece of a body. What doesn't divide, as an item of a list, comes on top.
pub const PIECE_BYTES: usize = 64 * 1024;

/// A body that is made piece by piece. The next piece is requested only when the client has room
/// for it.
pub struct Pieces {
    stream: LocalBoxStream<'static, Bytes>,
    held: usize,
}

impl Pieces {
    /// Makes a body of a stream. `held` is the most bytes that the stream and a piece of it may
    /// take while the client reads nothing. They count as held for the connection.
    pub fn new(stream: impl Stream<Item = Bytes> + 'static, held: usize) -> Pieces {
        Pieces {
            stream: stream.boxed_local(),
            held,
        }
    }

    /// The most bytes that the body may take while the client reads nothing.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The next piece.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.stream.poll_next_unpin(context)
    }

    /// The same body. A function is shown each piece when it is made, and dropped with the body.
    pub fn inspected(self, show: impl FnMut(&Bytes) + 'static) -> Pieces {
        Pieces {
            stream: self.stream.inspect(show).boxed_local(),
            held: self.held,
        }
    }
}

#[cfg(test)]
impl Pieces {
    /// All pieces.
    pub async fn collect(self) -> Vec<Bytes> {
        self.stream.collect().await
    }
}

/// The body of a response.
#[derive(Default)]
pub enum ResponseBody {
    /// No body.
    #[default]
    Empty,
    /// The complete body.
    Full(Bytes),
    /// Pieces that are made as the client reads.
    Chunks(Pieces),
    /// A watch. The headers are sent at once, and frames as they arrive (WA-1). A frame is
    /// requested only when the client has room for it.
    Watch(MeteredWatch),
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseBody::Empty => formatter.write_str("Empty"),
            ResponseBody::Full(bytes) => write!(formatter, "Full({} bytes)", bytes.len()),
            ResponseBody::Chunks(_) => formatter.write_str("Chunks(..)"),
            ResponseBody::Watch(_) => formatter.write_str("Watch(..)"),
        }
    }
}

/// The response to an authenticated client when there are too many connections. Its connection is
/// closed afterwards.
pub(super) fn no_room() -> http::Response<ResponseBody> {
    let mut response = again_later("Too many connections are open, please try again later.\n");
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// The response to a client that has left too many responses unread.
pub(super) fn too_much_held() -> http::Response<ResponseBody> {
    again_later("Too many answers wait for their clients, please try again later.\n")
}

fn again_later(text: &'static str) -> http::Response<ResponseBody> {
    let mut response = plain(StatusCode::TOO_MANY_REQUESTS, text);
    let headers = response.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Why a request with several Host headers is refused.
pub(super) const TOO_MANY_HOSTS: &str = "too many Host headers";

/// A refusal by HTTP itself, in the words of Go's server.
pub(super) fn bad_request(reason: &str) -> http::Response<ResponseBody> {
    plain(
        StatusCode::BAD_REQUEST,
        format!("400 Bad Request: {reason}"),
    )
}

/// A response of text.
pub(super) fn plain(code: StatusCode, text: impl Into<Bytes>) -> http::Response<ResponseBody> {
    let mut response = http::Response::new(ResponseBody::Full(text.into()));
    *response.status_mut() = code;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_within_the_limit_is_handed_out() {
        let body = RequestBody::Bytes(Bytes::from_static(b"abc"));
        let got = body.collect(3, Duration::from_secs(1)).await;
        assert_eq!(got, Ok(Bytes::from_static(b"abc")));
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused() {
        let body = RequestBody::Bytes(Bytes::from_static(b"abcd"));
        let got = body.collect(3, Duration::from_secs(1)).await;
        assert_eq!(got, Err(BodyError::TooLarge { limit: 3 }));
    }

    #[test]
    fn one_piece_is_not_copied_and_several_are_joined_in_order() {
        let piece = Bytes::from_static(b"abc");
        let mut one = Collected::new(10);
        one.push(piece.clone()).unwrap();
        assert_eq!(one.finish().as_ptr(), piece.as_ptr());

        let mut several = Collected::new(6);
        several.push(Bytes::from_static(b"ab")).unwrap();
        several.push(Bytes::from_static(b"cd")).unwrap();
        several.push(Bytes::from_static(b"ef")).unwrap();
        assert_eq!(
            several.push(Bytes::from_static(b"g")),
            Err(BodyError::TooLarge { limit: 6 })
        );
        assert_eq!(several.finish(), Bytes::from_static(b"abcdef"));
    }
}
