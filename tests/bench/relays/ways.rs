//! The ways in which bytes go through a server to a kubelet and back, and clients for them.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use crate::harness::upgrades::{Asked, TUNNEL, V5, frame};
use crate::harness::{Call, Protocol, Target};

pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// The most bytes of a message from a client. kubectl copies in such pieces.
const PIECE_BYTES: usize = 32 << 10;

/// The channel of a command's input, and the one that closes channels.
const STDIN: u8 = 0;
const CLOSES: u8 = 255;

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A log.
    Log(Protocol),
    /// A port is forwarded over SPDY: bytes come down, and then as many go up.
    PortForward,
    /// The output of a command over WebSocket, which is translated.
    Output,
    /// The input of such a command.
    Input,
    /// A port is forwarded through a tunnel: bytes come down, and then as many go up.
    Tunnel,
}

/// The pod for all but forwarded ports, whose pod has the name of [`container`].
pub const POD: &str = "p";

/// The container whose log has this many bytes, and the pod whose ports carry them.
pub fn container(bytes: u64) -> String {
    format!("bytes-{bytes}")
}

impl Way {
    /// How a figure names it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Log(Protocol::Http1) => "a log over HTTP/1.1",
            Way::Log(Protocol::Http2) => "a log over HTTP/2",
            Way::PortForward => "port forwarding over SPDY",
            Way::Output => "output of a command over WebSocket",
            Way::Input => "input of a command over WebSocket",
            Way::Tunnel => "port forwarding over WebSocket",
        }
    }

    /// How many bytes are relayed for `bytes` in one direction.
    pub fn bytes(self, bytes: u64) -> u64 {
        match self {
            Way::PortForward | Way::Tunnel => 2 * bytes,
            Way::Log(_) | Way::Output | Way::Input => bytes,
        }
    }

    /// The way of the bare loop that moves the same bytes.
    pub fn bare(self) -> Way {
        match self {
            Way::Log(_) | Way::Output => Way::Log(Protocol::Http1),
            Way::PortForward | Way::Input | Way::Tunnel => Way::PortForward,
        }
    }

    /// Moves this many bytes through an API server.
    pub async fn through(self, target: &Target, bytes: u64) {
        let name = container(bytes);
        match self {
            Way::Log(protocol) => {
                let path = format!("{PODS}/{POD}/log?container={name}");
                log(target, protocol, &path, bytes).await;
            }
            Way::PortForward => {
                let path = format!("{PODS}/{name}/portforward");
                port_forward(target, &path, bytes).await;
            }
            Way::Output => {
                let command = format!("command=much&command={}", bytes >> 20);
                let path = format!("{PODS}/{POD}/exec?{command}&stdout=1&container=command");
                output(target, &path, bytes).await;
            }
            Way::Input => {
                let path = format!("{PODS}/{POD}/exec?command=swallow&stdin=1&container=command");
                input(target, &path, bytes).await;
            }
            Way::Tunnel => {
                let path = format!("{PODS}/{name}/portforward?ports=80");
                tunnel(target, &path, bytes).await;
            }
        }
    }

    /// Moves this many bytes through the bare loop, which leaves paths as they are.
    pub async fn through_bare(self, target: &Target, bytes: u64) {
        let name = container(bytes);
        match self.bare() {
            Way::Log(protocol) => {
                let path = format!("/containerLogs/default/{POD}/{name}");
                log(target, protocol, &path, bytes).await;
            }
            _ => port_forward(target, &format!("/portForward/default/{name}"), bytes).await,
        }
    }
}

/// Reads a log, which must be complete.
async fn log(target: &Target, protocol: Protocol, path: &str, bytes: u64) {
    if protocol == Protocol::Http2 {
        let client = target.client();
        let mut log = client.lines(Call::get(path)).await.unwrap();
        assert_eq!(log.status.as_u16(), 200, "{path}");
        let mut read = 0;
        while let Some(piece) = log.piece().await.unwrap() {
            read += piece.len() as u64;
        }
        assert_eq!(read, bytes, "{path}");
        return;
    }
    let mut head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
    if let Some(token) = &target.token {
        head += &format!("Authorization: Bearer {token}\r\n");
    }
    let mut stream = target.tls(&[b"http/1.1"]).await.unwrap();
    let asked = format!("{head}\r\n");
    stream.write_all(asked.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let read = skip(&mut stream, u64::MAX).await;
    assert!(read > bytes, "{path}: {read} bytes");
}

async fn port_forward(target: &Target, path: &str, bytes: u64) {
    let asked = Asked::new("POST", path, "SPDY/3.1");
    let asked = asked.header("X-Stream-Protocol-Version", "portforward.k8s.io");
    let mut session = asked.send(target).await.unwrap();
    assert_eq!(skip(&mut session.stream, bytes).await, bytes);
    let block = vec![b'u'; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(block.len() as u64);
        let part = &block[..part as usize];
        session.stream.write_all(part).await.unwrap();
        left -= part.len() as u64;
    }
    session.stream.flush().await.unwrap();
    assert_eq!(session.rest().await, b"last");
}

async fn output(target: &Target, path: &str, bytes: u64) {
    let asked = Asked::web_socket(path).protocols(V5);
    let mut session = asked.send(target).await.unwrap();
    let read = skip(&mut session.stream, u64::MAX).await;
    assert!(read > bytes, "{path}: {read} bytes");
}

async fn input(target: &Target, path: &str, bytes: u64) {
    let asked = Asked::web_socket(path).protocols(V5);
    let mut session = asked.send(target).await.unwrap();
    let mut message = vec![STDIN];
    message.extend([b'i'; PIECE_BYTES]);
    let piece = frame(2, &message);
    for _ in 0..bytes / PIECE_BYTES as u64 {
        session.stream.write_all(&piece).await.unwrap();
    }
    let close = frame(2, &[CLOSES, STDIN]);
    session.stream.write_all(&close).await.unwrap();
    session.stream.flush().await.unwrap();
    let rest = session.rest().await;
    let success = rest.windows(9).any(|window| window == b"\"Success\"");
    assert!(success, "{}", String::from_utf8_lossy(&rest));
}

async fn tunnel(target: &Target, path: &str, bytes: u64) {
    let asked = Asked::web_socket(path).protocols(TUNNEL);
    let mut session = asked.send(target).await.unwrap();
    // The heads of the messages are in addition, and the last bytes may come later.
    let mut read = 0;
    while read < bytes {
        read += message(&mut session.stream).await;
    }
    assert_eq!(read, bytes);
    let piece = frame(2, &[b'u'; PIECE_BYTES]);
    for _ in 0..bytes / PIECE_BYTES as u64 {
        session.stream.write_all(&piece).await.unwrap();
    }
    session.stream.flush().await.unwrap();
    // The last message, and the end.
    assert_eq!(session.rest().await, b"\x82\x04last\x88\x02\x03\xe8");
}

/// Skips a message of the server. Returns the bytes of its content.
async fn message(stream: &mut (impl AsyncRead + Unpin)) -> u64 {
    assert_eq!(stream.read_u8().await.unwrap(), 0x82);
    let length = match stream.read_u8().await.unwrap() {
        126 => u64::from(stream.read_u16().await.unwrap()),
        127 => stream.read_u64().await.unwrap(),
        short => u64::from(short),
    };
    assert_eq!(skip(stream, length).await, length);
    length
}

/// Reads so many bytes, or to the end. Returns how many there were.
async fn skip(stream: &mut (impl AsyncRead + Unpin), most: u64) -> u64 {
    let mut buffer = vec![0; 64 << 10];
    let mut count = 0;
    while count < most {
        let room = (most - count).min(buffer.len() as u64) as usize;
        match stream.read(&mut buffer[..room]).await.unwrap() {
            0 => break,
            read => count += read as u64,
        }
    }
    count
}
