//! The audit events of one request.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use jiff::Timestamp;

use super::Audit;
use super::afterwards::{Afterwards, CLIENT_WENT_AWAY, Later};
use super::body::{Body, Holds, OBJECT_BYTES_MAX, RequestBody, Subject};
use super::event::{self, Event, Facts};
use super::policy::{Level, Stage};
use crate::api::abandoned::Abandonment;
use crate::api::annotations::Annotations;
use crate::api::request_info::RequestInfo;
use crate::api::user_info::UserInfo;
use crate::auth::Authorization;
use crate::auth::impersonation::Impersonation;
use crate::clock;
use crate::server::respond::ResponseBody;
use crate::server::respond::{Answer, IsStatus, PassedOn};
use crate::transport::ConnectionFacts;

/// The annotation of requests to deprecated versions of a resource.
pub const DEPRECATED: &str = "k8s.io/deprecated";

/// Collects the facts about one request and records its events. Nothing is recorded before
/// authentication.
pub struct Trail {
    audit: Arc<Audit>,
    received: Timestamp,
    facts: OnceCell<Arc<Facts>>,
    impersonated: OnceCell<Impersonation>,
    authorized: OnceCell<Authorization>,
    /// The annotations of all further events.
    pub annotations: Annotations,
    request: RefCell<Option<RequestBody>>,
    subject: Arc<Subject>,
    is_answered: Cell<bool>,
    /// Takes the last event if the request continues after its client is gone.
    later: Cell<Option<Later>>,
}

impl Trail {
    /// Starts the trail of a request that arrives.
    pub fn begin(audit: &Arc<Audit>, subject: &Arc<Subject>) -> Trail {
        Trail {
            audit: Arc::clone(audit),
            received: clock::now(),
            facts: OnceCell::new(),
            impersonated: OnceCell::new(),
            authorized: OnceCell::new(),
            annotations: Annotations::default(),
            request: RefCell::new(None),
            subject: Arc::clone(subject),
            is_answered: Cell::new(false),
            later: Cell::new(None),
        }
    }

    /// Records the authenticated user, or `None` if authentication failed, and asks the policy.
    pub fn authenticated(
        &self,
        user: Option<&Arc<UserInfo>>,
        parts: &Parts,
        info: &RequestInfo,
        audit_id: &str,
    ) {
        let decided = self.audit.policy.decide(user.map(|user| &**user), info);
        if let Some(counter) = self.audit.levels.get(decided.level as usize) {
            counter.increment(1);
        }
        if decided.level == Level::None {
            return;
        }
        if decided.level >= Level::Request {
            self.annotations.record_bodies();
        }
        let peer = parts.extensions.get::<ConnectionFacts>();
        let uri = parts.uri.path_and_query().map_or("/", |uri| uri.as_str());
        let facts = Facts {
            audit_id: audit_id.to_owned(),
            uri: uri.to_owned(),
            info: info.clone(),
            user: user.cloned(),
            source_ips: event::source_ips(&parts.headers, peer.map(|peer| peer.peer.ip())),
            user_agent: event::user_agent(&parts.headers),
            received: self.received,
            decided,
        };
        let is_known = facts.user.is_some();
        let facts = self.facts.get_or_init(|| Arc::new(facts));
        if is_known {
            self.audit
                .record(self.event(facts, Stage::RequestReceived, self.received));
        }
    }

    /// Records the impersonated user.
    pub fn impersonates(&self, other: &Impersonation) {
        // This is called once for each request, so the cell is empty.
        let _ = self.impersonated.set(other.clone());
    }

    /// Records the result of authorization.
    pub fn authorized(&self, answer: &Authorization) {
        let _ = self.authorized.set(answer.clone());
    }

    /// Records the body of the request.
    pub fn has_read(&self, bytes: &Bytes, headers: &HeaderMap, holds: Holds) {
        let level = self.facts.get().map(|facts| facts.decided.level);
        if level >= Some(Level::Request) && !bytes.is_empty() {
            let body = Body::of(headers, bytes.clone());
            *self.request.borrow_mut() = body.map(|body| RequestBody { body, holds });
        }
    }

    /// Returns the handle that completes the last event if the request continues after its client
    /// is gone.
    pub fn afterwards(&self, request: &Arc<Abandonment>) -> Afterwards {
        let (later, afterwards) = Afterwards::new(&self.audit, request);
        self.later.set(Some(later));
        afterwards
    }

    /// Records the last event, or hands it over to the task that learns the outcome.
    fn conclude(&self, mut event: Event) {
        event.at = clock::now();
        let event = match self.later.take() {
            Some(later) => later.hand_over(event),
            None => Some(event),
        };
        if let Some(event) = event {
            self.audit.record(event);
        }
    }

    /// Records the response. An event that needs the end of the body is recorded at that end.
    pub fn answered(&self, mut answer: Answer, has_panicked: bool) -> Answer {
        self.is_answered.set(true);
        let Some(facts) = self.facts.get().cloned() else {
            return answer;
        };
        // Bodies of other servers are not recorded, as in kube-apiserver.
        let is_own = answer.extensions().get::<PassedOn>().is_none();
        let is_recorded = facts.decided.level >= Level::RequestResponse;
        let wants_body = is_own && is_recorded && has_objects(&facts.info);
        let is_status = answer.extensions().get::<IsStatus>().is_some();
        let headers = answer.headers().clone();
        let body = |bytes: Bytes| Body::of(&headers, bytes);
        let code = answer.status();
        let mut event = self.event(&facts, Stage::ResponseComplete, self.received);
        event.code = Some(code.as_u16());
        event.authorized = self.authorized.get().cloned();
        if facts.user.is_none() {
            event.stage = Stage::ResponseStarted;
        } else if has_panicked {
            event.stage = Stage::Panic;
        }
        event.request = self.request.take();
        event.subject = Some(Arc::clone(&self.subject));
        if facts.info.is_long_running() && facts.user.is_some() {
            let mut started = started(&facts, &event);
            if let ResponseBody::Full(bytes) = answer.body()
                && is_status
            {
                started.response = body(bytes.clone());
            }
            self.audit.record(started);
        }
        match answer.body_mut() {
            ResponseBody::Watch(watch) => {
                let end = AtEnd::without_body(&self.audit, event);
                watch.at_end(Box::new(move || drop(end)));
            }
            ResponseBody::Session(session) => {
                let end = AtEnd::without_body(&self.audit, event);
                session.at_end(move || drop(end));
            }
            ResponseBody::Chunks(_) => {
                let mut end = AtEnd {
                    audit: Arc::clone(&self.audit),
                    event: Some(event),
                    body: body(Bytes::new()).filter(|_| wants_body),
                    sent: Sent::default(),
                };
                let show = move |chunk: &Bytes| end.add(chunk);
                if let ResponseBody::Chunks(chunks) = std::mem::take(answer.body_mut()) {
                    *answer.body_mut() = ResponseBody::Chunks(chunks.inspected(show));
                }
            }
            ResponseBody::Full(bytes) => {
                let fits = bytes.len() <= OBJECT_BYTES_MAX;
                event.is_truncated |= wants_body && !fits;
                if fits && (wants_body || is_status) {
                    event.response = body(bytes.clone());
                }
                self.conclude(event);
            }
            ResponseBody::Empty => self.conclude(event),
        }
        answer
    }

    fn event(&self, facts: &Arc<Facts>, stage: Stage, at: Timestamp) -> Event {
        Event {
            facts: Arc::clone(facts),
            stage,
            at,
            impersonated: self.impersonated.get().cloned(),
            code: None,
            authorized: None,
            annotations: self.annotations.all(),
            request: None,
            response: None,
            subject: None,
            is_truncated: false,
            is_unseen: false,
        }
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        if let (Some(facts), false) = (self.facts.get(), self.is_answered.get()) {
            let mut event = self.event(facts, Stage::ResponseComplete, clock::now());
            event.code = Some(CLIENT_WENT_AWAY);
            event.authorized = self.authorized.get().cloned();
            event.request = self.request.take();
            event.subject = Some(Arc::clone(&self.subject));
            self.conclude(event);
        }
    }
}

/// Whether responses to such requests are API objects. kube-apiserver records no other documents;
/// OpenAPI documents would take megabytes.
fn has_objects(info: &RequestInfo) -> bool {
    let root = info.path.trim_start_matches('/').split('/').next();
    info.is_resource || matches!(root, Some("api" | "apis"))
}

/// Returns the event for the start of the response to a long-running request. It lacks the facts
/// that are known only at the end.
fn started(facts: &Arc<Facts>, complete: &Event) -> Event {
    let annotations = complete.annotations.iter();
    let annotations = annotations.filter(|(name, _)| *name != DEPRECATED);
    Event {
        facts: Arc::clone(facts),
        stage: Stage::ResponseStarted,
        at: clock::now(),
        impersonated: complete.impersonated.clone(),
        code: complete.code,
        authorized: complete.authorized.clone(),
        annotations: annotations.cloned().collect(),
        request: None,
        response: None,
        subject: complete.subject.clone(),
        is_truncated: false,
        is_unseen: false,
    }
}

/// Records the event when the body of the response ends, for any reason.
struct AtEnd {
    audit: Arc<Audit>,
    event: Option<Event>,
    /// The format of the body, if the policy records it.
    body: Option<Body>,
    /// The part of the body that was sent so far.
    sent: Sent,
}

impl AtEnd {
    fn without_body(audit: &Arc<Audit>, event: Event) -> AtEnd {
        AtEnd {
            audit: Arc::clone(audit),
            event: Some(event),
            body: None,
            sent: Sent::default(),
        }
    }

    fn add(&mut self, chunk: &Bytes) {
        if self.body.is_none() || self.sent.add(chunk, &self.audit.sent) {
            return;
        }
        self.body = None;
        self.sent.take(&self.audit.sent);
        if let Some(event) = &mut self.event {
            event.is_truncated = true;
        }
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        let sent = self.sent.take(&self.audit.sent);
        if let Some(mut event) = self.event.take() {
            event.at = clock::now();
            event.response = self.body.take().map(|body| Body {
                bytes: sent.concat().into(),
                ..body
            });
            self.audit.record(event);
        }
    }
}

/// The part of a body that was sent.
#[derive(Default)]
struct Sent {
    chunks: Vec<Bytes>,
    bytes: usize,
}

/// The limit on bytes that are kept of all bodies that are being sent. A slow client can make one
/// stay for long.
const SENT_BYTES_MAX: usize = 32 << 20;

impl Sent {
    /// Keeps a chunk. Returns false if the body is too long for an event, or if all bodies are too
    /// long together.
    fn add(&mut self, chunk: &Bytes, of_all: &AtomicUsize) -> bool {
        let before = of_all.fetch_add(chunk.len(), Ordering::Relaxed);
        self.bytes += chunk.len();
        self.chunks.push(chunk.clone());
        self.bytes <= OBJECT_BYTES_MAX && before + chunk.len() <= SENT_BYTES_MAX
    }

    fn take(&mut self, of_all: &AtomicUsize) -> Vec<Bytes> {
        of_all.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
        std::mem::take(&mut self.chunks)
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, Request, StatusCode};

    use super::*;
    use crate::api::abandoned;
    use crate::api::status::Status;
    use crate::config::{Config, FilePath};
    use crate::server::respond;

    #[test]
    fn bodies_on_their_way_are_kept_up_to_a_bound() {
        let (of_all, chunk) = (AtomicUsize::new(0), Bytes::from(vec![7; 1 << 20]));
        let mut all: Vec<Sent> = (0..20).map(|_| Sent::default()).collect();
        let mut kept = 0;
        for sent in &mut all {
            kept += (0..3).filter(|_| sent.add(&chunk, &of_all)).count();
        }
        assert_eq!(kept, SENT_BYTES_MAX / chunk.len());
        for sent in &mut all {
            sent.take(&of_all);
        }
        assert_eq!(of_all.load(Ordering::Relaxed), 0);
        let mut long = Sent::default();
        let fits = OBJECT_BYTES_MAX / chunk.len();
        assert!((0..fits).all(|_| long.add(&chunk, &of_all)));
        assert!(!long.add(&chunk, &of_all), "it is too long for an event");
        assert_eq!(
            long.take(&of_all).concat().len(),
            OBJECT_BYTES_MAX + chunk.len()
        );
    }

    /// Returns the last event of a create request.
    async fn last_event(carrying_out: impl AsyncFnOnce(Trail)) -> serde_json::Value {
        let folder = tempfile::tempdir().unwrap();
        let (policy, log) = (folder.path().join("policy"), folder.path().join("log"));
        let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
        std::fs::write(&policy, text).unwrap();
        let config = Config {
            audit_policy_file: FilePath::from(policy),
            audit_log_path: FilePath::from(log.clone()),
            ..Config::default()
        };
        let audit = Audit::open(&config).unwrap().unwrap();
        let uri = "/api/v1/namespaces/default/configmaps";
        let (parts, ()) = Request::post(uri).body(()).unwrap().into_parts();
        let info = RequestInfo::parse(&Method::POST, uri, false, "").unwrap();
        let user = Arc::new(UserInfo::authenticated("ada", Vec::new()));
        let trail = Trail::begin(&audit, &Arc::default());
        trail.authenticated(Some(&user), &parts, &info, "an-id");
        trail.authorized(&Authorization::allow_if(true));
        carrying_out(trail).await;
        audit.close();
        let lines = std::fs::read_to_string(log).unwrap();
        let events = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let mut events: Vec<serde_json::Value> = events.collect();
        assert_eq!(events.len(), 2, "{lines}");
        assert_eq!(events[0]["stage"], "RequestReceived");
        assert_eq!(events[1]["stage"], "ResponseComplete");
        events.remove(1)
    }

    fn created() -> Answer {
        let object = r#"{"kind":"ConfigMap","metadata":{"name":"a-1"},"data":{"k":"secret"}}"#;
        respond::answer(StatusCode::CREATED, "application/json", object.into())
    }

    #[tokio::test]
    async fn a_request_that_nobody_waits_for_any_more_is_recorded_too() {
        let event = last_event(async |trail| drop(trail)).await;
        assert_eq!(event["responseStatus"]["code"], 499);
        let given_up = last_event(async |trail| drop(trail.afterwards(&Arc::default()))).await;
        assert_eq!(given_up["responseStatus"]["code"], 499);
        assert!(given_up["annotations"].get("taffrail/outcome").is_none());
    }

    #[tokio::test]
    async fn the_outcome_of_a_request_without_a_client_is_that_of_its_last_event() {
        let event = last_event(async |trail| {
            let afterwards = trail.afterwards(&writing());
            drop(trail);
            afterwards.event().await.unwrap().complete(&created());
        });
        let event = event.await;
        assert_eq!(event["responseStatus"]["code"], 201);
        assert_eq!(event["objectRef"]["name"], "a-1");
        assert!(!event.to_string().contains("secret"), "{event}");
    }

    /// Returns a request that has begun to write.
    fn writing() -> Arc<Abandonment> {
        let request = Arc::default();
        abandoned::within(Some(&request), abandoned::begin_write).unwrap();
        request
    }

    #[tokio::test]
    async fn an_outcome_is_unknown_if_the_daemon_stops_before_it_and_after_the_write() {
        let trail_first = last_event(async |trail| {
            let afterwards = trail.afterwards(&writing());
            drop(trail);
            drop(afterwards);
        });
        let trail_last = last_event(async |trail| drop(trail.afterwards(&writing())));
        let untold = last_event(async |trail| {
            let afterwards = trail.afterwards(&writing());
            drop(trail);
            drop(afterwards.event().await);
        });
        for event in [trail_first.await, trail_last.await, untold.await] {
            assert_eq!(event["responseStatus"]["code"], 499);
            assert_eq!(event["annotations"]["taffrail/outcome"], "unknown");
        }
    }

    #[tokio::test]
    async fn an_answer_that_came_before_the_outcome_stays_and_the_outcome_is_told_beside_it() {
        let event = last_event(async |trail| {
            let afterwards = trail.afterwards(&writing());
            let form = respond::Form::default();
            trail.answered(respond::refusal(&Status::write_timeout(), &form), false);
            afterwards.event().await.unwrap().complete(&created());
        });
        let event = event.await;
        assert_eq!(event["responseStatus"]["code"], 504);
        assert_eq!(event["annotations"]["taffrail/outcome"], "201");
    }

    #[tokio::test]
    async fn who_is_answered_needs_nobody_to_tell_the_outcome() {
        let event = last_event(async |trail| {
            drop(trail.afterwards(&writing()));
            trail.answered(created(), false);
        });
        let event = event.await;
        assert_eq!(event["responseStatus"]["code"], 201);
        assert!(event["annotations"].get("taffrail/outcome").is_none());
    }
}
