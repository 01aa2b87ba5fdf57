//! Streams that don't come from a Dispatcher.

use std::task::{Context, Poll};

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
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Poll::Ready(self.0.take())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn the_frame_comes_once_and_the_stream_ends() {
        let mut stream = OneFrame::new(Bytes::from_static(b"x"));
        let mut context = Context::from_waker(Waker::noop());
        let mut next = || stream.poll_next(&mut context);
        assert_eq!(next(), Poll::Ready(Some(Bytes::from_static(b"x"))));
        assert_eq!(next(), Poll::Ready(None));
    }
}
