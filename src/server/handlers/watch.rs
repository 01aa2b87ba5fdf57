//! GET of a collection with `watch=true`, and the deprecated watch paths (http.md 3.7, storage.md
//! 3.1).

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actors::dispatcher::Caller;
use metrics::Counter;
use tokio::time::Instant;

use super::{Answered, capability, faulted};
use crate::api::options::ListOptions;
use crate::api::selector::Selection;
use crate::api::status::Status;
use crate::registry::store::{Audience, WatchRefusal};
use crate::server::encoding::MediaTypeRef;
use crate::server::filters::seats::Seat;
use crate::server::metrics::MeteredWatch;
use crate::server::negotiation::Offer;
use crate::server::request_scope::RequestScope;
use crate::server::respond::{self, Answer};
use crate::server::routes::Target;
use crate::server::watch_stream::OneFrame;
use crate::server::{sessions, web_sockets};
use crate::storage::RunningWatch;
use crate::transport::{RequestBody, WatchBody, watch_frames};
use crate::upgraded::websocket::{CloseCode, MessageKind};
use crate::upgraded::{Message, Messages, Next};

/// Ten years are long enough, and do not overflow any clock.
const SECONDS_MAX: u64 = 10 * 366 * 86_400;

/// The `Retry-After` of a watch over the limit, in seconds.
const RETRY_AFTER_SECONDS: u32 = 10;

/// Opens a stream of events.
pub(super) async fn watch(
    scope: &RequestScope<'_>,
    target: &Target,
    body: &RequestBody,
) -> Answered {
    let definition = target.storage.resource();
    let form = scope.object_form(Offer::Watch)?;
    let mut options = ListOptions::parse(&scope.query)?;
    let times_initial = options.send_initial_events == Some(true) && options.bookmarks;
    let has_watch_list = scope.server.features.watch_list;
    if options.watch {
        if has_watch_list {
            options.default_watch();
        }
        options.validate_watch(has_watch_list)?;
    } else {
        // On a deprecated watch path kube-apiserver applies the rules for lists (API-139).
        options.validate_list()?;
    }
    // This changes nothing if the defaults are already set.
    options.default_watch();
    let selection = selection(&options, target)?;
    let watcher = capability(target.storage.watcher())?;
    let seat = seat(scope)?;
    let test = scope.server.test.as_ref();
    let met = match test {
        Some(test) => Box::pin(faulted::meet(&test.faults, scope, target)).await,
        None => Ok(()),
    };
    let opened = match met {
        Ok(()) => {
            let audience = Audience {
                projection: form.encoding.events(target.storage.response_kind())?,
                deadline: deadline(options.timeout_seconds, scope.server.timeouts.watch_seconds),
                dispatcher: scope.dispatcher.clone(),
            };
            let namespace = target.namespace.as_deref();
            watcher
                .watch(namespace, &options, Arc::new(selection), audience)
                .await
        }
        Err(refusal) => Err(refusal),
    };
    let stream = match opened {
        Ok(stream) => match test {
            Some(test) => faulted::watch(stream, &test.faults, scope, target, form.encoding),
            None => stream,
        },
        Err(WatchRefusal::Http(status)) => return Err(status),
        // kube-apiserver has sent the 200 by then, so the client expects a stream (WA-6).
        Err(WatchRefusal::InStream(status)) => {
            RunningWatch::other(OneFrame::new(form.encoding.error_frame(&status)))
        }
    };
    let access = scope.access.clone();
    // A revocation ends open watches only, and may have come while this one was being opened.
    if access.is_revoked() {
        return Err(Box::new(Status::unauthorized()));
    }
    let metered = MeteredWatch::new(
        stream,
        scope.watches,
        definition.clone(),
        times_initial,
        access,
        Some(seat),
    );
    Ok(match web_sockets::is_asked_for(scope.parts) {
        true => over_web_socket(scope, body, metered, form.encoding.media_type),
        false => respond::watch(&form, metered),
    })
}

/// Answers with a WebSocket. Like kube-apiserver, the daemon looks at the handshake last (WA-7).
fn over_web_socket(
    scope: &RequestScope<'_>,
    body: &RequestBody,
    watch: MeteredWatch,
    media_type: MediaTypeRef,
) -> Answer {
    let headers = match web_sockets::accepted_watch(scope.parts, body) {
        Ok(headers) => headers,
        Err(status) => return web_sockets::refusal(scope, &status),
    };
    let is_revoked = watch.revocation();
    let events = Events {
        watch,
        media_type,
        sent: watch_frames(),
    };
    // A watch holds one frame, which it shares with others.
    sessions::pushed(headers, events, 0, scope.leaving, is_revoked)
}

/// The events of a watch as messages of a WebSocket. The frames are those that a group of watches
/// shares, so they are rendered once for watches over HTTP, too.
struct Events {
    watch: MeteredWatch,
    media_type: MediaTypeRef,
    sent: Counter,
}

impl Messages for Events {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if self.watch.is_revoked() {
            return Poll::Ready(Next::End(CloseCode::Normal));
        }
        let Some(frame) = ready!(self.watch.poll_next(&Caller::task(context))) else {
            return Poll::Ready(Next::End(CloseCode::Normal));
        };
        self.sent.increment(1);
        Poll::Ready(Next::Message(Message {
            kind: match self.media_type.is_protobuf() {
                true => MessageKind::Binary,
                false => MessageKind::Text,
            },
            content: self.media_type.event_of(frame.bytes),
        }))
    }
}

/// Takes the seat of a watch, or of something else that may last.
///
/// # Errors
/// 429 over the limit.
pub(super) fn seat(scope: &RequestScope<'_>) -> Result<Seat, Box<Status>> {
    let seats = &scope.server.watch_seats;
    let seat = seats.take(&scope.context.user.name);
    seat.ok_or_else(|| too_many(seats.limit()))
}

/// Returns the refusal of a watch over the limit. Clients retry.
fn too_many(limit: usize) -> Box<Status> {
    let text = format!(
        "too many watches are open: {limit} at a time, seven eighths of them for one user \
         (--max-watches); please try again later"
    );
    Box::new(Status::too_many_requests(text, RETRY_AFTER_SECONDS))
}

/// Returns the selectors. A name in a deprecated watch path adds one more (API-139, WA-4).
fn selection(options: &ListOptions, target: &Target) -> Result<Selection, Box<Status>> {
    let definition = target.storage.resource();
    let selection = Selection::parse(&options.labels, &options.fields, definition)?;
    if target.name.is_empty() {
        return Ok(selection);
    }
    Ok(selection.with_name(&target.name)?)
}

/// Returns when the stream ends by itself. Without a timeout the end is random, from `least` to
/// twice as many seconds, so that clients do not all reconnect at once (WA-2).
fn deadline(timeout_seconds: Option<u64>, least: u64) -> Instant {
    let seconds = timeout_seconds.unwrap_or_else(|| {
        let random = uuid::Uuid::new_v4().as_u128();
        match random.checked_rem(u128::from(least)) {
            Some(random) => least.saturating_add(random as u64),
            None => SECONDS_MAX,
        }
    });
    let seconds = seconds.min(SECONDS_MAX);
    Instant::now() + Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_does_not_say_lasts_half_an_hour_to_an_hour_wa_2() {
        for _ in 0..100 {
            let lasts = deadline(None, 1800).saturating_duration_since(Instant::now());
            assert!(lasts > Duration::from_secs(1799) && lasts <= Duration::from_secs(3600));
        }
        assert!(deadline(Some(u64::MAX), 1800) > Instant::now());
        let day = Duration::from_secs(86_400);
        assert!(deadline(None, 0) > Instant::now() + day);
        assert!(deadline(None, u64::MAX) > Instant::now() + day);
        assert!(deadline(Some(2), 1800) <= Instant::now() + Duration::from_secs(2));
    }
}
