//! Requests and answers.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::dial;
use super::error::{EgressError, Failure};
use super::pool::{Connection, Pool};

/// The most bytes of an answer that needs no room.
const SHORT_BYTES_MAX: usize = 256 << 10;

/// A request to a target.
#[derive(Clone, Debug)]
pub struct EgressRequest {
    /// The method.
    pub method: Method,
    /// The path and query, which begin with a slash.
    pub path: String,
    /// Headers except Host, Authorization and Content-Length. They must not have credentials of the
    /// daemon's users.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// When the answer must be complete, redirects included.
    pub deadline: Instant,
    /// The most bytes of the answer's body.
    pub answer_bytes_max: usize,
}

/// An answer with its whole body.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// An answer whose body is still read.
pub struct OpenAnswer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: AnswerBody,
}

/// The body of an answer. Dropping it early closes its connection, or with HTTP/2 its stream.
pub struct AnswerBody {
    pub(super) incoming: Incoming,
    /// The connection, which another request may use after the end of this body.
    pub(super) returned: Option<(Arc<Pool>, Connection)>,
    /// The request, for texts.
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) deadline: Instant,
}

impl AnswerBody {
    /// Returns the next bytes, `None` at the end.
    ///
    /// # Errors
    /// The body ended early, or the request's time is over.
    pub async fn next(&mut self) -> Result<Option<Bytes>, EgressError> {
        loop {
            let frame = timeout_at(self.deadline, self.incoming.frame()).await;
            let frame = frame.map_err(|_| self.error(Failure::Deadline))?;
            match frame {
                None => {
                    if let Some((pool, connection)) = self.returned.take() {
                        pool.put(connection);
                    }
                    return Ok(None);
                }
                Some(Ok(frame)) => {
                    // Trailers are left out.
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(error)) => {
                    return Err(self.error(Failure::Body(dial::of_body(&error))));
                }
            }
        }
    }

    /// Reads the rest. Of the long answers of a target only some are read at a time, and the others
    /// wait.
    pub(super) async fn whole(mut self, bytes_max: usize) -> Result<Bytes, EgressError> {
        let pool = self.returned.as_ref().map(|(pool, _)| Arc::clone(pool));
        let mut room = None;
        let mut whole = Vec::new();
        while let Some(bytes) = self.next().await? {
            let length = whole.len() + bytes.len();
            if length > bytes_max {
                return Err(self.error(Failure::TooLarge(bytes_max)));
            }
            if let (Some(pool), None, true) = (&pool, &room, length > SHORT_BYTES_MAX) {
                let found = timeout_at(self.deadline, pool.room(bytes_max)).await;
                room = found.map_err(|_| self.error(Failure::Deadline))?;
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole.into())
    }

    fn error(&self, failure: Failure) -> EgressError {
        EgressError {
            method: self.method.clone(),
            url: self.url.clone(),
            failure,
        }
    }
}
