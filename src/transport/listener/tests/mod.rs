//! Tests of the transport over real sockets.
//!
//! The clients talk over sockets to a server with a test service, and the tests compare its
//! responses. The tests know neither resources nor stores.

mod client;
mod draining;
mod floods;
mod flow;
mod protocol;
mod service;
mod sessions;
mod timeouts;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Running, SecureListener};
use crate::config::{Config, FilePath, Port};
use crate::transport::limits::Limits;
use crate::transport::tls::Tls;

use service::{TestService, Watches};

/// The time limit of every wait. It is long, so that a busy machine causes no failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server with everything that a test needs to talk to it.
struct TestServer {
    address: SocketAddr,
    trust_pem: String,
    watches: Watches,
    running: Option<Running>,
    _data: tempfile::TempDir,
}

impl TestServer {
    fn start(threads: usize, change: impl FnOnce(&mut Limits)) -> TestServer {
        let data = tempfile::tempdir().unwrap();
        let config = Config {
            data_dir: FilePath::from(data.path()),
            secure_port: Port(0),
            http_threads: threads,
            ..Config::default()
        };
        let tls = Tls::load_or_create(&config).unwrap();
        let server = SecureListener::bind(&config).unwrap().with_limits(change);
        let watches = Watches::default();
        let for_threads = watches.clone();
        let running = server
            .serve(tls.server_config(), move |number| {
                TestService::new(number, for_threads.clone())
            })
            .unwrap();
        TestServer {
            address: running.local_address(),
            trust_pem: tls.trust_pem().to_owned(),
            watches,
            running: Some(running),
            _data: data,
        }
    }

    async fn drain(&mut self, deadline: Duration) -> usize {
        self.running.take().unwrap().drain(deadline).await
    }
}

/// Runs a test against a server with one thread.
fn with_server<F: Future<Output = ()>>(
    change: impl FnOnce(&mut Limits),
    test: impl FnOnce(TestServer) -> F,
) {
    with_threads(1, change, test);
}

fn with_threads<F: Future<Output = ()>>(
    threads: usize,
    change: impl FnOnce(&mut Limits),
    test: impl FnOnce(TestServer) -> F,
) {
    actix_rt::System::new().block_on(async {
        let server = TestServer::start(threads, change);
        within(test(server)).await;
    });
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("the test does not end")
}

/// Waits until the condition is true. Another thread makes it true.
async fn until(mut condition: impl FnMut() -> bool) {
    within(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
