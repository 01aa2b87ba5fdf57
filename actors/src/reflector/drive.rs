//! Does what the machine says.

use std::collections::VecDeque;
use std::sync::Arc;

use actix_rt::task::JoinHandle;
use tokio::sync::watch;

use super::Observed;
use super::machine::{Failure, Machine, Outcome, State, Step};
use crate::backoff::random_unit;
use crate::cacher::messages::{Apply, FillFailed, Place, Replace, WhereToResume};
use crate::cacher::{Cacher, Update};
use crate::engine::{
    At, Engine, Event, EventKind, Feed, FeedItem, KeyValue, Prefix, RangeRequest, Revision,
};
use crate::object::{CachedObject, Decode, DecodeError};
use crate::slot::Slot;
use crate::snapshot::Snapshot;

/// Whom a Reflector reads and whom it tells.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) resource: String,
    pub(crate) prefix: Prefix,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) decode: Arc<dyn Decode>,
    pub(crate) cacher: Arc<Slot<Cacher>>,
    pub(crate) observed: Observed,
}

/// Items of one page of a fill.
const PAGE_ITEMS: usize = 2_048;
/// More bytes than this are decoded off the arbiter: a few milliseconds at a GB in some seconds.
const DECODE_INLINE_BYTES: usize = 256 << 10;
/// Pages that are being decoded while the next one is read.
const PAGES_AHEAD: usize = 2;

type Decoded = Result<Vec<Arc<CachedObject>>, DecodeError>;

/// What is under way between two steps.
struct Work {
    /// Tells of a new life of the Cacher, which knows nothing and must be filled.
    lives: watch::Receiver<u64>,
    objects: Vec<Arc<CachedObject>>,
    decoding: VecDeque<JoinHandle<Decoded>>,
    feed: Option<Box<dyn Feed>>,
}

/// Runs for as long as the actor lives.
pub(super) async fn run(source: Source) {
    let mut work = Work {
        lives: source.cacher.lives(),
        objects: Vec::new(),
        decoding: VecDeque::new(),
        feed: None,
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
                work.feed = Some(self.engine.feed(self.prefix.clone(), after).await?);
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
            work.objects = Vec::new();
            work.decoding = VecDeque::new();
            work.feed = None;
        }
        let request = RangeRequest {
            prefix: self.prefix.clone(),
            start,
            at,
            limit: PAGE_ITEMS,
            count_only: false,
        };
        let page = self.engine.range(request).await?;
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
            work.objects.extend(decode_items(&*self.decode, &items)?);
            return Ok(());
        }
        let decode = Arc::clone(&self.decode);
        let task = actix_rt::task::spawn_blocking(move || decode_items(&*decode, &items));
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
        let objects = std::mem::take(&mut work.objects);
        let content = if is_large {
            actix_rt::task::spawn_blocking(move || Snapshot::of(objects, revision))
                .await
                .map_err(|error| Failure::Engine(error.to_string()))?
        } else {
            Snapshot::of(objects, revision)
        };
        // From here on a life that ends is noticed, this one's answer included.
        work.lives.mark_unchanged();
        let generation = self
            .cacher
            .ask_patiently(Replace { content })
            .await
            .map_err(|_| Failure::CacherLost)?;
        self.observed.lock().last_error = None;
        Ok(Outcome::Installed(Place {
            generation,
            revision,
        }))
    }

    async fn forward(&self, generation: u64, work: &mut Work) -> Result<Outcome, Failure> {
        let Some(feed) = &mut work.feed else {
            return Err(Failure::Engine("the feed is not open".to_owned()));
        };
        let item = tokio::select! {
            biased;
            _ = work.lives.changed() => return Err(Failure::CacherLost),
            item = feed.next() => item?,
        };
        let (updates, up_to) = match item {
            FeedItem::Progress(revision) => (Vec::new(), revision),
            FeedItem::Events(events) => {
                let up_to = events.last().map_or(Revision::ZERO, |event| event.revision);
                (self.decode_events(events).await?, up_to)
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
            return Ok(decode_all(&*self.decode, &events)?);
        }
        let decode = Arc::clone(&self.decode);
        let task = actix_rt::task::spawn_blocking(move || decode_all(&*decode, &events));
        Ok(task
            .await
            .map_err(|error| Failure::Undecodable(error.to_string()))??)
    }

    fn is_watching(&self) -> bool {
        matches!(self.observed.lock().state, State::Watching { .. })
    }

    /// Writes a failure down, and tells the Cacher, so that refused clients learn the reason.
    async fn report(&self, failure: Failure) -> Outcome {
        let error = failure.to_string();
        let goes_on = matches!(failure, Failure::Engine(_)) && self.is_watching();
        if goes_on {
            // Nobody notices: the next feed goes on where this one broke.
            tracing::debug!(resource = self.resource, error, "a feed broke");
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
        self.objects.extend(decoded?);
        Ok(())
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Failure {
        Failure::Undecodable(error.to_string())
    }
}

fn decode_items(decode: &dyn Decode, items: &[KeyValue]) -> Decoded {
    let decoded = items.iter().map(|item| {
        let object = decode.decode(&item.key, item.revision, &item.value)?;
        Ok(Arc::new(object))
    });
    decoded.collect()
}

fn decode_all(decode: &dyn Decode, events: &[Event]) -> Result<Vec<Update>, DecodeError> {
    let decoded = events.iter().map(|event| {
        let object = match event.kind {
            EventKind::Put => Some(decode.decode(&event.key, event.revision, &event.value)?),
            EventKind::Delete => None,
        };
        Ok(Update {
            revision: event.revision,
            key: event.key.clone(),
            object: object.map(Arc::new),
        })
    });
    decoded.collect()
}
