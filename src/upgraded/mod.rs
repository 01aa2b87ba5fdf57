//! Connections after an upgrade: streams of bytes, and the relay between two of them.
//!
//! The transport makes a stream of a client's connection after it has answered 101, and the egress
//! client one of its own connection to a server that has answered so. This folder knows neither of
//! them and no HTTP. It owns the framing of WebSocket, as clients speak it, and of SPDY/3.1, as
//! kubelets do (connect.md 9 and 10), but not the meaning of their streams: whoever translates one
//! protocol into the other implements [`Translation`].

mod buffers;
mod frames_apart;
mod push;
mod read_ahead;
mod relay;
pub mod spdy;
mod translated;
mod turn;
pub mod websocket;

use tokio::io::{AsyncRead, AsyncWrite};

pub use frames_apart::FramesApart;
pub use push::{Message, Messages, Next, Push};
pub use read_ahead::ReadAhead;
pub use relay::{Relay, RelayEnd, Relayed};
pub use translated::{Progress, Translated, TranslatedEnd, Translation};

/// Both directions of a connection.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin + ?Sized> ByteStream for S {}
