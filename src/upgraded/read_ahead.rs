//! A stream of which some bytes were read before it was handed over.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream with the bytes that somebody has read from it already.
pub struct ReadAhead<S> {
    first: Bytes,
    stream: S,
}

impl<S> ReadAhead<S> {
    /// Makes a stream whose first bytes have been read.
    pub fn new(first: Bytes, stream: S) -> ReadAhead<S> {
        // Empty bytes may be a part of a large buffer, too.
        let first = if first.is_empty() {
            Bytes::new()
        } else {
            first
        };
        ReadAhead { first, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAhead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let read = self.first.len().min(buffer.remaining());
        buffer.put_slice(self.first.get(..read).unwrap_or_default());
        self.first.advance(read);
        if self.first.is_empty() {
            // The bytes may be a part of a large buffer.
            self.first = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadAhead<S> {
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
    async fn the_bytes_that_were_read_come_first() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut stream = ReadAhead::new(Bytes::from_static(b"abc"), ours);
        theirs.write_all(b"def").await.unwrap();
        let mut two = [0; 2];
        stream.read_exact(&mut two).await.unwrap();
        assert_eq!(&two, b"ab");
        let mut rest = [0; 4];
        stream.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"cdef");
        stream.write_all(b"back").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut back = String::new();
        theirs.read_to_string(&mut back).await.unwrap();
        assert_eq!(back, "back");
    }
}
