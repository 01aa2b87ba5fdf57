//! The socket below TLS. It sends a single record with `send` instead of `writev`.
//!
//! TLS always passes a list of buffers, although with one watch per connection each delivery is one
//! record. For a list the kernel takes the path through the file layer, which costs about a
//! twentieth of such a delivery.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A socket whose writes of a single record use `send`.
pub(super) struct SingleWrite<T>(pub(super) T);

impl<T: AsyncRead + Unpin> AsyncRead for SingleWrite<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for SingleWrite<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match slices {
            [one] => Pin::new(&mut self.0).poll_write(context, one),
            _ => Pin::new(&mut self.0).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn lists_and_single_buffers_leave_in_order() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut socket = SingleWrite(ours);
        for list in [&[b"one " as &[u8]] as &[&[u8]], &[b"two ", b"three "], &[]] {
            let slices: Vec<IoSlice<'_>> = list.iter().map(|bytes| IoSlice::new(bytes)).collect();
            let wanted: usize = list.iter().map(|bytes| bytes.len()).sum();
            assert_eq!(socket.write_vectored(&slices).await.unwrap(), wanted);
        }
        socket.shutdown().await.unwrap();
        let mut got = String::new();
        theirs.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "one two three ");
    }
}
