//! A writer that collects small writes to a socket in one buffer and sends them together.
//!
//! It owns the writing half of a socket and the waiting bytes. Its owner decides when to send, by
//! calling [`CoalescingWriter::poll_out`]. An HTTP/2 connection of a client does so at the end of
//! its poll (`server/http2/socket.rs`). A connection to etcd does so after all tasks that could
//! write have run (`storage/etcd/connection.rs`). So a flush after each frame costs no separate
//! system call or packet.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

/// The source of a [`CoalescingWriter`]'s buffer.
pub trait Buffers {
    /// The maximum of waiting bytes. A write beyond it waits until all of them are sent.
    const BYTES_MAX: usize;

    /// Returns an empty buffer for new bytes.
    fn lend(&mut self) -> Vec<u8>;

    /// Takes back a buffer whose bytes are sent.
    fn give_back(&mut self, buffer: Vec<u8>);

    /// Returns a smaller buffer with the waiting bytes, if the current one is too large for them
    /// while the socket accepts nothing.
    fn smaller(&self, _capacity: usize, _waiting: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// A writer that collects writes and sends them together, as described for the module.
pub struct CoalescingWriter<W, B> {
    writer: W,
    buffers: B,
    buffer: Vec<u8>,
    /// The number of sent bytes of the buffer.
    sent: usize,
    /// Whether the writer has bytes that were not flushed.
    is_unflushed: bool,
    bytes_taken: u64,
}

impl<W, B> CoalescingWriter<W, B> {
    /// Creates a writer that collects the writes to `writer`.
    pub fn new(writer: W, buffers: B) -> CoalescingWriter<W, B> {
        CoalescingWriter {
            writer,
            buffers,
            buffer: Vec::new(),
            sent: 0,
            is_unflushed: false,
            bytes_taken: 0,
        }
    }

    /// Returns whether the operating system has accepted all bytes.
    pub fn is_clear(&self) -> bool {
        self.buffer.is_empty() && !self.is_unflushed
    }

    /// Returns the number of bytes that the operating system has accepted so far.
    pub fn bytes_out(&self) -> u64 {
        self.bytes_taken - self.waiting() as u64
    }

    /// Returns the number of waiting bytes.
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.sent
    }

    /// Returns the number of bytes written so far, sent or waiting.
    pub fn bytes_taken(&self) -> u64 {
        self.bytes_taken
    }

    /// Returns the socket, to read from or to shut down.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.writer
    }
}

impl<W, B: Buffers> CoalescingWriter<W, B> {
    /// Returns whether another byte fits.
    pub fn has_room(&self) -> bool {
        self.buffer.len() < B::BYTES_MAX
    }

    fn shrink(&mut self) {
        let waiting = self.buffer.get(self.sent..).unwrap_or_default();
        if let Some(smaller) = self.buffers.smaller(self.buffer.capacity(), waiting) {
            let lent = std::mem::replace(&mut self.buffer, smaller);
            self.buffers.give_back(lent);
            self.sent = 0;
        }
    }

    /// Takes as many bytes as fit, and returns their number.
    pub fn take(&mut self, parts: &[IoSlice<'_>]) -> usize {
        let mut room = B::BYTES_MAX.saturating_sub(self.buffer.len());
        let mut taken = 0;
        for part in parts {
            let part = part.get(..room).unwrap_or(part);
            if part.is_empty() {
                continue;
            }
            if self.buffer.capacity() == 0 {
                self.buffer = self.buffers.lend();
            }
            self.buffer.extend_from_slice(part);
            taken += part.len();
            room -= part.len();
        }
        self.is_unflushed |= taken > 0;
        self.bytes_taken += taken as u64;
        taken
    }
}

impl<W: AsyncWrite + Unpin, B: Buffers> CoalescingWriter<W, B> {
    /// Sends all waiting bytes and flushes the socket.
    ///
    /// # Errors
    /// The errors of the socket.
    pub fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.buffer.get(self.sent..).filter(|r| !r.is_empty()) {
            match Pin::new(&mut self.writer).poll_write(context, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.sent += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.shrink();
                    return Poll::Pending;
                }
            }
        }
        if self.sent > 0 {
            self.buffers.give_back(std::mem::take(&mut self.buffer));
            self.sent = 0;
        }
        if self.is_unflushed {
            ready!(Pin::new(&mut self.writer).poll_flush(context))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}
