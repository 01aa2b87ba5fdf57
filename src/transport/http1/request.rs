//! The body of a request, and the handling of a body that was not read to its end.
//!
//! The next request on the connection follows the body. So the server reads the rest of the body if
//! it is short and about to arrive. Otherwise it announces that the connection closes, so that the
//! client sends no further request on it.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::EXPECT;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::transport::{BodySource, RequestBody};

/// The most bytes that are read of the rest of a body.
const REST_BYTES_MAX: u64 = 64 * 1024;

/// How long the response waits for the rest. Most clients send the body together with the headers.
const REST_WITHIN: Duration = Duration::from_millis(20);

/// The body of an HTTP/1.1 request. When it is dropped, its connection keeps the unread rest.
struct Http1Body {
    incoming: Option<Incoming>,
    rest: Rc<Cell<Option<Incoming>>>,
}

impl BodySource for Http1Body {
    fn announced(&self) -> u64 {
        self.incoming
            .as_ref()
            .map_or(0, |incoming| incoming.size_hint().lower())
    }

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        loop {
            let Some(incoming) = &mut self.incoming else {
                return Poll::Ready(None);
            };
            let frame = ready!(Pin::new(incoming).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => return Poll::Ready(Some(Ok(data))),
                // Trailers have no meaning here.
                Some(Ok(Err(_))) => {}
                Some(Err(error)) => {
                    self.incoming = None;
                    return Poll::Ready(Some(Err(error.to_string())));
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

/// The part of its body that a request leaves unread.
pub(super) struct Unread {
    rest: Rc<Cell<Option<Incoming>>>,
    /// Whether the client waits for `100 Continue` before it sends. Reading would trigger that.
    waits: bool,
}

impl Unread {
    pub(super) fn of<B>(request: &Request<B>) -> Unread {
        Unread {
            rest: Rc::default(),
            waits: request.headers().contains_key(EXPECT),
        }
    }

    /// Wraps the body for the handler.
    pub(super) fn watch(&self, incoming: Incoming) -> RequestBody {
        RequestBody::Arriving(Box::new(Http1Body {
            incoming: Some(incoming),
            rest: Rc::clone(&self.rest),
        }))
    }

    /// Whether the body has been read to its end, by the handler or by this call.
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
