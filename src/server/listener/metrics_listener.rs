//! Plain HTTP for scrapers: `/metrics` and nothing else.

use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::socket::{self, BindError};
use super::thread::{HttpThread, Load};
use crate::server::body::{ConnectionFacts, HttpService, RequestBody, ResponseBody};
use crate::server::http1;
use crate::server::limits::Limits;

/// Scrapers at a time; more wait in the backlog.
const CONNECTIONS_MAX: usize = 32;

/// How long accepting rests after an error.
const REST: Duration = Duration::from_millis(100);

/// Prometheus' text format.
const CONTENT_TYPE_METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics port, open but not served yet.
#[derive(Debug)]
pub struct MetricsListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsListener {
    /// Opens the port.
    ///
    /// # Errors
    /// [`BindError`], a line for the operator.
    pub fn bind(address: SocketAddr) -> Result<MetricsListener, BindError> {
        let listener = socket::listen("metrics-bind-address", address)?;
        let address = listener.local_addr().unwrap_or(address);
        Ok(MetricsListener { listener, address })
    }

    /// The address with the port that was chosen.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Serves what `render` makes, on the calling thread, until the task is aborted.
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
    let thread = HttpThread::new(Arc::new(Limits::default()), Arc::new(Load::default()));
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "no connection to the metrics port");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let facts = ConnectionFacts { peer, http2: false };
        let service = Metrics(Rc::clone(&render));
        let thread = thread.clone();
        actix_rt::spawn(async move {
            let _place = place;
            if let Err(error) = http1::serve(stream, facts, service, thread).await {
                tracing::debug!(%peer, %error, "a metrics connection broke");
            }
        });
    }
}

#[derive(Clone)]
struct Metrics(Rc<dyn Fn() -> String>);

impl HttpService for Metrics {
    async fn call(&self, request: Request<RequestBody>) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::Empty);
        if request.uri().path() != "/metrics" {
            *response.status_mut() = StatusCode::NOT_FOUND;
        } else if ![Method::GET, Method::HEAD].contains(request.method()) {
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
        } else {
            let kind = HeaderValue::from_static(CONTENT_TYPE_METRICS);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            *response.body_mut() = ResponseBody::Full(Bytes::from((self.0)()));
        }
        response
    }
}
