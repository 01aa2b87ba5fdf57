//! The WebSockets of the stand-in for a kubelet: commands in v5 and v4, and ports in v4. A library
//! reads the frames, so that a fault of the daemon's is not repeated.

use std::io::{Error, Result};

use futures_util::{SinkExt, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::commands::{self, Data, Streams};
use crate::harness::upgrades::{V5, header};

const V4: &str = "v4.channel.k8s.io";
/// The kinds of streams by their channels.
const KINDS: [&str; 5] = ["stdin", "stdout", "stderr", "error", "resize"];
/// The first byte of a message that ends a channel.
const END: u8 = 255;

struct Socket {
    stream: WebSocketStream<TlsStream<TcpStream>>,
    protocol: &'static str,
}

impl Socket {
    /// Answers an upgrade with the first protocol of the client that is known.
    async fn accept(
        mut stream: TlsStream<TcpStream>,
        head: &str,
        known: &[&'static str],
    ) -> Result<Socket> {
        let offered = header(head, "sec-websocket-protocol").unwrap();
        let mut offered = offered.split(',').map(str::trim);
        let chosen = offered.find_map(|offer| known.iter().find(|name| **name == offer));
        let protocol = chosen.expect("a protocol that a kubelet knows");
        let key = header(head, "sec-websocket-key").unwrap();
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n",
            derive_accept_key(key.as_bytes())
        );
        stream.write_all(answer.as_bytes()).await?;
        let stream = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        Ok(Socket { stream, protocol })
    }

    async fn message(&mut self, channel: u8, content: &[u8]) -> Result<()> {
        let message = [&[channel][..], content].concat();
        let sent = self.stream.send(Message::binary(message)).await;
        sent.map_err(Error::other)
    }

    /// Waits for a message: its channel and content, or `None` for a close.
    async fn read(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        loop {
            let message = self.stream.next().await;
            let message = message.ok_or_else(|| Error::other("no message is left"))?;
            match message.map_err(Error::other)? {
                Message::Close(_) => return Ok(None),
                message @ (Message::Binary(_) | Message::Text(_)) => {
                    let content = message.into_data();
                    let (channel, content) = content.split_first().expect("a channel");
                    return Ok(Some((*channel, content.to_vec())));
                }
                // The library answers pings.
                _ => {}
            }
        }
    }

    /// Closes the WebSocket, and waits for the client to do the same.
    async fn close(mut self) -> Result<()> {
        // A client that closed it first has its answer when this reads on.
        let _ = self.stream.close(None).await;
        while self.read().await.is_ok() {}
        self.stream.get_mut().shutdown().await
    }
}

impl Streams for Socket {
    async fn next(&mut self) -> Result<Data> {
        let (kind, bytes, is_last) = match self.read().await? {
            Some((END, ended)) if self.protocol == V5 => (ended[0], Vec::new(), true),
            Some((channel, content)) => (channel, content, false),
            // In v4 nothing else can say that the input ends.
            None => (0, Vec::new(), true),
        };
        let kind = KINDS[usize::from(kind)].to_owned();
        Ok(Data {
            kind,
            bytes,
            is_last,
        })
    }

    async fn send(&mut self, kind: &str, bytes: &[u8], _is_last: bool) -> Result<()> {
        let success: &[u8] = br#"{"metadata":{},"status":"Success"}"#;
        let channel = KINDS.iter().position(|known| *known == kind).unwrap() as u8;
        match (kind, bytes) {
            ("error", b"") => self.message(channel, success).await,
            (_, b"") => Ok(()),
            _ => self.message(channel, bytes).await,
        }
    }
}

/// Answers an upgrade, and runs a command.
pub async fn command(stream: TlsStream<TcpStream>, head: &str, target: &str) -> Result<()> {
    let mut socket = Socket::accept(stream, head, &[V5, V4]).await?;
    let query = target.split_once('?').map_or("", |(_, query)| query);
    // So the client knows that the streams are open.
    let lowest = if query.contains("output=1") { 1 } else { 3 };
    socket.message(lowest, b"").await?;
    if !commands::command(&mut socket, query).await? {
        return socket.stream.get_mut().shutdown().await;
    }
    socket.close().await
}

/// Answers an upgrade, and forwards ports: 81 fails, and all others say in capitals what they get.
pub async fn forward(stream: TlsStream<TcpStream>, head: &str, target: &str) -> Result<()> {
    let mut socket = Socket::accept(stream, head, &[V4]).await?;
    let (_, ports) = target.split_once("?port=").unwrap();
    for (channel, port) in (0..).step_by(2).zip(ports.split("%2C")) {
        let number: u16 = port.parse().unwrap();
        socket.message(channel, &number.to_le_bytes()).await?;
        socket.message(channel + 1, &number.to_le_bytes()).await?;
        if number == 81 {
            socket.message(channel + 1, b"nobody listens at 81").await?;
        }
    }
    while let Some((channel, content)) = socket.read().await? {
        socket
            .message(channel, &content.to_ascii_uppercase())
            .await?;
    }
    socket.close().await
}
