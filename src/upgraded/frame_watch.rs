//! Follows the frames of a WebSocket that is only copied, to know whether one may be added.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::websocket::Passed;

/// A server's stream whose frames are followed. Other protocols pass, too, and then
/// [`FrameWatch::is_between_frames`] has no meaning.
pub struct FrameWatch<S> {
    stream: S,
    frames: Passed,
}

impl<S> FrameWatch<S> {
    /// Follows a stream from its first byte.
    pub fn new(stream: S) -> FrameWatch<S> {
        FrameWatch {
            stream,
            frames: Passed::default(),
        }
    }

    /// Whether the bytes that were read end with the end of a frame.
    pub fn is_between_frames(&self) -> bool {
        self.frames.is_between_frames()
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
