//! A watch that may end after any of its events.

use std::sync::Arc;
use std::task::Poll;

use actors::dispatcher::{Caller, WatchFrame};

use super::decisions::End;
use super::selection::WatchSubject;
use super::{EditionDraws, Faults};
use crate::api::status::Status;
use crate::server::encoding::{Encoding, is_bookmark};
use crate::storage::{RunningWatch, WatchStream};

/// A watch on a server for tests. It meets the faults that are in force when an event comes, so a
/// test may set them while clients watch.
pub(in crate::server) struct FaultyWatch {
    faults: Arc<Faults>,
    subject: WatchSubject,
    encoding: Encoding,
    /// `None` once the watch is to end.
    stream: Option<RunningWatch>,
    /// The last frame, of a watch that ends with an error.
    last: Option<WatchFrame>,
    draws: EditionDraws,
}

impl FaultyWatch {
    /// Leads a stream through the faults.
    pub(in crate::server) fn over(
        stream: RunningWatch,
        faults: &Arc<Faults>,
        subject: WatchSubject,
        encoding: Encoding,
    ) -> FaultyWatch {
        FaultyWatch {
            faults: Arc::clone(faults),
            subject,
            encoding,
            stream: Some(stream),
            last: None,
            draws: EditionDraws::default(),
        }
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
        let Some(end) = self.faults.after_event(&self.subject, &mut self.draws) else {
            return Poll::Ready(Some(frame));
        };
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
