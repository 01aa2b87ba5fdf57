//! A watch that may end after any of its events.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use actors::dispatcher::{Caller, WatchFrame};
use metrics::counter;

use super::decisions::{End, WatchDraws};
use super::selection::Subject;
use super::{Faults, TOTAL};
use crate::api::resource::{ResourceDefinition, Verb};
use crate::api::status::Status;
use crate::server::encoding::{Encoding, is_bookmark};
use crate::server::request_scope::RequestScope;
use crate::server::routes::Target;
use crate::storage::{RunningWatch, WatchStream};

/// A watch on a server for tests. It meets the faults that are in force when an event comes, so a
/// test may set them while clients watch.
pub(in crate::server) struct FaultyWatch {
    faults: Arc<Faults>,
    request: WatchRequest,
    encoding: Encoding,
    /// `None` once the watch is to end.
    stream: Option<RunningWatch>,
    /// The last frame, of a watch that ends with an error.
    last: Option<WatchFrame>,
    /// The edition of the faults that `draws` belong to.
    edition: Option<u64>,
    draws: Vec<WatchDraws>,
}

/// The request of a watch, as rules see it.
struct WatchRequest {
    resource: Arc<ResourceDefinition>,
    namespace: Option<String>,
    user: String,
    user_agent: String,
}

impl FaultyWatch {
    /// Leads a stream through the faults.
    pub(in crate::server) fn over(
        stream: RunningWatch,
        faults: &Arc<Faults>,
        scope: &RequestScope<'_>,
        target: &Target,
        encoding: Encoding,
    ) -> RunningWatch {
        let subject = Subject::of(scope, target);
        RunningWatch::other(FaultyWatch {
            faults: Arc::clone(faults),
            request: WatchRequest {
                resource: Arc::clone(target.storage.resource()),
                namespace: subject.namespace.map(str::to_owned),
                user: subject.user.to_owned(),
                user_agent: subject.user_agent.to_owned(),
            },
            encoding,
            stream: Some(stream),
            last: None,
            edition: None,
            draws: Vec::new(),
        })
    }

    /// Decides whether the watch ends after an event.
    fn after_event(&mut self) -> Option<End> {
        let edition = self.faults.edition.load(Ordering::Acquire);
        let is_current = self.edition == Some(edition);
        if is_current && self.draws.is_empty() {
            return None;
        }
        let mut decisions = self.faults.decisions.lock();
        if !is_current {
            self.edition = Some(edition);
            self.draws = decisions.of_watch(&Subject {
                verb: Verb::Watch,
                resource: &self.request.resource,
                subresource: None,
                namespace: self.request.namespace.as_deref(),
                user: &self.request.user,
                user_agent: &self.request.user_agent,
            });
        }
        decisions.after_event(&mut self.draws)
    }
}

impl WatchStream for FaultyWatch {
    fn poll_next(&mut self, caller: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(self.last.take());
        };
        let frame = match stream.poll_next(caller) {
            Poll::Ready(Some(frame)) => frame,
            other => return other,
        };
        if is_bookmark(&frame.bytes) {
            return Poll::Ready(Some(frame));
        }
        let Some(end) = self.after_event() else {
            return Poll::Ready(Some(frame));
        };
        counter!(TOTAL, "fault" => end.name()).increment(1);
        self.stream = None;
        if end == End::Expired {
            let text = "The resourceVersion for the provided watch is too old.";
            let frame = self.encoding.error_frame(&Status::expired(text));
            self.last = Some(WatchFrame::from(frame));
        }
        // The end follows at once.
        Poll::Ready(Some(WatchFrame {
            is_last_for_now: false,
            ..frame
        }))
    }
}
