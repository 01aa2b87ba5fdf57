//! A gRPC stream that several watches of etcd share, and the task that drives it.
//!
//! The task reads all that etcd sends and passes it on to the queues of the watches, so that no
//! reader holds up another one. It creates one watch at a time, because answers to several can't
//! be distinguished. Requests for progress are about all watches of the stream. When the stream
//! breaks, or the epoch ends, all of its watches end. It is closed with its last watch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actors::engine::{EngineError, Prefix, Revision};
use etcd_client::{WatchRequestSender, WatchResponse, WatchResponseStream};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::call_error::CallError;
use super::cluster_state::{ClusterState, Header, KnownBefore};
use super::etcd_watch::{ALL_WATCHES, CREATE_TIMEOUT, canceled, create_request, silent};
use super::last_event_check::check_last_event;
use super::progress_pace::ProgressPace;
use super::progress_requests::RequestedProgress;
use super::servers::Servers;
use super::stream_count::StreamCount;
use super::watch_queue::WatchQueue;
use super::watch_table::{Creation, NewWatch, WatchTable};

/// The most watches of a stream. etcd answers no request for progress on a stream while one of its
/// watches catches up, and all of them break together.
pub(super) const WATCHES_MAX: usize = 32;
/// A stream gets no further watches while etcd has left out so many answers: one of its watches
/// catches up, so a further one would get no progress.
const UNANSWERED_MAX: u64 = 16;
/// How long the reason why a stream takes no requests may take to come.
const REASON_TIMEOUT: Duration = Duration::from_millis(200);

/// A stream, as those see it who place watches.
pub(super) struct SharedStream {
    /// The number of the member that it is on.
    pub(super) member: usize,
    pub(super) epoch: u64,
    state: Mutex<StreamState>,
    /// Wakes the task.
    pub(super) wake: Arc<Notify>,
}

#[derive(Default)]
struct StreamState {
    /// Watches that are to be created.
    creates: VecDeque<CreateWatch>,
    /// Places that are reserved for watches that are not among `creates` yet.
    reserved: usize,
    /// The watches that the stream has or creates.
    watches: usize,
    /// It takes no further watches for now.
    is_busy: bool,
    /// It takes no further watches.
    is_closed: bool,
    /// Its task has ended.
    is_over: bool,
}

/// A watch that is to be created.
pub(super) struct CreateWatch {
    pub(super) prefix: Prefix,
    pub(super) after: Revision,
    pub(super) queue: Arc<WatchQueue>,
    pub(super) requested: Arc<RequestedProgress>,
    /// Is sent the store's revision.
    pub(super) created: oneshot::Sender<Result<Revision, EngineError>>,
}

impl SharedStream {
    /// A stream without watches, with a reserved place.
    pub(super) fn new(member: usize, epoch: u64) -> SharedStream {
        SharedStream {
            member,
            epoch,
            state: Mutex::new(StreamState {
                reserved: 1,
                ..StreamState::default()
            }),
            wake: Arc::default(),
        }
    }

    /// Reserves a place for a watch, if there is one.
    pub(super) fn reserve(&self) -> bool {
        let mut state = self.state.lock();
        let places = state.watches + state.creates.len() + state.reserved;
        let has_room = !state.is_closed && !state.is_busy && places < WATCHES_MAX;
        state.reserved += usize::from(has_room);
        has_room
    }

    /// Whether it takes no further watches, now and later.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Takes a watch with a reserved place.
    pub(super) fn add(&self, create: CreateWatch) {
        let mut state = self.state.lock();
        state.reserved -= 1;
        if state.is_over {
            drop(state);
            let text = "etcd ended a watch".to_owned();
            create.answer(Err(EngineError::Unavailable(text)));
            return;
        }
        state.creates.push_back(create);
        drop(state);
        self.wake.notify_one();
    }

    /// The next watch to create, whose reader still waits.
    fn next_create(&self) -> Option<CreateWatch> {
        let mut state = self.state.lock();
        state.creates.retain(|create| !create.queue.is_left());
        state.creates.pop_front()
    }

    /// Notes how many watches there are, and whether the stream takes further ones. Returns whether
    /// it is to go on, which it is not without any.
    fn goes_on(&self, watches: usize, is_busy: bool) -> bool {
        let mut state = self.state.lock();
        let goes_on = watches + state.creates.len() + state.reserved > 0;
        (state.watches, state.is_busy) = (watches, is_busy);
        state.is_closed |= !goes_on;
        goes_on
    }

    fn close(&self) -> VecDeque<CreateWatch> {
        let mut state = self.state.lock();
        (state.is_closed, state.is_over) = (true, true);
        std::mem::take(&mut state.creates)
    }
}

/// The task of a stream.
pub(super) struct StreamTask {
    shared: Arc<SharedStream>,
    servers: Arc<Servers>,
    state: Arc<ClusterState>,
    known: KnownBefore,
    epochs: watch::Receiver<u64>,
    closed: watch::Receiver<bool>,
    table: WatchTable,
    pace: ProgressPace,
    creating: Option<Creating>,
    cancels: VecDeque<i64>,
    end: StreamEnd,
    _count: StreamCount,
}

/// The watch that is being created.
struct Creating {
    watch: CreateWatch,
    /// The requests for progress that were sent before its own request. `None` until that is sent.
    requests_before: Option<u64>,
}

/// Why a stream ends.
enum StreamEnd {
    Failed(EngineError),
    EpochEnded,
}

impl From<EngineError> for StreamEnd {
    fn from(error: EngineError) -> StreamEnd {
        StreamEnd::Failed(error)
    }
}

/// A request to etcd.
#[derive(Clone, Copy)]
enum Outgoing {
    Cancel(i64),
    Create,
    Progress,
}

impl StreamTask {
    /// A task for a stream. `known` is the state before it is opened.
    pub(super) fn new(
        shared: Arc<SharedStream>,
        servers: Arc<Servers>,
        state: Arc<ClusterState>,
        known: KnownBefore,
        closed: watch::Receiver<bool>,
    ) -> StreamTask {
        StreamTask {
            shared,
            servers,
            known,
            epochs: state.epochs(),
            closed,
            table: WatchTable::new(Arc::clone(&state), known.epoch()),
            state,
            pace: ProgressPace::new(Instant::now()),
            creating: None,
            cancels: VecDeque::new(),
            // Where the runtime ends, the task is dropped.
            end: StreamEnd::Failed(EngineError::Closed),
            _count: StreamCount::shared(),
        }
    }

    /// Drives the stream until it breaks or its last watch has ended.
    pub(super) async fn run(mut self) {
        if let Err(end) = self.drive().await {
            self.end = end;
        }
    }

    async fn drive(&mut self) -> Result<(), StreamEnd> {
        if *self.epochs.borrow_and_update() != self.known.epoch() {
            return Err(StreamEnd::EpochEnded);
        }
        let watch = loop {
            if let Some(watch) = self.shared.next_create() {
                break watch;
            }
            if !self.shared.goes_on(0, false) {
                return Ok(());
            }
            self.shared.wake.notified().await;
        };
        let (mut requests, mut responses) = self.open(watch).await?;
        // Another epoch ends the stream before anything is read.
        check_last_event(&self.servers, &self.state).await?;
        while self.prepare() {
            let now = Instant::now();
            let outgoing = self.outgoing(now);
            let wake_at = self.pace.due_at(self.wanted(now), now);
            tokio::select! {
                biased;
                _ = self.closed.changed() => return Err(EngineError::Closed.into()),
                _ = self.epochs.changed() => return Err(StreamEnd::EpochEnded),
                sent = send(&mut requests, outgoing, self.creating.as_ref()) => match sent {
                    Ok(()) => self.sent(outgoing, now),
                    Err(error) => return Err(self.end_unsent(&error, &mut responses).await),
                },
                () = self.shared.wake.notified() => self.cancel_left(),
                response = responses.message() => self.take(response)?,
                () = tokio::time::sleep_until(wake_at) => {}
            }
            self.check_time()?;
        }
        Ok(())
    }

    /// Opens the stream with the request for its first watch.
    async fn open(
        &mut self,
        watch: CreateWatch,
    ) -> Result<(WatchRequestSender, WatchResponseStream), StreamEnd> {
        let servers = Arc::clone(&self.servers);
        let member = servers.all().get(self.shared.member);
        let mut client = member.ok_or(EngineError::Closed)?.watch.clone();
        let (key, options) = watch.request();
        self.creating = Some(Creating {
            watch,
            requests_before: Some(0),
        });
        let opening = tokio::time::timeout(CREATE_TIMEOUT, client.watch(key, Some(options)));
        let error = match opening.await {
            Ok(Ok(stream)) => return Ok(stream.split()),
            Ok(Err(error)) => CallError::of(&error),
            Err(_) => silent(),
        };
        self.servers.switch_from(self.shared.member);
        Err(error.into_read_error().into())
    }

    /// The end of a stream that takes no requests. An attempt to send only shows that it has
    /// broken, and the next message says why.
    async fn end_unsent(
        &mut self,
        error: &etcd_client::Error,
        responses: &mut WatchResponseStream,
    ) -> StreamEnd {
        let until = Instant::now() + REASON_TIMEOUT;
        while Instant::now() < until {
            let Ok(response) = tokio::time::timeout_at(until, responses.message()).await else {
                break;
            };
            if let Err(end) = self.take(response) {
                return end;
            }
        }
        self.servers.switch_from(self.shared.member);
        CallError::of(error).into_read_error().into()
    }

    /// Begins to create the next watch. Returns whether the stream is still used.
    fn prepare(&mut self) -> bool {
        if self.creating.is_none() {
            self.creating = self.shared.next_create().map(|watch| Creating {
                watch,
                requests_before: None,
            });
        }
        let creating = self.creating.as_ref();
        // etcd may never create a watch that its reader has given up.
        let is_stuck = creating.is_some_and(|creating| creating.watch.queue.is_left());
        let is_used = creating.is_some() && !is_stuck;
        let is_busy = is_stuck || self.pace.unanswered() > UNANSWERED_MAX;
        self.shared
            .goes_on(self.table.len() + usize::from(is_used), is_busy)
    }

    fn outgoing(&self, now: Instant) -> Option<Outgoing> {
        if let Some(id) = self.cancels.front() {
            return Some(Outgoing::Cancel(*id));
        }
        let creating = self.creating.as_ref();
        if creating.is_some_and(|creating| creating.requests_before.is_none()) {
            return Some(Outgoing::Create);
        }
        let is_due = self.pace.due_at(self.wanted(now), now) <= now;
        is_due.then_some(Outgoing::Progress)
    }

    fn sent(&mut self, outgoing: Option<Outgoing>, now: Instant) {
        match (outgoing, &mut self.creating) {
            (Some(Outgoing::Cancel(_)), _) => {
                self.cancels.pop_front();
            }
            (Some(Outgoing::Create), Some(creating)) => {
                creating.requests_before = Some(self.table.requests());
            }
            (Some(Outgoing::Progress), _) => {
                self.pace.requested(self.wanted(now), now);
                self.table.request();
            }
            (Some(Outgoing::Create) | None, _) => {}
        }
    }

    /// The newest revision that readers wait for, if etcd reports progress.
    fn wanted(&self, now: Instant) -> Option<Revision> {
        self.has_progress().then(|| self.table.wanted(now))?
    }

    /// Ends a stream on which etcd is silent.
    fn check_time(&self) -> Result<(), StreamEnd> {
        if !self.pace.is_dead(Instant::now()) {
            return Ok(());
        }
        self.servers.switch_from(self.shared.member);
        let text = "etcd has been silent on a watch".to_owned();
        Err(EngineError::Unavailable(text).into())
    }

    fn take(
        &mut self,
        response: Result<Option<WatchResponse>, etcd_client::Error>,
    ) -> Result<(), StreamEnd> {
        let error = match response {
            Ok(Some(response)) => {
                self.take_message(response);
                return Ok(());
            }
            Ok(None) => EngineError::Unavailable("etcd ended a watch".to_owned()),
            Err(error) => CallError::of(&error).into_read_error(),
        };
        self.servers.switch_from(self.shared.member);
        Err(error.into())
    }

    fn take_message(&mut self, response: WatchResponse) {
        let header = Header::from(response.header());
        self.state.learn(header, self.known);
        let (response, now) = (response.0, Instant::now());
        let is_answer = response.watch_id == ALL_WATCHES && response.events.is_empty();
        if response.created {
            self.pace.is_alive(now);
            let Some(creating) = self.creating.take() else {
                // Nobody waits for it.
                self.cancels.push_back(response.watch_id);
                return;
            };
            match response.canceled {
                true => {
                    let error = canceled(&response, creating.watch.after);
                    creating.watch.answer(Err(error));
                }
                false => self.created(creating, response.watch_id, header.revision, now),
            }
            return;
        }
        match is_answer {
            true => self.pace.answered(now),
            false => self.pace.is_alive(now),
        }
        let has_progress = self.has_progress();
        let cancelled = self.table.take(response, has_progress, now);
        self.cancels.extend(cancelled);
    }

    fn created(&mut self, creating: Creating, id: i64, revision: Revision, now: Instant) {
        let CreateWatch {
            queue,
            requested,
            after,
            created,
            ..
        } = creating.watch;
        if queue.is_left() {
            self.cancels.push_back(id);
            return;
        }
        let creation = Creation {
            revision,
            requests_before: creating.requests_before.unwrap_or(u64::MAX),
        };
        let watch = NewWatch {
            id,
            queue,
            requested,
            after,
            creation,
        };
        self.table.add(watch, now);
        // A reader that has gone away says so by the queue.
        let _ = created.send(Ok(revision));
    }

    /// Whether the member's answers to requests for progress are true (ST-72).
    fn has_progress(&self) -> bool {
        let member = self.servers.all().get(self.shared.member);
        member.is_some_and(|member| member.progress_support.get() == Some(true))
    }

    fn cancel_left(&mut self) {
        self.cancels.extend(self.table.remove_left());
    }
}

/// Sends a request. Waits for ever without any.
async fn send(
    requests: &mut WatchRequestSender,
    outgoing: Option<Outgoing>,
    creating: Option<&Creating>,
) -> Result<(), etcd_client::Error> {
    match (outgoing, creating) {
        (Some(Outgoing::Cancel(id)), _) => requests.cancel(id).await,
        (Some(Outgoing::Progress), _) => requests.request_progress().await,
        (Some(Outgoing::Create), Some(creating)) => {
            let (key, options) = creating.watch.request();
            requests.watch(key, Some(options)).await
        }
        (Some(Outgoing::Create) | None, _) => std::future::pending().await,
    }
}

impl CreateWatch {
    /// The request to etcd.
    fn request(&self) -> (Vec<u8>, etcd_client::WatchOptions) {
        create_request(&self.prefix, self.after)
    }

    fn answer(self, answer: Result<Revision, EngineError>) {
        // A reader that has gone away says so by the queue.
        let _ = self.created.send(answer);
    }
}

impl Drop for StreamTask {
    fn drop(&mut self) {
        let error = |reached| match &self.end {
            StreamEnd::Failed(error) => error.clone(),
            StreamEnd::EpochEnded => EngineError::Compacted {
                requested: reached,
                compacted: self.state.revision(),
            },
        };
        let creating = self.creating.take().map(|creating| creating.watch);
        for watch in creating.into_iter().chain(self.shared.close()) {
            let error = error(watch.after);
            watch.answer(Err(error));
        }
        self.table.end_all(error);
    }
}
