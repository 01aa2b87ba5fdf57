//! The queue between a stream that watches share and the reader of one of them.
//!
//! The stream never waits for a reader. A watch whose queue is full ends there, and its reader
//! goes on by itself from the last revision in the queue.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use actors::engine::{EngineError, Event, Revision};
use bytes::Bytes;
use parking_lot::Mutex;

use super::etcd_watch::WatchMessage;

/// The bytes of events that wait for a reader. One message may be larger.
const BYTES_MAX: usize = 4 << 20;
/// The bytes that an event takes besides its key and its values.
const EVENT_BYTES: usize = 256;
/// A queue that was longer gives its memory back once it is empty.
const MESSAGES_KEPT: usize = 16;

/// How a queue ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QueueEnd {
    /// The watch has ended.
    Failed(EngineError),
    /// The reader was too slow. Everything up to this revision is in the queue.
    Overrun(Revision),
}

/// The queue of one watch.
#[derive(Debug, Default)]
pub(super) struct WatchQueue(Mutex<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    messages: VecDeque<WatchMessage>,
    bytes: usize,
    end: Option<QueueEnd>,
    /// The reader has gone away.
    is_left: bool,
    reader: Option<Waker>,
}

impl WatchQueue {
    /// Adds a message. Returns whether there was room for it.
    pub(super) fn push(&self, message: WatchMessage) -> bool {
        let mut state = self.0.lock();
        match (&message, state.messages.back_mut()) {
            (WatchMessage::Progress(newer), Some(WatchMessage::Progress(revision))) => {
                *revision = (*revision).max(*newer);
                return true;
            }
            (WatchMessage::Progress(_), _) => {}
            (WatchMessage::Events(events), _) => {
                let bytes = bytes_of(events);
                if state.bytes > 0 && state.bytes + bytes > BYTES_MAX {
                    return false;
                }
                state.bytes += bytes;
            }
        }
        state.messages.push_back(message);
        state.wake_reader();
        true
    }

    /// Ends the queue. The reader gets what is in it before.
    pub(super) fn end(&self, end: QueueEnd) {
        let mut state = self.0.lock();
        state.end.get_or_insert(end);
        state.wake_reader();
    }

    /// The reader goes away.
    pub(super) fn leave(&self) {
        let mut state = self.0.lock();
        state.is_left = true;
        state.messages = VecDeque::new();
    }

    /// Whether the reader has gone away.
    pub(super) fn is_left(&self) -> bool {
        self.0.lock().is_left
    }

    /// The next message. Only one reader may wait. A call that is dropped loses nothing.
    ///
    /// # Errors
    /// The queue's end, once it is empty.
    pub(super) async fn next(&self) -> Result<WatchMessage, QueueEnd> {
        poll_fn(|context| {
            let mut state = self.0.lock();
            if let Some(message) = state.pop() {
                return Poll::Ready(Ok(message));
            }
            if let Some(end) = &state.end {
                return Poll::Ready(Err(end.clone()));
            }
            state.reader = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// The next message, if it has events and is there already.
    pub(super) fn next_events(&self) -> Option<Vec<Event>> {
        let mut state = self.0.lock();
        let has_events = matches!(state.messages.front(), Some(WatchMessage::Events(_)));
        match has_events.then(|| state.pop())?? {
            WatchMessage::Events(events) => Some(events),
            WatchMessage::Progress(_) => None,
        }
    }
}

impl QueueState {
    fn pop(&mut self) -> Option<WatchMessage> {
        let message = self.messages.pop_front()?;
        if let WatchMessage::Events(events) = &message {
            self.bytes -= bytes_of(events);
        }
        if self.messages.is_empty() && self.messages.capacity() > MESSAGES_KEPT {
            self.messages = VecDeque::new();
        }
        Some(message)
    }

    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

fn bytes_of(events: &[Event]) -> usize {
    let bytes = events.iter().map(|event| {
        let previous = event.previous.as_ref().map_or(0, Bytes::len);
        EVENT_BYTES + event.key.as_bytes().len() + event.value.len() + previous
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use actors::engine::{EventKind, Key, LeaseId, Origin, Prepared};
    use futures_util::FutureExt;

    use super::*;

    fn events(revision: u64, bytes: usize) -> WatchMessage {
        WatchMessage::Events(vec![Event {
            revision: Revision(revision),
            key: Key::new("/r/a"),
            kind: EventKind::Put,
            value: Bytes::from(vec![b'x'; bytes]),
            create_revision: Revision(revision),
            prev_revision: Revision::ZERO,
            version: 1,
            lease: LeaseId(0),
            time: SystemTime::UNIX_EPOCH,
            origin: Origin::default(),
            previous: None,
            prepared: Prepared::default(),
        }])
    }

    fn next(queue: &WatchQueue) -> Option<Result<WatchMessage, QueueEnd>> {
        queue.next().now_or_never()
    }

    fn revision(message: Option<Result<WatchMessage, QueueEnd>>) -> u64 {
        match message {
            Some(Ok(WatchMessage::Events(events))) => events[0].revision.0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_queue_that_nobody_reads_is_bounded_and_says_where_it_ends() {
        let queue = WatchQueue::default();
        let mut taken = 0;
        while queue.push(events(taken + 1, 64 << 10)) {
            taken += 1;
        }
        assert!((50..64).contains(&taken), "{taken}");
        queue.end(QueueEnd::Overrun(Revision(taken)));
        for expected in 1..=taken {
            assert_eq!(revision(next(&queue)), expected);
        }
        let end = next(&queue).unwrap().unwrap_err();
        assert_eq!(end, QueueEnd::Overrun(Revision(taken)));
    }

    #[test]
    fn a_message_that_is_larger_than_the_queue_finds_room_alone() {
        let queue = WatchQueue::default();
        assert!(queue.push(events(1, BYTES_MAX * 2)));
        assert!(!queue.push(events(2, 1)));
        assert_eq!(revision(next(&queue)), 1);
        assert!(queue.push(events(2, 1)));
    }

    #[test]
    fn progress_that_waits_is_merged() {
        let queue = WatchQueue::default();
        for revision in [1, 3, 2] {
            assert!(queue.push(WatchMessage::Progress(Revision(revision))));
        }
        let message = next(&queue);
        assert!(
            matches!(
                message,
                Some(Ok(WatchMessage::Progress(revision))) if revision == Revision(3)
            ),
            "{message:?}"
        );
        assert!(next(&queue).is_none());
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_woken() {
        let queue = std::sync::Arc::new(WatchQueue::default());
        let reading = std::sync::Arc::clone(&queue);
        let reader = tokio::spawn(async move { reading.next().await });
        tokio::task::yield_now().await;
        queue.end(QueueEnd::Failed(EngineError::Closed));
        let end = reader.await.unwrap().unwrap_err();
        assert_eq!(end, QueueEnd::Failed(EngineError::Closed));
    }
}
