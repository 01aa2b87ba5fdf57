//! A proxy to a daemon whose connections can be cut or held up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// The most pieces of requests of a connection that are held up.
const PIECES_MAX: usize = 1024;

/// Connections whose bytes are held up.
#[derive(Clone, Copy, Default)]
struct Hold {
    /// Requests on those with a lower number.
    requests_below: u64,
    /// Answers on those with a lower number.
    answers_below: u64,
    /// The pause after each piece that was held up. The server handles one after another.
    pause: Duration,
}

/// Passes bytes on, as long as it lives.
pub struct Proxy {
    pub address: SocketAddr,
    is_shut: Arc<AtomicBool>,
    connections: Arc<Mutex<JoinSet<()>>>,
    hold: Arc<watch::Sender<Hold>>,
    accepted: Arc<AtomicU64>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// A way to this address.
    pub async fn to(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections: Arc<Mutex<JoinSet<()>>> = Arc::default();
        let is_shut: Arc<AtomicBool> = Arc::default();
        let (running, shut) = (connections.clone(), is_shut.clone());
        let (hold, accepted): (Arc<watch::Sender<Hold>>, Arc<AtomicU64>) = Default::default();
        let (holds, count) = (hold.clone(), accepted.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if shut.load(Ordering::SeqCst) {
                    continue;
                }
                let (number, holds) = (count.fetch_add(1, Ordering::SeqCst), holds.subscribe());
                running.lock().spawn(async move {
                    // While the daemon is away, connections are closed.
                    if let Ok(far) = TcpStream::connect(target).await {
                        pass(near, far, number, holds).await;
                    }
                });
            }
        });
        Proxy {
            address,
            is_shut,
            connections,
            hold,
            accepted,
            accepting,
        }
    }

    /// Holds up the requests on the connections there are, until they are released. New connections
    /// are not affected. The pause is between two pieces that are released.
    pub fn hold(&self, pause: Duration) {
        self.hold.send_replace(Hold {
            requests_below: self.accepted.load(Ordering::SeqCst),
            pause,
            ..Hold::default()
        });
    }

    /// Holds up the answers on the connections there are, until they are released. The server can
    /// send as much as fits into windows and buffers.
    pub fn hold_answers(&self) {
        self.hold.send_replace(Hold {
            answers_below: self.accepted.load(Ordering::SeqCst),
            ..Hold::default()
        });
    }

    /// Ends a hold.
    pub fn release(&self) {
        self.hold.send_replace(Hold::default());
    }

    /// Cuts all connections there are.
    pub fn cut(&self) {
        self.connections.lock().abort_all();
    }

    /// Whether new connections are cut from now on.
    pub fn shut(&self, shut: bool) {
        self.is_shut.store(shut, Ordering::SeqCst);
        self.cut();
    }
}

/// Passes bytes on in both directions. A client that hangs up takes nothing back that it has sent.
async fn pass(near: TcpStream, far: TcpStream, number: u64, holds: watch::Receiver<Hold>) {
    let (mut requests, mut to_near) = near.into_split();
    let (mut answers, mut to_far) = far.into_split();
    let (sender, mut pieces) = mpsc::channel(PIECES_MAX);
    let (mut releases, mut answer_holds) = (holds.clone(), holds.clone());
    let reading = async move {
        loop {
            let mut piece = Vec::with_capacity(64 << 10);
            if requests.read_buf(&mut piece).await.unwrap_or(0) == 0 {
                return;
            }
            let hold = *holds.borrow();
            let pause = (number < hold.requests_below).then_some(hold.pause);
            if sender.send((piece, pause)).await.is_err() {
                return;
            }
        }
    };
    let sending = async move {
        while let Some((piece, pause)) = pieces.recv().await {
            let _ = releases
                .wait_for(|hold| number >= hold.requests_below)
                .await;
            if to_far.write_all(&piece).await.is_err() {
                return;
            }
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
        }
    };
    let answering = async move {
        let mut piece = vec![0; 64 << 10];
        while let Ok(bytes @ 1..) = answers.read(&mut piece).await {
            let released = answer_holds.wait_for(|hold| number >= hold.answers_below);
            let _ = released.await;
            if to_near.write_all(&piece[..bytes]).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, sending, answering);
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
