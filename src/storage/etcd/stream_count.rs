//! Counts the gRPC streams of watches that are open.

use metrics::{Gauge, describe_gauge, gauge};

const STREAMS: &str = "taffrail_etcd_watch_streams";

/// Registers the help text.
pub(super) fn describe() {
    describe_gauge!(
        STREAMS,
        "Streams of watches on etcd, by whether several watches share each (shared, own)"
    );
}

/// A stream that is open until this is dropped.
pub(super) struct StreamCount(Gauge);

impl StreamCount {
    /// A stream that watches share.
    pub(super) fn shared() -> StreamCount {
        StreamCount::of("shared")
    }

    /// The stream of one watch.
    pub(super) fn own() -> StreamCount {
        StreamCount::of("own")
    }

    fn of(kind: &'static str) -> StreamCount {
        let streams = gauge!(STREAMS, "kind" => kind);
        streams.increment(1.0);
        StreamCount(streams)
    }
}

impl Drop for StreamCount {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
