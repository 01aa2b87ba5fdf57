//! The service of the metrics port, which serves only `/metrics` and `/metrics/slis`.

use std::rc::Rc;

use http::header::{ALLOW, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};

use super::refusals::refused_by_transport;
use crate::server::metrics::MeteredWatch;
use crate::server::metrics::health_lines;
use crate::server::respond;
use crate::server::respond::ResponseBody;
use crate::transport::{ConnectionFacts, HttpService, Owner, Refusal, RequestBody};

/// Serves the metrics page without authentication.
#[derive(Clone)]
pub struct MetricsService {
    render: Rc<dyn Fn() -> String>,
}

impl MetricsService {
    /// Creates a service of the page that `render` returns.
    pub fn new(render: impl Fn() -> String + 'static) -> MetricsService {
        MetricsService {
            render: Rc::new(render),
        }
    }
}

impl HttpService for MetricsService {
    type Watch = MeteredWatch;

    fn owner(&self, _: &HeaderMap, _: &ConnectionFacts) -> Option<Owner> {
        None
    }

    fn refuse(&self, refusal: Refusal) -> Response<ResponseBody> {
        refused_by_transport(refusal)
    }

    async fn call(&self, request: Request<RequestBody>) -> Response<ResponseBody> {
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::transport::listener::PlainListener;

    #[test]
    fn the_metrics_port_serves_metrics_and_nothing_else() {
        actix_rt::System::new().block_on(async {
            let listener =
                PlainListener::bind("metrics-bind-address", "127.0.0.1:0".parse().unwrap())
                    .unwrap();
            let address = listener.local_address();
            let _serving = listener.serve(MetricsService::new(|| "some_metric 1\n".to_owned()));
            for (line, status, body) in [
                ("GET /metrics", "200", "some_metric 1\n"),
                ("HEAD /metrics", "200", ""),
                ("POST /metrics", "405", ""),
                ("GET /", "404", ""),
                ("GET /api", "404", ""),
            ] {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let request = format!("{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                assert!(
                    answer.starts_with(&format!("HTTP/1.1 {status}")),
                    "{line}: {answer}"
                );
                let (head, got) = answer.split_once("\r\n\r\n").unwrap();
                assert_eq!(got, body, "{line}");
                assert_eq!(
                    head.contains("content-type: text/plain; version=0.0.4"),
                    status == "200"
                );
            }
        });
    }
}
