//! The body of a request, which arrives unread.
//!
//! A handler reads it with a limit and a timeout (API-21, API-88), or never reads it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

/// The bytes of a body as one of the protocols receives them.
pub trait BodySource {
    /// Returns a lower bound of the bytes to come: zero if the client has announced no length.
    fn announced(&self) -> u64;

    /// Polls for the next piece, or `None` at the end. An error describes how the body broke off.
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>>;
}

/// The unread body of a request.
#[derive(Default)]
pub enum RequestBody {
    /// The request has no body.
    #[default]
    Empty,
    /// The body arrives piece by piece.
    Arriving(Box<dyn BodySource>),
    /// The body is complete.
    Bytes(Bytes),
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            RequestBody::Empty => "Empty",
            RequestBody::Arriving(_) => "Arriving(..)",
            RequestBody::Bytes(_) => "Bytes(..)",
        })
    }
}

/// The reason why a request's body could not be read.
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
            RequestBody::Arriving(source) => {
                if source.announced() > limit as u64 {
                    return Err(BodyError::TooLarge { limit });
                }
                timed(within, collect(source, limit)).await
            }
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

async fn collect(mut source: Box<dyn BodySource>, limit: usize) -> Result<Bytes, BodyError> {
    let mut collected = Collected::new(limit);
    while let Some(data) = poll_fn(|context| source.poll_data(context)).await {
        collected.push(data.map_err(BodyError::Broken)?)?;
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
