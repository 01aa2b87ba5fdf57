//! The body of a request, and what becomes of a body that nobody has read to its end.
//!
//! The next request stands behind it on the connection. So the rest is read if it is short and
//! about to be here; otherwise the client is told that the connection closes, as it must not send
//! another request on it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::EXPECT;
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// The rest of a body is read up to so much.
const REST_BYTES_MAX: u64 = 64 * 1024;

/// The answer waits so long for the rest, which most clients send together with the header.
const REST_WITHIN: Duration = Duration::from_millis(20);

/// The body of a request that comes over HTTP/1.1. What is left of it when it is dropped is kept
/// for its connection.
pub struct Http1Body {
    incoming: Option<Incoming>,
    rest: Rc<Cell<Option<Incoming>>>,
}

impl Http1Body {
    /// The least that is to come.
    pub(in crate::server) fn announced(&self) -> u64 {
        self.incoming
            .as_ref()
            .map_or(0, |incoming| incoming.size_hint().lower())
    }

    /// The next piece; `None` at the end.
    pub(in crate::server) async fn data(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        loop {
            let frame = self.incoming.as_mut()?.frame().await;
            match frame.map(|frame| frame.map(hyper::body::Frame::into_data)) {
                Some(Ok(Ok(data))) => return Some(Ok(data)),
                // Trailers mean nothing here.
                Some(Ok(Err(_))) => {}
                Some(Err(error)) => {
                    self.incoming = None;
                    return Some(Err(error));
                }
                None => self.incoming = None,
            }
        }
    }
}

impl Drop for Http1Body {
    fn drop(&mut self) {
        self.rest.set(self.incoming.take());
    }
}

/// What a request leaves of its body.
pub(super) struct Unread {
    rest: Rc<Cell<Option<Incoming>>>,
    /// The client sends nothing before it is told to, and reading would tell it.
    waits: bool,
}

impl Unread {
    pub(super) fn of<B>(request: &Request<B>) -> Unread {
        Unread {
            rest: Rc::default(),
            waits: request.headers().contains_key(EXPECT),
        }
    }

    /// The body as the handler gets it.
    pub(super) fn watch(&self, incoming: Incoming) -> Http1Body {
        Http1Body {
            incoming: Some(incoming),
            rest: Rc::clone(&self.rest),
        }
    }

    /// Whether the body has been read to its end, by the handler or now.
    pub(super) async fn is_drained(&self) -> bool {
        let Some(mut rest) = self.rest.take() else {
            return true;
        };
        if rest.is_end_stream() {
            return true;
        }
        if self.waits || rest.size_hint().lower() > REST_BYTES_MAX {
            return false;
        }
        let reading = async {
            let mut read = 0;
            while let Some(frame) = rest.frame().await {
                let Ok(frame) = frame else {
                    return false;
                };
                read += frame.data_ref().map_or(0, |data| data.len() as u64);
                if read > REST_BYTES_MAX {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(REST_WITHIN, reading)
            .await
            .unwrap_or(false)
    }
}
