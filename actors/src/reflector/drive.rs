//! Does what the machine says.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use actix_rt::task::JoinHandle;
use tokio::sync::watch;

use super::Observed;
use super::machine::{Failure, Machine, Outcome, State, Step};
use super::metrics::ReflectorMetrics;
use super::unread::{Page, updates};
use super::waiting::Waiting;
use crate::actor_ref::ActorRef;
use crate::backoff::random_unit;
use crate::cacher::messages::{Apply, FillFailed, Replace, ResumePoint, WhereToResume};
use crate::cacher::{Cacher, NewValue, Update};
use crate::engine::{
    At, DataEngine, Event, Feed, FeedItem, Health, KeyValue, Prefix, RangeRequest, Revision,
};
use crate::exit::ExitGuard;
use crate::object::{Decode, DecodeError};
use crate::snapshot::Snapshot;

/// Whom a Reflector reads and whom it tells.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) resource: String,
    pub(crate) prefix: Prefix,
    pub(crate) engine: Arc<dyn DataEngine>,
    pub(crate) decode: Arc<dyn Decode>,
    pub(crate) cacher: Arc<ActorRef<Cacher>>,
    pub(crate) observed: Observed,
}

/// Items of one page of a fill.
pub(crate) const PAGE_ITEMS: usize = 2_048;
/// More bytes than this are decoded off the arbiter: a few milliseconds at a GB in some seconds.
const DECODE_INLINE_BYTES: usize = 256 << 10;
/// Pages that are being decoded while the next one is read.
const PAGES_AHEAD: usize = 2;

/// What is under way between two steps.
struct Work {
    /// Tells of a new life of the Cacher, which knows nothing and must be filled.
    lives: watch::Receiver<u64>,
    /// The epoch of the store when the list was begun.
    epoch: u64,
    /// What has been read so far of a list.
    read: Page,
    decoding: VecDeque<JoinHandle<Page>>,
    feed: Option<Box<dyn Feed>>,
    unread: Waiting,
    metrics: ReflectorMetrics,
}

/// Runs for as long as the actor lives. Its end is known when the feed has been dropped.
pub(super) async fn run(_exit: ExitGuard, source: Source) {
    let mut work = Work {
        lives: source.cacher.incarnations(),
        epoch: source.engine.epoch(),
        read: Page::default(),
        decoding: VecDeque::new(),
        feed: None,
        unread: Waiting::default(),
        metrics: ReflectorMetrics::new(&source.resource),
    };
    let place = source.cacher.ask_patiently(WhereToResume).await;
    let mut machine = Machine::new(place.unwrap_or(None));
    let mut step = machine.start();
    loop {
        source.observed.lock().state = machine.state().clone();
        step = match step {
            Step::Pause(time) => {
                tokio::time::sleep(time).await;
                machine.start()
            }
            step => {
                let outcome = source.perform(step, &mut work).await;
                let outcome = match outcome {
                    Ok(outcome) => outcome,
                    Err(failure) => source.report(failure).await,
                };
                machine.next(outcome, random_unit())
            }
        };
    }
}

impl Source {
    async fn perform(&self, step: Step, work: &mut Work) -> Result<Outcome, Failure> {
        match step {
            Step::ReadPage { at, start } => self.read_page(at, start, work).await,
            Step::Install { revision } => self.install(revision, work).await,
            Step::OpenFeed { after } => {
                let feed = self
                    .engine
                    .feed(self.prefix.clone(), after.revision)
                    .await?;
                // A feed ends with its epoch; it must not begin in another one either.
                self.check_epoch(after.epoch)?;
                work.feed = Some(feed);
                Ok(Outcome::FeedOpened)
            }
            Step::Forward { generation } => self.forward(generation, work).await,
            Step::Pause(_) => Err(Failure::CacherLost),
        }
    }

    async fn read_page(
        &self,
        at: At,
        start: Option<Vec<u8>>,
        work: &mut Work,
    ) -> Result<Outcome, Failure> {
        if start.is_none() {
            work.read = Page::default();
            work.decoding = VecDeque::new();
            work.feed = None;
            work.epoch = self.engine.epoch();
        }
        let request = RangeRequest {
            prefix: self.prefix.clone(),
            start,
            at,
            limit: PAGE_ITEMS,
            count_only: false,
        };
        let started = Instant::now();
        let page = self.engine.range(request).await;
        work.metrics.ranged(started, page.is_ok());
        let page = page?;
        self.check_epoch(work.epoch)?;
        let next = match page.items.last() {
            Some(last) if page.more => Some([last.key.as_bytes(), b"\0"].concat()),
            _ => None,
        };
        self.decode_page(page.items, work).await?;
        Ok(Outcome::PageRead {
            revision: page.revision,
            next,
        })
    }

    async fn decode_page(&self, items: Vec<KeyValue>, work: &mut Work) -> Result<(), Failure> {
        let bytes: usize = items.iter().map(|item| item.value.len()).sum();
        if bytes <= DECODE_INLINE_BYTES && work.decoding.is_empty() {
            work.read.append(Page::decode(&*self.decode, items));
            return Ok(());
        }
        let decode = Arc::clone(&self.decode);
        let task = actix_rt::task::spawn_blocking(move || Page::decode(&*decode, items));
        work.decoding.push_back(task);
        while work.decoding.len() > PAGES_AHEAD {
            work.collect_page().await?;
        }
        Ok(())
    }

    async fn install(&self, revision: Revision, work: &mut Work) -> Result<Outcome, Failure> {
        let is_large = !work.decoding.is_empty();
        while !work.decoding.is_empty() {
            work.collect_page().await?;
        }
        let page = std::mem::take(&mut work.read);
        self.tell_unread(page.unread.iter().map(|(_, error)| error));
        work.unread.replace(&page);
        let unread = page.unread.into_iter();
        let unread = unread.map(|(item, error)| (item.key, error));
        let epoch = work.epoch;
        let fill = move || {
            Snapshot::of(page.objects, revision)
                .of_epoch(epoch)
                .with_unreadable(unread)
        };
        let content = if is_large {
            actix_rt::task::spawn_blocking(fill)
                .await
                .map_err(|error| Failure::Engine(error.to_string()))?
        } else {
            fill()
        };
        // From here on a life that ends is noticed, this one's answer included.
        work.lives.mark_unchanged();
        let generation = self
            .cacher
            .ask_patiently(Replace { content })
            .await
            .map_err(|_| Failure::CacherLost)?;
        self.observed.lock().last_error = None;
        Ok(Outcome::Installed(ResumePoint {
            generation,
            revision,
            epoch,
        }))
    }

    /// What was read in one epoch of the store can't be continued in another one.
    fn check_epoch(&self, epoch: u64) -> Result<(), Failure> {
        match self.engine.epoch() == epoch {
            true => Ok(()),
            false => Err(Failure::Compacted),
        }
    }

    async fn forward(&self, generation: u64, work: &mut Work) -> Result<Outcome, Failure> {
        let Some(feed) = &mut work.feed else {
            return Err(Failure::Engine("the feed is not open".to_owned()));
        };
        let item = tokio::select! {
            biased;
            _ = work.lives.changed() => return Err(Failure::CacherLost),
            // It ends only to give up the feed, which may lose what it was about to say.
            () = work.unread.readable(&*self.decode) => return Ok(Outcome::Readable),
            item = feed.next() => item?,
        };
        work.metrics.fed(&item);
        let (updates, up_to) = match item {
            FeedItem::Progress(revision) => (Vec::new(), revision),
            FeedItem::Events(events) => {
                let up_to = events.last().map_or(Revision::ZERO, |event| event.revision);
                let updates = self.decode_events(Arc::clone(&events)).await?;
                self.tell_unread(updates.iter().filter_map(|update| match &update.value {
                    NewValue::Unreadable(error) => Some(error),
                    NewValue::Object(_) | NewValue::Deleted => None,
                }));
                work.unread.follow(&updates, &events);
                (updates, up_to)
            }
        };
        let apply = Apply {
            generation,
            updates,
            up_to,
        };
        match self.cacher.ask_patiently(apply).await {
            Ok(Ok(())) => Ok(Outcome::Forwarded { up_to }),
            Ok(Err(_)) | Err(_) => Err(Failure::CacherLost),
        }
    }

    async fn decode_events(&self, events: Arc<[Event]>) -> Result<Vec<Update>, Failure> {
        let bytes: usize = events.iter().map(|event| event.value.len()).sum();
        if bytes <= DECODE_INLINE_BYTES {
            return Ok(updates(&*self.decode, &events));
        }
        let decode = Arc::clone(&self.decode);
        let task = actix_rt::task::spawn_blocking(move || updates(&*decode, &events));
        task.await
            .map_err(|error| Failure::Undecodable(error.to_string()))
    }

    /// A line in the log about values that can't be read, however many they are.
    fn tell_unread<'e>(&self, mut errors: impl Iterator<Item = &'e Arc<DecodeError>>) {
        if let Some(first) = errors.next() {
            tracing::error!(
                resource = self.resource,
                values = 1 + errors.count(),
                first = first.to_string(),
                "stored values can't be read; lists of the resource fail until they can, \
                 are overwritten or deleted by name"
            );
        }
    }

    fn is_watching(&self) -> bool {
        matches!(self.observed.lock().state, State::Watching { .. })
    }

    /// Writes a failure down, and tells the Cacher, so that refused clients learn the reason.
    async fn report(&self, failure: Failure) -> Outcome {
        let error = failure.to_string();
        // Nobody notices a feed that broke, the next one goes on where it was; and that the whole
        // store is away the engine tells once for all resources.
        let is_away = self.engine.health() != Health::Serving;
        if matches!(failure, Failure::Engine(_)) && (is_away || self.is_watching()) {
            tracing::debug!(
                resource = self.resource,
                error,
                "the cache waits for the store"
            );
        } else {
            tracing::warn!(
                resource = self.resource,
                error,
                "the cache could not follow the store"
            );
        }
        self.observed.lock().last_error = Some(error.clone());
        let is_broken = matches!(failure, Failure::Undecodable(_));
        if failure != Failure::CacherLost {
            // A Cacher that is gone has nobody to refuse clients with a reason.
            let _ = self
                .cacher
                .ask_patiently(FillFailed { error, is_broken })
                .await;
        }
        Outcome::Failed(failure)
    }
}

impl Work {
    async fn collect_page(&mut self) -> Result<(), Failure> {
        let Some(task) = self.decoding.pop_front() else {
            return Ok(());
        };
        let decoded = task
            .await
            .map_err(|error| Failure::Undecodable(error.to_string()))?;
        self.read.append(decoded);
        Ok(())
    }
}
