//! Pure. Requests on a stream of watches.

use actors::engine::{Event, EventKind, Revision};
use etcd_client::proto::{PbWatchRequest, PbWatchRequestUnion};

use crate::etcd_shim::key_range::KeyRange;

/// Filters of requests.
const NO_PUTS: i32 = 0;
const NO_DELETIONS: i32 = 1;

/// A request on a stream.
#[derive(Debug)]
pub(super) enum WatchRequest {
    /// Begin a watch. Its number is 0 if the server may choose it.
    Create(i64, Wanted),
    /// A watch that can't begin, with the reason that etcd gives.
    Refuse(&'static str),
    /// End a watch.
    Cancel(i64),
    /// Say up to which revision all watches of the stream have seen everything.
    Progress,
    /// Nothing that is known.
    Nothing,
}

/// The events that a watch is to deliver.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) range: KeyRange,
    /// The first revision; `None` is the next one.
    pub(super) start: Option<Revision>,
    pub(super) prev_kv: bool,
    /// Whether an idle watch reports how far it is.
    pub(super) reports_progress: bool,
    puts: bool,
    deletions: bool,
}

impl Wanted {
    /// Whether an event is to be delivered.
    pub(super) fn includes(&self, event: &Event) -> bool {
        let is_of_kind = match event.kind {
            EventKind::Put => self.puts,
            EventKind::Delete => self.deletions,
        };
        is_of_kind
            && self.start.is_none_or(|start| event.revision >= start)
            && self.range.contains(event.key.as_bytes())
    }
}

/// Reads a request.
pub(super) fn read(request: PbWatchRequest) -> WatchRequest {
    let create = match request.request_union {
        Some(PbWatchRequestUnion::CreateRequest(create)) => create,
        Some(PbWatchRequestUnion::CancelRequest(cancel)) => {
            return WatchRequest::Cancel(cancel.watch_id);
        }
        Some(PbWatchRequestUnion::ProgressRequest(_)) => return WatchRequest::Progress,
        None => return WatchRequest::Nothing,
    };
    let key = match create.key.is_empty() {
        // The smallest key.
        true => vec![0],
        false => create.key,
    };
    let range = KeyRange::new(key, create.range_end);
    if create.start_revision < 0 {
        return WatchRequest::Refuse("etcdserver: mvcc: required revision has been compacted");
    }
    if range.is_empty() {
        return WatchRequest::Refuse("mvcc: watcher range is empty");
    }
    let start = Revision(create.start_revision.unsigned_abs());
    let wanted = Wanted {
        range,
        start: (start > Revision::ZERO).then_some(start),
        prev_kv: create.prev_kv,
        reports_progress: create.progress_notify,
        puts: !create.filters.contains(&NO_PUTS),
        deletions: !create.filters.contains(&NO_DELETIONS),
    };
    WatchRequest::Create(create.watch_id, wanted)
}
