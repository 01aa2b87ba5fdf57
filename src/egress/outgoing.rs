//! The bodies of requests: whole, or arriving from a client of the daemon.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{LocalBoxStream, StreamExt};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// The body of a request ended early. The server must not take it for a complete one.
#[derive(Debug, thiserror::Error)]
#[error("the body of the request broke off")]
pub(super) struct BrokenOff;

/// The body of a request to forward.
pub enum ForwardBody {
    /// All of it.
    Whole(Bytes),
    /// It arrives from somebody else.
    Arriving {
        /// The pieces. An error says why the body broke off.
        pieces: LocalBoxStream<'static, Result<Bytes, String>>,
        /// The length, if it is known. Without one the body is sent in chunks.
        length: Option<u64>,
    },
}

impl ForwardBody {
    /// Returns the body for a connection, and the task that feeds it. The task stays on the thread
    /// of the caller, because the bodies of clients do.
    pub(super) fn split(self) -> (OutgoingBody, Option<Upload>) {
        match self {
            ForwardBody::Whole(bytes) => (OutgoingBody::Whole(bytes), None),
            ForwardBody::Arriving { mut pieces, length } => {
                let (sender, receiver) = mpsc::channel(1);
                let upload = async move {
                    while let Some(piece) = pieces.next().await {
                        let part = match piece {
                            Ok(bytes) => Part::Bytes(bytes),
                            Err(why) => {
                                tracing::debug!(why, "an upload that is passed on broke off");
                                return;
                            }
                        };
                        // The server may have answered and closed.
                        if sender.send(part).await.is_err() {
                            return;
                        }
                    }
                    let _ = sender.send(Part::End).await;
                };
                let arriving = OutgoingBody::Arriving {
                    parts: receiver,
                    left: length,
                    is_over: false,
                };
                (arriving, Some(Upload(upload.boxed_local())))
            }
        }
    }
}

/// Feeds the body of a request while it is polled.
pub(super) struct Upload(LocalBoxFuture<'static, ()>);

impl Upload {
    /// Polls an upload, and forgets it when it is done.
    pub(super) fn poll(upload: &mut Option<Upload>, context: &mut Context<'_>) {
        if let Some(running) = upload
            && running.0.poll_unpin(context).is_ready()
        {
            *upload = None;
        }
    }
}

/// A part of a body. Without an end a body has broken off.
pub(super) enum Part {
    Bytes(Bytes),
    End,
}

/// The body of a request as a connection sends it.
pub(super) enum OutgoingBody {
    Whole(Bytes),
    Arriving {
        parts: mpsc::Receiver<Part>,
        left: Option<u64>,
        is_over: bool,
    },
}

impl OutgoingBody {
    /// A copy, if the body can be sent twice.
    pub(super) fn again(&self) -> Option<OutgoingBody> {
        match self {
            OutgoingBody::Whole(bytes) => Some(OutgoingBody::Whole(bytes.clone())),
            OutgoingBody::Arriving { .. } => None,
        }
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match self.get_mut() {
            OutgoingBody::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            OutgoingBody::Arriving { is_over: true, .. } => Poll::Ready(None),
            OutgoingBody::Arriving {
                parts,
                left,
                is_over,
            } => {
                let part = ready!(parts.poll_recv(context));
                if let (Some(Part::Bytes(bytes)), Some(left)) = (&part, left) {
                    *left = left.saturating_sub(bytes.len() as u64);
                }
                *is_over = !matches!(part, Some(Part::Bytes(_)));
                Poll::Ready(match part {
                    Some(Part::Bytes(bytes)) => Some(Ok(Frame::data(bytes))),
                    Some(Part::End) => None,
                    None => Some(Err(BrokenOff)),
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            OutgoingBody::Whole(bytes) => bytes.is_empty(),
            OutgoingBody::Arriving { is_over, .. } => *is_over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            OutgoingBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            OutgoingBody::Arriving { left, .. } => match left {
                Some(left) => SizeHint::with_exact(*left),
                None => SizeHint::new(),
            },
        }
    }
}
