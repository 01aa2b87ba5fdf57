//! Feeds: a task reads a watch of etcd, requests progress when a reader waits, and passes whole
//! revisions to the reader.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{EngineError, Event, Feed, FeedItem, Prefix, Revision};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::cluster::Cluster;
use super::cluster_state::ClusterState;
use super::etcd_watch::{EtcdWatch, WatchMessage};
use super::progress_requests::ProgressRequest;
use super::task::Task;

/// The messages that are read ahead of the reader. The rest stays in etcd.
const MESSAGES_AHEAD: usize = 16;
/// The most events of waiting messages that are passed on together.
const JOINED_EVENTS: usize = 512;
/// When an unanswered request for progress is repeated (WC-30): etcd drops it while it catches up.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// The pause after an answer that was not recent enough. The member may lag behind, and what a
/// reader waits for may never come.
const PAUSE_AFTER_ANSWER: Duration = Duration::from_millis(10);
/// How often a silent feed requests progress, so that bookmarks of idle resources move (PF-17).
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// A feed is dead after it has requested progress for this long without any message.
const DEAD_AFTER: Duration = Duration::from_secs(30);
/// The KiB of values that are read ahead of the reader. One message may be larger.
const KIB_AHEAD: usize = 4 << 10;

/// A message of the task to the reader, with its share of [`KIB_AHEAD`].
type Delivery = (
    Result<WatchMessage, EngineError>,
    Option<OwnedSemaphorePermit>,
);

/// The port's feed.
struct EtcdFeed {
    messages: mpsc::Receiver<Delivery>,
    /// Received and not passed on yet.
    next: Option<Delivery>,
    _task: Task,
}

/// Opens a feed.
///
/// # Errors
/// When no member can be reached. The feed itself may report compaction.
pub(super) async fn open(
    cluster: Arc<Cluster>,
    prefix: Prefix,
    after: Revision,
) -> Result<Box<dyn Feed>, EngineError> {
    cluster.check_last_event().await?;
    let watch = cluster.watch(&prefix, after).await?;
    let (sender, messages) = mpsc::channel(MESSAGES_AHEAD);
    let feed = FeedTask {
        epochs: cluster.state.epochs(),
        requested: cluster.progress_requests.subscribe(&prefix),
        closed: cluster.closed.subscribe(),
        state: Arc::clone(&cluster.state),
        watch,
        delivered: after,
        pending: None,
        silent_since: Instant::now(),
        has_delivered: false,
        room: Arc::new(Semaphore::new(KIB_AHEAD)),
    };
    let task = Task::of(tokio::spawn(async move {
        // The reader has received the reason for the end, or has gone away.
        if let Err(error) = feed.run(&sender).await {
            let _ = sender.send((Err(error), None)).await;
        }
    }));
    Ok(Box::new(EtcdFeed {
        messages,
        next: None,
        _task: task,
    }))
}

/// The task behind a feed.
struct FeedTask {
    state: Arc<ClusterState>,
    watch: EtcdWatch,
    /// What readers of the prefix wait for.
    requested: Option<watch::Receiver<ProgressRequest>>,
    epochs: watch::Receiver<u64>,
    closed: watch::Receiver<bool>,
    /// Everything up to this revision was delivered or is before the start.
    delivered: Revision,
    /// The newest request for progress sent to etcd.
    pending: Option<PendingRequest>,
    silent_since: Instant,
    /// Whether anything was delivered. The first message shows that the feed works.
    has_delivered: bool,
    room: Arc<Semaphore>,
}

/// A request for progress sent to etcd.
#[derive(Clone, Copy)]
struct PendingRequest {
    sent_at: Instant,
    /// The revision that readers waited for.
    up_to: Revision,
    /// Whether any message came since.
    is_answered: bool,
}

/// Why the task woke up.
enum Wake {
    Message(Option<WatchMessage>),
    /// A reader requested progress.
    Requested,
    Timer,
    EpochEnded,
}

impl FeedTask {
    async fn run(mut self, sender: &mpsc::Sender<Delivery>) -> Result<(), EngineError> {
        let epoch = self.watch.epoch();
        if *self.epochs.borrow_and_update() != epoch {
            return Err(self.epoch_ended());
        }
        loop {
            let wake = self.wait().await?;
            if matches!(wake, Wake::EpochEnded) {
                return Err(self.epoch_ended());
            }
            if let Wake::Message(message) = wake {
                self.silent_since = Instant::now();
                if let Some(pending) = &mut self.pending {
                    pending.is_answered = true;
                }
                if let Some(message) = message
                    && !self.deliver(message, sender).await
                {
                    return Ok(());
                }
            }
            let waits = self.pending.is_some_and(|pending| !pending.is_answered);
            if waits && self.silent_since.elapsed() > DEAD_AFTER {
                self.watch.switch_member();
                let text = "etcd has been silent on a watch".to_owned();
                return Err(EngineError::Unavailable(text));
            }
            let now = Instant::now();
            if self.is_due(now) {
                self.watch.request_progress().await?;
                self.pending = Some(PendingRequest {
                    sent_at: now,
                    up_to: self.wanted(now).unwrap_or_default(),
                    is_answered: false,
                });
            }
        }
    }

    /// Passes a message to the reader. Answers whether the reader still exists.
    async fn deliver(&mut self, message: WatchMessage, sender: &mpsc::Sender<Delivery>) -> bool {
        // Only messages of etcd count as learnt. The start of the feed is only what its reader
        // said.
        let (state, epoch) = (&self.state, self.watch.epoch());
        let is_first = !std::mem::replace(&mut self.has_delivered, true);
        let bytes: usize = match &message {
            WatchMessage::Events(events) => {
                if let Some(newest) = events.last() {
                    state.learn_event(newest, epoch);
                    self.delivered = self.delivered.max(newest.revision);
                }
                events.iter().map(|event| event.value.len()).sum()
            }
            WatchMessage::Progress(revision) => {
                state.learn_progress(*revision, epoch);
                if *revision <= self.delivered && !is_first {
                    return true;
                }
                self.delivered = self.delivered.max(*revision);
                0
            }
        };
        let kib = (bytes >> 10).clamp(1, KIB_AHEAD) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(kib).await.ok();
        let has_reader = sender.send((Ok(message), room)).await.is_ok();
        // The time until there was room does not count.
        self.silent_since = Instant::now();
        has_reader
    }

    async fn wait(&mut self) -> Result<Wake, EngineError> {
        let next = self.next_wake();
        let requested = async {
            let is_changed = match &mut self.requested {
                Some(requested) => requested.changed().await.is_ok(),
                None => false,
            };
            // Without requests there is no reason to wake up.
            if !is_changed {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            _ = self.closed.changed() => Err(EngineError::Closed),
            _ = self.epochs.changed() => Ok(Wake::EpochEnded),
            message = self.watch.next() => message.map(Wake::Message),
            () = requested => Ok(Wake::Requested),
            () = tokio::time::sleep_until(next) => Ok(Wake::Timer),
        }
    }

    /// The error of a feed whose cluster was rolled back, or is another one by now.
    fn epoch_ended(&self) -> EngineError {
        EngineError::Compacted {
            requested: self.delivered,
            compacted: self.state.revision(),
        }
    }

    /// The revision that readers wait for beyond what was delivered, where etcd tells progress.
    fn wanted(&self, now: Instant) -> Option<Revision> {
        let requested = self
            .requested
            .as_ref()
            .map(|requested| *requested.borrow())?;
        let wanted = requested.beyond(self.delivered, now)?;
        self.watch.supports_progress().then_some(wanted)
    }

    /// When to request progress. An answer under way may be enough for every reader. A member whose
    /// answers are not true is asked too, to see that the watch is alive.
    fn due_at(&self, now: Instant) -> Instant {
        let idle = || match self.pending {
            Some(pending) if !pending.is_answered => pending.sent_at + IDLE_INTERVAL,
            _ => self.silent_since + IDLE_INTERVAL,
        };
        match (self.wanted(now), self.pending) {
            (None, _) => idle(),
            (Some(_), None) => now,
            (Some(_), Some(pending)) if !pending.is_answered => pending.sent_at + REPEAT_AFTER,
            (Some(up_to), Some(pending)) if up_to > pending.up_to => now,
            (Some(_), Some(pending)) => pending.sent_at + PAUSE_AFTER_ANSWER,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due_at(now) <= now
    }

    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        self.due_at(now).max(now + Duration::from_millis(1))
    }
}

impl EtcdFeed {
    /// The events of the first message and of those that wait after it, as one batch.
    fn join(&mut self, first: Vec<Event>) -> Vec<Event> {
        let mut events = first;
        while events.len() < JOINED_EVENTS {
            match self.messages.try_recv() {
                Ok((Ok(WatchMessage::Events(more)), _room)) => events.extend(more),
                Ok(other) => {
                    self.next = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        events
    }
}

impl Feed for EtcdFeed {
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>> {
        async move {
            let message = match self.next.take() {
                Some(message) => message,
                None => self
                    .messages
                    .recv()
                    .await
                    .unwrap_or((Err(EngineError::Closed), None)),
            };
            Ok(match message.0? {
                WatchMessage::Events(events) => FeedItem::Events(self.join(events).into()),
                WatchMessage::Progress(revision) => FeedItem::Progress(revision),
            })
        }
        .boxed()
    }
}
