//! Ends a connection: for a moment the server reads and discards what the client still sends.
//!
//! Closing a socket that has unread bytes sends a reset. A client that is still uploading when it
//! gets "too large", or sends its next request when it gets GOAWAY, might then see the reset
//! instead of the server's last message.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The limits in time and in bytes.
const LINGER: Duration = Duration::from_secs(1);
const BYTES_MAX: u64 = 64 << 20;

/// Reads until the client closes its end too. The server must already have shut down its own end.
pub(super) async fn lingering_close<T: AsyncRead + Unpin>(io: T) {
    let mut rest = io.take(BYTES_MAX);
    // The outcome does not matter: the connection is over in any case.
    let _ = tokio::time::timeout(LINGER, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}
