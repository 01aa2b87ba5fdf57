//! Watch streams that do not come from a Dispatcher.

use std::task::Poll;

use actors::dispatcher::{Caller, WatchFrame};
use bytes::Bytes;

use crate::storage::WatchStream;

/// A stream of one frame: the refusal of a watch whose answer is already 200 (WA-6).
pub struct OneFrame(Option<Bytes>);

impl OneFrame {
    /// A stream of this frame.
    pub fn new(frame: Bytes) -> OneFrame {
        OneFrame(Some(frame))
    }
}

impl WatchStream for OneFrame {
    fn poll_next(&mut self, _: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        Poll::Ready(self.0.take().map(WatchFrame::from))
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn the_frame_comes_once_and_the_stream_ends() {
        let mut stream = OneFrame::new(Bytes::from_static(b"x"));
        let caller = Caller::task(&Context::from_waker(Waker::noop()));
        let mut next = || stream.poll_next(&caller);
        let frame = WatchFrame::from(Bytes::from_static(b"x"));
        assert_eq!(next(), Poll::Ready(Some(frame)));
        assert_eq!(next(), Poll::Ready(None));
    }
}
