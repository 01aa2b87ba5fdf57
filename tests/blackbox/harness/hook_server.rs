//! A server of webhooks over TLS: admission reviews and conversion reviews, answered as a test
//! says, and remembered.
//!
//! A daemon calls `POST /admit/NAME` and `POST /convert/NAME`. Without a script for the name they
//! allow, and give each object the desired version. `POST /probe/CODE` denies with that code, for
//! steps that wait until a configuration counts. A script with `held` waits for
//! [`HookServer::release`]. Tests use [`HookServer::control`], which takes the
//! requests of recorded scenarios: `PUT /answers/NAME`, `GET /calls/NAME`, `GET /order/PREFIX`,
//! `DELETE /calls/NAME*`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::webhook::acceptor;

type Body = BoxBody<Bytes, std::io::Error>;

/// A running server. It ends with the runtime of its test.
pub struct HookServer {
    memory: Arc<Mutex<Memory>>,
    /// The port of both addresses.
    pub port: u16,
    plain: u16,
    tls: TlsAcceptor,
    /// The authority in PEM, in base64, as a configuration has it.
    pub ca_bundle: String,
    /// The certificate of the server itself, in the same form.
    pub own_bundle: String,
    other_ca: String,
}

struct Memory {
    answers: HashMap<String, Value>,
    turns: HashMap<String, usize>,
    calls: HashMap<String, Vec<Value>>,
    order: Vec<String>,
    held: Arc<Semaphore>,
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority(name: &str) -> Authority {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let subject = &mut parameters.distinguished_name;
    subject.push(rcgen::DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let pem = parameters.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(parameters, key);
    Authority { pem, issuer }
}

impl HookServer {
    /// Starts the server on 127.0.0.1, which its certificate names, and on 127.0.0.2, which it does
    /// not.
    pub async fn start() -> HookServer {
        let (own, other) = (authority("hooks"), authority("other"));
        let names = ["127.0.0.1", "localhost", "*.default.svc", "*.hooks.svc"];
        let names = names.map(str::to_owned);
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(names.to_vec()).unwrap();
        let leaf = parameters.signed_by(&key, &own.issuer).unwrap();
        let tls = acceptor(leaf.der(), &key);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let unnamed = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        let memory = Arc::new(Mutex::new(Memory {
            answers: HashMap::new(),
            turns: HashMap::new(),
            calls: HashMap::new(),
            order: Vec::new(),
            held: Arc::new(Semaphore::new(0)),
        }));
        for listener in [listener, unnamed] {
            tokio::spawn(serve(listener, tls.clone(), Arc::clone(&memory)));
        }
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let plain_port = plain.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = plain.accept().await.unwrap();
                let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
                // The client may be gone.
                let _ = tokio::io::AsyncWriteExt::write_all(&mut socket, answer).await;
            }
        });
        let bundle = |pem: &str| BASE64_STANDARD.encode(pem);
        HookServer {
            memory,
            port,
            plain: plain_port,
            tls,
            ca_bundle: bundle(&own.pem),
            own_bundle: bundle(&leaf.pem()),
            other_ca: bundle(&other.pem),
        }
    }

    /// Serves on another address of this machine, too. Returns its port there.
    pub async fn also_at(&self, address: &str) -> u16 {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(serve(listener, self.tls.clone(), Arc::clone(&self.memory)));
        port
    }

    /// The base of URLs.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The names that recorded scenarios use.
    pub fn values(&self) -> Vec<(&'static str, String)> {
        let (port, plain) = (self.port, self.plain);
        vec![
            ("hook_url", self.url()),
            ("hook_port", port.to_string()),
            ("hook_address", format!("127.0.0.1:{port}")),
            ("local_address", format!("localhost:{port}")),
            ("mismatch_url", format!("https://127.0.0.2:{port}")),
            ("mismatch_address", format!("127.0.0.2:{port}")),
            ("plain_url", format!("https://127.0.0.1:{plain}")),
            ("plain_address", format!("127.0.0.1:{plain}")),
            ("closed_url", "https://127.0.0.1:1".to_owned()),
            ("ca_bundle", self.ca_bundle.clone()),
            ("other_ca", self.other_ca.clone()),
        ]
    }

    /// Tells a webhook what to answer: one answer, or a list for one call after the other.
    pub fn tell(&self, name: &str, answers: Value) {
        let mut memory = self.memory.lock().unwrap();
        memory.turns.remove(name);
        memory.answers.insert(name.to_owned(), answers);
    }

    /// Answers one call that a script with `held` holds.
    pub fn release(&self) {
        self.memory.lock().unwrap().held.add_permits(1);
    }

    /// The reviews that a webhook was sent.
    pub fn reviews(&self, name: &str) -> Vec<Value> {
        let memory = self.memory.lock().unwrap();
        let calls = memory.calls.get(name).into_iter().flatten();
        calls.map(|call| call["review"].clone()).collect()
    }

    /// Takes all reviews that were sent, with the names of their webhooks, which sort them.
    pub fn take(&self) -> Vec<(String, Value)> {
        let mut memory = self.memory.lock().unwrap();
        memory.order.clear();
        let mut taken = Vec::new();
        for (name, calls) in memory.calls.drain() {
            let reviews = calls.into_iter().map(|mut call| call["review"].take());
            taken.extend(reviews.map(|review| (name.clone(), review)));
        }
        taken.sort_by(|(one, _), (two, _)| one.cmp(two));
        taken
    }

    /// Carries out a request of a scenario, and returns the answer's body.
    pub fn control(&self, request: &str, body: &str) -> Value {
        let (method, path) = request.split_once(' ').unwrap();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        let (what, name) = (parts.next().unwrap(), parts.next().unwrap_or_default());
        let mut memory = self.memory.lock().unwrap();
        match (method, what) {
            ("PUT", "answers") => {
                memory.turns.remove(name);
                let answers = serde_json::from_str(body).unwrap();
                memory.answers.insert(name.to_owned(), answers);
                json!({"told": true})
            }
            ("DELETE", "calls") => {
                let fits = |one: &str| match name.strip_suffix('*') {
                    Some(beginning) => one.starts_with(beginning),
                    None => one == name,
                };
                memory.calls.retain(|one, _| !fits(one));
                memory.order.retain(|one| !fits(one));
                json!({"forgotten": true})
            }
            ("GET", "order") => {
                let order = memory.order.iter().filter(|one| one.starts_with(name));
                json!({"order": order.collect::<Vec<_>>()})
            }
            ("GET", "calls") => {
                let calls = memory.calls.get(name).cloned().unwrap_or_default();
                if query.contains("last") {
                    json!({"calls": calls.last().into_iter().collect::<Vec<_>>()})
                } else if query.contains("bare") {
                    json!({"count": calls.len()})
                } else {
                    json!({"count": calls.len(), "calls": calls})
                }
            }
            _ => panic!("no such request: {request}"),
        }
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, memory: Arc<Mutex<Memory>>) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let (tls, memory) = (tls.clone(), Arc::clone(&memory));
        tokio::spawn(async move {
            // Clients that do not trust the server hang up.
            let Ok(stream) = tls.accept(socket).await else {
                return;
            };
            let certificates = stream.get_ref().1.peer_certificates();
            let certificate = certificates.and_then(<[_]>::first);
            let certificate = certificate.map(|one| BASE64_STANDARD.encode(one));
            let service = service_fn(|request| answered(request, &memory, certificate.as_deref()));
            let server = hyper::server::conn::http1::Builder::new();
            // The daemon may close the connection at any time, and so may a script.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed()
}

fn hang_up() -> std::io::Error {
    std::io::Error::other("the script hangs up")
}

async fn answered(
    request: Request<Incoming>,
    memory: &Mutex<Memory>,
    certificate: Option<&str>,
) -> Result<Response<Body>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?;
    let review: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or(json!({}));
    let parts: Vec<&str> = head
        .uri
        .path()
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let json = Response::builder().header("content-type", "application/json");
    let (script, is_admission) = match (head.method.as_str(), &*parts) {
        ("POST", ["probe", code @ ..]) => {
            let code: u16 = code.first().map_or(418, |code| code.parse().unwrap());
            (
                json!({"allowed": false, "code": code, "message": "in force"}),
                true,
            )
        }
        ("POST", ["admit" | "convert", name, ..]) => {
            let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
            let mut call = json!({
                "path": head.uri.path(), "query": head.uri.query().unwrap_or_default(),
                "contentType": header("content-type"), "accept": header("accept"),
                "review": review,
            });
            for name in ["authorization", "impersonate-user"] {
                if let Some(value) = header(name) {
                    call[name] = value.into();
                }
            }
            if let Some(certificate) = certificate {
                call["certificate"] = certificate.into();
            }
            let script = memory.lock().unwrap().called(name, call);
            (script, parts[0] == "admit")
        }
        _ => {
            return Ok(json
                .status(404)
                .body(full("{\"error\":\"no such path\"}"))
                .unwrap());
        }
    };
    if script["held"] == true {
        let held = Arc::clone(&memory.lock().unwrap().held);
        held.acquire().await.unwrap().forget();
    }
    if let Some(seconds) = script["delay"].as_f64() {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }
    if script["drop"] == "before" {
        return Err(hang_up());
    }
    if let Some(to) = script["redirect"].as_str() {
        let code = script["http"].as_u64().unwrap_or(307);
        let answer = Response::builder().status(u16::try_from(code).unwrap());
        return Ok(answer.header("location", to).body(full("")).unwrap());
    }
    let text = match script["body"].as_str() {
        Some(text) => text.to_owned(),
        None if is_admission => admitted(&review, &script).to_string(),
        None => converted(&review, &script).to_string(),
    };
    let code = u16::try_from(script["http"].as_u64().unwrap_or(200)).unwrap();
    let mut answer = Response::builder().status(code);
    let headers = script["headers"].as_object().cloned().unwrap_or_default();
    if !headers
        .keys()
        .any(|name| name.eq_ignore_ascii_case("content-type"))
    {
        answer = answer.header("content-type", "application/json");
    }
    for (name, value) in &headers {
        answer = answer.header(name, value.as_str().unwrap());
    }
    if script["drop"] == "half" {
        let half = text.as_bytes()[..text.len() / 2].to_vec();
        let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from(half)))]);
        let then = futures_util::stream::once(async { Err(hang_up()) });
        let body = BodyExt::boxed(StreamBody::new(first.chain(then)));
        return Ok(answer
            .header("content-length", text.len())
            .body(body)
            .unwrap());
    }
    Ok(answer.body(full(text)).unwrap())
}

impl Memory {
    /// Remembers a call and returns the script of its answer.
    fn called(&mut self, name: &str, call: Value) -> Value {
        let calls = self.calls.entry(name.to_owned()).or_default();
        calls.push(call);
        let number = calls.len();
        self.order.push(name.to_owned());
        let script = match self.answers.get(name) {
            Some(Value::Array(turns)) => {
                let turn = self.turns.entry(name.to_owned()).or_default();
                let answer = turns.get(*turn).or(turns.last()).cloned();
                *turn += 1;
                answer.unwrap_or(json!({}))
            }
            Some(one) => one.clone(),
            None => json!({}),
        };
        let text = script.to_string().replace("{n}", &number.to_string());
        serde_json::from_str(&text).unwrap()
    }
}

/// The envelope of an answer. A member that the script sets to null is left out.
fn envelope(review: &Value, script: &Value, kind: &str, response: Map<String, Value>) -> Value {
    let mut envelope = Map::new();
    let mut put = |name: &str, own: Value| {
        let value = script.get(name).cloned().unwrap_or(own);
        if !value.is_null() {
            envelope.insert(name.to_owned(), value);
        }
    };
    put("apiVersion", review["apiVersion"].clone());
    put("kind", kind.into());
    put("response", response.into());
    envelope.into()
}

fn admitted(review: &Value, script: &Value) -> Value {
    let mut response = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            response.insert(name.to_owned(), value);
        }
    };
    let or = |name: &str, own: Value| script.get(name).cloned().unwrap_or(own);
    put("uid", or("uid", review["request"]["uid"].clone()));
    put("allowed", or("allowed", true.into()));
    let status: Map<String, Value> = ["code", "message", "reason"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), script.get(name)?.clone())))
        .collect();
    match script.get("status") {
        Some(status) => put("status", status.clone()),
        None if !status.is_empty() => put("status", status.into()),
        None => {}
    }
    let patch = script.get("patch").filter(|patch| !patch.is_null());
    if let Some(patch) = patch {
        let text = patch
            .as_str()
            .map_or_else(|| patch.to_string(), str::to_owned);
        put("patch", BASE64_STANDARD.encode(text).into());
        put("patchType", or("patchType", "JSONPatch".into()));
    } else if let Some(patch_type) = script.get("patchType") {
        put("patchType", patch_type.clone());
    }
    for name in ["warnings", "auditAnnotations"] {
        put(name, or(name, Value::Null));
    }
    envelope(review, script, "AdmissionReview", response)
}

/// Splits a path with dots, whose keys may be in quotes.
fn keys(path: &str) -> Vec<String> {
    let mut keys = vec![String::new()];
    let mut is_quoted = false;
    for c in path.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => keys.push(String::new()),
            c => keys.last_mut().unwrap().push(c),
        }
    }
    keys
}

fn step<'v>(value: &'v mut Value, key: &str) -> &'v mut Value {
    match key.parse::<usize>() {
        Ok(index) if value.is_array() => &mut value[index],
        _ => &mut value[key],
    }
}

/// Gives an object another version. Between v1 and any other version `spec.hostPort` "a:80" becomes
/// `spec.host` and `spec.port`, and back.
fn in_version(object: &Value, desired: &str) -> Value {
    let mut object = object.clone();
    let version = |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned();
    let before = version(object["apiVersion"].as_str().unwrap_or_default());
    let after = version(desired);
    object["apiVersion"] = desired.into();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return object;
    };
    if before == after {
        return object;
    }
    if after == "v1" && spec.contains_key("host") {
        let host = spec.remove("host").unwrap();
        let port = spec.remove("port").unwrap_or(0.into());
        let text = format!("{}:{port}", host.as_str().unwrap_or_default());
        spec.insert("hostPort".to_owned(), text.into());
    } else if before == "v1"
        && let Some(Value::String(both)) = spec.remove("hostPort")
    {
        let (host, port) = both.rsplit_once(':').unwrap_or(("", &both));
        spec.insert("host".to_owned(), host.into());
        spec.insert("port".to_owned(), port.parse::<u64>().unwrap_or(0).into());
    }
    object
}

fn converted(review: &Value, script: &Value) -> Value {
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().into_iter().flatten();
    let mut objects: Vec<Value> = objects
        .map(|object| {
            let mut new = in_version(object, desired);
            match script.get("version") {
                Some(Value::Null) => new["apiVersion"] = object["apiVersion"].clone(),
                Some(version) => new["apiVersion"] = version.clone(),
                None => {}
            }
            for (path, value) in script["set"].as_object().into_iter().flatten() {
                let at = keys(path);
                *at.iter().fold(&mut new, |value, key| step(value, key)) = value.clone();
            }
            for path in script["unset"].as_array().into_iter().flatten() {
                let at = keys(path.as_str().unwrap());
                let (last, way) = at.split_last().unwrap();
                let above = way.iter().fold(&mut new, |value, key| step(value, key));
                if let Some(members) = above.as_object_mut() {
                    members.remove(last);
                }
            }
            new
        })
        .collect();
    if let Some(only) = script["only"].as_u64() {
        objects.truncate(usize::try_from(only).unwrap());
    } else if let (Some(extra), Some(first)) = (script["extra"].as_u64(), objects.first().cloned())
    {
        objects.extend((0..extra).map(|_| first.clone()));
    }
    let mut response = Map::new();
    for (name, own) in [
        ("uid", request["uid"].clone()),
        ("convertedObjects", objects.into()),
        ("result", json!({"status": "Success"})),
    ] {
        let member = if name == "convertedObjects" {
            "objects"
        } else {
            name
        };
        let value = script.get(member).cloned().unwrap_or(own);
        if !value.is_null() {
            response.insert(name.to_owned(), value);
        }
    }
    envelope(review, script, "ConversionReview", response)
}
