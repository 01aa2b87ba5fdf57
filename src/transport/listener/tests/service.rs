//! A service whose responses the tests control.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use actors::dispatcher::{Caller, WatchFrame};
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;

use crate::transport::{
    BodyError, ClientStream, ConnectionFacts, HttpService, Owner, PIECE_BYTES, Pieces, Refusal,
    RequestBody, ResponseBody, Session, WatchBody,
};

pub(super) const BODY_LIMIT: usize = 16 << 20;
pub(super) const CHUNK: usize = 64 * 1024;

/// A watch that sends the frames that a test pushes.
#[derive(Default)]
pub(super) struct Feed {
    state: Mutex<FeedState>,
    /// The number of frames that the server took.
    pub(super) taken: AtomicUsize,
    /// The number of streams dropped.
    pub(super) dropped: AtomicUsize,
}

#[derive(Default)]
struct FeedState {
    frames: VecDeque<Bytes>,
    endless: Option<Bytes>,
    ended: bool,
    stubborn: bool,
    opened: usize,
    wakers: Vec<Waker>,
}

impl Feed {
    pub(super) fn push(&self, frame: impl Into<Bytes>) {
        self.state.lock().frames.push_back(frame.into());
        self.wake();
    }

    /// Makes one more of this frame available whenever the server asks.
    pub(super) fn never_ends(&self, frame: impl Into<Bytes>) {
        self.state.lock().endless = Some(frame.into());
        self.wake();
    }

    /// Keeps the watch open when the server drains.
    pub(super) fn be_stubborn(&self) {
        self.state.lock().stubborn = true;
    }

    pub(super) fn open(&self) {
        self.state.lock().opened += 1;
    }

    pub(super) fn opened(&self) -> usize {
        self.state.lock().opened
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    pub(super) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    fn wake(&self) {
        let wakers = std::mem::take(&mut self.state.lock().wakers);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn end(&self) {
        let mut state = self.state.lock();
        state.ended = !state.stubborn;
        drop(state);
        self.wake();
    }
}

/// Feeds by name.
#[derive(Clone, Default)]
pub(super) struct Watches(Arc<Mutex<HashMap<String, Arc<Feed>>>>);

impl Watches {
    pub(super) fn feed(&self, name: &str) -> Arc<Feed> {
        Arc::clone(self.0.lock().entry(name.to_owned()).or_default())
    }

    fn end_all(&self) {
        for feed in self.0.lock().values() {
            feed.end();
        }
    }
}

pub(super) struct FeedStream(Arc<Feed>);

impl WatchBody for FeedStream {
    fn poll_next(&mut self, caller: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        let mut state = self.0.state.lock();
        let frame = state.frames.pop_front().or_else(|| state.endless.clone());
        match frame {
            Some(frame) => {
                self.0.taken.fetch_add(1, Ordering::SeqCst);
                Poll::Ready(Some(frame.into()))
            }
            None if state.ended => Poll::Ready(None),
            None => {
                state.wakers.push(caller.context().waker().clone());
                Poll::Pending
            }
        }
    }

    fn is_revoked(&self) -> bool {
        false
    }

    fn revocation(&self) -> Box<dyn Fn() -> bool> {
        Box::new(|| false)
    }
}

impl Drop for FeedStream {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Clone)]
pub(super) struct TestService {
    thread: usize,
    watches: Watches,
}

impl TestService {
    pub(super) fn new(thread: usize, watches: Watches) -> TestService {
        TestService { thread, watches }
    }

    fn watch(&self, name: &str) -> ResponseBody<FeedStream> {
        let feed = self.watches.feed(name);
        feed.state.lock().opened += 1;
        ResponseBody::Watch(FeedStream(feed))
    }
}

/// A body as another server sends it.
fn passed_on(frames: Vec<Result<Frame<Bytes>, String>>) -> ResponseBody<FeedStream> {
    let frames = futures_util::stream::iter(frames);
    ResponseBody::Chunks(Pieces::passed_on(frames, PIECE_BYTES))
}

fn number(path: &str) -> usize {
    path.rsplit('/').next().unwrap().parse().unwrap()
}

/// A chunk that differs from all others.
pub(super) fn chunk(number: usize) -> Bytes {
    Bytes::from(vec![(number % 251) as u8; CHUNK])
}

impl HttpService for TestService {
    type Watch = FeedStream;

    /// Recognises all clients except those whose headers say that they are unknown.
    fn owner(&self, headers: &HeaderMap, _: &ConnectionFacts) -> Option<Owner> {
        let is_known = !headers.contains_key("x-nobody");
        is_known.then(|| Owner("ann".into()))
    }

    fn refuse(&self, refusal: Refusal) -> Response<ResponseBody<FeedStream>> {
        let status = match refusal {
            Refusal::TooManyConnections | Refusal::TooManyUnread => StatusCode::TOO_MANY_REQUESTS,
            Refusal::MissingHost | Refusal::SeveralHosts | Refusal::MalformedHost => {
                StatusCode::BAD_REQUEST
            }
            Refusal::TransferEncoding => StatusCode::NOT_IMPLEMENTED,
        };
        let text = format!("refused: {refusal:?}\n");
        let mut response = Response::new(ResponseBody::Full(text.into()));
        *response.status_mut() = status;
        response
    }

    /// Waits while the feed of this name is open, as for a request carried out without its client.
    async fn unattended_ended(&self) {
        let feed = self.watches.feed("unattended");
        while feed.opened() > feed.dropped() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn call(&self, request: Request<RequestBody>) -> Response<ResponseBody<FeedStream>> {
        let facts = request
            .extensions()
            .get::<ConnectionFacts>()
            .unwrap()
            .clone();
        let path = request.uri().path().to_owned();
        let mut response = Response::new(ResponseBody::Empty);
        *response.body_mut() = match path.split('/').nth(1).unwrap_or_default() {
            "hello" => ResponseBody::Full(Bytes::from_static(b"hello")),
            "thread" => ResponseBody::Full(Bytes::from(self.thread.to_string())),
            "protocol" => ResponseBody::Full(Bytes::from(facts.http2.to_string())),
            "method" => ResponseBody::Full(Bytes::from(request.method().to_string())),
            "full" => ResponseBody::Full(Bytes::from(vec![7; number(&path)])),
            "chunks" => {
                let sending = FeedStream(self.watches.feed("chunks"));
                let chunks = futures_util::stream::iter(0..number(&path)).map(move |number| {
                    let _ = &sending;
                    chunk(number)
                });
                ResponseBody::Chunks(Pieces::new(chunks, PIECE_BYTES))
            }
            "sleep" => {
                let feed = self.watches.feed("sleepers");
                feed.state.lock().opened += 1;
                tokio::time::sleep(Duration::from_millis(number(&path) as u64)).await;
                ResponseBody::Full(Bytes::from_static(b"awake"))
            }
            "close" => {
                let close = HeaderValue::from_static("close");
                response
                    .headers_mut()
                    .insert(http::header::CONNECTION, close);
                ResponseBody::Full(Bytes::from_static(b"bye"))
            }
            "length" => {
                let within = Duration::from_millis(number(&path) as u64);
                match request.into_body().collect(BODY_LIMIT, within).await {
                    Ok(body) => ResponseBody::Full(Bytes::from(body.len().to_string())),
                    Err(error) => {
                        *response.status_mut() = match error {
                            BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                            BodyError::TimedOut { .. } => StatusCode::REQUEST_TIMEOUT,
                            BodyError::Broken(_) => StatusCode::BAD_REQUEST,
                        };
                        ResponseBody::Full(Bytes::from(error.to_string()))
                    }
                }
            }
            "echo" => {
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                let upgrade = HeaderValue::from_static("echo");
                response
                    .headers_mut()
                    .insert(http::header::UPGRADE, upgrade);
                let feed = self.watches.feed("sessions");
                feed.open();
                let session = FeedStream(feed);
                let echo = async move |client: ClientStream| {
                    let _session = session;
                    let (mut reader, mut writer) = tokio::io::split(client);
                    let _ = tokio::io::copy(&mut reader, &mut writer).await;
                    let _ = writer.write_all(b"last").await;
                };
                ResponseBody::Session(Session::new(echo, || false))
            }
            "broken" => passed_on(vec![Ok(Frame::data("one".into())), Err("gone".to_owned())]),
            "trailers" => {
                let trailer = HeaderValue::from_static("x-last");
                response
                    .headers_mut()
                    .insert(http::header::TRAILER, trailer.clone());
                let trailers = HeaderMap::from_iter([(HeaderName::from_static("x-last"), trailer)]);
                passed_on(vec![
                    Ok(Frame::data("one".into())),
                    Ok(Frame::trailers(trailers)),
                ])
            }
            "watch" => self.watch(path.rsplit('/').next().unwrap()),
            _ => {
                *response.status_mut() = StatusCode::NOT_FOUND;
                ResponseBody::Empty
            }
        };
        response
    }

    fn drain(&self) {
        self.watches.end_all();
    }
}
