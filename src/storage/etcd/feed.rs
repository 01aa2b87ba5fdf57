//! Feeds: a task reads the stream, makes it tell of progress when somebody waits, and hands whole
//! revisions to whoever polls the feed.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{EngineError, Event, Feed, FeedItem, Prefix, Revision};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::stream::{Message, Stream};
use super::wishes::Wish;
use super::{Shared, Task};

/// Messages that a feed nobody polls takes in before it leaves the rest to etcd.
const AHEAD: usize = 16;
/// Messages that wait are handed on together, up to so many events.
const JOINED_EVENTS: usize = 512;
/// An unanswered request for progress is repeated (WC-30): etcd drops it while it catches up.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// After an answer that was not enough yet etcd is left alone for so long: the member may lag
/// behind, and what somebody waits for may never come.
const BREATH: Duration = Duration::from_millis(10);
/// A silent feed asks so often, so that bookmarks of idle resources move (PF-17).
const IDLE: Duration = Duration::from_secs(10);
/// A feed that has asked so long without a word is dead.
const DEAD: Duration = Duration::from_secs(30);
/// Bytes of values that a feed nobody polls takes in, in KiB; one message may be larger.
const AHEAD_KIB: usize = 4 << 10;

/// What a feed hands on, with its share of [`AHEAD_KIB`].
type Handed = (Result<Message, EngineError>, Option<OwnedSemaphorePermit>);

/// The port's feed.
struct EtcdFeed {
    messages: mpsc::Receiver<Handed>,
    /// Taken off the channel and not handed on yet.
    next: Option<Handed>,
    _task: Task,
}

/// Opens a feed.
///
/// # Errors
/// When no member can be asked; compaction may be told by the feed itself.
pub(super) async fn open(
    shared: Arc<Shared>,
    prefix: Prefix,
    after: Revision,
) -> Result<Box<dyn Feed>, EngineError> {
    shared.ask_witness().await?;
    let stream = shared.open_stream(&prefix, after).await?;
    let (sender, messages) = mpsc::channel(AHEAD);
    let listener = Listener {
        lineages: shared.lineages.subscribe(),
        wish: shared.wishes.listen(&prefix),
        closed: shared.closed.subscribe(),
        shared,
        stream,
        delivered: after,
        asked: None,
        silent_since: Instant::now(),
        has_told: false,
        room: Arc::new(Semaphore::new(AHEAD_KIB)),
    };
    let task = Task::of(tokio::spawn(async move {
        // Who polls the feed learns how it ended, or has gone.
        if let Err(error) = listener.run(&sender).await {
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
struct Listener {
    shared: Arc<Shared>,
    stream: Stream,
    wish: Option<watch::Receiver<Wish>>,
    lineages: watch::Receiver<u64>,
    closed: watch::Receiver<bool>,
    /// Everything up to here was delivered, or was to be passed over.
    delivered: Revision,
    asked: Option<AskedFor>,
    silent_since: Instant,
    /// Whether anything was handed on: that a feed works is news, too.
    has_told: bool,
    room: Arc<Semaphore>,
}

/// A request for progress.
#[derive(Clone, Copy)]
struct AskedFor {
    at: Instant,
    /// What was waited for.
    up_to: Revision,
    /// Whether anything was heard since.
    is_answered: bool,
}

/// What a listener woke up for.
enum Woke {
    Heard(Option<Message>),
    Wished,
    Time,
    Broken,
}

impl Listener {
    async fn run(mut self, sender: &mpsc::Sender<Handed>) -> Result<(), EngineError> {
        let lineage = self.stream.lineage();
        if *self.lineages.borrow_and_update() != lineage {
            return Err(self.broken());
        }
        loop {
            let woke = self.wait().await?;
            if matches!(woke, Woke::Broken) {
                return Err(self.broken());
            }
            if let Woke::Heard(message) = woke {
                self.silent_since = Instant::now();
                if let Some(asked) = &mut self.asked {
                    asked.is_answered = true;
                }
                if let Some(message) = message
                    && !self.hand_on(message, sender).await
                {
                    return Ok(());
                }
            }
            let waits = self.asked.is_some_and(|asked| !asked.is_answered);
            if waits && self.silent_since.elapsed() > DEAD {
                self.stream.leave_member(&self.shared);
                let text = "etcd has been silent on a watch".to_owned();
                return Err(EngineError::Unavailable(text));
            }
            let now = Instant::now();
            if self.is_due(now) {
                self.stream.request_progress().await?;
                self.asked = Some(AskedFor {
                    at: now,
                    up_to: self.wanted(now).unwrap_or_default(),
                    is_answered: false,
                });
            }
        }
    }

    /// Takes note of what was heard; whether somebody still polls the feed.
    async fn hand_on(&mut self, message: Message, sender: &mpsc::Sender<Handed>) -> bool {
        // What etcd has said; where the feed began is only what its reader has said.
        let (seen, lineage) = (&self.shared.seen, self.stream.lineage());
        let is_first = !std::mem::replace(&mut self.has_told, true);
        let bytes: usize = match &message {
            Message::Events(events) => {
                if let Some(newest) = events.last() {
                    seen.happened(newest, lineage);
                    self.delivered = self.delivered.max(newest.revision);
                }
                events.iter().map(|event| event.value.len()).sum()
            }
            Message::Progress(revision) => {
                seen.delivered(*revision, lineage);
                if *revision <= self.delivered && !is_first {
                    return true;
                }
                self.delivered = self.delivered.max(*revision);
                0
            }
        };
        let kib = (bytes >> 10).clamp(1, AHEAD_KIB) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(kib).await.ok();
        let is_polled = sender.send((Ok(message), room)).await.is_ok();
        // However long it took until there was room.
        self.silent_since = Instant::now();
        is_polled
    }

    async fn wait(&mut self) -> Result<Woke, EngineError> {
        let next = self.next_look();
        let wished = async {
            let heard = match &mut self.wish {
                Some(wish) => wish.changed().await.is_ok(),
                None => false,
            };
            // Without wishes there is nothing to wake up for.
            if !heard {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            _ = self.closed.changed() => Err(EngineError::Closed),
            _ = self.lineages.changed() => Ok(Woke::Broken),
            message = self.stream.next(&self.shared) => message.map(Woke::Heard),
            () = wished => Ok(Woke::Wished),
            () = tokio::time::sleep_until(next) => Ok(Woke::Time),
        }
    }

    /// The cluster is another one than the feed was opened on.
    fn broken(&self) -> EngineError {
        EngineError::Compacted {
            requested: self.delivered,
            compacted: self.shared.seen.revision(),
        }
    }

    /// What somebody waits for beyond what was delivered, and is told when etcd says so.
    fn wanted(&self, now: Instant) -> Option<Revision> {
        let wish = self.wish.as_ref().map(|wish| *wish.borrow())?;
        let wanted = wish.beyond(self.delivered, now)?;
        self.stream.believes(&self.shared).then_some(wanted)
    }

    /// When to ask for progress. While an answer is under way it may do for everybody. Who is
    /// not believed is asked for a sign of life all the same.
    fn due_at(&self, now: Instant) -> Instant {
        let idle = || match self.asked {
            Some(asked) if !asked.is_answered => asked.at + IDLE,
            _ => self.silent_since + IDLE,
        };
        match (self.wanted(now), self.asked) {
            (None, _) => idle(),
            (Some(_), None) => now,
            (Some(_), Some(asked)) if !asked.is_answered => asked.at + ASK_AGAIN,
            (Some(up_to), Some(asked)) if up_to > asked.up_to => now,
            (Some(_), Some(asked)) => asked.at + BREATH,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due_at(now) <= now
    }

    fn next_look(&self) -> Instant {
        let now = Instant::now();
        self.due_at(now).max(now + Duration::from_millis(1))
    }
}

impl EtcdFeed {
    /// What is there already beside the first one, events joined to one batch.
    fn join(&mut self, first: Vec<Event>) -> Vec<Event> {
        let mut events = first;
        while events.len() < JOINED_EVENTS {
            match self.messages.try_recv() {
                Ok((Ok(Message::Events(more)), _room)) => events.extend(more),
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
                Message::Events(events) => FeedItem::Events(self.join(events).into()),
                Message::Progress(revision) => FeedItem::Progress(revision),
            })
        }
        .boxed()
    }
}
