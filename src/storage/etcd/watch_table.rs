//! The watches that share a stream: whose message is it, and what does an answer to a request for
//! progress say of each.

use std::collections::HashMap;
use std::sync::Arc;

use actors::engine::{EngineError, Revision};
use etcd_client::proto::PbWatchResponse;
use tokio::time::Instant;

use super::cluster_state::ClusterState;
use super::etcd_watch::{ALL_WATCHES, WatchMessage, canceled};
use super::events::Assembler;
use super::progress_pace::IDLE_INTERVAL;
use super::progress_requests::RequestedProgress;
use super::watch_queue::{QueueEnd, WatchQueue};
use crate::clock;

/// The watches of a stream, by etcd's numbers. They belong to one epoch.
pub(super) struct WatchTable {
    state: Arc<ClusterState>,
    epoch: u64,
    by_id: HashMap<i64, TableEntry>,
    answers: AnswerCount,
}

/// One watch.
struct TableEntry {
    queue: Arc<WatchQueue>,
    requested: Arc<RequestedProgress>,
    assembler: Assembler,
    after: Revision,
    /// Everything up to this revision was delivered or is before the start.
    delivered: Revision,
    /// The progress of the newest answer. The reader learns it now and then, and at the end: a
    /// watch that goes on from there has little to catch up.
    credited: Revision,
    /// Whether anything was delivered. The first message shows that the watch works.
    has_delivered: bool,
    progress_at: Instant,
    /// `None` once an answer was about it.
    creation: Option<Creation>,
}

/// A watch that etcd has created.
pub(super) struct NewWatch {
    pub(super) id: i64,
    pub(super) queue: Arc<WatchQueue>,
    pub(super) requested: Arc<RequestedProgress>,
    pub(super) after: Revision,
    pub(super) creation: Creation,
}

/// When a watch was created.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creation {
    /// The store's revision at that time.
    pub(super) revision: Revision,
    /// The requests for progress that were sent before the request for this watch.
    pub(super) requests_before: u64,
}

/// How many requests for progress were sent, and how many of them can't be answered any more.
///
/// etcd sends created watches and answers by two queues. So an answer to an earlier request may
/// come after the message that a watch was created, and then it says nothing of that watch. It is
/// recognised by its revision: etcd handles requests in order, so the answer to an earlier request
/// has at most the revision of the creation. At exactly this revision the number of answers
/// decides. etcd leaves out answers while a watch of the stream catches up, so an answer belongs to
/// the first request that may still be answered, or to any later one.
#[derive(Debug, Default)]
struct AnswerCount {
    sent: u64,
    /// No answer to the first so many requests will come.
    settled: u64,
    newest_creation: Option<Creation>,
}

impl AnswerCount {
    /// Counts an answer. Returns how many requests it certainly does not answer.
    fn answered(&mut self, revision: Revision) -> u64 {
        if let Some(creation) = self.newest_creation
            && revision > creation.revision
        {
            self.settled = self.settled.max(creation.requests_before);
        }
        let before = self.settled;
        self.settled = self.sent.min(before + 1);
        before
    }
}

impl WatchTable {
    /// A table for watches of an epoch.
    pub(super) fn new(state: Arc<ClusterState>, epoch: u64) -> WatchTable {
        WatchTable {
            state,
            epoch,
            by_id: HashMap::new(),
            answers: AnswerCount::default(),
        }
    }

    /// The number of watches.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The requests for progress that were sent.
    pub(super) fn requests(&self) -> u64 {
        self.answers.sent
    }

    /// A request for progress is sent.
    pub(super) fn request(&mut self) {
        self.answers.sent += 1;
    }

    /// Adds a watch.
    pub(super) fn add(&mut self, watch: NewWatch, now: Instant) {
        self.answers.newest_creation = Some(watch.creation);
        // Where it begins after its creation, every answer is true of it.
        let is_late = watch.after < watch.creation.revision;
        let entry = TableEntry {
            queue: watch.queue,
            requested: watch.requested,
            assembler: Assembler::default(),
            after: watch.after,
            delivered: watch.after,
            credited: watch.after,
            has_delivered: false,
            progress_at: now,
            creation: is_late.then_some(watch.creation),
        };
        self.by_id.insert(watch.id, entry);
    }

    /// The newest revision that readers of any watch wait for.
    pub(super) fn wanted(&self, now: Instant) -> Option<Revision> {
        let entries = self.by_id.values();
        let wanted = entries.filter_map(|entry| entry.requested.beyond(entry.delivered, now));
        wanted.max()
    }

    /// Passes a message on. Returns the watch that is to be cancelled because of it.
    /// `has_progress` says that the member's answers to requests for progress are true.
    pub(super) fn take(
        &mut self,
        response: PbWatchResponse,
        has_progress: bool,
        now: Instant,
    ) -> Option<i64> {
        let id = response.watch_id;
        let header = response.header.as_ref();
        let revision = header.map_or(0, |header| header.revision);
        let revision = super::cluster_state::revision(revision);
        if response.canceled {
            let entry = self.by_id.remove(&id)?;
            let error = canceled(&response, entry.after);
            entry.queue.end(QueueEnd::Failed(error));
            // etcd keeps a compacted watch until it is cancelled, and answers no request for
            // progress on its stream before.
            return (response.compact_revision > 0).then_some(id);
        }
        if response.events.is_empty() {
            if id == ALL_WATCHES {
                self.answered(revision, has_progress, now);
            } else if let Some(entry) = self.by_id.get_mut(&id) {
                self.state.learn_progress(revision, self.epoch);
                entry.reach(revision, now);
            }
            return None;
        }
        // A cancelled watch may still have messages under way.
        let entry = self.by_id.get_mut(&id)?;
        let taken = entry.take(response, &self.state, self.epoch);
        let Err(end) = taken else {
            return None;
        };
        entry.queue.end(end);
        self.by_id.remove(&id);
        Some(id)
    }

    /// An answer to a request for progress. It is passed on to watches whose readers wait for it,
    /// and now and then to all others.
    fn answered(&mut self, revision: Revision, is_true: bool, now: Instant) {
        let not_about = self.answers.answered(revision);
        if !is_true {
            return;
        }
        self.state.learn_progress(revision, self.epoch);
        for entry in self.by_id.values_mut() {
            if let Some(creation) = entry.creation {
                let is_about_it =
                    revision > creation.revision || not_about >= creation.requests_before;
                if !is_about_it {
                    continue;
                }
                entry.creation = None;
            }
            entry.credited = entry.credited.max(revision);
            let is_wanted = entry.requested.beyond(entry.delivered, now).is_some();
            let is_due = now.duration_since(entry.progress_at) >= IDLE_INTERVAL;
            if is_wanted || is_due || !entry.has_delivered {
                entry.reach(revision, now);
            }
        }
    }

    /// Removes the watches whose readers have gone away. Returns their numbers.
    pub(super) fn remove_left(&mut self) -> Vec<i64> {
        let left = self.by_id.extract_if(|_, entry| entry.queue.is_left());
        left.map(|(id, _)| id).collect()
    }

    /// Ends all watches. The error of each may depend on the revision that it has reached.
    pub(super) fn end_all(&mut self, error: impl Fn(Revision) -> EngineError) {
        for (_, mut entry) in self.by_id.drain() {
            if entry.credited > entry.delivered {
                entry.reach(entry.credited, Instant::now());
            }
            let error = error(entry.delivered);
            entry.queue.end(QueueEnd::Failed(error));
        }
    }
}

impl TableEntry {
    /// Passes events on.
    ///
    /// # Errors
    /// The end of the watch, if it can't go on in this stream.
    fn take(
        &mut self,
        response: PbWatchResponse,
        state: &ClusterState,
        epoch: u64,
    ) -> Result<(), QueueEnd> {
        let (events, is_cut, now) = (response.events, response.fragment, clock::system_time());
        let events = self.assembler.take(events, is_cut, self.after, now);
        let events = events.map_err(|text| QueueEnd::Failed(EngineError::Corrupt(text)))?;
        let Some(newest) = events.last() else {
            return Ok(());
        };
        state.learn_event(newest, epoch);
        let reached = newest.revision;
        if !self.queue.push(WatchMessage::Events(events)) {
            return Err(QueueEnd::Overrun(self.delivered));
        }
        self.delivered = self.delivered.max(reached);
        self.has_delivered = true;
        Ok(())
    }

    /// Everything up to this revision was delivered.
    fn reach(&mut self, revision: Revision, now: Instant) {
        self.progress_at = now;
        if revision <= self.delivered && self.has_delivered {
            return;
        }
        self.delivered = self.delivered.max(revision);
        self.has_delivered = true;
        // There is always room for it.
        self.queue.push(WatchMessage::Progress(revision));
    }
}

#[cfg(test)]
mod tests {
    use actors::engine::Prefix;
    use etcd_client::proto::{PbEvent, PbKeyValue, PbResponseHeader};
    use futures_util::FutureExt;
    use tokio::sync::Notify;

    use super::super::progress_requests::ProgressRequests;
    use super::*;

    /// A stream whose messages a test makes up.
    struct Stream {
        table: WatchTable,
        requests: ProgressRequests,
        wake: Arc<Notify>,
    }

    fn stream() -> Stream {
        Stream {
            table: WatchTable::new(Arc::default(), 0),
            requests: ProgressRequests::default(),
            wake: Arc::default(),
        }
    }

    fn prefix(id: i64) -> Prefix {
        Prefix::new(format!("/r/{id}/"))
    }

    impl Stream {
        /// etcd has created a watch after a revision, when the store was at another one.
        fn add(&mut self, id: i64, after: u64, at: u64) -> Arc<WatchQueue> {
            let requests_before = self.table.requests();
            self.add_requested(id, after, at, requests_before)
        }

        fn add_requested(
            &mut self,
            id: i64,
            after: u64,
            at: u64,
            requests_before: u64,
        ) -> Arc<WatchQueue> {
            let queue = Arc::<WatchQueue>::default();
            let watch = NewWatch {
                id,
                queue: Arc::clone(&queue),
                requested: self.requests.subscribe(&prefix(id), &self.wake),
                after: Revision(after),
                creation: Creation {
                    revision: Revision(at),
                    requests_before,
                },
            };
            self.table.add(watch, Instant::now());
            queue
        }

        fn take(&mut self, id: i64, revision: i64, change: impl FnOnce(&mut PbWatchResponse)) {
            let cancelled = self.take_any(id, revision, change);
            assert_eq!(cancelled, None);
        }

        /// Returns the watch that is to be cancelled.
        fn take_any(
            &mut self,
            id: i64,
            revision: i64,
            change: impl FnOnce(&mut PbWatchResponse),
        ) -> Option<i64> {
            let mut response = PbWatchResponse {
                header: Some(PbResponseHeader {
                    revision,
                    ..PbResponseHeader::default()
                }),
                watch_id: id,
                ..PbWatchResponse::default()
            };
            change(&mut response);
            self.table.take(response, true, Instant::now())
        }

        fn event(&mut self, id: i64, revision: i64) {
            self.take(id, revision, |response| {
                response.events = vec![event(revision, 1)];
            });
        }

        fn answer(&mut self, revision: i64) {
            self.take(ALL_WATCHES, revision, |_| {});
        }

        /// A reader of a watch waits for a revision.
        fn want(&self, id: i64, revision: u64) {
            self.requests.request(&prefix(id), Revision(revision));
        }
    }

    fn event(revision: i64, bytes: usize) -> PbEvent {
        PbEvent {
            kv: Some(PbKeyValue {
                key: b"/r/a".to_vec(),
                mod_revision: revision,
                create_revision: revision,
                version: 1,
                value: vec![b'x'; bytes],
                lease: 0,
            }),
            ..PbEvent::default()
        }
    }

    /// The revisions that are in a queue: of events, and those of progress as negative numbers.
    fn seen(queue: &WatchQueue) -> Vec<i64> {
        let mut seen = Vec::new();
        while let Some(Ok(message)) = queue.next().now_or_never() {
            match message {
                WatchMessage::Events(events) => {
                    seen.extend(events.iter().map(|event| event.revision.0 as i64));
                }
                WatchMessage::Progress(revision) => seen.push(-(revision.0 as i64)),
            }
        }
        seen
    }

    fn end(queue: &WatchQueue) -> Option<QueueEnd> {
        queue.next().now_or_never()?.err()
    }

    #[tokio::test(start_paused = true)]
    async fn each_watch_gets_its_own_messages() {
        let mut stream = stream();
        let (one, other) = (stream.add(0, 10, 10), stream.add(1, 10, 10));
        stream.event(0, 11);
        stream.event(1, 12);
        stream.event(0, 13);
        // A watch that was cancelled may still have some under way.
        stream.event(7, 14);
        assert_eq!((seen(&one), seen(&other)), (vec![11, 13], vec![12]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_etcd_cancels_ends_alone_wa_32() {
        let mut stream = stream();
        let (one, other) = (stream.add(0, 10, 10), stream.add(1, 10, 10));
        let cancelled = stream.take_any(0, 20, |response| {
            (response.canceled, response.compact_revision) = (true, 15);
        });
        assert_eq!(cancelled, Some(0), "etcd keeps it otherwise");
        // The answer to that.
        stream.take(0, 20, |response| response.canceled = true);
        stream.event(1, 21);
        let compacted = EngineError::Compacted {
            requested: Revision(10),
            compacted: Revision(15),
        };
        assert_eq!(end(&one), Some(QueueEnd::Failed(compacted)));
        assert_eq!((seen(&other), stream.table.len()), (vec![21], 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_nobody_reads_is_cancelled_alone() {
        let mut stream = stream();
        let (slow, other) = (stream.add(0, 10, 10), stream.add(1, 10, 10));
        let mut revision = 10;
        let cancelled = loop {
            revision += 1;
            let response = PbWatchResponse {
                events: vec![event(revision, 1 << 20)],
                ..PbWatchResponse::default()
            };
            let cancelled = stream.table.take(response, true, Instant::now());
            if cancelled.is_some() {
                break cancelled;
            }
        };
        assert_eq!((cancelled, stream.table.len()), (Some(0), 1));
        stream.event(1, revision + 1);
        assert_eq!(seen(&other), [revision + 1]);
        // It has everything before the message that found no room.
        assert_eq!(seen(&slow), (11..revision).collect::<Vec<_>>());
        let last = Revision(revision as u64 - 1);
        assert_eq!(end(&slow), Some(QueueEnd::Overrun(last)));
    }

    #[tokio::test(start_paused = true)]
    async fn fragments_of_one_watch_are_not_joined_with_others() {
        let mut stream = stream();
        let (one, other) = (stream.add(0, 10, 10), stream.add(1, 10, 10));
        stream.take(0, 11, |response| {
            (response.events, response.fragment) = (vec![event(11, 1)], true);
        });
        stream.event(1, 12);
        assert_eq!((seen(&one), seen(&other)), (vec![], vec![12]));
        stream.event(0, 11);
        assert_eq!(seen(&one), [11, 11]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_goes_to_whoever_waits_and_seldom_to_the_others_st_71_pf_17() {
        let mut stream = stream();
        let (one, other) = (stream.add(0, 10, 10), stream.add(1, 10, 10));
        stream.table.request();
        stream.answer(11);
        // The first message shows that a watch works.
        assert_eq!((seen(&one), seen(&other)), (vec![-11], vec![-11]));
        stream.want(0, 12);
        assert_eq!(stream.table.wanted(Instant::now()), Some(Revision(12)));
        stream.table.request();
        stream.answer(12);
        assert_eq!((seen(&one), seen(&other)), (vec![-12], vec![]));
        assert_eq!(stream.table.wanted(Instant::now()), None);
        tokio::time::advance(IDLE_INTERVAL).await;
        stream.table.request();
        stream.answer(13);
        assert_eq!((seen(&one), seen(&other)), (vec![-13], vec![-13]));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_stream_leaves_no_idle_watch_behind() {
        let mut stream = stream();
        let idle = stream.add(0, 10, 10);
        for _ in 0..3 {
            stream.table.request();
        }
        let late = stream.add(1, 10, 30);
        for revision in [11, 12, 20] {
            stream.answer(revision);
        }
        assert_eq!(seen(&idle), [-11]);
        stream.table.end_all(|_| EngineError::Closed);
        // These answers say nothing of the other one.
        assert_eq!((seen(&idle), seen(&late)), (vec![-20], vec![]));
        assert_eq!(end(&idle), Some(QueueEnd::Failed(EngineError::Closed)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_a_request_of_before_a_watch_says_nothing_of_it() {
        let mut stream = stream();
        stream.add(0, 20, 20);
        stream.table.request();
        // It begins in the past, and the request was sent before it.
        let late = stream.add(1, 15, 20);
        stream.want(1, 20);
        stream.answer(20);
        assert_eq!(seen(&late), [0; 0]);
        stream.table.request();
        stream.answer(20);
        assert_eq!(seen(&late), [-20]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_with_a_newer_revision_is_about_every_watch() {
        let mut stream = stream();
        stream.add(0, 20, 20);
        for _ in 0..5 {
            stream.table.request();
        }
        let late = stream.add(1, 15, 20);
        stream.want(1, 21);
        stream.answer(21);
        assert_eq!(seen(&late), [-21]);
        let settled = stream.table.answers.settled;
        assert_eq!(settled, stream.table.requests());
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_was_requested_before_a_request_for_progress_is_meant_by_it() {
        let mut stream = stream();
        stream.add(0, 20, 20);
        // It was sent after the request for the watch, and before that was answered.
        stream.table.request();
        let late = stream.add_requested(1, 15, 20, 0);
        stream.want(1, 20);
        stream.answer(20);
        assert_eq!(seen(&late), [-20]);
    }

    #[tokio::test(start_paused = true)]
    async fn readers_that_go_away_take_their_watches_along() {
        let mut stream = stream();
        let (one, other) = (stream.add(0, 10, 10), stream.add(1, 10, 10));
        one.leave();
        assert_eq!(stream.table.remove_left(), [0]);
        stream.table.end_all(|reached| EngineError::Compacted {
            requested: reached,
            compacted: Revision(30),
        });
        assert!(matches!(end(&other), Some(QueueEnd::Failed(_))));
        assert_eq!((end(&one), stream.table.len()), (None, 0));
    }
}
