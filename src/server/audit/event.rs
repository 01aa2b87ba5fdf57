//! One event as a line of JSON, in the format of `audit.k8s.io/v1`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::USER_AGENT;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::body::{Body, Holds, ObjectNames, RequestBody, Shown, Subject, without_managed_fields};
use super::policy::{Decided, Level, Stage};
use crate::api::request_info::RequestInfo;
use crate::api::user_info::UserInfo;
use crate::auth::Authorization;
use crate::auth::impersonation::Impersonation;

/// The maximum length of a recorded user agent, as in kube-apiserver.
const AGENT_BYTES_MAX: usize = 1024;

/// The facts that all events of a request share.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) audit_id: String,
    pub(super) uri: String,
    pub(super) info: RequestInfo,
    /// The sender of the request. `None` if authentication failed.
    pub(super) user: Option<Arc<UserInfo>>,
    pub(super) source_ips: Vec<IpAddr>,
    pub(super) user_agent: String,
    pub(super) received: Timestamp,
    pub(super) decided: Decided,
}

/// An event to record.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) facts: Arc<Facts>,
    pub(super) stage: Stage,
    pub(super) at: Timestamp,
    /// The user as whom the request is carried out, if it impersonates one.
    pub(super) impersonated: Option<Impersonation>,
    pub(super) code: Option<u16>,
    /// The answer of the authorizers, once there is one.
    pub(super) authorized: Option<Authorization>,
    /// The annotations of the request so far.
    pub(super) annotations: Vec<(Cow<'static, str>, String)>,
    pub(super) request: Option<RequestBody>,
    pub(super) response: Option<Body>,
    /// The object that the request writes. `None` before it is known.
    pub(super) subject: Option<Arc<Subject>>,
    /// Whether a body was too long to be recorded.
    pub(super) is_truncated: bool,
    /// Whether the client was gone before the outcome. Such an event shows the name of a created
    /// object, which no client got.
    pub(super) is_unseen: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'e> {
    kind: &'static str,
    api_version: &'static str,
    level: Level,
    #[serde(rename = "auditID")]
    audit_id: &'e str,
    stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: &'e str,
    verb: &'e str,
    user: User<'e>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<User<'e>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication_metadata: Option<AuthenticationMetadata>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "<[IpAddr]>::is_empty")]
    source_ips: &'e [IpAddr],
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<ObjectRef<'e>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'e str, &'e str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationMetadata {
    impersonation_constraint: &'static str,
}

#[derive(Serialize)]
struct User<'e> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'e str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'e [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'e BTreeMap<String, Vec<String>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef<'e> {
    #[serde(skip_serializing_if = "str::is_empty")]
    resource: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_group: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'e str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'e str,
}

impl<'e> User<'e> {
    fn of(user: &'e UserInfo) -> User<'e> {
        User {
            username: &user.name,
            uid: &user.uid,
            groups: &user.groups,
            extra: Some(&user.extra).filter(|extra| !extra.is_empty()),
        }
    }

    fn unknown() -> User<'e> {
        User {
            username: "",
            uid: "",
            groups: &[],
            extra: None,
        }
    }
}

impl Event {
    /// Returns the approximate number of bytes that the event holds while it is queued.
    pub(super) fn bytes(&self) -> usize {
        let body = |body: Option<&Body>| body.map_or(0, |body| body.bytes.len());
        let request = self.request.as_ref().map(|request| &request.body);
        1024 + self.facts.uri.len() + body(request) + body(self.response.as_ref())
    }

    /// Serializes the event as a line of at most this many bytes, and its newline. A longer event
    /// loses its bodies. Returns `None` for one that is too long even without them.
    pub(super) fn line_within(&self, most: usize) -> Option<Vec<u8>> {
        let line = self.line();
        let is_short = |line: &Vec<u8>| line.len() <= most.saturating_add(1);
        if is_short(&line) || self.facts.decided.level < Level::Request {
            return Some(line).filter(is_short);
        }
        Some(self.line_with(false)).filter(is_short)
    }

    /// Serializes the event as a line, with its newline.
    pub(super) fn line(&self) -> Vec<u8> {
        self.line_with(true)
    }

    fn line_with(&self, has_bodies: bool) -> Vec<u8> {
        let facts = &*self.facts;
        let level = facts.decided.level;
        let names = self.names();
        let object_ref = object_ref(&facts.info, &names);
        let (request_object, is_too_long) = match has_bodies {
            true => self.request_object(),
            false => (None, true),
        };
        let response = self.response.as_ref().and_then(Body::parsed::<Value>);
        let response_status = self.code.map(|code| status(code, response.as_ref()));
        let response = response.filter(|_| has_bodies && level >= Level::RequestResponse);
        let response_object = response.map(|object| match facts.decided.omits_managed_fields {
            true => without_managed_fields(object),
            false => object,
        });
        let impersonated = self.impersonated.as_ref();
        let line = Line {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level,
            audit_id: &facts.audit_id,
            stage: self.stage,
            request_uri: &facts.uri,
            verb: &facts.info.verb,
            user: facts.user.as_deref().map_or_else(User::unknown, User::of),
            impersonated_user: impersonated.map(|other| User::of(&other.user)),
            authentication_metadata: impersonated.and_then(|other| other.constraint).map(
                |impersonation_constraint| AuthenticationMetadata {
                    impersonation_constraint,
                },
            ),
            source_ips: &facts.source_ips,
            user_agent: &facts.user_agent,
            object_ref,
            response_status,
            request_object,
            response_object,
            request_received_timestamp: micros(facts.received),
            stage_timestamp: micros(self.at),
            annotations: self.annotations(is_too_long),
        };
        // Strings and numbers always serialize.
        let mut line = serde_json::to_vec(&line).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Returns the request object, if it was decoded, and whether it is too long to show.
    fn request_object(&self) -> (Option<Box<RawValue>>, bool) {
        let decided = &self.facts.decided;
        let request = self.request.as_ref();
        let request = request
            .filter(|request| matches!(request.holds, Holds::Patch) || self.sent().is_some());
        match request.and_then(|request| request.shown(decided.omits_managed_fields)) {
            Some(Shown::Document(document)) => (Some(document), false),
            Some(Shown::TooLong) => (None, true),
            None => (None, false),
        }
    }

    fn sent(&self) -> Option<&ObjectNames> {
        self.subject.as_ref()?.sent()
    }

    /// Returns the names of the written object: those in an outcome that no client saw, if it is
    /// recorded, or else those in the request.
    fn names(&self) -> ObjectNames {
        let shows_outcome = self.is_unseen && self.code.is_some_and(|code| code < 300);
        let outcome = self.response.as_ref().filter(|_| shows_outcome);
        let named = outcome.and_then(Body::parsed::<NamedObject>);
        let names = named.and_then(|object| object.metadata);
        names.or_else(|| self.sent().cloned()).unwrap_or_default()
    }

    fn annotations(&self, is_too_long: bool) -> BTreeMap<&str, &str> {
        let mut annotations = BTreeMap::new();
        for (name, text) in &self.annotations {
            // The first one stays, so that no hook replaces what another one said (HK-97).
            annotations.entry(&**name).or_insert(text.as_str());
        }
        if let Some(answer) = &self.authorized {
            let (decision, reason) = match (answer.is_allowed(), &answer.error) {
                (true, _) => (Some("allow"), answer.reason.as_str()),
                (false, None) => (Some("forbid"), answer.reason.as_str()),
                // As in kube-apiserver, the log of the daemon has the error itself.
                (false, Some(_)) => (None, "internal error"),
            };
            annotations.extend(decision.map(|said| ("authorization.k8s.io/decision", said)));
            annotations.insert("authorization.k8s.io/reason", reason);
        }
        if self.is_truncated || is_too_long {
            annotations.insert("audit.k8s.io/truncated", "true");
        }
        annotations
    }
}

fn micros(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// An object of which only the names are decoded.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedObject {
    metadata: Option<ObjectNames>,
}

/// Returns the reference to the object of the request. A create takes the name from the body.
fn object_ref<'e>(info: &'e RequestInfo, names: &'e ObjectNames) -> Option<ObjectRef<'e>> {
    if !info.is_resource {
        return None;
    }
    let name = match info.name.as_str() {
        "" => names.name.as_deref().unwrap_or_default(),
        name => name,
    };
    Some(ObjectRef {
        resource: &info.resource,
        namespace: &info.namespace,
        name,
        uid: names.uid.as_deref().unwrap_or_default(),
        api_group: &info.group,
        api_version: &info.version,
        resource_version: names.resource_version.as_deref().unwrap_or_default(),
        subresource: &info.subresource,
    })
}

/// Returns the outcome: the code, and the message of a Status, which holds no object data but
/// names.
fn status(code: u16, response: Option<&Value>) -> Value {
    let mut status = json!({ "metadata": {} });
    if let Some(response) = response.filter(|response| response["kind"] == "Status") {
        for member in ["status", "message", "reason", "details"] {
            if let Some(value) = response.get(member) {
                status[member] = value.clone();
            }
        }
    }
    status["code"] = code.into();
    status
}

/// Returns the addresses from which a request came: those in `X-Forwarded-For` and `X-Real-Ip`,
/// then the peer of the connection.
pub(super) fn source_ips(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<IpAddr> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let forwarded = header("x-forwarded-for").unwrap_or_default().split(',');
    let mut ips: Vec<IpAddr> = forwarded.filter_map(|ip| ip.trim().parse().ok()).collect();
    if let Some(real) = header("x-real-ip").and_then(|ip| ip.trim().parse().ok())
        && !ips.contains(&real)
    {
        ips.push(real);
    }
    if let Some(peer) = peer
        && ips.last() != Some(&peer)
    {
        ips.push(peer);
    }
    ips
}

/// Returns the user agent, truncated to [`AGENT_BYTES_MAX`].
pub(super) fn user_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).map(|agent| agent.as_bytes());
    let agent = agent.unwrap_or_default();
    match agent.split_at_checked(AGENT_BYTES_MAX) {
        Some((start, rest)) if !rest.is_empty() => {
            format!("{}...TRUNCATED", String::from_utf8_lossy(start))
        }
        _ => String::from_utf8_lossy(agent).into_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bytes::Bytes;
    use http::header::CONTENT_TYPE;
    use http::{HeaderValue, Method};

    use super::*;
    use crate::api::object::Object;
    use crate::api::protobuf::write_document;
    use crate::api::resource::ResourceDefinition;
    use crate::kinds::definitions::core;
    use crate::kinds::types::TYPES;

    fn facts(method: Method, path: &str, level: Level) -> Facts {
        Facts {
            audit_id: "id".to_owned(),
            uri: path.to_owned(),
            info: RequestInfo::parse(&method, path, false, "").unwrap(),
            user: None,
            source_ips: vec!["127.0.0.1".parse().unwrap()],
            user_agent: String::new(),
            received: "2026-01-02T03:04:05.678901Z".parse().unwrap(),
            decided: Decided {
                level,
                omitted: Vec::new(),
                omits_managed_fields: true,
            },
        }
    }

    fn body(text: &str) -> Option<Body> {
        Body::of(&HeaderMap::new(), Bytes::copy_from_slice(text.as_bytes()))
    }

    /// Returns the body of a request that writes an object of this kind.
    fn sent(bytes: &[u8], media_type: &'static str, kind: ResourceDefinition) -> RequestBody {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        RequestBody {
            body: Body::of(&headers, Bytes::copy_from_slice(bytes)).unwrap(),
            holds: Holds::Object(Arc::new(kind)),
        }
    }

    fn named(name: &str) -> Option<Arc<Subject>> {
        let (subject, mut object) = (Subject::default(), Object::default());
        object.set_meta("name", name);
        subject.decoded(&object);
        Some(Arc::new(subject))
    }

    fn event(facts: Facts) -> Event {
        Event {
            at: facts.received,
            facts: Arc::new(facts),
            stage: Stage::ResponseComplete,
            impersonated: None,
            code: Some(201),
            authorized: None,
            request: None,
            response: None,
            subject: None,
            annotations: Vec::new(),
            is_truncated: false,
            is_unseen: false,
        }
    }

    /// Returns an event about reading this path.
    pub(in crate::server::audit) fn event_of(path: &str) -> Event {
        event(facts(Method::GET, path, Level::Metadata))
    }

    fn parsed(event: &Event) -> Value {
        serde_json::from_slice(&event.line()).unwrap()
    }

    #[test]
    fn long_events_lose_their_bodies_or_are_dropped() {
        let path = "/api/v1/namespaces/d/configmaps";
        let long = format!(
            r#"{{"metadata":{{"name":"a"}},"data":{{"k":"{}"}}}}"#,
            "v".repeat(5000)
        );
        let of_level = |level| Event {
            request: Some(sent(
                long.as_bytes(),
                "application/json",
                core::configmaps(),
            ))
            .filter(|_| level >= Level::Request),
            response: body(&long).filter(|_| level >= Level::Request),
            ..event(facts(Method::POST, path, level))
        };
        let whole = of_level(Level::RequestResponse);
        let exactly = whole.line().len() - 1;
        assert_eq!(whole.line_within(exactly), Some(whole.line()));
        let short = whole.line_within(exactly - 1).unwrap();
        let short: Value = serde_json::from_slice(&short).unwrap();
        assert_eq!(short["annotations"]["audit.k8s.io/truncated"], "true");
        assert_eq!(
            (&short["requestObject"], &short["responseObject"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(whole.line_within(100), None);
        assert_eq!(of_level(Level::Metadata).line_within(100), None);
    }

    #[test]
    fn bodies_are_shown_from_their_level_on_and_name_what_is_created() {
        let path = "/api/v1/namespaces/d/configmaps";
        for level in [Level::Metadata, Level::Request, Level::RequestResponse] {
            let yaml = b"metadata: {name: a, managedFields: [{manager: m}]}\ndata: {k: v}";
            // The trail keeps the body of a request from level Request on.
            let request = sent(yaml, "application/yaml", core::configmaps());
            let made = Event {
                request: Some(request).filter(|_| level >= Level::Request),
                response: body(r#"{"items":[{"metadata":{"managedFields":[1]}}]}"#),
                subject: named("a"),
                ..event(facts(Method::POST, path, level))
            };
            let line = parsed(&made);
            assert_eq!(line["objectRef"]["name"], "a");
            let request = json!({ "kind": "ConfigMap", "apiVersion": "v1",
                "metadata": { "name": "a" }, "data": { "k": "v" } });
            let response = json!({ "items": [{ "metadata": {} }] });
            let shown = |document, from| (level >= from).then_some(document);
            assert_eq!(
                line.get("requestObject"),
                shown(&request, Level::Request),
                "{level:?}"
            );
            assert_eq!(
                line.get("responseObject"),
                shown(&response, Level::RequestResponse)
            );
            assert_eq!(
                line["requestReceivedTimestamp"],
                "2026-01-02T03:04:05.678901Z"
            );
        }
    }

    /// kube-apiserver records the object that it has decoded.
    #[test]
    fn an_object_is_shown_with_defaults_in_every_encoding_once_it_was_decoded() {
        let json = br#"{"metadata":{"name":"a"},"stringData":{"k":"v"},"bogus":1}"#;
        let yaml = b"metadata: {name: a}\nstringData: {k: v}";
        let mut protobuf = Vec::new();
        let plain = br#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},
            "stringData":{"k":"v"}}"#;
        assert!(write_document(&TYPES, plain, &mut protobuf));
        for (bytes, media_type) in [
            (&json[..], "application/json"),
            (yaml, "application/yaml"),
            (&protobuf, "application/vnd.kubernetes.protobuf"),
        ] {
            let path = "/api/v1/namespaces/d/secrets";
            let mut made = Event {
                request: Some(sent(bytes, media_type, core::secrets())),
                ..event(facts(Method::POST, path, Level::Request))
            };
            assert!(parsed(&made).get("requestObject").is_none());
            made.subject = named("a");
            let wanted = json!({ "kind": "Secret", "apiVersion": "v1", "type": "Opaque",
                "metadata": { "name": "a" }, "data": { "k": "dg==" } });
            assert_eq!(parsed(&made)["requestObject"], wanted, "{media_type}");
        }
    }

    #[test]
    fn an_object_that_becomes_too_long_is_left_out_and_the_event_says_so() {
        let few = b"spec: {containers: [";
        let many = b"{name: a},".repeat(31_500);
        let yaml = [&few[..], &many, b"]}"].concat();
        let made = Event {
            request: Some(sent(&yaml, "application/yaml", core::pods())),
            subject: named("a"),
            ..event(facts(
                Method::POST,
                "/api/v1/namespaces/d/pods",
                Level::Request,
            ))
        };
        let line = parsed(&made);
        assert!(line.get("requestObject").is_none());
        assert_eq!(line["annotations"]["audit.k8s.io/truncated"], "true");
    }

    #[test]
    fn options_have_their_type_and_patches_are_as_they_were_sent() {
        let text = |text: &str, holds| {
            let made = Event {
                request: body(text).map(|body| RequestBody { body, holds }),
                subject: named(""),
                ..event(facts(Method::DELETE, "/api/v1/nodes/a", Level::Request))
            };
            parsed(&made)["requestObject"].clone()
        };
        let options = text(r#"{"gracePeriodSeconds":1}"#, Holds::DeleteOptions);
        let wanted = json!({ "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal",
            "gracePeriodSeconds": 1 });
        assert_eq!(options, wanted);
        let patch = r#"[{"op":"remove","path":"/data"}]"#;
        assert_eq!(text(patch, Holds::Patch).to_string(), patch);
    }

    #[test]
    fn an_outcome_that_nobody_saw_names_the_object_and_without_it_the_request_does() {
        for (response, name) in [
            (body(r#"{"metadata":{"name":"made"}}"#), "made"),
            (None, "asked"),
        ] {
            let made = Event {
                is_unseen: true,
                subject: named("asked"),
                response,
                ..event(facts(
                    Method::POST,
                    "/api/v1/namespaces/d/configmaps",
                    Level::Metadata,
                ))
            };
            assert_eq!(parsed(&made)["objectRef"]["name"], name);
        }
    }

    #[test]
    fn a_status_says_what_became_of_the_request_at_every_level() {
        let failed = Event {
            code: Some(404),
            response: body(
                r#"{"kind":"Status","status":"Failure","message":"m","reason":"NotFound","code":404}"#,
            ),
            ..event(facts(Method::GET, "/api/v1/nodes/a", Level::Metadata))
        };
        let line = parsed(&failed);
        let wanted = json!({
            "metadata": {}, "status": "Failure", "message": "m", "reason": "NotFound", "code": 404,
        });
        assert_eq!(line["responseStatus"], wanted);
        assert!(line.get("responseObject").is_none());
    }

    #[test]
    fn what_is_no_document_is_left_out() {
        let path = "/api/v1/namespaces/d/secrets";
        let made = Event {
            request: Some(sent(b"{\"nonsense", "application/json", core::secrets())),
            subject: named("a"),
            ..event(facts(Method::POST, path, Level::RequestResponse))
        };
        assert!(parsed(&made).get("requestObject").is_none());
    }

    #[test]
    fn proxies_come_before_the_peer() {
        let mut headers = HeaderMap::new();
        headers.insert(
            "x-forwarded-for",
            HeaderValue::from_static("10.0.0.1, x, 10.0.0.2"),
        );
        let peer = "10.0.0.2".parse().ok();
        let shown: Vec<_> = source_ips(&headers, peer)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown, ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(source_ips(&HeaderMap::new(), None), Vec::<IpAddr>::new());
    }
}
