//! Feeds: a task reads the stream, makes it tell of progress when somebody waits, and hands whole
//! revisions to whoever polls the feed.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{EngineError, Event, Feed, FeedItem, Prefix, Revision};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};
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
/// A silent feed asks so often, so that bookmarks of idle resources move (PF-17).
const IDLE: Duration = Duration::from_secs(10);
/// A feed that has asked so long without a word is dead.
const DEAD: Duration = Duration::from_secs(30);

type Handed = Result<Message, EngineError>;

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
    };
    let task = Task::of(tokio::spawn(async move {
        // Who polls the feed learns how it ended, or has gone.
        if let Err(error) = listener.run(&sender).await {
            let _ = sender.send(Err(error)).await;
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
    delivered: Revision,
    /// When progress was asked for and nothing was heard since.
    asked: Option<Instant>,
    silent_since: Instant,
}

/// What a listener woke up for.
enum Woke {
    Heard(Message),
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
                self.asked = None;
                let reached = match &message {
                    Message::Events(events) => events.last().map(|event| event.revision),
                    Message::Progress(revision) => Some(*revision),
                };
                self.delivered = self.delivered.max(reached.unwrap_or_default());
                self.shared.seen.delivered(self.delivered, lineage);
                if sender.send(Ok(message)).await.is_err() {
                    return Ok(());
                }
                // However long it took until there was room.
                self.silent_since = Instant::now();
            }
            if self.asked.is_some() && self.silent_since.elapsed() > DEAD {
                let text = "etcd has been silent on a watch".to_owned();
                return Err(EngineError::Unavailable(text));
            }
            let now = Instant::now();
            if self.is_due(now) {
                self.stream.request_progress().await?;
                self.asked = Some(now);
            }
        }
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

    /// Whether somebody waits for more than was delivered.
    fn is_wanted(&self, now: Instant) -> bool {
        let wish = self.wish.as_ref().map(|wish| *wish.borrow());
        wish.is_some_and(|wish| wish.beyond(self.delivered, now).is_some())
    }

    /// Whether to ask for progress now. While an answer is under way it may do for everybody.
    fn is_due(&self, now: Instant) -> bool {
        if !self.stream.believes() {
            return false;
        }
        let again = |wait: Duration| {
            let since = self.asked.unwrap_or(self.silent_since);
            now.duration_since(since) >= wait
        };
        match self.is_wanted(now) {
            true => self.asked.is_none() || again(ASK_AGAIN),
            false => again(IDLE),
        }
    }

    fn next_look(&self) -> Instant {
        let now = Instant::now();
        let since = self.asked.unwrap_or(self.silent_since);
        match self.is_wanted(now) {
            true => since + ASK_AGAIN,
            false => since + IDLE,
        }
        .max(now + Duration::from_millis(1))
    }
}

impl EtcdFeed {
    /// What is there already beside the first one, events joined to one batch.
    fn join(&mut self, first: Vec<Event>) -> Vec<Event> {
        let mut events = first;
        while events.len() < JOINED_EVENTS {
            match self.messages.try_recv() {
                Ok(Ok(Message::Events(more))) => events.extend(more),
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
                    .unwrap_or(Err(EngineError::Closed)),
            };
            Ok(match message? {
                Message::Events(events) => FeedItem::Events(self.join(events).into()),
                Message::Progress(revision) => FeedItem::Progress(revision),
            })
        }
        .boxed()
    }
}
