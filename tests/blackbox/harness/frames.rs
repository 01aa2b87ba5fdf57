//! HTTP/2 frame by frame, for clients that behave as no library does.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::client::{Broken, Target};

pub const DATA: u8 = 0;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const WINDOW_UPDATE: u8 = 8;

/// One frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The preface, with this window for each stream.
pub fn preface(window: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut setting = vec![0, 4];
    setting.extend(window.to_be_bytes());
    bytes.extend(frame(SETTINGS, 0, 0, &setting));
    bytes
}

/// An integer of HPACK behind a prefix of so many bits.
pub fn integer(first: u8, bits: u32, mut value: usize, block: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if value < most {
        return block.push(first | value as u8);
    }
    block.push(first | most as u8);
    value -= most;
    while value >= 128 {
        block.push((value % 128 + 128) as u8);
        value /= 128;
    }
    block.push(value as u8);
}

/// A header that is not kept, of a name by its index.
pub fn literal(index: usize, value: &str, block: &mut Vec<u8>) {
    integer(0, 4, index, block);
    integer(0, 7, value.len(), block);
    block.extend(value.as_bytes());
}

/// A GET on a stream of its own.
pub fn get(stream: u32, path: &str, token: Option<&str>) -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    literal(1, "localhost", &mut block);
    literal(4, path, &mut block);
    if let Some(token) = token {
        literal(23, &format!("Bearer {token}"), &mut block);
    }
    frame(HEADERS, 5, stream, &block)
}

/// A connection that writes what it is told to, and reads frames.
pub struct Frames<T = TlsStream<TcpStream>>(pub T);

impl Frames {
    pub async fn open(target: &Target, window: u32) -> Result<Frames, Broken> {
        let mut frames = Frames(target.tls(&[b"h2"]).await?);
        frames.write(&preface(window)).await?;
        Ok(frames)
    }

    pub async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.flush().await
    }
}

impl<T: AsyncRead + Unpin> Frames<T> {
    /// The next frame: kind, stream and payload; `None` when the connection has ended.
    pub async fn next(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let (kind, _, stream, payload) = self.next_with_flags().await?;
        Some((kind, stream, payload))
    }

    /// The next frame: kind, flags, stream and payload.
    pub async fn next_with_flags(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).await.ok()?;
        Some((head[3], head[4], stream, payload))
    }

    /// The frames that come until none has come for a while, or the connection ends.
    pub async fn settled(&mut self) -> Vec<(u8, u32, Vec<u8>)> {
        let mut frames = Vec::new();
        let pause = Duration::from_secs(1);
        while let Ok(Some(frame)) = tokio::time::timeout(pause, self.next()).await {
            frames.push(frame);
        }
        frames
    }
}
