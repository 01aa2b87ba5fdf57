//! Feeds: whole revisions of a watch of etcd for its reader.
//!
//! Most feeds read a watch on a shared stream. Each other one has a task, which reads a stream of
//! its own and requests progress when a reader waits. Progress that reaches its reader shows that
//! it has caught up. Then it goes on from there on a shared stream.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{EngineError, Event, Feed, FeedItem, Prefix, Revision};
use actors::tasks;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::cluster::Cluster;
use super::cluster_state::ClusterState;
use super::etcd_watch::{EtcdWatch, WatchMessage};
use super::last_event_check::check_last_event;
use super::progress_pace::ProgressPace;
use super::progress_requests::RequestedProgress;
use super::shared_streams::SharedWatch;
use super::task::Task;
use super::watch_queue::QueueEnd;

/// The messages that are read ahead of the reader. The rest stays in etcd.
const MESSAGES_AHEAD: usize = 16;
/// The most events of waiting messages that are passed on together.
const JOINED_EVENTS: usize = 512;
/// The KiB of values that are read ahead of the reader. One message may be larger.
const KIB_AHEAD: usize = 4 << 10;

/// A message of the task to the reader, with its share of [`KIB_AHEAD`].
type Delivery = (
    Result<WatchMessage, EngineError>,
    Option<OwnedSemaphorePermit>,
);

/// The port's feed.
struct EtcdFeed {
    cluster: Arc<Cluster>,
    prefix: Prefix,
    source: Source,
}

/// Where the messages of a feed come from.
enum Source {
    Shared(SharedWatch),
    /// It changes to another stream.
    Moving(oneshot::Receiver<Result<Source, EngineError>>),
    Own(Box<OwnStream>),
    /// It could not move.
    Ended(EngineError),
}

/// A watch with a stream of its own.
struct OwnStream {
    messages: mpsc::Receiver<Delivery>,
    /// Received and not passed on yet.
    next: Option<Delivery>,
    epoch: u64,
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
    let epoch = cluster.state.epoch();
    let source = Source::open(&cluster, &prefix, after, epoch).await?;
    Ok(Box::new(EtcdFeed {
        cluster,
        prefix,
        source,
    }))
}

impl Source {
    /// Opens a watch after a revision of an epoch, on a shared stream if it is recent.
    async fn open(
        cluster: &Cluster,
        prefix: &Prefix,
        after: Revision,
        epoch: u64,
    ) -> Result<Source, EngineError> {
        match cluster.shared_watch(prefix, after).await? {
            Some(watch) if watch.epoch() == epoch => Ok(Source::Shared(watch)),
            Some(_) => Err(epoch_ended(&cluster.state, after)),
            None => OwnStream::open(cluster, prefix, after, epoch).await,
        }
    }
}

impl OwnStream {
    /// Opens a stream after a revision of an epoch. It ends at once if another one has begun.
    async fn open(
        cluster: &Cluster,
        prefix: &Prefix,
        after: Revision,
        epoch: u64,
    ) -> Result<Source, EngineError> {
        let watch = cluster.watch(prefix, after).await?;
        check_last_event(&cluster.servers, &cluster.state).await?;
        let (sender, messages) = mpsc::channel(MESSAGES_AHEAD);
        let wake = Arc::default();
        let feed = FeedTask {
            epochs: cluster.state.epochs(),
            requested: cluster.progress_requests.subscribe(prefix, &wake),
            wake,
            closed: cluster.closed.subscribe(),
            state: Arc::clone(&cluster.state),
            watch,
            epoch,
            delivered: after,
            pace: ProgressPace::new(Instant::now()),
            room: Arc::new(Semaphore::new(KIB_AHEAD)),
        };
        let task = Task::of(tasks::spawn(async move {
            // The reader has received the reason for the end, or has gone away.
            if let Err(error) = feed.run(&sender).await {
                let _ = sender.send((Err(error), None)).await;
            }
        }));
        Ok(Source::Own(Box::new(OwnStream {
            messages,
            next: None,
            epoch,
            _task: task,
        })))
    }
}

/// The task of a watch with a stream of its own.
struct FeedTask {
    state: Arc<ClusterState>,
    watch: EtcdWatch,
    /// The epoch of the revision that the reader goes on from.
    epoch: u64,
    /// The progress that readers of the prefix wait for.
    requested: Arc<RequestedProgress>,
    wake: Arc<Notify>,
    epochs: watch::Receiver<u64>,
    closed: watch::Receiver<bool>,
    /// Everything up to this revision was delivered or is before the start.
    delivered: Revision,
    pace: ProgressPace,
    room: Arc<Semaphore>,
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
        let current = *self.epochs.borrow_and_update();
        if current != self.epoch || self.watch.epoch() != self.epoch {
            return Err(epoch_ended(&self.state, self.delivered));
        }
        loop {
            let wake = self.wait().await?;
            if matches!(wake, Wake::EpochEnded) {
                return Err(epoch_ended(&self.state, self.delivered));
            }
            if let Wake::Message(message) = wake {
                match &message {
                    // It asks a busy watch, too, whether that has caught up.
                    Some(WatchMessage::Events(_)) => self.pace.is_alive(Instant::now()),
                    Some(WatchMessage::Progress(_)) | None => self.pace.answered(Instant::now()),
                }
                if let Some(message) = message
                    && !self.deliver(message, sender).await
                {
                    return Ok(());
                }
            }
            let now = Instant::now();
            if self.pace.is_dead(now) {
                self.watch.switch_member();
                let text = "etcd has been silent on a watch".to_owned();
                return Err(EngineError::Unavailable(text));
            }
            let wanted = self.wanted(now);
            if self.pace.due_at(wanted, now) <= now {
                self.watch.request_progress().await?;
                self.pace.requested(wanted, now);
            }
        }
    }

    /// Passes a message to the reader. Returns whether the reader still exists.
    async fn deliver(&mut self, message: WatchMessage, sender: &mpsc::Sender<Delivery>) -> bool {
        // Only messages of etcd count as known. The start of the feed is only what its reader said.
        let (state, epoch) = (&self.state, self.epoch);
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
                self.delivered = self.delivered.max(*revision);
                0
            }
        };
        let kib = (bytes >> 10).clamp(1, KIB_AHEAD) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(kib).await.ok();
        let has_reader = sender.send((Ok(message), room)).await.is_ok();
        // The time until there was room does not count.
        self.pace.is_alive(Instant::now());
        has_reader
    }

    async fn wait(&mut self) -> Result<Wake, EngineError> {
        let now = Instant::now();
        let due = self.pace.due_at(self.wanted(now), now);
        let next = due.max(now + Duration::from_millis(1));
        tokio::select! {
            biased;
            _ = self.closed.changed() => Err(EngineError::Closed),
            _ = self.epochs.changed() => Ok(Wake::EpochEnded),
            message = self.watch.next() => message.map(Wake::Message),
            () = self.wake.notified() => Ok(Wake::Requested),
            () = tokio::time::sleep_until(next) => Ok(Wake::Timer),
        }
    }

    /// The revision that readers wait for beyond what was delivered, if etcd reports progress.
    fn wanted(&self, now: Instant) -> Option<Revision> {
        let wanted = self.requested.beyond(self.delivered, now)?;
        self.watch.supports_progress().then_some(wanted)
    }
}

/// The error of a feed whose cluster was rolled back, or is another one by now.
fn epoch_ended(state: &ClusterState, delivered: Revision) -> EngineError {
    EngineError::Compacted {
        requested: delivered,
        compacted: state.revision(),
    }
}

impl OwnStream {
    async fn next(&mut self) -> Result<FeedItem, EngineError> {
        let message = match self.next.take() {
            Some(message) => message,
            None => {
                let received = self.messages.recv().await;
                received.unwrap_or((Err(EngineError::Closed), None))
            }
        };
        Ok(match message.0? {
            WatchMessage::Events(events) => FeedItem::Events(self.join(events).into()),
            WatchMessage::Progress(revision) => FeedItem::Progress(revision),
        })
    }

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

impl EtcdFeed {
    /// Changes to a stream that is opened on the engine's thread, while the reader waits. The
    /// events go on from those of an epoch, so the stream must belong to it too.
    fn move_on<O, F>(&mut self, open: O)
    where
        O: FnOnce(Arc<Cluster>, Prefix) -> F,
        F: Future<Output = Result<Source, EngineError>> + Send + 'static,
    {
        let opening = open(Arc::clone(&self.cluster), self.prefix.clone());
        let (sender, moving) = oneshot::channel();
        tasks::spawn_on(&self.cluster.runtime, async move {
            // The reader may have gone away.
            let _ = sender.send(opening.await);
        });
        self.source = Source::Moving(moving);
    }
}

/// The events of the first message of a shared watch and of those that wait after it.
fn join_shared(watch: &SharedWatch, first: Vec<Event>) -> Vec<Event> {
    let mut events = first;
    while events.len() < JOINED_EVENTS
        && let Some(more) = watch.queue.next_events()
    {
        events.extend(more);
    }
    events
}

impl Feed for EtcdFeed {
    fn next(&mut self) -> BoxFuture<'_, Result<FeedItem, EngineError>> {
        async move {
            loop {
                match &mut self.source {
                    Source::Own(own) => {
                        let (item, epoch) = (own.next().await?, own.epoch);
                        if let FeedItem::Progress(after) = item
                            && self.cluster.shared_streams.takes(after)
                        {
                            self.move_on(async move |cluster, prefix| {
                                Source::open(&cluster, &prefix, after, epoch).await
                            });
                        }
                        return Ok(item);
                    }
                    Source::Moving(moving) => {
                        let opened = moving.await.unwrap_or(Err(EngineError::Closed));
                        self.source = opened.unwrap_or_else(Source::Ended);
                    }
                    Source::Ended(error) => return Err(error.clone()),
                    Source::Shared(watch) => match watch.queue.next().await {
                        Ok(WatchMessage::Events(events)) => {
                            let events = join_shared(watch, events);
                            return Ok(FeedItem::Events(events.into()));
                        }
                        Ok(WatchMessage::Progress(revision)) => {
                            return Ok(FeedItem::Progress(revision));
                        }
                        Err(QueueEnd::Failed(error)) => return Err(error),
                        Err(QueueEnd::Overrun(after)) => {
                            let epoch = watch.epoch();
                            self.move_on(async move |cluster, prefix| {
                                OwnStream::open(&cluster, &prefix, after, epoch).await
                            });
                        }
                    },
                }
            }
        }
        .boxed()
    }
}
