//! The last audit event of a request that is carried out to its end after its client is gone.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Audit;
use super::body::{Body, OBJECT_BYTES_MAX};
use super::event::Event;
use super::policy::Level;
use crate::api::abandoned::Abandonment;
use crate::clock;
use crate::server::respond::Answer;
use crate::server::respond::ResponseBody;

/// The code of a request that was cancelled by its client before it had written anything. No client
/// sees it.
pub(super) const CLIENT_WENT_AWAY: u16 = 499;

/// The annotation with the code of the outcome, if the client got another one, as after a timeout.
const OUTCOME: &str = "taffrail/outcome";

/// The outcome of a request that was interrupted after its first write, as when the daemon stops.
const UNKNOWN: &str = "unknown";

/// Receives the last event of a request when its client is gone, to complete it with the outcome.
pub struct Afterwards {
    audit: Arc<Audit>,
    event: oneshot::Receiver<Event>,
    request: Arc<Abandonment>,
}

/// Hands the last event over to the [`Afterwards`] of the request.
pub(super) struct Later {
    event: oneshot::Sender<Event>,
    request: Arc<Abandonment>,
}

impl Afterwards {
    pub(super) fn new(audit: &Arc<Audit>, request: &Arc<Abandonment>) -> (Later, Afterwards) {
        let (sender, event) = oneshot::channel();
        let later = Later {
            event: sender,
            request: Arc::clone(request),
        };
        let afterwards = Afterwards {
            audit: Arc::clone(audit),
            event,
            request: Arc::clone(request),
        };
        (later, afterwards)
    }

    /// Waits for the event, without its outcome. `None` if the request is not recorded.
    pub async fn event(mut self) -> Option<Unfinished> {
        let event = (&mut self.event).await.ok()?;
        Some(Unfinished {
            audit: Arc::clone(&self.audit),
            event: Some(event),
        })
    }
}

impl Drop for Afterwards {
    /// Records an event whose outcome will never be known, as when the daemon stops.
    fn drop(&mut self) {
        // An event that is sent later goes back to its sender.
        self.event.close();
        if let Ok(mut event) = self.event.try_recv() {
            if !self.request.give_up() {
                event.annotations.push((OUTCOME.into(), UNKNOWN.to_owned()));
            }
            self.audit.record(event);
        }
    }
}

impl Later {
    /// Hands the event over. Returns it if nothing carries the request on.
    pub(super) fn hand_over(self, event: Event) -> Option<Event> {
        let mut event = self.event.send(event).err()?;
        if event.code == Some(CLIENT_WENT_AWAY) && !self.request.give_up() {
            event.annotations.push((OUTCOME.into(), UNKNOWN.to_owned()));
        }
        Some(event)
    }
}

/// An event that lacks its outcome. Dropping it records it without one.
pub struct Unfinished {
    audit: Arc<Audit>,
    event: Option<Event>,
}

impl Unfinished {
    /// Records the event with its outcome: the response that the client would have got.
    pub fn complete(mut self, answer: &Answer) {
        let Some(mut event) = self.event.take() else {
            return;
        };
        add_outcome(&mut event, answer);
        self.record(event);
    }

    fn record(&self, mut event: Event) {
        event.at = clock::now();
        self.audit.record(event);
    }
}

fn add_outcome(event: &mut Event, answer: &Answer) {
    let code = answer.status().as_u16();
    if event.code != Some(CLIENT_WENT_AWAY) {
        event.annotations.push((OUTCOME.into(), code.to_string()));
        return;
    }
    event.code = Some(code);
    event.is_unseen = true;
    if let ResponseBody::Full(bytes) = answer.body() {
        let fits = bytes.len() <= OBJECT_BYTES_MAX;
        let is_wanted = event.facts.decided.level >= Level::RequestResponse;
        event.is_truncated |= is_wanted && !fits;
        event.response = Body::of(answer.headers(), bytes.clone()).filter(|_| fits);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(mut event) = self.event.take() {
            event.annotations.push((OUTCOME.into(), UNKNOWN.to_owned()));
            self.record(event);
        }
    }
}
