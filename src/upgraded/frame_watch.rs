//! Follows the frames of a WebSocket that is only copied, to know whether one may be added.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A server's stream whose frames are followed. Other protocols pass, too, and then
/// [`FrameWatch::is_between_frames`] has no meaning.
pub struct FrameWatch<S> {
    stream: S,
    frames: Frames,
}

impl<S> FrameWatch<S> {
    /// Follows a stream from its first byte.
    pub fn new(stream: S) -> FrameWatch<S> {
        FrameWatch {
            stream,
            frames: Frames::default(),
        }
    }

    /// Whether the bytes that were read end with the end of a frame.
    pub fn is_between_frames(&self) -> bool {
        self.frames == Frames::default()
    }
}

/// The place in the bytes of a WebSocket.
#[derive(Debug, Default, PartialEq, Eq)]
struct Frames {
    /// The bytes of the content that are still to come.
    left: u64,
    /// The head of the next frame as far as it is known.
    head: [u8; 14],
    filled: usize,
}

impl Frames {
    fn pass(&mut self, mut bytes: &[u8]) {
        while let Some(first) = bytes.first() {
            if self.left > 0 {
                let passed = usize::try_from(self.left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                self.left -= passed as u64;
                bytes = bytes.get(passed..).unwrap_or_default();
                continue;
            }
            if let Some(place) = self.head.get_mut(self.filled) {
                *place = *first;
            }
            self.filled += 1;
            bytes = bytes.get(1..).unwrap_or_default();
            if let Some(length) = self.content() {
                *self = Frames {
                    left: length,
                    ..Frames::default()
                };
            }
        }
    }

    /// The length of the content, if the head is complete.
    fn content(&self) -> Option<u64> {
        let [_, second, extended @ ..] = self.head;
        let mask = if second & 0x80 == 0 { 0 } else { 4 };
        let more = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if self.filled < 2 + more + mask {
            return None;
        }
        let long = extended.iter().take(more);
        let long = long.fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        Some(match more {
            0 => u64::from(second & 0x7f),
            _ => long,
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FrameWatch<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.frames
            .pass(buffer.filled().get(before..).unwrap_or_default());
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FrameWatch<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_frames_are_found_wherever_the_bytes_are_cut() {
        let long = [&[0x82, 126, 1, 0][..], &[1; 256]].concat();
        let longer = [&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0][..], &[2; 65536]].concat();
        let masked = [&[0x81, 0x83, 9, 9, 9, 9][..], b"abc"].concat();
        let frames: [&[u8]; 5] = [&[0x82, 1, 1], &[0x89, 0], &long, &masked, &longer];
        for size in [1, 3, 70_000] {
            let mut watch = Frames::default();
            for frame in frames {
                for (number, part) in frame.chunks(size).enumerate() {
                    assert!(
                        number == 0 || watch != Frames::default(),
                        "in {number} of {frame:?}"
                    );
                    watch.pass(part);
                }
                assert_eq!(watch, Frames::default());
            }
        }
    }
}
