//! Plain HTTP for scrapers, which serves only `/metrics` and `/metrics/slis`.

use std::cell::Cell;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::task::JoinHandle;

use super::socket::{self, BindError};
use super::thread::HttpThread;
use crate::api::user_info::UserInfo;
use crate::server::body::{ConnectionFacts, HttpService, LongReads, RequestBody, ResponseBody};
use crate::server::http1;
use crate::server::limits::Limits;
use crate::server::metrics::health_lines;
use crate::server::respond;

/// The most open connections. A new connection is always served, if necessary in place of another,
/// because there are few scrapers and they retry.
const CONNECTIONS_MAX: usize = 32;

/// The limit for the headers of a request. A scraper sends a few hundred bytes.
const HEADER_BYTES: u32 = 16 << 10;

/// The pause in accepting after an error.
const REST: Duration = Duration::from_millis(100);

/// The metrics port, listening but not serving.
#[derive(Debug)]
pub struct MetricsListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsListener {
    /// Opens the port.
    ///
    /// # Errors
    /// [`BindError`], one line for the operator.
    pub fn bind(address: SocketAddr) -> Result<MetricsListener, BindError> {
        let listener = socket::listen("metrics-bind-address", address)?;
        let address = listener.local_addr().unwrap_or(address);
        Ok(MetricsListener { listener, address })
    }

    /// The address, including the chosen port.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the page that `render` returns, on the calling thread, until the task is aborted.
    pub fn serve(self, render: impl Fn() -> String + 'static) -> JoinHandle<()> {
        actix_rt::spawn(run(self.listener, Rc::new(render)))
    }
}

async fn run(listener: TcpListener, render: Rc<dyn Fn() -> String>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the metrics port can't be served");
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
                tracing::debug!(%error, "no connection to the metrics port");
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
        let service = Metrics {
            render: Rc::clone(&render),
            has_asked: Rc::clone(&has_asked),
        };
        let thread = thread.clone();
        make_room(&mut open);
        let task = actix_rt::spawn(async move {
            let state = thread.state(None);
            if let Err(error) = http1::serve(stream, facts, &state, service, thread).await {
                tracing::debug!(%peer, %error, "a metrics connection broke");
            }
        });
        open.push(Open { task, has_asked });
    }
}

/// An open connection. The list of them is in order of age, the oldest first.
struct Open {
    task: JoinHandle<()>,
    /// Whether a complete request has arrived.
    has_asked: Rc<Cell<bool>>,
}

/// Closes a connection if there is no room for another. It prefers the oldest that has sent no
/// request, and then the oldest.
fn make_room(open: &mut Vec<Open>) {
    open.retain(|one| !one.task.is_finished());
    if open.len() >= CONNECTIONS_MAX {
        let silent = open.iter().position(|one| !one.has_asked.get());
        open.remove(silent.unwrap_or(0)).task.abort();
    }
}

#[derive(Clone)]
struct Metrics {
    render: Rc<dyn Fn() -> String>,
    has_asked: Rc<Cell<bool>>,
}

impl HttpService for Metrics {
    /// This port checks no credentials, so all clients are equal.
    fn user(&self, _: &HeaderMap, _: &ConnectionFacts) -> Option<Arc<UserInfo>> {
        None
    }

    async fn call(&self, request: Request<RequestBody>) -> Response<ResponseBody> {
        self.has_asked.set(true);
        let mut response = Response::new(ResponseBody::Empty);
        let path = request.uri().path();
        if !["/metrics", "/metrics/slis"].contains(&path) {
            *response.status_mut() = StatusCode::NOT_FOUND;
        } else if ![Method::GET, Method::HEAD].contains(request.method()) {
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
        } else {
            let page = (self.render)();
            let page = match path {
                "/metrics" => page,
                _ => health_lines(&page),
            };
            response = respond::metrics(page, request.headers());
        }
        response
    }
}
