//! The last event of a request that is carried out to its end though its client is gone.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Audit;
use super::body::{Body, OBJECT_BYTES_MAX};
use super::event::Event;
use super::policy::Level;
use crate::api::abandoned::Abandonment;
use crate::clock;
use crate::server::body::ResponseBody;
use crate::server::respond::Answer;

/// The code of a request that ended when its client went away, before it has written anything. No
/// client sees it.
pub(super) const CLIENT_WENT_AWAY: u16 = 499;

/// The annotation that says the code of the outcome where the client was answered another one, as
/// when the time of its request was over.
const OUTCOME: &str = "taffrail/outcome";

/// The outcome of a request that has begun to write and was cut off, as when the daemon stops.
const UNKNOWN: &str = "unknown";

/// Gets the last event of the request when the client is gone.
pub struct Afterwards {
    audit: Arc<Audit>,
    event: oneshot::Receiver<Event>,
    request: Arc<Abandonment>,
}

/// Gives the last event to whoever carries the request on.
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

    /// The event, without its outcome. `None` if the request is not recorded.
    pub async fn event(mut self) -> Option<Unfinished> {
        let event = (&mut self.event).await.ok()?;
        Some(Unfinished {
            audit: Arc::clone(&self.audit),
            event: Some(event),
        })
    }
}

impl Drop for Afterwards {
    /// Records the event without an outcome, as when the daemon stops.
    fn drop(&mut self) {
        // An event that comes later goes back to who gives it.
        self.event.close();
        if let Ok(mut event) = self.event.try_recv() {
            if !self.request.give_up() {
                event.annotations.push((OUTCOME, UNKNOWN.to_owned()));
            }
            self.audit.record(event);
        }
    }
}

impl Later {
    /// Gives the event away, or back if nobody carries the request on.
    pub(super) fn give(self, event: Event) -> Option<Event> {
        let mut event = self.event.send(event).err()?;
        if event.code == Some(CLIENT_WENT_AWAY) && !self.request.give_up() {
            event.annotations.push((OUTCOME, UNKNOWN.to_owned()));
        }
        Some(event)
    }
}

/// An event whose outcome is not known yet. It is recorded in any case.
pub struct Unfinished {
    audit: Arc<Audit>,
    event: Option<Event>,
}

impl Unfinished {
    /// Says what became of the request, by the answer that the client would have had.
    pub fn tell(mut self, answer: &Answer) {
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
        event.annotations.push((OUTCOME, code.to_string()));
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
            event.annotations.push((OUTCOME, UNKNOWN.to_owned()));
            self.record(event);
        }
    }
}
