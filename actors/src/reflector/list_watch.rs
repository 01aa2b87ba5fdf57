//! Lists and watches a prefix of the store, as `machine.rs` decides.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use actix_rt::task::JoinHandle;
use tokio::sync::Notify;

use super::machine::{ListWatchMachine, ListWatchState, ListWatchStep, StepFailure, StepOutcome};
use super::metrics::ReflectorMetrics;
use super::observation::Observed;
use super::unreadable::{Page, updates};
use super::unreadable_retry::UnreadableRetry;
use crate::actor_ref::{ActorRef, SeenIncarnations};
use crate::backoff::random_unit;
use crate::cacher::messages::{Apply, FillFailed, Replace, Reset, ResumePoint, WhereToResume};
use crate::cacher::{Cacher, NewValue, Update};
use crate::engine::{
    At, DataEngine, Event, Feed, FeedItem, Health, KeyValue, Prefix, RangeRequest, Revision,
};
use crate::exit::ExitGuard;
use crate::object::{Decode, DecodeError};
use crate::snapshot::Snapshot;
use crate::tasks;

/// The prefix that a Reflector reads, and where it sends the objects.
pub(crate) struct Source {
    pub(crate) resource: String,
    pub(crate) prefix: Prefix,
    pub(crate) engine: Arc<dyn DataEngine>,
    pub(crate) decode: Arc<dyn Decode>,
    pub(crate) indexed_fields: Vec<u32>,
    pub(crate) cacher: Arc<ActorRef<Cacher>>,
    pub(crate) observed: Observed,
    /// Notified when everything is to be listed again.
    pub(crate) relist: Arc<Notify>,
}

/// Items in one page of a list.
pub(crate) const PAGE_ITEMS: usize = 2_048;
/// More bytes than this are decoded on a blocking thread, because they take milliseconds.
const DECODE_INLINE_BYTES: usize = 256 << 10;
/// The most pages that are decoded while the next one is read.
const PAGES_AHEAD: usize = 2;

/// The state between two steps.
struct ListWatchSession {
    /// Changes with every incarnation of the Cacher. A new one is empty and must be filled.
    incarnations: SeenIncarnations<Cacher>,
    /// The epoch of the store when the list began.
    epoch: u64,
    /// The pages of the list so far, decoded.
    read: Page,
    decoding: VecDeque<JoinHandle<Page>>,
    feed: Option<Box<dyn Feed>>,
    unreadable: UnreadableRetry,
    metrics: ReflectorMetrics,
}

/// Runs as long as the actor does. Its end is reported after the feed was dropped.
///
/// A Reflector waits for events most of the time. Its rare work is boxed, so that it takes no
/// memory meanwhile.
pub(super) async fn run(_exit: ExitGuard, source: Arc<Source>) {
    let mut session = ListWatchSession {
        incarnations: source.cacher.incarnations(),
        epoch: source.engine.epoch(),
        read: Page::default(),
        decoding: VecDeque::new(),
        feed: None,
        unreadable: UnreadableRetry::default(),
        metrics: ReflectorMetrics::new(&source.resource),
    };
    let resume_point = Box::pin(source.cacher.ask_patiently(WhereToResume)).await;
    let mut machine = ListWatchMachine::new(resume_point.unwrap_or(None));
    let mut step = machine.start();
    loop {
        source.observed.lock().state = machine.state().clone();
        step = match step {
            ListWatchStep::Pause(time) => {
                Box::pin(tokio::time::sleep(time)).await;
                machine.start()
            }
            step => {
                let outcome = source.perform(step, &mut session).await;
                let outcome = match outcome {
                    Ok(outcome) => outcome,
                    Err(failure) => Box::pin(source.report(failure)).await,
                };
                machine.next(outcome, random_unit())
            }
        };
    }
}

impl Source {
    async fn perform(
        &self,
        step: ListWatchStep,
        session: &mut ListWatchSession,
    ) -> Result<StepOutcome, StepFailure> {
        match step {
            ListWatchStep::ReadPage { at, start } => {
                Box::pin(self.read_page(at, start, session)).await
            }
            ListWatchStep::Install { revision } => Box::pin(self.install(revision, session)).await,
            ListWatchStep::OpenFeed { after } => {
                let feed = self
                    .engine
                    .feed(self.prefix.clone(), after.revision)
                    .await?;
                // A feed ends with its epoch. It must not begin in another one either.
                self.check_epoch(after.epoch)?;
                session.feed = Some(feed);
                Ok(StepOutcome::FeedOpened)
            }
            ListWatchStep::Forward { generation } => self.forward(generation, session).await,
            ListWatchStep::Pause(_) => Err(StepFailure::CacherLost),
        }
    }

    async fn read_page(
        &self,
        at: At,
        start: Option<Vec<u8>>,
        session: &mut ListWatchSession,
    ) -> Result<StepOutcome, StepFailure> {
        if start.is_none() {
            session.read = Page::default();
            session.decoding = VecDeque::new();
            session.feed = None;
            session.epoch = self.engine.epoch();
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
        session.metrics.ranged(started, page.is_ok());
        let page = page?;
        self.check_epoch(session.epoch)?;
        let next = match page.items.last() {
            Some(last) if page.more => Some([last.key.as_bytes(), b"\0"].concat()),
            _ => None,
        };
        self.decode_page(page.items, session).await?;
        Ok(StepOutcome::PageRead {
            revision: page.revision,
            next,
        })
    }

    async fn decode_page(
        &self,
        items: Vec<KeyValue>,
        session: &mut ListWatchSession,
    ) -> Result<(), StepFailure> {
        let bytes: usize = items.iter().map(|item| item.value.len()).sum();
        if bytes <= DECODE_INLINE_BYTES && session.decoding.is_empty() {
            session.read.append(Page::decode(&*self.decode, items));
            return Ok(());
        }
        let decode = Arc::clone(&self.decode);
        let task = tasks::spawn_blocking(move || Page::decode(&*decode, items));
        session.decoding.push_back(task);
        while session.decoding.len() > PAGES_AHEAD {
            session.collect_page().await?;
        }
        Ok(())
    }

    async fn install(
        &self,
        revision: Revision,
        session: &mut ListWatchSession,
    ) -> Result<StepOutcome, StepFailure> {
        let is_large = !session.decoding.is_empty();
        while !session.decoding.is_empty() {
            session.collect_page().await?;
        }
        let page = std::mem::take(&mut session.read);
        self.log_unreadable(page.unreadable.iter().map(|(_, error)| error));
        session.unreadable.replace(&page);
        let unreadable = page.unreadable.into_iter();
        let unreadable = unreadable.map(|(item, error)| (item.key, error));
        let epoch = session.epoch;
        let indexed = self.indexed_fields.clone();
        let fill = move || {
            Snapshot::of(page.objects, revision)
                .indexed_by(indexed)
                .of_epoch(epoch)
                .with_unreadable(unreadable)
        };
        let content = if is_large {
            tasks::spawn_blocking(fill)
                .await
                .map_err(|error| StepFailure::Engine(error.to_string()))?
        } else {
            fill()
        };
        // From here on a restart of the Cacher is noticed, even before it answers.
        session.incarnations.mark_unchanged();
        let generation = self
            .cacher
            .ask_patiently(Replace { content })
            .await
            .map_err(|_| StepFailure::CacherLost)?;
        self.observed.lock().last_error = None;
        Ok(StepOutcome::Installed(ResumePoint {
            generation,
            revision,
            epoch,
        }))
    }

    /// Fails if the store is in another epoch now. Its content can't be continued there.
    fn check_epoch(&self, epoch: u64) -> Result<(), StepFailure> {
        match self.engine.epoch() == epoch {
            true => Ok(()),
            false => Err(StepFailure::Compacted),
        }
    }

    async fn forward(
        &self,
        generation: u64,
        session: &mut ListWatchSession,
    ) -> Result<StepOutcome, StepFailure> {
        let Some(feed) = &mut session.feed else {
            return Err(StepFailure::Engine("the feed is not open".to_owned()));
        };
        let item = tokio::select! {
            biased;
            () = session.incarnations.changed() => return Err(StepFailure::CacherLost),
            // The feed is given up then, so it does not matter if these drop an item.
            () = session.unreadable.readable(&*self.decode) => {
                return Ok(StepOutcome::RelistNeeded);
            }
            () = self.relist.notified() => return Ok(StepOutcome::RelistNeeded),
            item = feed.next() => item?,
        };
        Box::pin(self.pass_on(generation, item, session)).await
    }

    /// Decodes an item of the feed and sends it to the Cacher.
    async fn pass_on(
        &self,
        generation: u64,
        item: FeedItem,
        session: &mut ListWatchSession,
    ) -> Result<StepOutcome, StepFailure> {
        session.metrics.fed(&item);
        let (updates, up_to) = match item {
            FeedItem::Progress(revision) => (Vec::new(), revision),
            FeedItem::Events(events) => {
                let up_to = events.last().map_or(Revision::ZERO, |event| event.revision);
                (self.updates(events, session).await?, up_to)
            }
            FeedItem::Reset { events, revision } => {
                let reset = Reset {
                    generation,
                    updates: self.updates(events, session).await?,
                    revision,
                };
                return match self.cacher.ask_patiently(reset).await {
                    Ok(Ok(generation)) => Ok(StepOutcome::Reset {
                        generation,
                        revision,
                    }),
                    Ok(Err(_)) | Err(_) => Err(StepFailure::CacherLost),
                };
            }
        };
        let apply = Apply {
            generation,
            updates,
            up_to,
        };
        match self.cacher.ask_patiently(apply).await {
            Ok(Ok(())) => Ok(StepOutcome::Forwarded { up_to }),
            Ok(Err(_)) | Err(_) => Err(StepFailure::CacherLost),
        }
    }

    /// Decodes events, and notes and logs those that can't be decoded.
    async fn updates(
        &self,
        events: Arc<[Event]>,
        session: &mut ListWatchSession,
    ) -> Result<Vec<Update>, StepFailure> {
        let updates = self.decode_events(Arc::clone(&events)).await?;
        self.log_unreadable(updates.iter().filter_map(|update| match &update.value {
            NewValue::Unreadable(error) => Some(error),
            NewValue::Object(_) | NewValue::Deleted => None,
        }));
        session.unreadable.follow(&updates, &events);
        Ok(updates)
    }

    async fn decode_events(&self, events: Arc<[Event]>) -> Result<Vec<Update>, StepFailure> {
        let bytes: usize = events.iter().map(|event| event.value.len()).sum();
        if bytes <= DECODE_INLINE_BYTES {
            return Ok(updates(&*self.decode, &events));
        }
        let decode = Arc::clone(&self.decode);
        let task = tasks::spawn_blocking(move || updates(&*decode, &events));
        task.await
            .map_err(|error| StepFailure::Undecodable(error.to_string()))
    }

    /// Logs one line about values that can't be decoded, however many they are.
    fn log_unreadable<'e>(&self, mut errors: impl Iterator<Item = &'e Arc<DecodeError>>) {
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
        matches!(self.observed.lock().state, ListWatchState::Watching { .. })
    }

    /// Logs and records a failure, and sends it to the Cacher, so that refused clients learn the
    /// reason.
    async fn report(&self, failure: StepFailure) -> StepOutcome {
        let error = failure.to_string();
        // A broken feed is not worth a warning: the next one continues where it ended. An outage of
        // the whole store is logged once by the engine, and not for each resource.
        let is_away = self.engine.health() != Health::Serving;
        if matches!(failure, StepFailure::Engine(_)) && (is_away || self.is_watching()) {
            tracing::debug!(
                resource = self.resource,
                error,
                "the cache waits for the store and retries"
            );
        } else {
            tracing::warn!(
                resource = self.resource,
                error,
                "the cache could not follow the store and retries"
            );
        }
        self.observed.lock().last_error = Some(error.clone());
        let is_broken = matches!(failure, StepFailure::Undecodable(_));
        if failure != StepFailure::CacherLost {
            // If the Cacher has ended, there is nobody to report to.
            let _ = self
                .cacher
                .ask_patiently(FillFailed { error, is_broken })
                .await;
        }
        StepOutcome::Failed(failure)
    }
}

impl ListWatchSession {
    async fn collect_page(&mut self) -> Result<(), StepFailure> {
        let Some(task) = self.decoding.pop_front() else {
            return Ok(());
        };
        let decoded = task
            .await
            .map_err(|error| StepFailure::Undecodable(error.to_string()))?;
        self.read.append(decoded);
        Ok(())
    }
}
