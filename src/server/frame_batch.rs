//! Frames of a watch that are there together leave as one piece: to the transport and to the
//! client each piece costs more than the copy.

use std::task::Poll;

use actors::dispatcher::WatchFrame;
use bytes::{Bytes, BytesMut};

/// Room made for a piece at once; a longer one grows.
const RESERVED_BYTES: usize = 16 << 10;

/// A piece to be sent.
pub(super) struct FrameBatch {
    pub(super) bytes: Bytes,
    /// Frames in it.
    pub(super) frames: u64,
    /// Whether the watch has nothing more and will wake its stream.
    pub(super) rests: bool,
}

/// A frame with those that are there behind it, until there are `most` bytes. One alone is not
/// copied. When a second one is there, `room` says once how long the piece may become at most.
pub(super) fn batch(
    first: WatchFrame,
    mut most: usize,
    room: impl FnOnce() -> usize,
    mut next: impl FnMut() -> Poll<Option<WatchFrame>>,
) -> FrameBatch {
    let (mut joined, mut frames) = (BytesMut::new(), 1);
    let mut room = Some(room);
    let WatchFrame {
        bytes: first,
        mut rests,
    } = first;
    while !rests {
        if joined.len().max(first.len()) >= most {
            break;
        }
        match next() {
            Poll::Ready(Some(frame)) => {
                if let Some(room) = room.take() {
                    most = most.min(room());
                    joined.reserve(most.min(RESERVED_BYTES) + frame.bytes.len());
                    joined.extend_from_slice(&first);
                }
                joined.extend_from_slice(&frame.bytes);
                frames += 1;
                rests = frame.rests;
            }
            // An end is told again when it is asked for again; and who has nothing now, but does
            // not say that he rests, may wake his stream from another thread, before it listens.
            Poll::Ready(None) | Poll::Pending => break,
        }
    }
    let bytes = if joined.is_empty() {
        first
    } else {
        joined.freeze()
    };
    FrameBatch {
        bytes,
        frames,
        rests,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_rests_only_when_it_says_so() {
        let frame = |rests| WatchFrame {
            bytes: Bytes::from_static(b"frame\n"),
            rests,
        };
        let joined = |rests| {
            let mut later = [Poll::Ready(Some(frame(rests)))].into_iter();
            let next = || later.next().unwrap_or(Poll::Pending);
            batch(frame(false), RESERVED_BYTES, || RESERVED_BYTES, next)
        };
        for rests in [true, false] {
            let joined = joined(rests);
            assert_eq!((joined.frames, joined.rests), (2, rests));
        }
    }
}
