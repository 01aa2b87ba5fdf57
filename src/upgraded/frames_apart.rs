//! Writes each frame of a WebSocket by itself.
//!
//! Over TLS a frame is then a record. Clients that wait for their socket and then read one frame,
//! as that in Python does, would otherwise not see a frame that has come in the record of another
//! one, until further bytes come.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::websocket::Passed;

/// A client's stream to which frames are written one by one.
pub struct FramesApart<S> {
    stream: S,
    /// `None` for other protocols, whose bytes pass as they are. They would look like many small
    /// frames.
    frames: Option<Passed>,
}

impl<S> FramesApart<S> {
    /// Follows what is written to a client from the first byte, if it is a WebSocket.
    pub fn new(stream: S, is_websocket: bool) -> FramesApart<S> {
        FramesApart {
            stream,
            frames: is_websocket.then(Passed::default),
        }
    }

    /// Whether it is a WebSocket, and the bytes that were written end with the end of a frame, so
    /// that another one may follow.
    pub fn is_between_frames(&self) -> bool {
        self.frames.as_ref().is_some_and(Passed::is_between_frames)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FramesApart<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FramesApart<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let Some(frames) = &mut this.frames else {
            return Pin::new(&mut this.stream).poll_write(context, bytes);
        };
        let mut next = *frames;
        let frame = next.pass_frame(bytes);
        let part = bytes.get(..frame).unwrap_or(bytes);
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, part))?;
        match written == part.len() {
            true => *frames = next,
            false => frames.pass(part.get(..written).unwrap_or(part)),
        }
        Poll::Ready(Ok(written))
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
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Notes each write, of which it takes so many bytes.
    struct Writes(Vec<Vec<u8>>, usize);

    impl AsyncWrite for Writes {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.1);
            self.0.push(bytes[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    async fn writes(parts: &[&[u8]], taken: usize, is_websocket: bool) -> Vec<Vec<u8>> {
        let mut stream = FramesApart::new(Writes(Vec::new(), taken), is_websocket);
        for part in parts {
            stream.write_all(part).await.unwrap();
        }
        stream.stream.0
    }

    #[tokio::test]
    async fn each_frame_is_a_write() {
        let long = [&[0x82, 126, 1, 0][..], &[7; 256]].concat();
        let frames: [&[u8]; 5] = [
            b"\x82\x01\x01",
            b"\x82\x00",
            &long,
            b"\x82\x03\x02er",
            b"\x88\x02\x03\xe8",
        ];
        assert_eq!(writes(&[&frames.concat()], 1000, true).await, frames);
        assert_eq!(writes(&frames, 1000, true).await, frames);
        // Frames that come and are taken in parts are not joined to the next one.
        let all = frames.concat();
        let (first, second) = all.split_at(101);
        let halves = writes(&[first, second], 100, true).await;
        let lengths: Vec<usize> = halves.iter().map(Vec::len).collect();
        assert_eq!(lengths, [3, 2, 96, 100, 64, 5, 4]);
        assert_eq!(halves.concat(), all);
        assert_eq!(writes(&[&all], 1000, false).await, [all]);
    }

    #[tokio::test]
    async fn another_frame_may_follow_a_whole_one_of_a_websocket() {
        for is_websocket in [true, false] {
            let mut stream = FramesApart::new(Writes(Vec::new(), 1000), is_websocket);
            assert_eq!(stream.is_between_frames(), is_websocket);
            for (part, is_whole) in [(&b"\x82\x02a"[..], false), (b"b", true)] {
                stream.write_all(part).await.unwrap();
                assert_eq!(stream.is_between_frames(), is_websocket && is_whole);
            }
        }
    }
}
