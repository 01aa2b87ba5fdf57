//! The end of a connection: what the client still sends is read and thrown away for a moment.
//!
//! A socket that is closed with unread bytes in it sends a reset, and a client that is told
//! "too large" while it still uploads, or GOAWAY while it sends its next request, may then see
//! the reset in place of our last words.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

/// How long, and how much, at most.
const LINGER: Duration = Duration::from_secs(1);
const BYTES_MAX: u64 = 64 << 20;

/// Reads until the client closes its end too. Our end must be shut down already.
pub(super) async fn lingering_close<T: AsyncRead + Unpin>(io: T) {
    let mut rest = io.take(BYTES_MAX);
    // Whether it ends, breaks or takes too long: it is over.
    let _ = tokio::time::timeout(LINGER, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}
