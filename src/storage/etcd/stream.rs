//! One gRPC stream of etcd's watch: opened, understood, and watched over for signs of life.

use std::time::{Duration, SystemTime};

use actors::engine::{EngineError, Event, Prefix, Revision};
use etcd_client::{WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream};

use super::Shared;
use super::chores;
use super::events::Assembler;
use super::fault::Fault;
use super::seen::{Floor, Header, number, revision};

/// How long etcd may take to say that a watch exists.
const CREATED_WITHIN: Duration = Duration::from_secs(5);

/// What a watch says of itself in answers to a request for progress: it speaks for all watches of
/// its stream, and there is but one.
const ALL_WATCHES: i64 = -1;

/// What etcd said on a stream.
#[derive(Debug)]
pub(super) enum Message {
    /// Whole revisions, in order.
    Events(Vec<Event>),
    /// Everything up to here was delivered.
    Progress(Revision),
}

/// An open watch.
pub(super) struct Stream {
    requests: WatchRequestSender,
    responses: WatchResponseStream,
    assembler: Assembler,
    after: Revision,
    /// What was known when it was opened: what it says belongs to that lineage.
    floor: Floor,
    /// The member it is on.
    member: usize,
}

impl Shared {
    /// Opens a watch of the prefix after a revision and waits until etcd has it.
    ///
    /// # Errors
    /// [`EngineError::Compacted`] is told by the first message instead.
    pub(super) async fn open_stream(
        &self,
        prefix: &Prefix,
        after: Revision,
    ) -> Result<Stream, EngineError> {
        let floor = self.seen.floor();
        let Some((number_of_member, member)) = self.servers.current() else {
            return Err(EngineError::Closed);
        };
        if member.truthful.is_old() {
            chores::learn_version(member).await;
        }
        let mut client = member.watch.clone();
        let opening = async {
            let (key, end) = range_of(prefix);
            let options = WatchOptions::new()
                .with_range(end)
                .with_start_revision(number(after).saturating_add(1))
                .with_prev_key()
                .with_progress_notify()
                .with_fragment();
            let stream = client.watch(key, Some(options)).await;
            let (requests, mut responses) = stream.map_err(|e| Fault::of(&e))?.split();
            let created = responses.message().await.map_err(|e| Fault::of(&e))?;
            let created = created.ok_or_else(|| Fault::Unknown("it hung up".to_owned()))?;
            Ok::<_, Fault>((requests, responses, created))
        };
        let opened = tokio::time::timeout(CREATED_WITHIN, opening).await;
        let silent = || Fault::Unknown("no answer to a watch".to_owned());
        let (requests, responses, created) = match opened.unwrap_or_else(|_| Err(silent())) {
            Ok(opened) => opened,
            Err(fault) => {
                self.servers.leave(number_of_member);
                return Err(fault.into_error());
            }
        };
        if created.canceled() {
            return Err(canceled(&created, after));
        }
        let header = Header::from(created.header());
        self.note(header, floor);
        if header.revision < after {
            // A member that lags behind, or a cluster that is further back than it was.
            self.newest().await?;
        }
        Ok(Stream {
            requests,
            responses,
            assembler: Assembler::default(),
            after,
            floor,
            member: number_of_member,
        })
    }
}

impl Stream {
    /// The lineage that it was opened in.
    pub(super) fn lineage(&self) -> u64 {
        self.floor.lineage()
    }

    /// Whether its answers to requests for progress may be believed (ST-72).
    pub(super) fn believes(&self, shared: &Shared) -> bool {
        let member = shared.servers.all().get(self.member);
        member.is_some_and(|member| member.truthful.get() == Some(true))
    }

    /// It is of no use there: calls go to another member.
    pub(super) fn leave_member(&self, shared: &Shared) {
        shared.servers.leave(self.member);
    }

    /// Asks etcd to say how far it is; it answers once it has sent everything, or not at all.
    pub(super) async fn request_progress(&mut self) -> Result<(), EngineError> {
        let asked = self.requests.request_progress().await;
        asked.map_err(|error| Fault::of(&error).into_error())
    }

    /// The next thing etcd says; `None` is no more than a sign of life.
    ///
    /// # Errors
    /// [`EngineError::Compacted`] when the events to go on with are gone, anything else when the
    /// stream broke: another one goes on from the last event.
    pub(super) async fn next(&mut self, shared: &Shared) -> Result<Option<Message>, EngineError> {
        let response = match self.responses.message().await {
            Ok(Some(response)) => response,
            Ok(None) => {
                self.leave_member(shared);
                let text = "etcd ended a watch".to_owned();
                return Err(EngineError::Unavailable(text));
            }
            Err(error) => {
                self.leave_member(shared);
                return Err(Fault::of(&error).into_error());
            }
        };
        if response.canceled() {
            return Err(canceled(&response, self.after));
        }
        self.read(response, shared)
    }

    fn read(
        &mut self,
        response: WatchResponse,
        shared: &Shared,
    ) -> Result<Option<Message>, EngineError> {
        let header = Header::from(response.header());
        shared.note(header, self.floor);
        let response = response.0;
        if response.events.is_empty() {
            let believed = response.watch_id != ALL_WATCHES || self.believes(shared);
            let is_progress = believed && !response.created;
            return Ok(is_progress.then_some(Message::Progress(header.revision)));
        }
        let taken = self.assembler.take(
            response.events,
            response.fragment,
            self.after,
            SystemTime::now(),
        );
        let events = taken.map_err(EngineError::Corrupt)?;
        Ok((!events.is_empty()).then_some(Message::Events(events)))
    }
}

/// The keys of a prefix as etcd wants them: the first one, and the one behind the last.
pub(super) fn range_of(prefix: &Prefix) -> (Vec<u8>, Vec<u8>) {
    let nul = || vec![0];
    let first = match prefix.as_bytes() {
        b"" => nul(),
        bytes => bytes.to_vec(),
    };
    (first, prefix.end().unwrap_or_else(nul))
}

fn canceled(response: &WatchResponse, after: Revision) -> EngineError {
    if response.compact_revision() > 0 {
        return EngineError::Compacted {
            requested: after,
            compacted: revision(response.compact_revision()),
        };
    }
    let why = response.cancel_reason();
    EngineError::Unavailable(format!("etcd ended a watch: {why}"))
}
