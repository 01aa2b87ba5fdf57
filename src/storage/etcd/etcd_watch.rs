//! One watch of etcd on a gRPC stream of its own: opened, parsed, asked for progress.

use std::sync::Arc;
use std::time::Duration;

use actors::engine::{EngineError, Event, Prefix, Revision};
use etcd_client::proto::PbWatchResponse;
use etcd_client::{WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream};

use super::call_error::CallError;
use super::cluster_state::{ClusterState, Header, KnownBefore, number, revision};
use super::events::Assembler;
use super::servers::Servers;
use super::stream_count::StreamCount;
use super::version::learn_version;
use crate::clock;

/// How long etcd may take to create a watch.
pub(super) const CREATE_TIMEOUT: Duration = Duration::from_secs(5);

/// The watch ID in an answer to a progress request: it is about all watches of its stream.
pub(super) const ALL_WATCHES: i64 = -1;

/// A message of etcd on a stream.
#[derive(Debug)]
pub(super) enum WatchMessage {
    /// Whole revisions, in order.
    Events(Vec<Event>),
    /// Everything up to this revision was delivered.
    Progress(Revision),
}

/// An open watch.
pub(super) struct EtcdWatch {
    servers: Arc<Servers>,
    state: Arc<ClusterState>,
    requests: WatchRequestSender,
    responses: WatchResponseStream,
    assembler: Assembler,
    after: Revision,
    /// The state that was known when the watch was opened. Its messages belong to that epoch.
    known: KnownBefore,
    /// The number of the member it is on.
    member: usize,
    _count: StreamCount,
}

impl EtcdWatch {
    /// Opens a watch of the prefix after a revision and waits until etcd has created it. Returns
    /// with the store's revision too, which is below `after` where the member lags behind.
    ///
    /// # Errors
    /// When no member opens it. The first message says whether the revision is compacted.
    pub(super) async fn open(
        servers: &Arc<Servers>,
        state: &Arc<ClusterState>,
        prefix: &Prefix,
        after: Revision,
    ) -> Result<(EtcdWatch, Revision), EngineError> {
        let known = state.known();
        let Some((number_of_member, member)) = servers.current() else {
            return Err(EngineError::Closed);
        };
        if member.progress_support.is_outdated() {
            learn_version(member).await;
        }
        let mut client = member.watch.clone();
        let opening = async {
            let (key, options) = create_request(prefix, after);
            let stream = client.watch(key, Some(options)).await;
            let (requests, mut responses) = stream.map_err(|e| CallError::of(&e))?.split();
            let created = responses.message().await.map_err(|e| CallError::of(&e))?;
            let created = created.ok_or_else(|| CallError::Unknown("it hung up".to_owned()))?;
            Ok::<_, CallError>((requests, responses, created))
        };
        let opened = tokio::time::timeout(CREATE_TIMEOUT, opening).await;
        let (requests, responses, created) = match opened.unwrap_or_else(|_| Err(silent())) {
            Ok(opened) => opened,
            Err(error) => {
                servers.switch_from(number_of_member);
                return Err(error.into_read_error());
            }
        };
        if created.canceled() {
            return Err(canceled(&created.0, after));
        }
        let header = Header::from(created.header());
        state.learn(header, known);
        let watch = EtcdWatch {
            servers: Arc::clone(servers),
            state: Arc::clone(state),
            requests,
            responses,
            assembler: Assembler::default(),
            after,
            known,
            member: number_of_member,
            _count: StreamCount::own(),
        };
        Ok((watch, header.revision))
    }

    /// The epoch that it was opened in.
    pub(super) fn epoch(&self) -> u64 {
        self.known.epoch()
    }

    /// Whether its answers to progress requests are true (ST-72).
    pub(super) fn supports_progress(&self) -> bool {
        let member = self.servers.all().get(self.member);
        member.is_some_and(|member| member.progress_support.get() == Some(true))
    }

    /// Switches further calls to another member than the one of this watch.
    pub(super) fn switch_member(&self) {
        self.servers.switch_from(self.member);
    }

    /// Requests progress. etcd answers once it has sent everything, or not at all.
    pub(super) async fn request_progress(&mut self) -> Result<(), EngineError> {
        let asked = self.requests.request_progress().await;
        asked.map_err(|error| CallError::of(&error).into_read_error())
    }

    /// The next message. `None` only shows that the watch is alive.
    ///
    /// # Errors
    /// [`EngineError::Compacted`] when the next events are gone. Any other error when the stream
    /// broke; another watch continues after the last event.
    pub(super) async fn next(&mut self) -> Result<Option<WatchMessage>, EngineError> {
        let response = match self.responses.message().await {
            Ok(Some(response)) => response,
            Ok(None) => {
                self.switch_member();
                let text = "etcd ended a watch".to_owned();
                return Err(EngineError::Unavailable(text));
            }
            Err(error) => {
                self.switch_member();
                return Err(CallError::of(&error).into_read_error());
            }
        };
        if response.canceled() {
            return Err(canceled(&response.0, self.after));
        }
        self.parse(response)
    }

    fn parse(&mut self, response: WatchResponse) -> Result<Option<WatchMessage>, EngineError> {
        let header = Header::from(response.header());
        self.state.learn(header, self.known);
        let response = response.0;
        if response.events.is_empty() {
            let is_true = response.watch_id != ALL_WATCHES || self.supports_progress();
            let is_progress = is_true && !response.created;
            return Ok(is_progress.then_some(WatchMessage::Progress(header.revision)));
        }
        let taken = self.assembler.take(
            response.events,
            response.fragment,
            self.after,
            clock::system_time(),
        );
        let events = taken.map_err(EngineError::Corrupt)?;
        Ok((!events.is_empty()).then_some(WatchMessage::Events(events)))
    }
}

/// The keys of a prefix as etcd takes them: the first one, and the one after the last.
pub(super) fn range_of(prefix: &Prefix) -> (Vec<u8>, Vec<u8>) {
    let nul = || vec![0];
    let first = match prefix.as_bytes() {
        b"" => nul(),
        bytes => bytes.to_vec(),
    };
    (first, prefix.end().unwrap_or_else(nul))
}

/// The key and the options of a watch of a prefix after a revision. It begins a revision early,
/// with events that are passed over: etcd answers no request for progress on a stream with a watch
/// that begins in the future, as one after the newest revision does.
pub(super) fn create_request(prefix: &Prefix, after: Revision) -> (Vec<u8>, WatchOptions) {
    let first = after.max(Revision(1));
    let (key, end) = range_of(prefix);
    let options = WatchOptions::new()
        .with_range(end)
        .with_start_revision(number(first))
        .with_prev_key()
        .with_progress_notify()
        .with_fragment();
    (key, options)
}

/// The error of a member that does not create a watch in time.
pub(super) fn silent() -> CallError {
    CallError::Unknown("no answer to a watch".to_owned())
}

/// The error of a watch after a revision that etcd has ended.
pub(super) fn canceled(response: &PbWatchResponse, after: Revision) -> EngineError {
    if response.compact_revision > 0 {
        return EngineError::Compacted {
            requested: after,
            compacted: revision(response.compact_revision),
        };
    }
    let why = &response.cancel_reason;
    EngineError::Unavailable(format!("etcd ended a watch: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_after_the_newest_revision_is_not_in_the_future() {
        for (after, first) in [(7, 7), (1, 1), (0, 1)] {
            let (_, options) = create_request(&Prefix::new("/r/"), Revision(after));
            let options = format!("{options:?}");
            let expected = format!("start_revision: {first},");
            assert!(options.contains(&expected), "{after}: {options}");
        }
    }
}
