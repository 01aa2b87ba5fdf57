//! A proxy to a daemon whose connections can be cut.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Passes bytes on, as long as it lives.
pub struct Proxy {
    pub address: SocketAddr,
    is_shut: Arc<AtomicBool>,
    connections: Arc<Mutex<JoinSet<()>>>,
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
        let accepting = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                if shut.load(Ordering::SeqCst) {
                    continue;
                }
                running.lock().spawn(async move {
                    // While the daemon is away, connections are closed.
                    if let Ok(mut far) = TcpStream::connect(target).await {
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        Proxy {
            address,
            is_shut,
            connections,
            accepting,
        }
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

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
