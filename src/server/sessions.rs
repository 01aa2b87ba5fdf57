//! Connections of clients after an upgrade: relayed to another server, or sent messages.

use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::{Either, select};
use http::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Response, StatusCode};
use tokio::io::AsyncWriteExt;

use super::leaving::Leaving;
use super::metrics::session_ended;
use super::respond::{Answer, ResponseBody};
use crate::api::status::Status;
use crate::auth::{Access, WatchAccess};
use crate::egress::Switched;
use crate::transport::{ClientStream, Session};
use crate::upgraded::websocket::{self, CloseCode};
use crate::upgraded::{ByteStream, FramesApart, Messages, Push, Relay, RelayEnd};

/// How long the last frame of a session may take when the daemon stops.
const LAST_FRAME_WITHIN: Duration = Duration::from_millis(500);

/// A session, which is counted when it ends for any reason.
struct Relaying {
    relay: Relay<FramesApart<ClientStream>, Box<dyn ByteStream>>,
    end: &'static str,
}

impl Drop for Relaying {
    fn drop(&mut self) {
        session_ended(self.end, self.relay.relayed());
    }
}

/// Returns the response 101 with the headers of the other server, after which the connections are
/// relayed: until one of them ends, the daemon stops or the user loses access. `guards` live as
/// long as the session.
///
/// # Errors
/// 401 if the user has lost access by now.
pub fn relayed<G: 'static>(
    other: Switched,
    leaving: &Leaving,
    access: Access,
    guards: G,
) -> Result<Answer, Box<Status>> {
    let stops = leaving.announced();
    let Switched {
        mut headers,
        stream,
    } = other;
    headers.remove(CONTENT_LENGTH);
    headers.remove(TRANSFER_ENCODING);
    let is_websocket = is_websocket(&headers);
    let run = async move |client| {
        let _guards = guards;
        let mut relaying = Relaying {
            relay: Relay::new(FramesApart::new(client, is_websocket), stream),
            end: "cut",
        };
        let stops = pin!(stops);
        let ended = select(&mut relaying.relay, stops).await;
        relaying.end = match ended {
            Either::Left((RelayEnd::InOrder, _)) => "in-order",
            Either::Left((RelayEnd::HalfOpen, _)) => "half-open",
            Either::Left((RelayEnd::Failed(error), _)) => {
                tracing::debug!(%error, "a relayed connection, or its client's, broke");
                "failed"
            }
            Either::Right(_) => "stopped",
        };
        let relay = &mut relaying.relay;
        let may_close = relay.is_clear() && relay.client_mut().is_between_frames();
        if relaying.end == "stopped" && may_close {
            let mut frame = BytesMut::new();
            websocket::close(&mut frame, CloseCode::GoingAway);
            let last = relay.client_mut().write_all(&frame);
            let _ = tokio::time::timeout(LAST_FRAME_WITHIN, last).await;
        }
    };
    switched(headers, access, run)
}

/// Returns the response 101 with these headers, and what continues on the connection, which ends
/// when the user loses access.
///
/// # Errors
/// 401 if the user has lost access by now.
pub fn switched<F>(
    headers: HeaderMap,
    access: Access,
    run: impl FnOnce(ClientStream) -> F + 'static,
) -> Result<Answer, Box<Status>>
where
    F: Future<Output = ()> + 'static,
{
    let access = WatchAccess::new(access);
    if access.access().is_revoked() {
        return Err(Box::new(Status::unauthorized()));
    }
    let session = Session::new(run, move || access.access().is_revoked());
    Ok(switching(headers, session))
}

/// Returns the response 101 that accepts a WebSocket with these headers. Its client is sent
/// messages until they end, the daemon stops, or `is_revoked` becomes true. `held` is the most
/// bytes that their source may take while the client reads nothing.
pub fn pushed(
    headers: HeaderMap,
    messages: impl Messages + Unpin + 'static,
    held: usize,
    leaving: &Leaving,
    is_revoked: impl Fn() -> bool + 'static,
) -> Answer {
    let stops = leaving.announced();
    let run = async move |client| {
        let mut push = Push::new(FramesApart::new(client, true), messages);
        // A source that ends at the stop finds it announced.
        if let Either::Left(_) = select(pin!(stops), &mut push).await {
            push.leave();
            push.await;
        }
    };
    switching(headers, Session::new(run, is_revoked).one_way(held))
}

fn switching(headers: HeaderMap, session: Session) -> Answer {
    let mut answer = Response::new(ResponseBody::Session(session));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = headers;
    answer
}

/// Whether headers name the protocol WebSocket.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE).map(HeaderValue::as_bytes);
    upgrade.is_some_and(|upgrade| upgrade.eq_ignore_ascii_case(b"websocket"))
}
