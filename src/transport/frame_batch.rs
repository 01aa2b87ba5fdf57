//! Joins available watch frames into one piece, because each piece costs the transport and the
//! client more than the copy does.

use std::task::Poll;

use actors::dispatcher::WatchFrame;
use bytes::{Bytes, BytesMut};

/// The initial capacity of a piece. A longer piece grows.
const RESERVED_BYTES: usize = 16 << 10;

/// A piece to be sent.
pub(super) struct FrameBatch {
    pub(super) bytes: Bytes,
    /// The number of frames in it.
    pub(super) frames: u64,
    /// Whether the watch has nothing more and will wake its stream.
    pub(super) is_last_for_now: bool,
}

/// Collects a frame and the available frames after it, up to `most` bytes. A single frame is not
/// copied. Once there is a second frame, `room` is called once for the maximum length of the piece.
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
        mut is_last_for_now,
        ..
    } = first;
    while !is_last_for_now {
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
                is_last_for_now = frame.is_last_for_now;
            }
            // The end is reported again on the next poll. A watch that has nothing now, but did
            // not say so in its last frame, may wake its stream from another thread before the
            // stream listens.
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
        is_last_for_now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_the_last_for_now_only_when_it_says_so() {
        let frame = |is_last_for_now| WatchFrame {
            bytes: Bytes::from_static(b"frame\n"),
            is_last_for_now,
            since: None,
        };
        let joined = |is_last_for_now| {
            let mut later = [Poll::Ready(Some(frame(is_last_for_now)))].into_iter();
            let next = || later.next().unwrap_or(Poll::Pending);
            batch(frame(false), RESERVED_BYTES, || RESERVED_BYTES, next)
        };
        for is_last_for_now in [true, false] {
            let joined = joined(is_last_for_now);
            assert_eq!(
                (joined.frames, joined.is_last_for_now),
                (2, is_last_for_now)
            );
        }
    }
}
