//! Connections after an upgrade: streams of bytes, and the relay between two of them.
//!
//! The transport makes a stream of a client's connection after it has answered 101, and the egress
//! client one of its own connection to a server that has answered so. This folder knows neither of
//! them and no HTTP, and of the protocols in the bytes only where the frames of WebSockets end.

mod frame_watch;
mod read_ahead;
mod relay;

use tokio::io::{AsyncRead, AsyncWrite};

pub use frame_watch::FrameWatch;
pub use read_ahead::ReadAhead;
pub use relay::{Relay, RelayEnd, Relayed};

/// Both directions of a connection.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin + ?Sized> ByteStream for S {}
