//! Upgrades of HTTP/1.1, and the frames of WebSocket after them.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::client::Target;

/// The key of RFC 6455, and what accepts it.
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
pub const ACCEPTED: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Protocols of a WebSocket that are translated for a kubelet.
pub const V5: &str = "v5.channel.k8s.io";
pub const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";

/// The first bytes of frames of a server.
pub const TEXT: u8 = 0x81;
pub const BINARY: u8 = 0x82;
pub const CLOSE: u8 = 0x88;
pub const PONG: u8 = 0x8a;

/// A request for an upgrade.
pub struct Asked {
    pub head: String,
}

/// A connection after the upgrade.
#[derive(Debug)]
pub struct Upgraded {
    pub head: String,
    pub stream: TlsStream<TcpStream>,
}

impl Asked {
    pub fn new(method: &str, path: &str, upgrade: &str) -> Asked {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: daemon\r\nConnection: Upgrade\r\n\
             Upgrade: {upgrade}\r\n"
        );
        Asked { head }
    }

    /// A request for a WebSocket.
    pub fn web_socket(path: &str) -> Asked {
        Asked::new("GET", path, "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", KEY)
    }

    /// Offers these protocols of a WebSocket.
    pub fn protocols(self, protocols: &str) -> Asked {
        self.header("Sec-WebSocket-Protocol", protocols)
    }

    pub fn header(mut self, name: &str, value: &str) -> Asked {
        self.head += &format!("{name}: {value}\r\n");
        self
    }

    /// Sends it with the token of the target.
    ///
    /// # Errors
    /// The answer, if it is not 101.
    pub async fn send(self, target: &Target) -> Result<Upgraded, String> {
        let mut head = self.head;
        if let Some(token) = &target.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        let mut stream = target.tls(&[b"http/1.1"]).await.unwrap();
        stream
            .write_all(format!("{head}\r\n").as_bytes())
            .await
            .unwrap();
        // A write may leave bytes in the stream, and reading does not send them.
        stream.flush().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        if head.starts_with("HTTP/1.1 101 ") {
            return Ok(Upgraded { head, stream });
        }
        let length = header(&head, "content-length").unwrap().parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        Err(format!("{head}{}", String::from_utf8(body).unwrap()))
    }
}

impl Upgraded {
    /// Reads this many bytes.
    pub async fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    /// Reads a frame of a WebSocket: its first byte and its content.
    pub async fn frame(&mut self) -> (u8, Vec<u8>) {
        let head = self.read(2).await;
        let length = match head[1] {
            126 => usize::from(u16::from_be_bytes(self.read(2).await.try_into().unwrap())),
            127 => u64::from_be_bytes(self.read(8).await.try_into().unwrap()) as usize,
            short => usize::from(short),
        };
        (head[0], self.read(length).await)
    }

    /// Sends a frame of a WebSocket.
    pub async fn send(&mut self, opcode: u8, content: &[u8]) {
        self.stream
            .write_all(&frame(opcode, content))
            .await
            .unwrap();
    }

    /// Reads a text message, which must be an event.
    pub async fn event(&mut self) -> Value {
        let (first, content) = self.frame().await;
        assert_eq!(first, TEXT, "{}", String::from_utf8_lossy(&content));
        serde_json::from_slice(&content).unwrap()
    }

    /// Reads the last frame and the end. Returns the code.
    pub async fn closed(mut self) -> u16 {
        let (first, content) = self.frame().await;
        assert_eq!(first, CLOSE, "{}", String::from_utf8_lossy(&content));
        assert_eq!(self.rest().await, b"");
        u16::from_be_bytes(content.try_into().unwrap())
    }

    /// Reads until the end, which must be one in order.
    pub async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await.unwrap();
        rest
    }
}

/// The value of a header.
pub fn header(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim().to_owned())
}

/// The frame of a client of a WebSocket.
pub fn frame(opcode: u8, content: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [1, 2, 3, 4];
    let mut frame = vec![0x80 | opcode];
    match u8::try_from(content.len()) {
        Ok(short @ ..126) => frame.push(0x80 | short),
        _ => {
            frame.push(0x80 | 127);
            frame.extend((content.len() as u64).to_be_bytes());
        }
    }
    frame.extend(MASK);
    let masked = content.iter().zip(MASK.iter().cycle());
    frame.extend(masked.map(|(byte, mask)| byte ^ mask));
    frame
}
