//! Follows the frames of a WebSocket that is only copied, to know whether one may be added.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::websocket::Passed;

/// A server's stream whose frames are followed if it is a WebSocket.
pub struct FrameWatch<S> {
    stream: S,
    /// `None` for other protocols. Their bytes would look like many small frames, and following
    /// those can cost several times as much as copying the bytes.
    frames: Option<Passed>,
}

impl<S> FrameWatch<S> {
    /// Follows a stream from its first byte, or lets the bytes of other protocols pass.
    pub fn new(stream: S, is_websocket: bool) -> FrameWatch<S> {
        FrameWatch {
            stream,
            frames: is_websocket.then(Passed::default),
        }
    }

    /// Whether it is a WebSocket, and the bytes that were read end with the end of a frame.
    pub fn is_between_frames(&self) -> bool {
        self.frames.as_ref().is_some_and(Passed::is_between_frames)
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
        if let Some(frames) = &mut self.frames {
            frames.pass(buffer.filled().get(before..).unwrap_or_default());
        }
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn only_the_frames_of_a_websocket_are_followed() {
        for is_websocket in [true, false] {
            let (ours, mut theirs) = tokio::io::duplex(64);
            let mut watch = FrameWatch::new(ours, is_websocket);
            assert_eq!(watch.is_between_frames(), is_websocket);
            // A frame of two bytes, of which the last one is missing.
            theirs.write_all(b"\x82\x02a").await.unwrap();
            watch.read_exact(&mut [0; 3]).await.unwrap();
            assert!(!watch.is_between_frames());
            theirs.write_all(b"b").await.unwrap();
            watch.read_exact(&mut [0; 1]).await.unwrap();
            assert_eq!(watch.is_between_frames(), is_websocket);
        }
    }
}
