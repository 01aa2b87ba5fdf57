//! Plain HTTP/1.1 without credentials, on a port of its own, for scrapers.

use std::cell::Cell;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actors::tasks;
use http::{HeaderMap, Request, Response};
use tokio::task::JoinHandle;

use super::socket::{self, BindError};
use crate::transport::limits::Limits;
use crate::transport::thread::HttpThread;
use crate::transport::{
    ConnectionFacts, HttpService, LongReads, Owner, Refusal, RequestBody, ResponseBody, http1,
};

/// The most open connections. A new connection is always served, if necessary in place of an older
/// one, because there are few scrapers and they retry.
const CONNECTIONS_MAX: usize = 32;

/// The limit for the headers of a request. A scraper sends a few hundred bytes.
const HEADER_BYTES: u32 = 16 << 10;

/// The pause in accepting after an error.
const REST: Duration = Duration::from_millis(100);

/// A port for plain HTTP, listening but not serving.
#[derive(Debug)]
pub struct PlainListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl PlainListener {
    /// Opens the port. `setting` is the flag that an error names.
    ///
    /// # Errors
    /// [`BindError`], which is one line for the operator.
    pub fn bind(setting: &'static str, address: SocketAddr) -> Result<PlainListener, BindError> {
        let listener = socket::listen(setting, address, false)?;
        let address = listener.local_addr().unwrap_or(address);
        Ok(PlainListener { listener, address })
    }

    /// The address, with the port that was assigned if the configuration has port 0.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests on the calling thread until the task is aborted. The port is not drained, so
    /// a service with watches does not belong here.
    pub fn serve<S: HttpService>(self, service: S) -> JoinHandle<()> {
        tasks::spawn_local(run(self.listener, service))
    }
}

async fn run<S: HttpService>(listener: TcpListener, service: S) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "cannot serve a plain HTTP port");
            return;
        }
    };
    let limits = Limits {
        header_bytes: HEADER_BYTES,
        ..Limits::default()
    };
    let thread = HttpThread::new(Arc::new(limits), Arc::default(), Arc::default());
    let mut open = Vec::new();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection to a plain HTTP port");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let facts = ConnectionFacts {
            peer,
            http2: false,
            certificates: None,
            reads: LongReads::default(),
        };
        let has_asked = Rc::new(Cell::new(false));
        let service = Noting {
            service: service.clone(),
            has_asked: Rc::clone(&has_asked),
        };
        let thread = thread.clone();
        make_room(&mut open);
        let task = tasks::spawn_local(async move {
            let state = thread.state(None);
            if let Err(error) = http1::serve(stream, facts, &state, service, thread).await {
                tracing::debug!(%peer, %error, "a plain HTTP connection broke");
            }
        });
        open.push(Open { task, has_asked });
    }
}

/// An open connection. They are listed from the oldest to the newest.
struct Open {
    task: JoinHandle<()>,
    /// Whether a complete request has arrived.
    has_asked: Rc<Cell<bool>>,
}

/// Closes a connection if there are already [`CONNECTIONS_MAX`]: the oldest that has sent no
/// request, or else the oldest.
fn make_room(open: &mut Vec<Open>) {
    open.retain(|one| !one.task.is_finished());
    if open.len() >= CONNECTIONS_MAX {
        let silent = open.iter().position(|one| !one.has_asked.get());
        open.remove(silent.unwrap_or(0)).task.abort();
    }
}

/// Wraps a service, and records that a complete request has arrived.
#[derive(Clone)]
struct Noting<S> {
    service: S,
    has_asked: Rc<Cell<bool>>,
}

impl<S: HttpService> HttpService for Noting<S> {
    type Watch = S::Watch;

    /// Always `None`: this port checks no credentials, so all clients are equal.
    fn owner(&self, _: &HeaderMap, _: &ConnectionFacts) -> Option<Owner> {
        None
    }

    async fn call(&self, request: Request<RequestBody>) -> Response<ResponseBody<S::Watch>> {
        self.has_asked.set(true);
        self.service.call(request).await
    }

    fn refuse(&self, refusal: Refusal) -> Response<ResponseBody<S::Watch>> {
        self.service.refuse(refusal)
    }
}
