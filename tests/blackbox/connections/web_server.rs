//! A stand-in for the server in a pod, over HTTP/1.1, with TLS and without.
//!
//! - `/echo…` answers with the request, `/status/N` with a status and headers.
//! - `/page` is HTML, as `?type=` says and packed as `?coding=` says. `/redirect` has the
//!   `Location` of `?to=`.
//! - `/chunks` has trailers, `/open` does not end, and `/silent` begins when it is released.
//! - `/socket` sends the bytes back after an upgrade to any protocol.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use futures_util::StreamExt as _;
use futures_util::stream;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, LOCATION, UPGRADE};
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::harness::Call;
use crate::harness::webhook::acceptor;

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// The page, with `SELF` for the host of the request.
pub const PAGE: &str = "<!DOCTYPE html>\n<html><head><title></a href=/t></title></head>\n\
    <a href=\"/absolute/?q=1&amp;r=2#f\">a</a> <a href='relative'>b</a> <A HREF=/unquoted>c</A>\n\
    <a href=\"//other.example/x\">d</a> <a href=\"http://SELF/own\">e</a>\n\
    <script src=\"/s.js\">var x = \"<a href='/x'>\";</script>\n";

/// A running server. It ends with the runtime of its test.
pub struct WebServer {
    /// The port without TLS.
    pub port: u16,
    /// The port with TLS.
    pub tls_port: u16,
    state: Arc<State>,
}

struct State {
    open: AtomicUsize,
    /// Whether `/silent` answers.
    released: watch::Sender<bool>,
}

impl WebServer {
    /// Starts it at an address of this machine.
    pub async fn start(address: Ipv4Addr) -> WebServer {
        let key = KeyPair::generate().unwrap();
        // Nobody verifies the name.
        let parameters = CertificateParams::new(vec!["somebody.example".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let tls = acceptor(certificate.der(), &key);
        let plain = TcpListener::bind((address, 0)).await.unwrap();
        let secure = TcpListener::bind((address, 0)).await.unwrap();
        let state = Arc::new(State {
            open: AtomicUsize::new(0),
            released: watch::Sender::new(false),
        });
        let server = WebServer {
            port: plain.local_addr().unwrap().port(),
            tls_port: secure.local_addr().unwrap().port(),
            state: Arc::clone(&state),
        };
        let of_plain = Arc::clone(&state);
        tokio::spawn(async move {
            loop {
                let (socket, _) = plain.accept().await.unwrap();
                tokio::spawn(serve(socket, Arc::clone(&of_plain)));
            }
        });
        tokio::spawn(async move {
            loop {
                let (socket, _) = secure.accept().await.unwrap();
                let (tls, state) = (tls.clone(), Arc::clone(&state));
                tokio::spawn(async move {
                    if let Ok(stream) = tls.accept(socket).await {
                        serve(stream, state).await;
                    }
                });
            }
        });
        server
    }

    /// The number of requests below `/open`, `/silent` and `/socket` that have not ended.
    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// Lets all requests below `/silent` have an answer.
    pub fn release(&self) {
        self.state.released.send_replace(true);
    }
}

/// A request that has not ended.
struct Open(Arc<State>);

impl Open {
    fn new(state: &Arc<State>) -> Open {
        state.open.fetch_add(1, Ordering::SeqCst);
        Open(Arc::clone(state))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, state: Arc<State>) {
    let service = service_fn(move |request| answer(request, Arc::clone(&state)));
    let connection = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // The daemon may close the connection at any time.
    let _ = connection.await;
}

fn whole(bytes: impl Into<Bytes>) -> Body {
    let full = Full::new(bytes.into());
    full.map_err(|never| match never {}).boxed_unsync()
}

fn streamed(
    frames: impl futures_util::Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send + 'static,
) -> Body {
    StreamBody::new(frames).boxed_unsync()
}

async fn answer(
    mut request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<Body>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let parameter = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
    };
    let mut answer = Response::new(whole("web\n"));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, "text/plain".parse().unwrap());
    match path.split('/').nth(1).unwrap_or_default() {
        "echo" => *answer.body_mut() = whole(echo(request).await?.to_string()),
        "status" => {
            let code = path.rsplit('/').next().unwrap();
            for (name, value) in [
                ("set-cookie", "a=b"),
                ("x-own", "z"),
                ("cache-control", "max-age=5"),
                ("access-control-allow-origin", "*"),
                ("access-control-expose-headers", "y"),
            ] {
                headers.insert(name, value.parse().unwrap());
            }
            *answer.status_mut() = code.parse().unwrap();
            *answer.body_mut() = whole(format!("said {code}\n"));
        }
        "page" => {
            let host = request.headers()["host"].to_str().unwrap();
            let page = PAGE.replace("SELF", host);
            let of = parameter("type").unwrap_or_else(|| "text/html".to_owned());
            headers.insert(CONTENT_TYPE, of.parse().unwrap());
            let coding = parameter("coding");
            if let Some(coding) = &coding {
                headers.insert(CONTENT_ENCODING, coding.parse().unwrap());
            }
            *answer.body_mut() = whole(packed(page.as_bytes(), coding.as_deref()));
        }
        "redirect" => {
            *answer.status_mut() = http::StatusCode::FOUND;
            let to = parameter("to").unwrap_or_default();
            answer.headers_mut().insert(LOCATION, to.parse().unwrap());
        }
        "chunks" => {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-last", "1".parse().unwrap());
            headers.insert("trailer", "x-last".parse().unwrap());
            let frames =
                ["one\n", "two\n"].map(|text| Frame::data(Bytes::from_static(text.as_bytes())));
            let frames = frames.into_iter().chain([Frame::trailers(trailers)]);
            *answer.body_mut() = streamed(stream::iter(frames.map(Ok)));
        }
        "open" => {
            let guard = Open::new(&state);
            let first = stream::iter([Ok(Frame::data(Bytes::from_static(b"one\n")))]);
            let never = stream::pending().map(move |frame| {
                let _held = &guard;
                frame
            });
            *answer.body_mut() = streamed(first.chain(never));
        }
        "silent" => {
            let _held = Open::new(&state);
            let mut released = state.released.subscribe();
            released.wait_for(|released| *released).await.unwrap();
        }
        "socket" => {
            if let Some(protocol) = request.headers().get(UPGRADE).cloned() {
                let upgraded = hyper::upgrade::on(&mut request);
                tokio::spawn(echoed(upgraded, Open::new(&state)));
                *answer.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
                let headers = answer.headers_mut();
                headers.insert(CONNECTION, "Upgrade".parse().unwrap());
                headers.insert(UPGRADE, protocol);
                headers.insert("x-target", request.uri().to_string().parse().unwrap());
                *answer.body_mut() = whole("");
            }
        }
        _ => {}
    }
    Ok(answer)
}

async fn echo(request: Request<Incoming>) -> Result<Value, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut headers = serde_json::Map::new();
    for name in head.headers.keys() {
        let values = head.headers.get_all(name).iter();
        let values: Vec<&str> = values.map(|value| value.to_str().unwrap()).collect();
        headers.insert(name.to_string(), values.join(",").into());
    }
    Ok(
        json!({"method": head.method.as_str(), "target": head.uri.to_string(),
        "headers": headers, "body": String::from_utf8_lossy(&body)}),
    )
}

async fn echoed(upgraded: hyper::upgrade::OnUpgrade, _open: Open) {
    let Ok(upgraded) = upgraded.await else {
        return;
    };
    let mut stream = TokioIo::new(upgraded);
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

fn packed(page: &[u8], coding: Option<&str>) -> Vec<u8> {
    match coding {
        Some("gzip") => {
            let mut packer = GzEncoder::new(Vec::new(), Compression::default());
            packer.write_all(page).unwrap();
            packer.finish().unwrap()
        }
        Some("deflate") => {
            let mut packer = DeflateEncoder::new(Vec::new(), Compression::default());
            packer.write_all(page).unwrap();
            packer.finish().unwrap()
        }
        _ => page.to_vec(),
    }
}

/// A write of a pod with an address, and with a port in its second container.
pub fn pod_at(name: &str, address: &str, port: u16) -> [Call; 2] {
    let containers = json!([
        {"name": "a", "image": "i"},
        {"name": "b", "image": "i", "ports": [{"containerPort": port}]},
    ]);
    let path = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": containers}});
    let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
    [
        Call::post(path, &pod),
        Call::merge_patch(&format!("{path}/{name}/status"), &status),
    ]
}
