//! An HTTP/2 client that controls the windows: one connection has streams that are read and streams
//! that are not.

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use http::Request;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::client::{Broken, Target};

/// Window of the connection: what unread streams leave of it is for the others.
const CONNECTION_WINDOW: u32 = 1 << 20;

/// A connection; dropping it cuts it off.
pub struct Connection {
    target: Target,
    sender: SendRequest<Bytes>,
    windows: mpsc::Sender<u32>,
    driver: JoinHandle<()>,
}

/// An answer of lines that runs ahead of its reader by a window and no more: what is read opens it
/// again.
pub struct Stream {
    body: RecvStream,
    buffer: BytesMut,
}

impl Connection {
    /// Connects, with this window for each stream.
    pub async fn open(target: &Target, window: u32) -> Result<Connection, Broken> {
        let tls = target.tls(&[b"h2"]).await?;
        let (sender, mut connection) = h2::client::Builder::new()
            .initial_window_size(window)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(tls)
            .await?;
        let (windows, mut asked) = mpsc::channel(1);
        let driver = tokio::spawn(async move {
            loop {
                tokio::select! {
                    // How it ends its streams are told.
                    _ = &mut connection => return,
                    Some(window) = asked.recv() => {
                        connection.set_initial_window_size(window).unwrap();
                    }
                }
            }
        });
        Ok(Connection {
            target: target.clone(),
            sender,
            windows,
            driver,
        })
    }

    /// From here on each stream of the connection has this window, those that are stalled, too.
    pub async fn open_windows(&self, window: u32) {
        self.windows.send(window).await.unwrap();
    }

    /// Begins a watch, which must be answered with 200.
    pub async fn watch(&self, path: &str) -> Result<Stream, Broken> {
        let mut request = Request::get(format!("https://{}{path}", self.target.address));
        if let Some(token) = &self.target.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut sender = self.sender.clone().ready().await?;
        let (answer, _) = sender.send_request(request.body(())?, true)?;
        let answer = answer.await?;
        if answer.status() != 200 {
            return Err(format!("{path}: {}", answer.status()).into());
        }
        Ok(Stream {
            body: answer.into_body(),
            buffer: BytesMut::new(),
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Stream {
    /// The next event; `None` at the end.
    pub async fn event(&mut self) -> Result<Option<Value>, Broken> {
        let line = self.line().await?;
        Ok(line.map(|line| serde_json::from_slice(&line)).transpose()?)
    }

    /// The text of the next event; `None` at the end.
    pub async fn line(&mut self) -> Result<Option<Bytes>, Broken> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.buffer.split_to(end + 1).freeze()));
            }
            let Some(data) = self.body.data().await else {
                return Ok(None);
            };
            let data = data?;
            self.buffer.extend_from_slice(&data);
            self.body.flow_control().release_capacity(data.len())?;
        }
    }
}
